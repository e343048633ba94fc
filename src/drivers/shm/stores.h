// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the body of a frame is written into a ring: by ordinary stores, which fetch each line from
// wherever it is, or by stores past the caches. Which is faster depends on where the two
// processors are. Ordinary stores to lines that a processor on another cache read last cost five
// times as much as between neighbours; in a virtual machine that changes while a program runs.
// So it is measured: ordinary stores are timed by the processor's cycle counter, now and then
// also while the other kind is in use.
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

class BodyWriter {
 public:
  // False: stores past the caches never pay on this machine.
  void allow_streams(bool allow) { may_stream_ = allow; }
  // Copies a body, or its rest, to the beginning of a line. Whoever stores something later in
  // program order publishes it.
  void write(std::byte* to, const std::byte* from, uint32_t n) {
    if (n < kStreamFrom || !may_stream_) return copy_bytes(to, from, n);
    if (far_ >= kMajority && ++streamed_ % kRetry != 0) return stream_bytes(to, from, n);
    if (n < kMeasureFrom) return copy_bytes(to, from, n);
    const uint64_t start = __rdtsc();
    copy_bytes(to, from, n);
    const uint64_t ticks = __rdtsc() - start;
    if (ticks <= n / kLine * kFarLine) {
      if (far_ > 0) --far_;
    } else if (far_ < kVotes) {
      ++far_;
    }
  }

 private:
  static constexpr uint32_t kStreamFrom = 1024;   // bytes
  static constexpr uint32_t kMeasureFrom = 3072;  // shorter ones end in the store buffer
  // Ticks of an ordinary store of a line: about 5 between the threads of one core, 10 to 20 between
  // cores with a common cache, 40 to 70 between others.
  static constexpr uint32_t kFarLine = 32;
  static constexpr uint32_t kRetry = 64;
  static constexpr uint8_t kVotes = 6;
  static constexpr uint8_t kMajority = 3;

  bool may_stream_ = true;
  uint8_t far_ = 0;  // votes
  uint32_t streamed_ = 0;
};

#else

class BodyWriter {
 public:
  void allow_streams(bool) {}
  void write(std::byte* to, const std::byte* from, uint32_t n) { copy_bytes(to, from, n); }
};

#endif

}  // namespace torii::shm
