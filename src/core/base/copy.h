// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Copies of messages: most are a few bytes long, for which a call of memcpy costs more than the
// copy.
#pragma once

#include <cstddef>
#include <cstring>

namespace torii {

constexpr size_t kLongCopy = 2112;

// memcpy of kLongCopy bytes or more. On AMD's processors glibc's is one instruction (rep movsb)
// from that length on, which takes up to twice the time of a loop of vectors where the destination
// is not at the beginning of a line, and more where another processor has its lines.
void copy_long(void* destination, const void* source, size_t n);

// More than 64 bytes.
inline void copy_more(std::byte* to, const std::byte* from, size_t n) {
  if (n >= kLongCopy) {
    copy_long(to, from, n);
  } else {
    // A compiler that knows the bounds makes one instruction (rep movsq) of it, which takes twice
    // the time of the C library's loop.
    asm("" : "+r"(n));
    std::memcpy(to, from, n);
  }
}

// Copies n bytes between ranges that do not overlap; up to 64 without a call, and more than that by
// `more`. 4 and 8 are stored once: in memory that others reach, a second time would undo what they
// did in between.
template <typename More>
inline void copy_bytes(void* destination, const void* source, size_t n, More more) {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  if (__builtin_expect(n > 16, 0)) {
    if (n > 64) {
      more(to, from, n);
    } else if (n > 32) {
      std::memcpy(to, from, 32);
      std::memcpy(to + n - 32, from + n - 32, 32);
    } else {
      std::memcpy(to, from, 16);
      std::memcpy(to + n - 16, from + n - 16, 16);
    }
  } else if (n >= 8) {
    std::memcpy(to, from, 8);
    if (n > 8) std::memcpy(to + n - 8, from + n - 8, 8);
  } else if (n >= 4) {
    std::memcpy(to, from, 4);
    if (n > 4) std::memcpy(to + n - 4, from + n - 4, 4);
  } else if (n) {
    to[0] = from[0];
    to[n / 2] = from[n / 2];
    to[n - 1] = from[n - 1];
  }
}
inline void copy_bytes(void* destination, const void* source, size_t n) {
  copy_bytes(destination, source, n, [](std::byte* to, const std::byte* from, size_t bytes) {
    copy_more(to, from, bytes);
  });
}

}  // namespace torii
