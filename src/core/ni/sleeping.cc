// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How a thread sleeps in an interface, or in several that wait together, and who wakes it.
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>

#include "core/ni/ni.h"

namespace torii {

namespace {

constexpr uint64_t kMomentNs = 500000;   // sleep of a thread that nobody wakes
constexpr uint64_t kSleepNs = 50000000;  // longest sleep without a look at the peers

}  // namespace

bool Ni::sleep(int milliseconds) {
  return sleep_ns(milliseconds < 0 ? kSleepNs : uint64_t(milliseconds) * 1000000u, Wakers::here);
}

// Sleeps until a driver has work, wake() is called or time is over, and never longer than
// kSleepNs, so that the death of a peer is seen. Gives up the lock meanwhile. Only one thread can
// be woken; others sleep for a moment. False: it could not sleep.
bool Ni::sleep_ns(uint64_t most, Wakers wakers) {
  if (sleeping_) {
    const timespec moment = {0, long(std::min(most, kMomentNs))};
    unlock();
    without_callers_lock([&] { nanosleep(&moment, nullptr); });
    lock();
    return true;
  }
  Sleeper sleeper{std::min(most, kSleepNs), wakers, callbacks_run_ + visits_, {}, {}};
  if (!fall_asleep(&sleeper.descriptors)) return false;
  sleeper.most_ns = std::min(sleeper.most_ns, collectives_.due() - now_ns_);
  ++counters_.sleeps;
  lock_.unlock();
  bool timeout = false;
  const bool sleeps = wakers == Wakers::here || fall_asleep_elsewhere(&sleeper);
  if (sleeps) {
    std::vector<pollfd> set;
    for (int fd : sleeper.descriptors) set.push_back({fd, POLLIN, 0});
    const timespec time = {0, long(sleeper.most_ns)};
    without_callers_lock([&] { timeout = ppoll(set.data(), set.size(), &time, nullptr) == 0; });
  }
  for (Ni* other : sleeper.beside) {
    NiGuard guard(*other);
    other->wake_up();
  }
  lock();
  counters_.sleep_timeouts += timeout;
  wake_up();
  return sleeps;
}

// Adds what tells of arrivals. False: there is something to do, or no way to sleep.
bool Ni::arm(std::vector<int>* descriptors) {
  now_ns_ = now_ns();
  std::vector<int> armed;
  imports_.push();
  if (!protocol_.arm(&armed) || !collectives_.arm() || collectives_.due() <= now_ns_) return false;
  descriptors->insert(descriptors->end(), armed.begin(), armed.end());
  return true;
}

// The same for a thread that sleeps here, which wake() wakes as well.
bool Ni::fall_asleep(std::vector<int>* descriptors) {
  if (!arm(descriptors)) return false;
  if (wake_fd_ >= 0) descriptors->push_back(wake_fd_);
  polled_ = false;
  callbacks_told_ = callbacks_run_;
  sleeping_ = watch_sleeper_ = watched_ = true;
  return true;
}

void Ni::wake_up() {
  sleeping_ = watch_sleeper_ = false;
  watched_ = watch_thread_;
  eventfd_t ignored;
  if (wake_fd_ >= 0) eventfd_read(wake_fd_, &ignored);
  now_ns_ = now_ns();
}

// The interfaces beside this one, whose lock is not held: one at a time. False: something is to do
// at one of them.
bool Ni::fall_asleep_elsewhere(Sleeper* sleeper) {
  for (Ni* other : others_) {
    NiGuard guard(*other);
    if (!other->fall_asleep_beside(sleeper)) return false;
  }
  if (sleeper->wakers != Wakers::all) return true;
  const bool told = waiter().seen_together == sleeper->changes;
  waiter().seen_together = sleeper->changes;
  return told;
}

// For a thread that sleeps in another interface. One that sleeps here looks after arrivals, and so
// does one that polls here later, without a word to the other, which comes back in some
// milliseconds.
bool Ni::fall_asleep_beside(Sleeper* sleeper) {
  if (callbacks_due()) return false;
  sleeper->changes += callbacks_run_ + visits_;
  if (sleeper->wakers == Wakers::all) {
    if (!sleeping_) {
      if (!fall_asleep(&sleeper->descriptors)) return false;
      sleeper->beside.push_back(this);
      sleeper->most_ns = std::min(sleeper->most_ns, collectives_.due() - now_ns_);
    } else {
      sleeper->most_ns = std::min(sleeper->most_ns, kMomentNs);
    }
    return true;
  }
  if (sleeping_) return true;
  if (!arm(&sleeper->descriptors)) return false;
  sleeper->most_ns = std::min(sleeper->most_ns, collectives_.due() - now_ns_);
  return true;
}

// A thread leaves while others sleep: do they have to know? A poll has disarmed the drivers, a
// callback may be what one waits for, and what waits for room needs somebody who looks.
void Ni::wake_sleepers() {
  const bool work = polled_ || !protocol_.drained() || imports_.gathers();
  if (watch_sleeper_ && (work || callbacks_told_ != callbacks_run_)) {
    watch_sleeper_ = false;  // once is enough
    wake();
  }
  if (watch_thread_ && work) {
    watch_thread_ = false;
    progress_thread_->wake();
  }
  watched_ = watch_sleeper_ || watch_thread_;
}

void Ni::wake() {
  if (wake_fd_ >= 0) eventfd_write(wake_fd_, 1);
}

void Ni::wait_alone() {
  for (Ni* other : others_) std::erase(other->others_, this);
  others_.clear();
}

}  // namespace torii
