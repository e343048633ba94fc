// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A thread that makes an interface's progress while the application computes: what arrives is
// matched, remote reads and streams go on, gets are answered. Callbacks and event handlers stay
// queued for the application's threads. While the application is inside Torii now and then, the
// thread only looks rarely whether it still is; once it is not, the thread polls until there is
// nothing to do and sleeps until a frame arrives.
//
// On a network there is always one, if only a standby: it looks every ten milliseconds whether the
// application is there, and does its work while it is not. So peers that ask are answered, and
// frames that the window allows leave, however long the application computes.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace torii {

// When to look for the application, and what that tells. Times in nanoseconds.
class Watch {
 public:
  // `turns` is the lock's; `called`: the application has begun something big since the last look.
  // Returns how long to pause before the next look; 0: the application is elsewhere.
  uint64_t look(uint32_t turns, bool called);
  // It was, and has come back, or sleeps inside Torii. `worth`: to stand in for it was worth while.
  void back(bool asleep, bool worth);
  // A call may end the pause.
  bool hears_calls() const { return hears_; }

  static constexpr uint64_t kGlance = 15000;  // after a call
  static constexpr uint64_t kLeast = 50000;   // otherwise, at first
  static constexpr uint64_t kMost = 5000000;  // and in the end
  static constexpr uint64_t kStandby = 10000000;
  static constexpr unsigned kGlances = 4;  // in a row

 private:
  uint32_t seen_ = 0;
  bool seen_any_ = false;
  bool hears_ = true;
  unsigned glances_ = 0;
  uint64_t pause_ = kLeast;
  uint64_t deaf_ = kLeast;  // the pause after the next call in vain
};

class Ni;

class ProgressThread {
 public:
  enum class Kind : uint8_t { standby, full };

  ProgressThread(Ni& ni, Kind kind) : ni_(ni), kind_(kind) {}
  Kind kind() const { return kind_; }
  // Ends the thread. In a process that was forked since there is none.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;

  // 0 or an errno.
  int start();
  // The application has begun something in which the thread should be ready to help soon. Cheap
  // if repeated.
  void call() {
    if (kind_ == Kind::standby || called_.exchange(true)) return;
    if (hearing_.exchange(false)) wake();
  }
  // Ends a sleep.
  void wake();

 private:
  static void* main(void* self);
  void run();
  uint64_t pause(uint32_t turns);
  void stand_in(uint32_t turns);
  void sleep(std::vector<int>& descriptors, uint64_t ns);

  Ni& ni_;
  const Kind kind_;
  Watch watch_;
  pthread_t thread_{};
  pid_t pid_ = 0;  // of the process that has the thread; 0: not started
  int wake_fd_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<bool> called_{false};
  std::atomic<bool> hearing_{false};
};

}  // namespace torii
