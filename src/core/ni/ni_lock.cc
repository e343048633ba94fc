// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/ni_lock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/log.h"
#include "core/base/pause.h"

namespace torii {

namespace {

// From linux/membarrier.h (Linux 4.14).
constexpr int kMembarrierQuery = 0;
constexpr int kMembarrierPrivateExpedited = 1 << 3;
constexpr int kMembarrierRegisterPrivateExpedited = 1 << 4;

constexpr unsigned kSpins = 1000;  // for a visitor, before sleeping until it leaves

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

NiLock::Kind NiLock::kind_for(Users users, bool visitor) {
  if (!visitor)
    return users == Users::threads   ? Kind::mutex
           : users == Users::in_turn ? Kind::outer
                                     : Kind::none;
  if (users == Users::threads) return Kind::visited;
  const long known = membarrier(kMembarrierQuery);
  const bool can = known > 0 && (known & kMembarrierPrivateExpedited) &&
                   (known & kMembarrierRegisterPrivateExpedited) &&
                   membarrier(kMembarrierRegisterPrivateExpedited) == 0;
  return can ? Kind::biased : Kind::visited;
}

bool NiLock::visit() {
  if (!mutex_.try_lock()) return false;
  wanted_.store(false, std::memory_order_relaxed);
  visitor_.store(true, std::memory_order_seq_cst);
  if (kind_ != Kind::biased) return true;
  const bool ordered = membarrier(kMembarrierPrivateExpedited) == 0;
  if (ordered && turns_.load(std::memory_order_acquire) % 2 == 0) return true;
  leave();
  return false;
}

void NiLock::leave() {
  visitor_.store(false, std::memory_order_release);
  mutex_.unlock();
}

// The visitor has seen, or will see, that the application is inside or not: being outside here,
// it may take what time it needs.
void NiLock::enter_after_visitor() {
  count_turn(std::memory_order_release);
  await_visitor();
  mutex_.lock();
  count_turn(std::memory_order_relaxed);
  mutex_.unlock();
}

void NiLock::await_visitor() {
  wanted_.store(true, std::memory_order_relaxed);
  for (unsigned i = 0; i < kSpins && visitor_.load(std::memory_order_relaxed); ++i) pause_briefly();
}

// Whatever the child wanted would change the state of its parent or of its peers.
void NiLock::refuse_children() const {
  if (kind_ != Kind::forked) return;
  TORII_ERROR(
      "process %d is a child of the one that opened the network interface, and may not "
      "communicate by it; do so before fork(), or start another program (exec) in the child",
      static_cast<int>(getpid()));
  abort();
}

void NiLock::enter_visited() {
  refuse_children();
  if (!mutex_.try_lock()) {
    if (visitor_.load(std::memory_order_relaxed)) await_visitor();
    mutex_.lock();
  }
  count_turn(std::memory_order_relaxed);
}

// The visitor is waited for: it may need this thread's processor to get on.
bool NiLock::try_enter_visited() {
  refuse_children();
  if (!mutex_.try_lock()) {
    if (!visitor_.load(std::memory_order_relaxed)) return false;
    await_visitor();
    mutex_.lock();
  }
  count_turn(std::memory_order_relaxed);
  return true;
}

}  // namespace torii
