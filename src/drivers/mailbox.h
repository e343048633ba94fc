// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A mailbox: some slots in a receiver's memory, which one sender writes by remote stores and the
// receiver polls. For cards whose stores stay in order.
//
// A frame ends at the end of its slot, and its trailer is the last that is written: so a frame
// needs one transfer, and the receiver knows where to look. The sender counts frames, the receiver
// those that it has consumed, and tells it by a store of its own (credit).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nic/card.h"

namespace torii {

inline constexpr uint32_t kMailSlots = 4;
inline constexpr uint32_t kMailSlotBytes = 4096;
inline constexpr uint32_t kMailboxBytes = kMailSlots * kMailSlotBytes;

struct MailTrailer {
  uint32_t bytes;     // of the frame
  uint32_t kind;      // the driver's own
  uint32_t number;    // of all frames that the sender has sent to anybody: tells their order
  nic::Name from;     // the memory may have been another sender's before
  nic::Name to;       // and this process another one; kNobody: to a group
  uint32_t sequence;  // in this mailbox, from 1
};
inline constexpr uint32_t kMailMax = kMailSlotBytes - sizeof(MailTrailer);
static_assert(kMailMax % 8 == 0);

// The receiver's end.
class MailReader {
 public:
  MailReader() = default;
  MailReader(std::byte* memory, nic::Name from, nic::Name to)
      : memory_(memory), from_(from), to_(to) {}
  // A mailbox whose sender may have begun before: cleared, and read from the lowest sequence that
  // has come first.
  static MailReader late(std::byte* memory, nic::Name from, nic::Name to) {
    MailReader out(memory, from, to);
    out.late_ = true;
    for (uint32_t slot = 0; slot < kMailSlots; slot++)
      std::memset(out.trailer_of(slot), 0, sizeof(MailTrailer));
    return out;
  }
  // The sender of the first frame of this mailbox; kNobody: none has come, or it is not for `to`.
  static nic::Name sender(std::byte* memory, nic::Name to) {
    const MailTrailer* const first = MailReader(memory, nic::kNobody, to).trailer_of(0);
    return sequence_of(first) == 1 && first->to == to ? first->from : nic::kNobody;
  }

  // The next frame; null: none has come. A copy, valid until the next call: the other process may
  // write to the slot at any time, also after its length was checked.
  const MailTrailer* head() {
    if (!memory_) return nullptr;
    if (late_) find_first();
    const MailTrailer* const trailer = trailer_of(next_ % kMailSlots);
    if (sequence_of(trailer) != next_ + 1) return nullptr;
    head_ = *trailer;
    return is_good(head_) ? &head_ : nullptr;
  }
  // The frame of what head() gave.
  std::span<const std::byte> frame(const MailTrailer& head) const {
    const auto* const end = reinterpret_cast<const std::byte*>(trailer_of(next_ % kMailSlots));
    return {end - (head.bytes + 7) / 8 * 8, head.bytes};
  }
  // The frame is no longer needed. True: it is time to tell the sender.
  bool consume() {
    next_++;
    return ++consumed_ % (kMailSlots / 2) == 0;
  }
  uint32_t consumed() const { return consumed_; }

 private:
  MailTrailer* trailer_of(uint32_t slot) const {
    return reinterpret_cast<MailTrailer*>(memory_ + (slot + 1) * kMailSlotBytes) - 1;
  }
  static uint32_t sequence_of(const MailTrailer* trailer) {
    return __atomic_load_n(&trailer->sequence, __ATOMIC_ACQUIRE);
  }
  bool is_good(const MailTrailer& trailer) const {
    return trailer.from == from_ && trailer.to == to_ && trailer.bytes <= kMailMax;
  }
  void find_first() {
    for (uint32_t slot = 0; slot < kMailSlots; slot++) {
      const uint32_t sequence = sequence_of(trailer_of(slot));
      if (sequence == 0 || (!late_ && static_cast<int32_t>(sequence - 1 - next_) >= 0)) continue;
      next_ = sequence - 1;
      late_ = false;
    }
  }

  std::byte* memory_ = nullptr;
  nic::Name from_ = nic::kNobody, to_ = nic::kNobody;
  bool late_ = false;
  MailTrailer head_{};
  uint32_t next_ = 0;      // frames before the next one
  uint32_t consumed_ = 0;  // of these, here
};

// The sender's end.
class MailWriter {
 public:
  // `consumed`: as the receiver has told it last.
  bool has_room(uint32_t consumed) const { return sent_ - consumed < kMailSlots; }
  uint32_t sent() const { return sent_; }
  uint32_t slot() const { return sent_ % kMailSlots; }
  // Where in its slot a frame of that length begins.
  static uint32_t begin(uint32_t bytes) { return kMailMax - (bytes + 7) / 8 * 8; }
  // Writes the trailer of the next frame behind it, in a copy of the slot.
  void seal(std::byte* copy, MailTrailer trailer) const {
    trailer.sequence = sent_ + 1;
    std::memcpy(copy + kMailMax, &trailer, sizeof(trailer));
  }
  void advance() { sent_++; }

 private:
  uint32_t sent_ = 0;
};

}  // namespace torii
