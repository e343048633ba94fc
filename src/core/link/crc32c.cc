// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
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
// Three parts at once, because the instruction takes three cycles but can begin in each: the sums
// of the first two are carried over the bytes behind them by kSkip.
constexpr size_t kPart = 152;

// What becomes of a sum with one byte set, over kPart bytes of 0.
struct Skip {
  uint32_t by_byte[4][256];
};
constexpr Skip make_skip() {
  uint32_t by_bit[32]{};
  for (int bit = 0; bit < 32; bit++) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kPart; i++) crc = kTables[0][crc & 0xff] ^ crc >> 8;
    by_bit[bit] = crc;
  }
  Skip skip{};
  for (int byte = 0; byte < 4; byte++)
    for (uint32_t value = 0; value < 256; value++)
      for (int bit = 0; bit < 8; bit++)
        if (value >> bit & 1) skip.by_byte[byte][value] ^= by_bit[8 * byte + bit];
  return skip;
}
constexpr Skip kSkip = make_skip();

uint64_t skip_part(uint64_t crc) {
  return kSkip.by_byte[0][crc & 0xff] ^ kSkip.by_byte[1][crc >> 8 & 0xff] ^
         kSkip.by_byte[2][crc >> 16 & 0xff] ^ kSkip.by_byte[3][crc >> 24 & 0xff];
}

__attribute__((target("sse4.2"))) uint64_t crc32c_parts(uint64_t state, const uint8_t* p) {
  uint64_t second = 0, third = 0;
  for (size_t i = 0; i < kPart; i += 8) {
    uint64_t words[3];
    std::memcpy(&words[0], p + i, 8);
    std::memcpy(&words[1], p + kPart + i, 8);
    std::memcpy(&words[2], p + 2 * kPart + i, 8);
    state = _mm_crc32_u64(state, words[0]);
    second = _mm_crc32_u64(second, words[1]);
    third = _mm_crc32_u64(third, words[2]);
  }
  return skip_part(skip_part(state) ^ second) ^ third;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_instruction(uint32_t crc, const void* data,
                                                              size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  uint64_t state = ~crc;
  for (; bytes >= 3 * kPart; bytes -= 3 * kPart, p += 3 * kPart) state = crc32c_parts(state, p);
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = _mm_crc32_u64(state, word);
  }
  auto narrow = static_cast<uint32_t>(state);
  for (; bytes; bytes--) narrow = _mm_crc32_u8(narrow, *p++);
  return ~narrow;
}
#endif

}  // namespace

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

bool crc32c_has_instruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#else
  return false;
#endif
}

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = crc32c_has_instruction();
  if (has_instruction) return crc32c_instruction(crc, data, bytes);
#endif
  return crc32c_table(crc, data, bytes);
}

}  // namespace torii
