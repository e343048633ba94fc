// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/copy.h"

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torii {

#if defined(__x86_64__)

namespace {

constexpr size_t kVector = sizeof(__m256i);
constexpr size_t kTurn = 4 * kVector;
constexpr size_t kMost = size_t{1} << 20;  // longer ones are for memcpy's stores past the caches

__attribute__((target("avx"), always_inline)) inline void copy_turn(std::byte* to,
                                                                    const std::byte* from) {
  const auto* const in = reinterpret_cast<const __m256i*>(from);
  auto* const out = reinterpret_cast<__m256i*>(to);
  const __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
  const __m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);
  _mm256_storeu_si256(out, a);
  _mm256_storeu_si256(out + 1, b);
  _mm256_storeu_si256(out + 2, c);
  _mm256_storeu_si256(out + 3, d);
}

// All but the first and the last turn store whole vectors at aligned addresses.
__attribute__((target("avx"))) void copy_vectors(std::byte* to, const std::byte* from, size_t n) {
  copy_turn(to, from);
  size_t at = kVector - (reinterpret_cast<uintptr_t>(to) & (kVector - 1));
  for (; at + kTurn < n; at += kTurn) copy_turn(to + at, from + at);
  copy_turn(to + n - kTurn, from + n - kTurn);
}

bool vectors_pay() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx");
}

}  // namespace

void copy_long(void* destination, const void* source, size_t n) {
  static const bool vectors = vectors_pay();
  if (!vectors || n > kMost) {
    std::memcpy(destination, source, n);
  } else {
    copy_vectors(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), n);
  }
}

#else

void copy_long(void* destination, const void* source, size_t n) {
  std::memcpy(destination, source, n);
}

#endif

}  // namespace torii
