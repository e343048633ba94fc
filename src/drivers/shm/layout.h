// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The layout of a segment. Every process owns one; peers write frames
// into their rings, and the few words below that say so.
//
//   +--------+---------------------------+----------+----------+----------
//   | Header | Claim x claims (256 bytes) | ring 0   | ring 1   | ...
//   +--------+---------------------------+----------+----------+----------
//
// A sender takes a Claim by compare-and-swap and owns the ring of the same number until it ends.
// Pages of rings nobody claimed are never touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/atomics.h"
#include "core/base/attach.h"

namespace torii::shm {

using enum std::memory_order;

inline constexpr size_t kLine = 64;  // bytes of a cache line
inline constexpr size_t kPage = 4096;
inline constexpr uint32_t kMagic = 0x656d6873;  // "shme"; changes with anything on this page
inline constexpr uint32_t kClaimsMax = 8192;
inline constexpr uint64_t kRingMin = 32 << 10;
inline constexpr uint64_t kRingMax = 64 << 20;
// Largest frame: 130 lines with its control word, so that 8 KiB with a header fit. The same for
// all, because processes of different jobs may have rings of different sizes.
inline constexpr uint32_t kMtu = 130 * kLine - sizeof(uint64_t);
// Rings from this size on also take frames that are longer: 32 KiB with a header.
inline constexpr uint64_t kLongRing = 512 << 10;
inline constexpr uint32_t kLongMtu = 514 * kLine - sizeof(uint64_t);

// The position of line 0 of a new segment's rings. Just below the wrap of 32 bits, so that the
// wrap is part of every run. Positions in the segment are stored relative to it, so that a zeroed
// page is a valid beginning.
inline constexpr uint32_t kFirstPosition = 0u - 512u;

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

using Cookie = AttachCookie;

// A driver's address.
struct Address {
  uint32_t magic;
  uint32_t pid;
  uint64_t boot;        // hash of the kernel's boot id
  uint64_t pid_space;   // inode of the PID namespace
  uint64_t start_time;  // of the process, in clock ticks since boot
  Cookie cookie;        // random, of this driver instance
  uint32_t fd;          // of the segment in that process
  uint32_t socket;      // names the socket that hands the segment over (segment.h), or 0
  bool operator==(const Address&) const = default;
};
static_assert(sizeof(Address) == 56);

// `life` of a segment's owner.
enum class Life : uint32_t { open = 1, closed = 2 };

// The claims that are free, being written, carrying frames, and left by a sender that closed.
enum class ClaimState : uint32_t { free = 0, claiming = 1, live = 2, closed = 3 };

// A get that both processes work at: the reader reads pages, the process whose memory it is
// writes pages, and each takes the next ones (splits.cc). Lies in the reader's segment.
struct Split {
  alignas(kLine) std::atomic<uint64_t> taken;  // serial of the get << 32 | pages handed out
  std::atomic<uint32_t> written;               // of them done by the other process
  std::atomic<uint32_t> refused;               // nonzero: some of these it could not write
};
inline constexpr uint32_t kSplits = 8;

// Names the allocation of an arena (arena.h) that some memory lies in.
struct ArenaKey {
  uint32_t fd;      // of the arena in its owner
  uint32_t slot;    // of the allocation
  uint64_t serial;  // of the allocation; 0: the memory lies in none
};

// The frame that asks the other process to join in.
struct SplitRequest {
  uint32_t split;
  uint32_t serial;
  uint64_t source;       // address in the process that is asked
  uint64_t destination;  // address in the process that asks
  uint64_t bytes;
  ArenaKey arena;  // of the destination
};

// The head of a frame by which a process requests that another one puts to its memory or gets from
// it, or that answers such a request (requests.h). Data follows, of `atomic` an AtomicRequest.
enum class RequestKind : uint16_t {
  put = 1,
  get = 2,
  answer = 3,  // to `slot` gets, the first of which is `number`: their data in a row
  atomic = 4
};
struct Request {
  RequestKind kind;
  uint16_t of_many;  // not 0: others are outstanding, see rest() in requests.cc
  uint32_t number;   // low part of the number of the request
  uint32_t bytes;    // of data, here or wanted; of the word; an answer of none refuses
  uint32_t slot;     // the region's guard, or a number of answers
  // Not in answers: so one of 40 bytes is a line.
  uint64_t valid;   // the word of the region's guard
  uint64_t offset;  // in the region
};
static_assert(sizeof(Request) == 32);
inline constexpr uint32_t head_bytes(RequestKind kind) {
  return kind == RequestKind::answer ? offsetof(Request, valid) : sizeof(Request);
}

// Answers that share a frame.
inline constexpr uint32_t kAnswersEach = 256;  // bytes
inline constexpr uint32_t kAnswersMost = 1024;

// An atomic operation. With the head it is a line.
inline constexpr uint32_t kResults = 4;  // of one initiator at a time
struct AtomicRequest {
  uint64_t operand;
  uint64_t compare;
  AtomicOp op;
  uint8_t result;  // where the value before shall be: one of Claim::results
  uint8_t unused[6];
};
static_assert(sizeof(AtomicRequest) == 24);

struct Header {
  // Constant after creation.
  alignas(kLine) Address address;  // of the owner; whoever comes with another one is wrong here
  uint64_t self_address;  // of this Header in its owner, for the proof of cross-memory attach
  uint64_t bytes;         // of the segment
  uint64_t ring_bytes;
  uint32_t claims;
  uint32_t needs_fence;  // nonzero: the owner cannot order senders itself, they must fence

  // Read after each frame sent, written when the owner goes to sleep or ends.
  alignas(kLine) std::atomic<uint32_t> sleeping;  // nonzero: the number of this sleep
  std::atomic<int32_t> wake_fd;                   // write end of the owner's pipe, or -1
  std::atomic<uint32_t> life;                     // Life

  // Grows when a claim changed its state; the owner looks at it in every poll.
  alignas(kLine) std::atomic<uint32_t> news;
  std::atomic<uint32_t> hint;  // where the next sender starts to look for a free claim

  Split splits[kSplits];
};
static_assert(sizeof(Header) == (4 + kSplits) * kLine);
inline constexpr uint64_t kCookieOffset = offsetof(Header, address) + offsetof(Address, cookie);

struct Claim {
  alignas(kLine) std::atomic<uint32_t> state;  // ClaimState
  uint32_t start;                              // where the claimant begins - kFirstPosition
  Address sender;
  // Up to where the owner has consumed - kFirstPosition; written every quarter of the ring.
  alignas(kLine) std::atomic<uint32_t> released;
  // The sender's requests are numbered by their order in the ring. Written by the owner: the last
  // that it carried out, but for gets, which it answers; the last that it has begun with, and is
  // through with, one way or another.
  std::atomic<uint64_t> applied;
  // The results of atomic operations, here because their initiator polls `applied`.
  std::atomic<uint64_t> results[kResults];
  alignas(kLine) std::atomic<uint64_t> taking;
  std::atomic<uint64_t> seen;
  // Written by the sender: what is not begun up to this one is cancelled.
  alignas(kLine) std::atomic<uint64_t> cancelled;
  // The last request of the sender when it began to poll for their end.
  std::atomic<uint64_t> awaited;
};
static_assert(sizeof(Claim) == 4 * kLine);

inline constexpr uint64_t rings_offset(uint32_t claims) {
  return kPage + (uint64_t{claims} * sizeof(Claim) + kPage - 1) / kPage * kPage;
}
inline constexpr uint64_t segment_bytes(uint32_t claims, uint64_t ring_bytes) {
  return rings_offset(claims) + claims * ring_bytes;
}

}  // namespace torii::shm
