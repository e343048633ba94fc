// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// User callbacks that are due. They are queued while the interface is locked and run after it
// was unlocked, in order; a callback may cause more of them.
#pragma once

#include <cstddef>
#include <memory>

#include "core/torii.h"

namespace torii {

struct Completion {
  torii_done_t done;
  void* arg;
  torii_result_t result;
};

class CompletionQueue {
 public:
  bool empty() const { return head_ == tail_; }
  // A place for the next completion; every field is to be set at once.
  Completion& push() {
    if (__builtin_expect(tail_ - head_ > mask_, 0)) grow();
    return ring_[tail_++ & mask_];
  }
  Completion pop() { return ring_[head_++ & mask_]; }

 private:
  [[gnu::noinline]] void grow() {
    auto larger = std::make_unique<Completion[]>((mask_ + 1) * 2);
    for (size_t i = head_; i != tail_; ++i) larger[i & (mask_ * 2 + 1)] = ring_[i & mask_];
    ring_ = std::move(larger);
    mask_ = mask_ * 2 + 1;
  }

  static constexpr size_t kFirst = 64;
  std::unique_ptr<Completion[]> ring_ = std::make_unique<Completion[]>(kFirst);
  size_t mask_ = kFirst - 1;  // one less than the ring's size, a power of two
  size_t head_ = 0;           // these two run on without bound
  size_t tail_ = 0;
};

}  // namespace torii
