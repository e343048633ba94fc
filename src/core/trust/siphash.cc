// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/trust/siphash.h"

#include <cstring>
#include <vector>

namespace torii {
namespace {

using Lanes = uint64_t __attribute__((vector_size(sizeof(SipWords))));

#define TORII_INLINE inline __attribute__((always_inline))

TORII_INLINE void rotate(Lanes& x, int bits) { x = x << bits | x >> (64 - bits); }

TORII_INLINE void round(Lanes (&v)[4]) {
  v[0] += v[1];
  v[2] += v[3];
  rotate(v[1], 13);
  rotate(v[3], 16);
  v[1] ^= v[0];
  v[3] ^= v[2];
  rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  rotate(v[1], 17);
  rotate(v[3], 21);
  v[1] ^= v[2];
  v[3] ^= v[0];
  rotate(v[2], 32);
}

TORII_INLINE void add(Lanes (&v)[4], const Lanes& m) {
  v[3] ^= m;
  round(v);
  round(v);
  v[0] ^= m;
}

using Texts = std::array<const std::byte*, kSipLanes>;

TORII_INLINE void all_lanes(const SipKeys& keys, const Texts& texts, size_t words,
                            const SipWords& more, SipWords* tags) {
  Lanes k0, k1;
  for (size_t i = 0; i < kSipLanes; i++) {
    k0[i] = load_little<uint64_t>(keys[i]->data());
    k1[i] = load_little<uint64_t>(keys[i]->data() + 8);
  }
  Lanes v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                k1 ^ 0x7465646279746573};
  for (size_t at = 0; at < 8 * words; at += 8)
    add(v, Lanes{load_little<uint64_t>(texts[0] + at), load_little<uint64_t>(texts[1] + at),
                 load_little<uint64_t>(texts[2] + at), load_little<uint64_t>(texts[3] + at),
                 load_little<uint64_t>(texts[4] + at), load_little<uint64_t>(texts[5] + at),
                 load_little<uint64_t>(texts[6] + at), load_little<uint64_t>(texts[7] + at)});
  add(v, Lanes{more[0], more[1], more[2], more[3], more[4], more[5], more[6], more[7]});
  add(v, Lanes{} + (uint64_t{words + 1} * 8 << 56));
  v[2] ^= Lanes{} + 0xff;
  for (int i = 0; i < 4; i++) round(v);
  v[0] ^= v[1] ^ v[2] ^ v[3];
  std::memcpy(tags, &v[0], sizeof(*tags));
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void lanes_of_512(const SipKeys& keys, const Texts& texts,
                                                     size_t words, const SipWords& more,
                                                     SipWords* tags) {
  all_lanes(keys, texts, words, more, tags);
}

__attribute__((target("avx2"))) void lanes_of_256(const SipKeys& keys, const Texts& texts,
                                                  size_t words, const SipWords& more,
                                                  SipWords* tags) {
  all_lanes(keys, texts, words, more, tags);
}
#endif

void lanes_plain(const SipKeys& keys, const Texts& texts, size_t words, const SipWords& more,
                 SipWords* tags) {
  all_lanes(keys, texts, words, more, tags);
}

std::vector<SipLanesWay> find_ways() {
  std::vector<SipLanesWay> ways;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) ways.push_back({"512 bits", lanes_of_512});
  if (__builtin_cpu_supports("avx2")) ways.push_back({"256 bits", lanes_of_256});
#endif
  ways.push_back({"plain", lanes_plain});
  return ways;
}

}  // namespace

std::span<const SipLanesWay> siphash_lanes_ways() {
  static const std::vector<SipLanesWay> ways = find_ways();
  return ways;
}

void siphash_lanes(const SipKeys& keys, const Texts& texts, size_t words, const SipWords& more,
                   SipWords* tags) {
  static const auto best = siphash_lanes_ways().front().tags;
  best(keys, texts, words, more, tags);
}

}  // namespace torii
