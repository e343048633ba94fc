// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which numbers of another process have come. It counts upwards, its datagrams overtake each other,
// and others send them again.
#pragma once

#include <cstdint>

namespace torii {

class Numbers {
 public:
  static constexpr uint64_t kKept = 64;

  // False: it came before, it is 0, or kKept or more behind the latest.
  bool add(uint64_t number) {
    if (number > latest_) {
      const uint64_t further = number - latest_;
      bits_ = (further < kKept ? bits_ << further : 0) | 1;
      latest_ = number;
      return true;
    }
    const uint64_t behind = latest_ - number;
    if (behind >= kKept || bits_ >> behind & 1) return false;
    bits_ |= uint64_t{1} << behind;
    return true;
  }

 private:
  uint64_t latest_ = 0;
  uint64_t bits_ = 1;  // bit i: latest_ - i has come
};

}  // namespace torii
