// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the body of a frame is written into a ring: by ordinary stores, which fetch each line from
// wherever it is, in a loop of vectors or by the one instruction `rep movsb`, or by stores past the
// caches. Which is fastest depends on where the two processors are, and of which kind. Ordinary
// stores to lines that a processor on another cache read last cost five times as much as between
// neighbours; on an EPYC of 2024 `rep movsb` asks for so many lines at once that they do not, on
// older ones it is slower than a loop. In a virtual machine the place changes while a program runs.
// So it is measured: ordinary stores are timed by the processor's cycle counter, now and then
// also those that are not in use.
#pragma once

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

class BodyWriter {
 public:
  // False: there is nothing to choose on this machine.
  void allow_choice(bool allow) { may_choose_ = allow; }
  // Copies a body, or its rest, to the beginning of a line. Whoever stores something later in
  // program order publishes it.
  void write(std::byte* to, const std::byte* from, uint32_t n) {
    if (n < kStreamFrom || !may_choose_) return copy_bytes(to, from, n);
    const Way way = cost_[kString] < cost_[kLoop] ? kString : kLoop;
    const uint32_t turn = ++turns_;
    if (cost_[way] > kFarLine && turn % kRetry != 0) return stream_bytes(to, from, n);
    if (n < kStringFrom) return copy_bytes(to, from, n);
    if (turn % kMeasureOne != 0) return copy(way, to, from, n);
    measure(turn % kRetry != 0 ? way : way == kLoop ? kString : kLoop, to, from, n);
  }

 private:
  enum Way : uint8_t { kLoop, kString };
  static constexpr uint32_t kStreamFrom = 1024;  // bytes
  static constexpr uint32_t kStringFrom = 4096;  // shorter ones are over before it has begun
  static constexpr uint32_t kMeasureOne = 8;     // of so many, for reading the counter takes time
  static constexpr uint32_t kRetry = 256;        // a multiple of it
  static constexpr uint32_t kPart = 16;          // of a tick, in which a line's cost is counted
  // Ticks of an ordinary store of a line: about 5 between the threads of one core, 10 to 20 between
  // cores with a common cache, 40 to 70 between others.
  static constexpr uint32_t kFarLine = 32 * kPart;
  static constexpr uint32_t kMost = 4 * kFarLine;  // what costs more was interrupted
  static constexpr uint32_t kMemory = 4;           // a new cost is so large a part of the average

  static void copy(Way way, std::byte* to, const std::byte* from, uint32_t n) {
    if (way == kString) {
      string_bytes(to, from, n);
    } else {
      copy_bytes(to, from, n);
    }
  }

  void measure(Way way, std::byte* to, const std::byte* from, uint32_t n) {
    const uint64_t start = __rdtsc();
    copy(way, to, from, n);
    const uint64_t cost = (__rdtsc() - start) * kPart / (n / kLine);
    const uint32_t counted = cost < kMost ? static_cast<uint32_t>(cost) : kMost;
    cost_[way] = (cost_[way] * (kMemory - 1) + counted) / kMemory;
  }

  bool may_choose_ = true;
  uint32_t cost_[2] = {};  // average; of a line
  uint32_t turns_ = 0;
};

#else

class BodyWriter {
 public:
  void allow_choice(bool) {}
  void write(std::byte* to, const std::byte* from, uint32_t n) { copy_bytes(to, from, n); }
};

#endif

}  // namespace torii::shm
