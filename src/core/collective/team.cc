// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/team.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace torii::team {

namespace {

constexpr unsigned kStatusBits = 8;         // of Head::broken
constexpr uint64_t kBcastPiece = 64 << 10;  // so that copying in and out overlap
constexpr uint64_t kFoldBlock = 8 << 10;    // stays in the nearest cache while all are added up
constexpr uint64_t kFoldAlone = 16 << 10;   // of all parts: sharing the work costs more
constexpr uint64_t kFoldAloneScarce = 4 << 10;
constexpr uint64_t kShareLeast = 4 << 10;

// Longer parts of two processes with a processor each go as messages, which copy them once. The
// sender of one message goes on before it is received, so those of one root do so sooner.
constexpr uint64_t pair_most(Collective what) {
  if (what == Collective::reduce) return 16;
  return what == Collective::bcast ? 512 : 4 << 10;
}

uint64_t whole_lines(uint64_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

// A digest of what must be the same at all members.
uint32_t text_of(const CollectiveCall& call) {
  uint64_t hash = uint64_t(call.what) + 1;
  for (const uint64_t word : {uint64_t{call.root}, call.bytes, call.reduction.element}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return uint32_t(hash >> 16);
}

}  // namespace

void Segment::clear() {
  new (base_) Head();
  for (uint32_t i = 0; i < members_; ++i) new (&member(i)) Member();
}

// In the ring: one of each member, and the result.
uint64_t Team::parts_of(Collective what) const {
  switch (what) {
    case Collective::barrier:
      return 0;
    case Collective::bcast:
      return 1;
    case Collective::reduce:
    case Collective::allgather:
    case Collective::alltoall:
      return members_;
    case Collective::allreduce:
      return members_ + 1;
  }
  return 0;
}

// Bytes of a part that one step moves at most: two steps have room in the ring. 0: not served.
uint64_t Team::piece_of(const CollectiveCall& call) const {
  const uint64_t parts = std::max<uint64_t>(parts_of(call.what), 1);
  uint64_t most = segment_.ring_bytes() / 2 / parts / kLineBytes * kLineBytes;
  if (call.what == Collective::bcast) most = std::min(most, kBcastPiece);
  if (call.what == Collective::alltoall) most /= members_;
  return call.reduction.element ? most / call.reduction.element * call.reduction.element : 0;
}

bool Team::serves(const CollectiveCall& call) const {
  if (call.what == Collective::alltoall && call.bytes * members_ * members_ > TORII_ALLTOALL_MAX)
    return false;
  if (members_ == 2 && !scarce_ && call.bytes > pair_most(call.what)) return false;
  return open() && call.root < members_ && piece_of(call) > 0;
}

void Team::begin(const CollectiveCall& call) {
  call_ = call;
  if (!call_.in && call_.out) {
    call_.in = call.what == Collective::allgather ? call.out + self_ * call.bytes : call.out;
  }
  call_text_ = text_of(call);
  offset_ = 0;
  limit_ = call.bytes;
  phase_ = Phase::plan;
}

Status Team::go_on() {
  if (call_.lacks_memory) return give_up(Status::no_memory);
  for (;;) {
    switch (phase_) {
      case Phase::plan:
        plan();
        phase_ = Phase::write;
        [[fallthrough]];
      case Phase::write:
        if (writes()) {
          if (offset_ + bytes_ > limit_ || !has_room()) return blocked();
          write_part();
        }
        phase_ = Phase::take;
        [[fallthrough]];
      case Phase::take:
        if (const Status status = take_parts(); status != Status::ok) return status;
        phase_ = Phase::reduce;
        [[fallthrough]];
      case Phase::reduce:
        if (const Status status = reduce(); status != Status::ok) return status;
    }
    end_step();
    if (offset_ >= call_.bytes) return Status::ok;
  }
}

void Team::plan() {
  bytes_ = std::min(piece_of(call_), call_.bytes - offset_);
  // The parts for several members lie side by side.
  const uint64_t part = call_.what == Collective::alltoall ? members_ * bytes_ : bytes_;
  range_ = {};
  shares_ = 0;
  cursor_ = 0;
  room_from_ = step_ + 1 > kWindow ? step_ + 1 - kWindow : 0;
  if (call_.what == Collective::barrier || part <= kInline) return;
  stride_ = whole_lines(part);
  range_ = place(stride_ * parts_of(call_.what));
  for (uint64_t back = 1; back < kWindow && back <= step_; ++back) {
    if (!ranges_[(step_ - back) % kWindow].meets(range_)) continue;
    room_from_ = std::max(room_from_, step_ - back + 1);
    break;
  }
  if (call_.what != Collective::allreduce) return;
  if (bytes_ * members_ <= (scarce_ ? kFoldAloneScarce : kFoldAlone)) return;
  const uint64_t element = call_.reduction.element;
  share_bytes_ = std::max(bytes_ / members_, kShareLeast);
  share_bytes_ = (share_bytes_ + element - 1) / element * element;
  shares_ = (bytes_ + share_bytes_ - 1) / share_bytes_;
}

// Where all wait for all, the halves of the ring alternate, and its beginning stays in the caches.
// Other steps go round in as much as is used before a line is: pages beyond are not touched.
Team::Range Team::place(uint64_t bytes) {
  uint64_t at = ring_next_;
  if (synchronizes()) {
    upper_half_ = !upper_half_;
    at = upper_half_ ? segment_.ring_bytes() / 2 : 0;
  } else if (at + bytes > std::min(segment_.ring_bytes(), kWindow * bytes)) {
    at = 0;
  }
  ring_next_ = at + bytes;
  return {at, bytes};
}

bool Team::has_room() {
  if (least_read_ >= room_from_) return true;
  uint64_t least = step_;
  for (uint32_t i = 0; i < members_; ++i) {
    if (i == self_) continue;
    least = std::min(least, segment_.member(i).read.load(std::memory_order_acquire));
  }
  least_read_ = least;
  return least >= room_from_;
}

const std::byte* Team::part(uint32_t member) const {
  if (range_.bytes == 0) return segment_.line(member, step_).payload;
  const uint64_t place = call_.what == Collective::bcast ? 0 : member;
  return segment_.ring() + range_.at + place * stride_;
}

void Team::write_part() {
  auto* const to = const_cast<std::byte*>(part(self_));
  if (call_.what == Collective::bcast) {
    call_.data.copy_out(offset_, to, bytes_);
  } else if (call_.what == Collective::alltoall) {
    for (uint32_t i = 0; i < members_; ++i)
      if (i != self_) copy_bytes(to + i * bytes_, call_.in + i * call_.bytes + offset_, bytes_);
  } else if (call_.what != Collective::barrier) {
    copy_bytes(to, call_.in + offset_, bytes_);
  }
  Line& line = segment_.line(self_, step_);
  line.call.store(call_text_, std::memory_order_relaxed);
  line.step.store(step_ + 1, std::memory_order_release);
  told_ = true;
  copy_own_part();
}

void Team::copy_own_part() {
  if (call_.what != Collective::allgather && call_.what != Collective::alltoall) return;
  const uint64_t mine = self_ * call_.bytes + offset_;
  const std::byte* const from = call_.in + (call_.what == Collective::alltoall ? mine : offset_);
  if (from != call_.out + mine) copy_bytes(call_.out + mine, from, bytes_);
}

// Takes the parts that this member needs; each begins with its neighbour's.
Status Team::take_parts() {
  if (call_.what == Collective::bcast) {
    return self_ == call_.root ? Status::ok : take_part(call_.root);
  }
  if (call_.what == Collective::reduce && self_ != call_.root) return Status::ok;
  for (; cursor_ + 1 < members_; ++cursor_) {
    const uint32_t next = self_ + 1 + cursor_;
    const Status status = take_part(next < members_ ? next : next - members_);
    if (status != Status::ok) return status;
  }
  // A member that has come to this step has read all before.
  if (synchronizes()) least_read_ = std::max(least_read_, step_);
  return Status::ok;
}

Status Team::take_part(uint32_t member) {
  Line& line = segment_.line(member, step_);
  if (line.step.load(std::memory_order_acquire) != step_ + 1) return blocked();
  if (line.call.load(std::memory_order_relaxed) != call_text_) return give_up(Status::invalid);
  const std::byte* const from = part(member);
  if (call_.what == Collective::bcast) {
    call_.data.copy_in(offset_, from, bytes_);
  } else if (call_.what == Collective::allgather) {
    copy_bytes(call_.out + member * call_.bytes + offset_, from, bytes_);
  } else if (call_.what == Collective::alltoall) {
    copy_bytes(call_.out + member * call_.bytes + offset_, from + self_ * bytes_, bytes_);
  }
  return Status::ok;
}

// The parts of all members in their order, from the last to the first.
void Team::fold(std::byte* to, uint64_t from, uint64_t bytes) const {
  const uint64_t element = call_.reduction.element;
  const uint64_t block = std::max(kFoldBlock / element, uint64_t{1}) * element;
  for (uint64_t at = 0; at < bytes; at += block) {
    const uint64_t n = std::min(block, bytes - at);
    copy_bytes(to + at, part(members_ - 1) + from + at, n);
    for (uint32_t i = members_ - 1; i-- > 0;)
      call_.reduction.combine(call_.reduction.context, part(i) + from + at, to + at, n);
  }
}

Status Team::reduce() {
  if (call_.what == Collective::reduce && self_ == call_.root) fold(call_.out + offset_, 0, bytes_);
  if (call_.what != Collective::allreduce) return Status::ok;
  if (shares_) return fold_shares();
  fold(call_.out + offset_, 0, bytes_);
  return Status::ok;
}

// Each member that has come takes the next share, until none is left.
Status Team::fold_shares() {
  std::byte* const result = segment_.ring() + range_.at + members_ * stride_;
  for (uint64_t index; take_share(&index);) {
    const uint64_t from = index * share_bytes_;
    fold(result + from, from, std::min(share_bytes_, bytes_ - from));
    finish_share();
  }
  const Shares& all = segment_.head().shares[step_ % kWindow];
  if (count_of(all.done.load(std::memory_order_acquire), step_) < shares_) return blocked();
  copy_bytes(call_.out + offset_, result, bytes_);
  return Status::ok;
}

bool Team::take_share(uint64_t* index) {
  auto& taken = segment_.head().shares[step_ % kWindow].taken;
  uint64_t word = taken.load(std::memory_order_relaxed);
  do {
    *index = count_of(word, step_);
    if (*index >= shares_) return false;
  } while (!taken.compare_exchange_weak(word, step_ << kShareBits | (*index + 1),
                                        std::memory_order_acq_rel));
  return true;
}

void Team::finish_share() {
  auto& done = segment_.head().shares[step_ % kWindow].done;
  uint64_t word = done.load(std::memory_order_relaxed);
  while (!done.compare_exchange_weak(word, step_ << kShareBits | (count_of(word, step_) + 1),
                                     std::memory_order_acq_rel)) {
  }
  told_ = true;
}

void Team::end_step() {
  ranges_[step_ % kWindow] = range_;
  offset_ += bytes_;
  ++step_;
  segment_.member(self_).read.store(step_, std::memory_order_release);
  told_ = true;
  phase_ = Phase::plan;
}

// Tells the others that nothing is carried out any more.
Status Team::give_up(Status why) {
  segment_.head().broken.store(uint32_t(why), std::memory_order_release);
  told_ = true;
  return why;
}

void Team::break_off(Status why, uint32_t culprit) {
  if (!segment_) return;
  segment_.head().broken.store(uint32_t(why) | (culprit + 1) << kStatusBits,
                               std::memory_order_release);
  told_ = true;
}

Status Team::blocked() {
  if (failed_ != Status::ok) return failed_;
  const uint32_t broken = segment_.head().broken.load(std::memory_order_acquire);
  if (broken == 0) return Status::pending;
  culprit_ = (broken >> kStatusBits) - 1;
  for (const Status status : {Status::no_memory, Status::peer_dead, Status::peer_closed})
    if ((broken & ((1u << kStatusBits) - 1)) == uint32_t(status)) return status;
  return Status::invalid;
}

void Team::set_asleep(bool asleep) {
  auto& word = segment_.head().sleepers[self_ / 64];
  const uint64_t bit = uint64_t{1} << (self_ % 64);
  if (asleep) {
    word.fetch_or(bit, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // with that of take_sleepers()
  } else if (word.load(std::memory_order_relaxed) & bit) {
    word.fetch_and(~bit, std::memory_order_relaxed);
  }
}

// A sleeper sets its bit and then looks at the lines; so what was written must be seen by then.
std::array<uint64_t, kMembersMax / 64> Team::take_sleepers() {
  std::array<uint64_t, kMembersMax / 64> all{};
  if (!told_ || !segment_) return all;
  told_ = false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t i = 0; i * 64 < members_; ++i) {
    auto& word = segment_.head().sleepers[i];
    if (word.load(std::memory_order_relaxed)) all[i] = word.exchange(0, std::memory_order_acq_rel);
  }
  return all;
}

}  // namespace torii::team
