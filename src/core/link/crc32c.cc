// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torii {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// Table k advances a byte by k further zero bytes, so eight bytes are taken at once.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; k++) {
    for (size_t byte = 0; byte < 256; byte++) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = previous >> 8 ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
// Three lanes side by side, because the instruction takes three cycles but can begin in each: the
// sums of the first two are then carried over the bytes of the lanes behind them. A sum is a
// polynomial over GF(2), and n further bytes multiply it by x^8n. The product of two words without
// carries is one bit short of twice their length, and the instruction multiplies by x^32: what is
// left for the factor is x^(8n - 33).
constexpr size_t kLaneMax = 168;  // words of 8 bytes

constexpr uint32_t times_x(uint32_t power) {
  return power & 1 ? power >> 1 ^ kPolynomial : power >> 1;
}

using Factors = std::array<uint32_t, 2 * kLaneMax + 1>;  // by the number of words
constexpr Factors make_factors() {
  Factors factors{};
  uint32_t power = 1;  // x^31; bit 0 is the highest
  for (size_t words = 1; words < factors.size(); words++) {
    factors[words] = power;
    for (int i = 0; i < 64; i++) power = times_x(power);
  }
  return factors;
}
constexpr Factors kFactors = make_factors();

template <typename T>
T value_at(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

__attribute__((target("sse4.2,pclmul"))) uint64_t crc32c_lanes(uint64_t first, const uint8_t* p,
                                                               size_t lane) {
  uint64_t second = 0, third = 0;
  const uint8_t* const end = p + 8 * lane;
  // Lanes apart from each other do not look like a stream to the processor: fetch what is next.
  const uint8_t* next = p + 24 * lane;
  for (; p != end; p += 8, next += 24) {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
    first = _mm_crc32_u64(first, value_at<uint64_t>(p));
    second = _mm_crc32_u64(second, value_at<uint64_t>(p + 8 * lane));
    third = _mm_crc32_u64(third, value_at<uint64_t>(p + 16 * lane));
  }
  const __m128i factors = _mm_set_epi64x(kFactors[lane], kFactors[2 * lane]);
  const __m128i sums = _mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(first));
  const __m128i carried = _mm_xor_si128(_mm_clmulepi64_si128(sums, factors, 0x00),
                                        _mm_clmulepi64_si128(sums, factors, 0x11));
  return _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(carried))) ^ third;
}

// Where the processor multiplies four words at a time, long buffers are folded: 128 bits of message
// are a polynomial, which may be replaced by any that leaves the same remainder, so it is
// multiplied by the power of x by which it stands before later bits, and added to those. Its
// earlier half stands 64 further. Factors are x^(n - 33) as above.
constexpr uint32_t power_of_x(unsigned n) {
  uint32_t power = 0x80000000;  // x^0
  for (; n; n--) power = times_x(power);
  return power;
}
struct Fold {
  int64_t earlier, later;
};
constexpr Fold fold_by(unsigned bytes) {
  return {power_of_x(8 * bytes + 64 - 33), power_of_x(8 * bytes - 33)};
}
constexpr Fold kFold256 = fold_by(256), kFold192 = fold_by(192), kFold128 = fold_by(128),
               kFold64 = fold_by(64), kFold48 = fold_by(48), kFold32 = fold_by(32),
               kFold16 = fold_by(16);

#define TORII_WIDE \
  __attribute__((target("avx512f,avx512bw,avx512vbmi,vpclmulqdq,sse4.2,pclmul,bmi2")))

// `next`, plus the value that `sum` has where `next` begins.
TORII_WIDE inline __m512i folded(__m512i sum, __m512i factors, __m512i next) {
  constexpr int kXor3 = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, 0x00),
                                   _mm512_clmulepi64_epi128(sum, factors, 0x11), next, kXor3);
}

TORII_WIDE inline __m512i four_times(Fold f) {
  return _mm512_set_epi64(f.later, f.earlier, f.later, f.earlier, f.later, f.earlier, f.later,
                          f.earlier);
}

// The last 64 bytes stand for the 64 of `sum` and `bytes` more, fewer than 64.
TORII_WIDE inline __m512i with_tail(__m512i sum, __m512i by_64, const uint8_t* p, size_t bytes) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<uint8_t, 64> places{};
    for (size_t i = 0; i < places.size(); i++) places[i] = static_cast<uint8_t>(i);
    return places;
  }();
  const __mmask64 last = _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(bytes)) << (64 - bytes);
  const __m512i from = _mm512_add_epi8(_mm512_load_si512(kPlaces.data()),
                                       _mm512_set1_epi8(static_cast<char>(bytes)));
  const __m512i moved = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, from, sum);
  const __m512i before = _mm512_maskz_mov_epi8(last, moved);
  return folded(before, by_64, _mm512_mask_loadu_epi8(moved, last, p + bytes - 64));
}

constexpr size_t kWideMin = 256;
constexpr size_t kAhead = 2048;  // what is probably next: frames of one message lie side by side

// At least kWideMin bytes.
TORII_WIDE uint64_t crc32c_wide(uint64_t first, const uint8_t* p, size_t bytes) {
  const __m512i by_256 = four_times(kFold256), by_64 = four_times(kFold64);
  const auto load = [&](size_t at) TORII_WIDE { return _mm512_loadu_si512(p + at); };
  __m512i a = load(0), b = load(64), c = load(128), d = load(192);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<int64_t>(first))));
  for (p += 256, bytes -= 256; bytes >= 256; p += 256, bytes -= 256) {
    for (size_t at = 0; at < 256; at += 64)
      _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + kAhead + at),
                   _MM_HINT_T0);
    a = folded(a, by_256, load(0));
    b = folded(b, by_256, load(64));
    c = folded(c, by_256, load(128));
    d = folded(d, by_256, load(192));
  }
  for (; bytes >= 64; p += 64, bytes -= 64) {
    const __m512i next = folded(a, by_256, load(0));
    a = b;
    b = c;
    c = d;
    d = next;
  }
  // Side by side, not one after the other: most of the time goes into waiting for products.
  const __m512i early = folded(a, four_times(kFold192), d);
  const __m512i late = folded(c, by_64, _mm512_setzero_si512());
  __m512i all = _mm512_xor_si512(early, folded(b, four_times(kFold128), late));
  if (bytes) all = with_tail(all, by_64, p, bytes);
  // The last quarter stays, the others are carried over those behind them.
  const __m512i to_last = _mm512_set_epi64(0, 0, kFold16.later, kFold16.earlier, kFold32.later,
                                           kFold32.earlier, kFold48.later, kFold48.earlier);
  constexpr __mmask8 kLast = 0xc0;
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, folded(all, to_last, _mm512_maskz_mov_epi64(kLast, all)));
  return _mm_crc32_u64(_mm_crc32_u64(0, words[0] ^ words[2] ^ words[4] ^ words[6]),
                       words[1] ^ words[3] ^ words[5] ^ words[7]);
}

template <bool kWide>
__attribute__((target("sse4.2,pclmul"))) uint32_t crc32c_instruction(uint32_t crc, const void* data,
                                                                     size_t bytes) {
  constexpr size_t kLaneMin = 4;  // below, carrying costs more than it gains
  const auto* p = static_cast<const uint8_t*>(data);
  uint64_t state = ~crc;
  if (kWide && bytes >= kWideMin) return ~static_cast<uint32_t>(crc32c_wide(state, p, bytes));
  while (bytes >= 24 * kLaneMin) {
    const size_t lane = std::min(bytes / 24, kLaneMax);
    state = crc32c_lanes(state, p, lane);
    p += 24 * lane;
    bytes -= 24 * lane;
  }
  for (; bytes >= 8; bytes -= 8, p += 8) state = _mm_crc32_u64(state, value_at<uint64_t>(p));
  auto narrow = static_cast<uint32_t>(state);
  if (bytes & 4) narrow = _mm_crc32_u32(narrow, value_at<uint32_t>(p));
  p += bytes & 4;
  if (bytes & 2) narrow = _mm_crc32_u16(narrow, value_at<uint16_t>(p));
  p += bytes & 2;
  if (bytes & 1) narrow = _mm_crc32_u8(narrow, *p);
  return ~narrow;
}
#endif

uint32_t crc32c_table(uint32_t crc, const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint32_t low =
        crc ^ (uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][p[4]] ^ kTables[2][p[5]] ^ kTables[1][p[6]] ^
          kTables[0][p[7]];
  }
  for (; bytes; bytes--) crc = crc >> 8 ^ kTables[0][(crc ^ *p++) & 0xff];
  return ~crc;
}

std::vector<Crc32cWay> find_ways() {
  std::vector<Crc32cWay> ways;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("vpclmulqdq"))
      ways.push_back({"wide", crc32c_instruction<true>});
    ways.push_back({"lanes", crc32c_instruction<false>});
  }
#endif
  ways.push_back({"table", crc32c_table});
  return ways;
}

}  // namespace

std::span<const Crc32cWay> crc32c_ways() {
  static const std::vector<Crc32cWay> ways = find_ways();
  return ways;
}

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
  static const auto best = crc32c_ways().front().sum;
  return best(crc, data, bytes);
}

}  // namespace torii
