// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A small seeded generator (splitmix64) for simulated events: the same seed gives the same run on
// every machine. Not for secrets.
#pragma once

#include <cstdint>

namespace torii {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [low, high]; high >= low.
  uint64_t between(uint64_t low, uint64_t high) {
    const uint64_t range = high - low + 1;
    return range ? low + next() % range : next();
  }
  // True `ppm` times in a million.
  bool chance(uint32_t ppm) { return ppm && next() % 1000000 < ppm; }

 private:
  uint64_t state_;
};

}  // namespace torii
