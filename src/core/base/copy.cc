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

constexpr size_t kVectors = 4;             // of a turn
constexpr size_t kMost = size_t{1} << 20;  // longer ones are for memcpy's stores past the caches

// The first and the last turn apart, whole vectors are stored at aligned addresses. The same twice,
// because a function is compiled for one kind of processor, and templates do not change that.

__attribute__((target("avx"), always_inline)) inline void turn_256(std::byte* to,
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

__attribute__((target("avx"))) void copy_256(std::byte* to, const std::byte* from, size_t n) {
  constexpr size_t kVector = sizeof(__m256i), kTurn = kVectors * kVector;
  turn_256(to, from);
  size_t at = kVector - (reinterpret_cast<uintptr_t>(to) & (kVector - 1));
  for (; at + kTurn < n; at += kTurn) turn_256(to + at, from + at);
  turn_256(to + n - kTurn, from + n - kTurn);
}

// A store is a line, so half as many wait until the line is this processor's.
__attribute__((target("avx512f"), always_inline)) inline void turn_512(std::byte* to,
                                                                       const std::byte* from) {
  const auto* const in = reinterpret_cast<const __m512i*>(from);
  auto* const out = reinterpret_cast<__m512i*>(to);
  const __m512i a = _mm512_loadu_si512(in), b = _mm512_loadu_si512(in + 1);
  const __m512i c = _mm512_loadu_si512(in + 2), d = _mm512_loadu_si512(in + 3);
  _mm512_storeu_si512(out, a);
  _mm512_storeu_si512(out + 1, b);
  _mm512_storeu_si512(out + 2, c);
  _mm512_storeu_si512(out + 3, d);
}

__attribute__((target("avx512f"))) void copy_512(std::byte* to, const std::byte* from, size_t n) {
  constexpr size_t kVector = sizeof(__m512i), kTurn = kVectors * kVector;
  turn_512(to, from);
  size_t at = kVector - (reinterpret_cast<uintptr_t>(to) & (kVector - 1));
  for (; at + kTurn < n; at += kTurn) turn_512(to + at, from + at);
  turn_512(to + n - kTurn, from + n - kTurn);
}

void copy_by_library(std::byte* to, const std::byte* from, size_t n) { std::memcpy(to, from, n); }

using Copy = void (*)(std::byte*, const std::byte*, size_t);

Copy fastest() {
  __builtin_cpu_init();
  if (!__builtin_cpu_is("amd")) return copy_by_library;
  if (__builtin_cpu_supports("avx512f")) return copy_512;
  return __builtin_cpu_supports("avx") ? copy_256 : copy_by_library;
}

}  // namespace

void copy_long(void* destination, const void* source, size_t n) {
  static const Copy copy = fastest();
  (n > kMost ? copy_by_library : copy)(static_cast<std::byte*>(destination),
                                       static_cast<const std::byte*>(source), n);
}

#else

void copy_long(void* destination, const void* source, size_t n) {
  std::memcpy(destination, source, n);
}

#endif

}  // namespace torii
