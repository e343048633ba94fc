// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The memory that the members of a team on one node share. One of them made it, the others map it.
//
//   +------+----------------------+----------------------+-----+-------------------------------+
//   | head | member 0: read, left | member 1: read, left | ... | ring: payload of several steps |
//   |      |   32 lines           |   32 lines           |     |                                |
//   +------+----------------------+----------------------+-----+-------------------------------+
//
// Members count the steps of their operations alike. In step s a member writes its part of the
// payload into line s % 32 of its own, or into the ring, and then the number of the step into the
// line. Each word has one writer, but for `broken`, `sleepers` and the shares. No offset and no
// length is ever read from here, so nothing that a member writes can lead another one out of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace torii::team {

inline constexpr unsigned kWindow = 32;  // steps of which not all members have read the parts
inline constexpr unsigned kMembersMax = 256;
inline constexpr size_t kInline = 48;       // bytes of payload in a line
inline constexpr uint64_t kLineBytes = 64;  // of a cache
inline constexpr uint64_t kPageBytes = 4096;

struct Line {
  alignas(kLineBytes) std::atomic<uint64_t> step;  // one more than the number; 0: none yet
  std::atomic<uint32_t> call;                      // what the member does in that step
  uint32_t reserved;
  std::byte payload[kInline];
};
static_assert(sizeof(Line) == kLineBytes);

struct Member {
  alignas(kLineBytes) std::atomic<uint64_t> read;  // it needs nothing of the steps below
  std::atomic<uint32_t> left;                      // it will not use this memory any more
  Line lines[kWindow];
};

// How the members divide the work of a reduction: the lower 16 bits count shares, the others are
// the number of the step.
struct Shares {
  alignas(kLineBytes) std::atomic<uint64_t> taken;
  alignas(kLineBytes) std::atomic<uint64_t> done;
};

struct Head {
  // A Status: no operation is carried out. Above its 8 bits: one more than the number of whose
  // fault it is; 0: nobody's.
  alignas(kLineBytes) std::atomic<uint32_t> broken;
  alignas(kLineBytes) std::atomic<uint64_t> sleepers[kMembersMax / 64];
  Shares shares[kWindow];
};

// A view of that memory.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, uint32_t members, uint64_t ring_bytes)
      : base_(base), members_(members), ring_bytes_(ring_bytes) {}

  static uint64_t bytes(uint32_t members, uint64_t ring_bytes) {
    return sizeof(Head) + members * sizeof(Member) + ring_bytes;
  }
  // Before anybody else knows of it.
  void clear();

  explicit operator bool() const { return base_ != nullptr; }
  uint64_t ring_bytes() const { return ring_bytes_; }
  Head& head() const { return *reinterpret_cast<Head*>(base_); }
  Member& member(uint32_t index) const {
    return reinterpret_cast<Member*>(base_ + sizeof(Head))[index];
  }
  Line& line(uint32_t index, uint64_t step) const { return member(index).lines[step % kWindow]; }
  std::byte* ring() const { return base_ + sizeof(Head) + members_ * sizeof(Member); }

 private:
  std::byte* base_ = nullptr;
  uint32_t members_ = 0;
  uint64_t ring_bytes_ = 0;
};

}  // namespace torii::team
