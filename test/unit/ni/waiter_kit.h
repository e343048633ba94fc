// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A waiting thread on a clock of the test's own.
#pragma once

#include <cstdint>

#include "core/ni/waiter.h"

namespace torii {

constexpr uint64_t kUs = 1000, kMs = 1000 * kUs, kSecond = 1000 * kMs;

inline ThreadUse g_use;
inline ThreadUse use() { return g_use; }

// A thread and its clock.
struct Thread {
  explicit Thread(WaitMode mode, bool scarce = false, uint64_t spin_ns = 0)
      : policy{mode, scarce, spin_ns} {
    g_use = {};
  }

  // Polls that find nothing, each with so much work on the processor before it, until the waiter is
  // asked what to do; then what it says.
  Waiter::Rest poll(uint64_t work_ns = 40) {
    do {
      now += work_ns;
      g_use.cpu_ns += work_ns;
    } while (!waiter.idle());
    if (waiter.takes_turn()) {
      ++yields;
      ++untimed;
      now += yield_ns;
      return Waiter::Rest::yield;
    }
    const Waiter::Rest rest = waiter.rest(policy, patient, now, use, &sleep_ns);
    if (rest == Waiter::Rest::yield) {
      ++yields;
      now += yield_ns;
      if (yield_ns > kQuickYieldNs && yields_switch) ++g_use.preempted;
      waiter.yielded(policy, now, yield_ns, use);
    }
    if (rest == Waiter::Rest::sleep) {
      ++sleeps;
      slept_ns += sleep_ns;
      now += sleep_ns;
      ++g_use.slept;
      g_use.cpu_ns += 5 * kUs;
      waiter.slept(use);
    }
    return rest;
  }
  void poll_for(uint64_t ns) {
    for (const uint64_t end = now + ns; now < end;) poll();
  }
  // Others get the processor for so long.
  void lose(uint64_t ns) {
    now += ns;
    ++g_use.preempted;
  }

  WaitPolicy policy;
  bool patient = true;
  Waiter waiter;
  uint64_t now = kSecond;
  static constexpr uint64_t kQuickYieldNs = 1100;  // lets nobody run
  uint64_t yield_ns = 1 * kUs;
  bool yields_switch = true;  // those that take longer
  uint64_t sleep_ns = 0;
  unsigned yields = 0, untimed = 0, sleeps = 0;
  uint64_t slept_ns = 0;
};

}  // namespace torii
