// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What one process has asked another one to put into its memory, to get from it, or to change by
// an atomic operation: see ask.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "drivers/shm/layout.h"
#include "drivers/shm/ring.h"

namespace torii::shm {

inline constexpr uint32_t kAsks = 64;  // at a time, of one peer

inline constexpr uint32_t kAskChunk = 8192;          // bytes of one frame
inline constexpr uint32_t kAskLongChunk = 32 << 10;  // in long rings, where others are under way

// The most that a frame in a ring of so many lines brings.
constexpr uint32_t ask_chunk_in(uint32_t lines) {
  return frame_max_of(lines) > kMtu ? kAskLongChunk : kAskChunk;
}

// Of a frame that brings so much, with padding.
constexpr uint32_t ask_frame_bytes(uint32_t bytes) {
  return bytes + static_cast<uint32_t>(kFirstBytes);
}

struct OpenAsk {
  uint64_t cookie;
  std::byte* local;
  uint64_t remote;  // address in the peer
  uint64_t offset;  // in the region
  uint64_t bytes;
  const std::atomic<uint64_t>* word;  // has the value `valid` until the region ends
  uint64_t valid;
  uint32_t slot;  // of the guard
  AskKind kind;   // put, get, deliver (a get whose data the peer writes to `local`) or atomic
  bool over;
  uint64_t chunk;  // bytes of a frame, or of what a frame asks for
  uint64_t first;  // number of its first frame
  uint64_t last;   // and of the last that has left
  uint64_t sent;   // bytes that were asked for
  uint64_t got;    // get: bytes that have come
  AskedAtomic atomic;

  // Its data come in answers.
  bool answered() const { return kind == AskKind::get || kind == AskKind::deliver; }
  // Where the data of that ask begin, if it is one of its.
  uint64_t place_of(uint32_t number) const {
    return uint64_t{number - static_cast<uint32_t>(first)} * chunk;
  }
};

struct EndedAsks {
  struct {
    uint64_t cookie;
    Status status;
  } list[kAsks];
  unsigned count = 0;
  void add(OpenAsk& ask, Status status) {
    ask.over = true;
    list[count++] = {ask.cookie, status};
  }
};

// Of one peer, in the order of their numbers.
struct Asks {
  explicit Asks(Claim& c) : claim(c), posted(c.seen.load(std::memory_order_acquire)) {
    applied = posted;
  }
  OpenAsk& operator[](uint32_t i) { return open[(head + i) % kAsks]; }
  // The one from the *from'th on that awaits the answer to that ask, and which it is; null: none.
  OpenAsk* awaiting(uint32_t number, uint32_t* from) {
    for (; *from < count; ++*from) {
      OpenAsk& one = (*this)[*from];
      if (!one.over && one.answered() && one.place_of(number) < one.sent) return &one;
    }
    return nullptr;
  }

  Claim& claim;          // ours in the peer's segment
  uint64_t posted;       // number of the last frame
  uint64_t applied;      // what the peer had carried out when we looked, gets apart
  bool many = false;     // the last frame was one of many, and Claim::looked_for is older
  uint64_t awaited = 0;  // bytes that gets have asked for and that have not come
  unsigned idle = 0;     // looks since something happened
  unsigned pause = 0;    // puts and gets to do ourselves before the peer is asked again
  unsigned penalty = 0;  // the next pause
  unsigned halves = 0;   // puts that might go in several frames
  bool withdrawing = false;
  bool absent = false;  // it has not seen all that was withdrawn
  uint32_t head = 0;
  uint32_t count = 0;
  uint32_t sending = 0;  // of them asked for in full
  uint32_t results = 0;  // bit i: Claim::results[i] is in use
  std::array<OpenAsk, kAsks> open;
};

// Answers to short gets that wait for those behind them: they share a frame.
struct Answers {
  uint32_t first = 0;  // number of its ask
  uint32_t count = 0;
  uint32_t bytes = 0;
  std::byte data[kAnswersMost];
};

}  // namespace torii::shm
