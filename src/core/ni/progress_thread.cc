// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/progress_thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/signals_blocked.h"
#include "core/ni/ni.h"

namespace torii {

namespace {

constexpr uint64_t kThreadSleepNs = 50000000;  // longest sleep without a look at the peers
constexpr uint64_t kNapLeastNs = 5000;         // while drivers cannot wake the thread, at first
constexpr uint64_t kNapMostNs = 1000000;       // and in the end
constexpr uint64_t kLongNs = 2000000;          // an absence that is worth a sleep and a wake
constexpr unsigned long kSlackNs = 1000;       // of the kernel's timers

uint64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

}  // namespace

uint64_t Watch::look(uint32_t turns, bool called) {
  if (seen_any_ && turns == seen_ && turns % 2 == 0) return 0;
  seen_ = turns;
  seen_any_ = true;
  hears_ = true;
  if (called && glances_ < kGlances) {
    ++glances_;
    hears_ = false;
    return kGlance;
  }
  if (glances_ > 0) {  // it stays, and will see to what it began
    glances_ = 0;
    hears_ = false;
    const uint64_t pause = deaf_;
    deaf_ = std::min(2 * deaf_, kMost);
    return pause;
  }
  const uint64_t pause = pause_;
  pause_ = std::min(2 * pause_, kMost);
  return pause;
}

// Where the application is away for short times only, in which nothing happens, the wakes of both
// cost more than they bring.
void Watch::back(bool asleep, bool worth) {
  seen_any_ = false;
  glances_ = 0;
  if (worth) pause_ = deaf_ = kLeast;
  if (asleep) pause_ = kMost;
}

ProgressThread::~ProgressThread() {
  if (pid_ == getpid()) {
    stop_.store(true);
    wake();
    pthread_join(thread_, nullptr);
  }
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

int ProgressThread::start() {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return errno;
  const SignalsBlocked blocked;
  const int error = pthread_create(&thread_, nullptr, main, this);
  if (error == 0) pid_ = getpid();
  return error;
}

void ProgressThread::wake() { eventfd_write(wake_fd_, 1); }

void* ProgressThread::main(void* self) {
  auto* const thread = static_cast<ProgressThread*>(self);
  const bool standby = thread->kind_ == Kind::standby;
  prctl(PR_SET_NAME, standby ? "torii-standby" : "torii-progress");
  if (!standby) prctl(PR_SET_TIMERSLACK, kSlackNs);
  thread->run();
  return nullptr;
}

// How long until the next look for the application; 0: it is elsewhere.
uint64_t ProgressThread::pause(uint32_t turns) {
  const uint64_t pause = watch_.look(turns, called_.exchange(false));
  return pause && kind_ == Kind::standby ? Watch::kStandby : pause;
}

// Nothing arrives unseen meanwhile: the application looks by itself.
void ProgressThread::run() {
  std::vector<int> none;
  while (!stop_.load()) {
    const uint32_t turns = ni_.turns();
    const uint64_t pause = this->pause(turns);
    if (pause == 0) {
      stand_in(turns);
      continue;
    }
    hearing_.store(watch_.hears_calls());
    if (!called_.load() || !watch_.hears_calls()) sleep(none, pause);
    hearing_.store(false);
  }
}

// Until the application has come back.
void ProgressThread::stand_in(uint32_t turns) {
  std::vector<int> descriptors;
  uint64_t nap = kNapLeastNs;
  unsigned events = 0;
  const uint64_t begin = clock_ns();
  while (!stop_.load()) {
    const Ni::Visit visit = ni_.visit(turns, &descriptors, &events);
    if (visit == Ni::Visit::refused || visit == Ni::Visit::asleep)
      return watch_.back(visit == Ni::Visit::asleep, events > 0 || clock_ns() - begin >= kLongNs);
    if (visit == Ni::Visit::waiting) {
      descriptors.clear();
      sleep(descriptors, nap);
      nap = std::min(2 * nap, kNapMostNs);
      continue;
    }
    nap = kNapLeastNs;
    if (visit == Ni::Visit::armed) sleep(descriptors, kThreadSleepNs);
  }
}

void ProgressThread::sleep(std::vector<int>& descriptors, uint64_t ns) {
  std::vector<pollfd> set = {{wake_fd_, POLLIN, 0}};
  for (int fd : descriptors) set.push_back({fd, POLLIN, 0});
  const timespec time = {0, long(ns)};
  ppoll(set.data(), set.size(), &time, nullptr);
  eventfd_t ignored;
  eventfd_read(wake_fd_, &ignored);
}

}  // namespace torii
