// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// User callbacks that are due. They are queued while the interface is locked and run after it
// was unlocked, in order; a callback may cause more of them.
#pragma once

#include <cstddef>
#include <vector>

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
  void push(const Completion& completion) {
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_++ & (ring_.size() - 1)] = completion;
  }
  Completion pop() { return ring_[head_++ & (ring_.size() - 1)]; }

 private:
  void grow() {
    std::vector<Completion> larger(ring_.size() * 2);
    for (size_t i = head_; i != tail_; ++i)
      larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
    ring_ = std::move(larger);
  }

  std::vector<Completion> ring_ = std::vector<Completion>(64);
  size_t head_ = 0;  // run on without bound; the ring's size is a power of two
  size_t tail_ = 0;
};

}  // namespace torii
