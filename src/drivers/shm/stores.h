// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the body of a frame is written into a ring: by ordinary stores, in a loop of vectors or by
// the instruction `rep movsb`, or by stores past the caches. Which is fastest depends on the kind
// of the processors and on whether they share a cache. In a virtual machine that changes while a
// program runs. So it is measured: ordinary stores are timed by the processor's cycle counter, now
// and then also those that are not in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/copy.h"
#include "drivers/shm/layout.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#include <x86intrin.h>
#endif

namespace torii::shm {

enum class Store : uint8_t {
  loop,    // ordinary ones, of vectors
  string,  // ordinary ones, by one instruction
  past     // past the caches
};

// Which of them is the next body's?
class StoreChoice {
 public:
  static constexpr uint32_t kPart = 16;  // of a tick, in which the cost of a line is counted
  static constexpr uint32_t kStringFrom = 4096;  // bytes; shorter ones are over before it has begun

  struct Turn {
    Store how;
    bool measured;  // note() is told what it cost
  };

  Turn next(uint32_t n) {
    if (n < kPastFrom) return {Store::loop, false};
    const Store better = cost_[1] < cost_[0] ? Store::string : Store::loop;
    const bool far = cost_of(better) > kFarLine;
    if (n < kStringFrom) return {far ? Store::past : Store::loop, false};
    const uint32_t turn = ++turns_;
    if (far) {
      if (turn % kRetryFar != 0) return {Store::past, false};
      return {turn % (2 * kRetryFar) != 0 ? Store::loop : Store::string, true};
    }
    const bool other = turn % kRetry == 0;
    return {other == (better == Store::loop) ? Store::string : Store::loop,
            turn % kMeasureOne == 0};
  }

  // `cost`: of a line, on the average of the body.
  void note(Store how, uint64_t cost) {
    uint32_t& average = cost_[index(how)];
    const auto counted = static_cast<uint32_t>(std::min<uint64_t>(cost, kMost));
    average = (average * (kMemory - 1) + counted) / kMemory;
  }

 private:
  static constexpr uint32_t kPastFrom = 2048;  // bytes; of shorter ones the fence costs more
  // One in so many bodies is measured, for reading the counter takes time; one more rarely by the
  // stores that are not in use, and while neither of the ordinary ones are.
  static constexpr uint32_t kMeasureOne = 8;
  static constexpr uint32_t kRetry = 256;
  static constexpr uint32_t kRetryFar = 64;
  // Ticks of an ordinary store of a line: about 5 between the threads of one core, 10 to 20 between
  // cores with a common cache, 40 to 70 between others.
  static constexpr uint32_t kFarLine = 32 * kPart;
  // A store that costs more may have been interrupted: once, that moves no average between near
  // lines and far ones.
  static constexpr uint32_t kMost = 2 * kFarLine;
  static constexpr uint32_t kMemory = 8;  // a new cost is so large a part of the average

  static unsigned index(Store how) { return how == Store::string; }
  uint32_t cost_of(Store how) const { return cost_[index(how)]; }

  uint32_t cost_[2] = {};  // of a line; average
  uint32_t turns_ = 0;     // of bodies of kStringFrom and more
};

#if defined(__x86_64__)

// Copies n bytes to the beginning of a line, whole lines past the caches. Later stores are seen by
// others after these.
inline void stream_bytes(std::byte* to, const std::byte* from, size_t n) {
  const size_t whole = n / kLine * kLine;
  for (size_t at = 0; at < whole; at += kLine) {
    __m128i v[kLine / sizeof(__m128i)];
    std::memcpy(v, from + at, kLine);
    auto* line = reinterpret_cast<__m128i*>(to + at);
    for (const __m128i& part : v) _mm_stream_si128(line++, part);
  }
  _mm_sfence();
  copy_bytes(to + whole, from + whole, n - whole);
}

// Copies n bytes by one instruction.
inline void string_bytes(std::byte* to, const std::byte* from, size_t n) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

#endif

class BodyWriter {
 public:
  // False: there is nothing to choose on this machine.
  void allow_choice(bool allow) { may_choose_ = allow; }
  // Copies a body, or its rest, to the beginning of a line. Whoever stores something later in
  // program order publishes it.
  void write(std::byte* to, const std::byte* from, uint32_t n) {
#if defined(__x86_64__)
    if (may_choose_) return write_chosen(to, from, n);
#endif
    copy_bytes(to, from, n);
  }

 private:
#if defined(__x86_64__)
  void write_chosen(std::byte* to, const std::byte* from, uint32_t n) {
    const StoreChoice::Turn turn = choice_.next(n);
    const uint64_t start = turn.measured ? __rdtsc() : 0;
    if (turn.how == Store::past) {
      stream_bytes(to, from, n);
    } else if (turn.how == Store::string) {
      string_bytes(to, from, n);
    } else {
      copy_bytes(to, from, n);
    }
    if (turn.measured)
      choice_.note(turn.how, (__rdtsc() - start) * StoreChoice::kPart / (n / kLine));
  }
#endif

  bool may_choose_ = true;
  [[maybe_unused]] StoreChoice choice_;
};

}  // namespace torii::shm
