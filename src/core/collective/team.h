// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The members of a group that share a segment (segment.h), as one of them sees them, and how it
// carries out operations with the others: one at a time, in the same order at all of them.
//
// An operation is one step, or several if its payload is long. In a step a member
//   1. waits until the others have read what was where it is going to write (has_room),
//   2. writes its part and says so (write_part),
//   3. waits for the parts that it needs, and copies them as they come (take_part),
//   4. reduces: by itself, or its shares (fold, fold_shares).
// A member that needs nothing of the others goes on at once: at most kWindow steps. Whoever finds
// that all parts are there does the work, so where processors are few, the last to arrive does it,
// and each member runs once in a step. The caller holds the interface's lock.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/status.h"
#include "core/collective/operation.h"
#include "core/collective/segment.h"

namespace torii::team {

// Ring and pieces as all members of a team have them.
inline constexpr uint64_t kRingBytes = 512 << 10;

class Team {
 public:
  // `scarce`: the node has more processes than processors; alike at all members.
  void open(const Segment& segment, uint32_t members, uint32_t self, bool scarce) {
    segment_ = segment;
    members_ = members;
    self_ = self;
    scarce_ = scarce;
  }
  // The memory is not touched from now on.
  void detach() {
    segment_ = {};
    if (ended_ == Status::ok) ended_ = failed_ == Status::ok ? Status::canceled : failed_;
  }
  bool open() const { return bool(segment_); }

  // Is it served? Depends only on what is the same at all members.
  bool serves(const CollectiveCall& call) const;
  // Begins an operation; its data stays until it is over.
  void begin(const CollectiveCall& call);
  // Tells the root of a broadcast whose data is still arriving how many of its first bytes are
  // there. After begin(); more may be told later.
  void limit(uint64_t bytes) { limit_ = bytes; }
  // `ok`: it is over. `pending`: not yet, for others are to do something first. `invalid`: they
  // called another operation. `no_memory`: one of them has none for its part. Any other error is
  // what fail() was told: it needs members that do nothing any more. After an error no operation is
  // carried out.
  Status advance() {
    if (ended_ != Status::ok) return ended_;
    const Status status = go_on();
    if (status != Status::ok && status != Status::pending) ended_ = status;
    return status;
  }
  const CollectiveCall& call() const { return call_; }

  // A member does nothing any more.
  void fail(Status why) { failed_ = why; }
  // This one does not, because of a process that is not of the team: `culprit` is the caller's
  // number for it, which all members are told. They end what they cannot complete with `why`.
  void break_off(Status why, uint32_t culprit);
  // The number that was told with such an end; kNobody: there was none.
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint32_t culprit() const { return culprit_; }

  // This member sleeps, and is to be woken by those who do something.
  void set_asleep(bool asleep);
  // Takes the members that are to be woken for what advance() did: 64 a word.
  std::array<uint64_t, kMembersMax / 64> take_sleepers();

  // This member will not use the memory any more.
  void leave() { segment_.member(self_).left.store(1, std::memory_order_release); }
  bool has_left(uint32_t member) const {
    return segment_.member(member).left.load(std::memory_order_acquire) != 0;
  }

 private:
  enum class Phase : uint8_t { plan, write, take, reduce };
  // A range of the ring.
  struct Range {
    uint64_t at = 0;
    uint64_t bytes = 0;
    bool meets(const Range& other) const {
      return at < other.at + other.bytes && other.at < at + bytes;
    }
  };

  Status go_on();
  bool synchronizes() const {
    return call_.what != Collective::bcast && call_.what != Collective::reduce;
  }
  bool writes() const { return call_.what != Collective::bcast || self_ == call_.root; }
  uint64_t parts_of(Collective what) const;
  uint64_t piece_of(const CollectiveCall& call) const;
  void plan();
  Range place(uint64_t bytes);
  bool has_room();
  void write_part();
  const std::byte* part(uint32_t member) const;
  Status take_parts();
  Status take_part(uint32_t member);
  void copy_own_part();
  void fold(std::byte* to, uint64_t from, uint64_t bytes) const;
  Status reduce();
  Status fold_shares();
  static uint64_t count_of(uint64_t word, uint64_t step) {
    return word >> kShareBits == step ? word & ((uint64_t{1} << kShareBits) - 1) : 0;
  }
  bool take_share(uint64_t* index);
  void finish_share();
  void end_step();
  Status give_up(Status why);
  Status blocked();

  static constexpr unsigned kShareBits = 16;

  Segment segment_;
  uint32_t members_ = 0;
  uint32_t self_ = 0;
  bool scarce_ = false;
  bool told_ = false;  // something was written since take_sleepers()
  Status failed_ = Status::ok;
  Status ended_ = Status::ok;
  uint32_t culprit_ = kNobody;

  CollectiveCall call_;
  uint32_t call_text_ = 0;  // what Line::call of all members has to be
  uint64_t offset_ = 0;     // bytes of each part that are done
  uint64_t limit_ = 0;      // bytes of this member's part that it may write
  Phase phase_ = Phase::plan;

  // The step that is under way.
  uint64_t step_ = 0;
  uint64_t bytes_ = 0;   // of each part
  uint64_t stride_ = 0;  // of the parts in the ring
  Range range_;          // empty: the parts are in the lines
  uint32_t cursor_ = 0;  // members whose part has come
  uint64_t shares_ = 0;  // 0: each reduces for itself
  uint64_t share_bytes_ = 0;
  uint64_t room_from_ = 0;  // all have to have read the steps below

  uint64_t least_read_ = 0;            // all have, as far as known
  std::array<Range, kWindow> ranges_;  // of the last steps
  uint64_t ring_next_ = 0;
  bool upper_half_ = false;
};

}  // namespace torii::team
