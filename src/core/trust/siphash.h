// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// SipHash-2-4 (Aumasson and Bernstein, 2012): a short tag that only those can make who know the
// key.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/little_endian.h"

namespace torii {

using TagKey = std::array<std::byte, 16>;

class SipHash {
 public:
  explicit SipHash(const TagKey& key) {
    const uint64_t k0 = word(key.data()), k1 = word(key.data() + 8);
    v_[0] = k0 ^ 0x736f6d6570736575;
    v_[1] = k1 ^ 0x646f72616e646f6d;
    v_[2] = k0 ^ 0x6c7967656e657261;
    v_[3] = k1 ^ 0x7465646279746573;
  }

  // Only the last part may have a length that is no multiple of 8.
  void add(std::span<const std::byte> bytes) {
    const size_t whole = bytes.size() & ~size_t{7};
    for (size_t i = 0; i < whole; i += 8) add_word(word(bytes.data() + i));
    size_ += bytes.size();
    rest_ = 0;
    for (size_t i = whole; i < bytes.size(); i++)
      rest_ |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * (i - whole));
  }

  uint64_t finish() {
    add_word(uint64_t{size_ & 0xff} << 56 | rest_);
    v_[2] ^= 0xff;
    for (int i = 0; i < 4; i++) round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }

 private:
  static uint64_t word(const std::byte* in) { return load_little<uint64_t>(in); }

  void add_word(uint64_t m) {
    v_[3] ^= m;
    round();
    round();
    v_[0] ^= m;
  }

  void round() {
    v_[0] += v_[1];
    v_[2] += v_[3];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[1];
    v_[0] += v_[3];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] = std::rotl(v_[2], 32);
  }

  uint64_t v_[4];
  uint64_t rest_ = 0;
  size_t size_ = 0;
};

inline uint64_t siphash(const TagKey& key, std::span<const std::byte> text) {
  SipHash hash(key);
  hash.add(text);
  return hash.finish();
}

// The tags of several texts side by side, each with a key of its own, of `words` words of 8 bytes
// and one more: they take little longer than one, whose steps wait for each other.
inline constexpr size_t kSipLanes = 8;
using SipWords = std::array<uint64_t, kSipLanes>;
using SipKeys = std::array<const TagKey*, kSipLanes>;
void siphash_lanes(const SipKeys& keys, const std::array<const std::byte*, kSipLanes>& texts,
                   size_t words, const SipWords& more, SipWords* tags);
// All that this processor can do, the best first, for tests.
struct SipLanesWay {
  const char* name;
  decltype(&siphash_lanes) tags;
};
std::span<const SipLanesWay> siphash_lanes_ways();

}  // namespace torii
