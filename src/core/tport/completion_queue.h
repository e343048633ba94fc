// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// User callbacks that are due. They are queued while the interface is locked and run after it
// was unlocked, in order; a callback may cause more of them, and run some. The caller holds the
// interface's lock.
#pragma once

#include "core/base/log.h"
#include "core/base/slot_pool.h"
#include "core/torii.h"

namespace torii {

struct Completion {
  torii_done_t done;
  void* arg;
  torii_result_t result;
  Completion* next;
};

class CompletionQueue {
 public:
  bool empty() const { return first_ == nullptr; }

  // The next completion; every field but `next` is to be set at once.
  Completion& push() {
    Completion* c = pool_.get();
    TORII_ASSERT(c);
    c->next = nullptr;
    (first_ ? last_->next : first_) = c;
    last_ = c;
    return *c;
  }
  void push(torii_done_t done, void* arg, const torii_result_t& result) {
    Completion& c = push();
    c.done = done;
    c.arg = arg;
    c.result = result;
  }
  // Takes the first one out; it stays as it is until recycle().
  Completion* pop() {
    Completion* c = first_;
    first_ = c->next;
    return c;
  }
  void recycle(Completion* c) { pool_.put(c); }

 private:
  Completion* first_ = nullptr;
  Completion* last_ = nullptr;
  SlotPool<Completion> pool_;
};

}  // namespace torii
