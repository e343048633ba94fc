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

namespace torii {

inline constexpr uint32_t kMailSlots = 4;
inline constexpr uint32_t kMailSlotBytes = 4096;
inline constexpr uint32_t kMailboxBytes = kMailSlots * kMailSlotBytes;

struct MailTrailer {
  uint32_t bytes;     // of the frame
  uint32_t kind;      // the driver's own
  uint32_t number;    // of all frames that the sender has sent to anybody: tells their order
  uint32_t sequence;  // in this mailbox, from 1
};
inline constexpr uint32_t kMailMax = kMailSlotBytes - sizeof(MailTrailer);

// The receiver's end.
class MailReader {
 public:
  MailReader() = default;
  // Takes frames from the next sequence on; with `any` from the lowest that has come first: the
  // sender may have begun before.
  MailReader(std::byte* memory, bool any) : memory_(memory), any_(any) {
    for (uint32_t slot = 0; slot < kMailSlots; slot++)
      std::memset(trailer_of(slot), 0, sizeof(MailTrailer));
  }

  // The next frame; null: none has come. What it says comes from another process.
  const MailTrailer* head() {
    if (!memory_) return nullptr;
    if (any_) find_first();
    MailTrailer* const trailer = trailer_of(next_ % kMailSlots);
    const uint32_t sequence = __atomic_load_n(&trailer->sequence, __ATOMIC_ACQUIRE);
    return sequence == next_ + 1 && trailer->bytes <= kMailMax ? trailer : nullptr;
  }
  std::span<const std::byte> frame(const MailTrailer& head) const {
    const auto* const end = reinterpret_cast<const std::byte*>(&head);
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
  void find_first() {
    for (uint32_t slot = 0; slot < kMailSlots; slot++) {
      const uint32_t sequence = __atomic_load_n(&trailer_of(slot)->sequence, __ATOMIC_ACQUIRE);
      if (sequence == 0 || (!any_ && static_cast<int32_t>(sequence - 1 - next_) >= 0)) continue;
      next_ = sequence - 1;
      any_ = false;
    }
  }

  std::byte* memory_ = nullptr;
  bool any_ = false;
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
  void seal(std::byte* copy, uint32_t bytes, uint32_t kind, uint32_t number) const {
    const MailTrailer trailer{bytes, kind, number, sent_ + 1};
    std::memcpy(copy + kMailMax, &trailer, sizeof(trailer));
  }
  void advance() { sent_++; }

 private:
  uint32_t sent_ = 0;
};

}  // namespace torii
