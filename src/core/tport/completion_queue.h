// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// User callbacks that are due. They are queued while the interface is locked and run after it
// was unlocked, in order; a callback may cause more of them, and run some. The caller holds the
// interface's lock.
//
// A completion lies in the receive it belongs to, or is taken from the queue's own pool.
#pragma once

#include "core/base/log.h"
#include "core/base/slot_pool.h"
#include "core/torii.h"

namespace torii {

struct Receive;

struct Completion {
  torii_done_t done;
  void* arg;
  torii_result_t result;
  Completion* next;
  Receive* receive;  // whose part it is; null: the pool's
};

class CompletionQueue {
 public:
  bool empty() const { return first_ == nullptr; }

  void push(Completion& c) {
    c.next = nullptr;
    (first_ ? last_->next : first_) = &c;
    last_ = &c;
  }
  // The result of a callback that is due, all zero, for the caller to fill in.
  torii_result_t& push(torii_done_t done, void* arg) {
    Completion* c = pool_.get();
    TORII_ASSERT(c);
    c->done = done;
    c->arg = arg;
    c->result = {};
    c->receive = nullptr;
    push(*c);
    return c->result;
  }
  void push(torii_done_t done, void* arg, const torii_result_t& result) {
    push(done, arg) = result;
  }
  // Takes the first one out; it stays as it is until its memory is given back.
  Completion* pop() {
    Completion* c = first_;
    first_ = c->next;
    return c;
  }
  // Gives one of the pool's back.
  void recycle(Completion* c) { pool_.put(c); }

 private:
  Completion* first_ = nullptr;
  Completion* last_ = nullptr;
  SlotPool<Completion> pool_;
};

}  // namespace torii
