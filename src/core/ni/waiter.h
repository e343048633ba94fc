// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conduct of a thread that waits in a loop of its own: it polls as long as it has a processor
// to itself; otherwise it first gives the processor to whoever else wants it, then sleeps. Whether
// somebody else wants it is known from the number of processes, or seen: the thread was taken off
// the processor while it waited. One object for each waiting thread.
#pragma once

#include <cstdint>

#include "core/ni/turns.h"

namespace torii {

enum class WaitMode : uint8_t { automatic, spin, sleep };

struct WaitPolicy {
  WaitMode mode = WaitMode::automatic;
  bool scarce = false;   // the node has more processes than processors
  uint64_t spin_ns = 0;  // WaitMode::sleep: before the first sleep
  bool apart = false;    // a yield may not reach the job's other processes
  double own = 1;        // processors that the threads of this process can count on
};

// The processor time that the calling thread has used so far, and its switches.
struct ThreadUse {
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  uint64_t cpu_ns = 0;
  uint64_t slept = 0;             // times it gave up the processor to wait for something
  uint64_t preempted = 0;         // times the processor was taken from it (or it yielded)
  uint64_t queued_ns = kUnknown;  // time in which it was ready and somebody else had the processor
};

class Waiter {
 public:
  enum class Rest : uint8_t { none, yield, sleep };

  // Something happened: the wait is over.
  void busy() {
    polls_ = 0;
    begin_ns_ = 0;
  }
  // Nothing happened. True once in a while: ask rest().
  bool idle() { return ++polls_ >= glances_; }

  // The next step; for `sleep`, at most *sleep_ns long. `now_ns` is monotonic and not 0; `use`
  // asks for the thread's use. A caller that is not patient has work of its own to go back to.
  Rest rest(const WaitPolicy& policy, bool patient, uint64_t now_ns, ThreadUse (*use)(),
            uint64_t* sleep_ns);
  // Does the thread wait among strangers, so that turns may help? Not for long in one wait, and
  // not where somebody computes who knows nothing of turns.
  bool wants_turns(const WaitPolicy& policy, uint64_t now_ns) const {
    return __builtin_expect(now_ns < crowded_until_ns_, 0) && !policy.scarce &&
           now_ns >= robbed_until_ns_ && (begin_ns_ == 0 || spun_ns_ < kTurnSpinNs);
  }
  // The same as rest() for a thread that wants turns, in its job's turn or in another's; `sleep`
  // ends with the turn.
  Rest rest_in_turns(const Turns::View& view, bool patient, uint64_t now_ns, ThreadUse (*use)());
  // It yielded, for so long.
  void yielded(const WaitPolicy& policy, uint64_t now_ns, uint64_t took_ns, ThreadUse (*use)());
  // True: yield once more, without asking rest() and without a look at the clock. Yields let others
  // of the job run, and most waits end after a few.
  bool takes_turn() {
    if (turns_ == 0) return false;
    --turns_;
    allow();
    return true;
  }
  // Shall it give way to other threads of its process? Ever less often while none wants it to.
  bool gives_way() {
    if (keeps_ == 0) return true;
    --keeps_;
    return false;
  }
  // It did, for so long.
  void gave_way(uint64_t took_ns);
  // It slept.
  void slept(ThreadUse (*use)());

  // The interface's counts when this thread last rested.
  uint64_t seen_callbacks = 0;
  uint64_t seen_visits = 0;
  // The counts of all interfaces that wait together, when it last was to sleep for any of them.
  uint64_t seen_together = 0;

 private:
  static constexpr uint32_t kGlances = 16;  // while nobody else wants the processor
  // A thread that uses more than this has work of its own: for a poll, with what else MPI does in
  // its loop, and for a rest, with a switch to another process.
  static constexpr uint64_t kPollCpuNs = 6'000;
  static constexpr uint64_t kRestCpuNs = 14'000;
  static constexpr uint64_t kTurnSpinNs = 4'000'000;  // of turns, in a wait

  void begin(uint64_t now_ns);
  void allow() {
    allowed_cpu_ns_ += kRestCpuNs + polls_ * kPollCpuNs;
    polls_ = 0;
  }
  bool only_waits(ThreadUse (*use)());
  bool deprived(const ThreadUse& before, uint64_t ago_ns) const;
  void watch(uint64_t now_ns, ThreadUse (*use)());
  void spend_turn(const Turns::View& view, uint64_t now_ns, ThreadUse (*use)());

  uint32_t polls_ = 0;
  uint32_t glances_ = kGlances;      // polls between two questions
  uint64_t allowed_cpu_ns_ = 0;      // that polls and rests since the sample may have used
  uint32_t quick_yields_ = 0;        // in a row
  uint32_t turns_ = 0;               // yields until one is timed again
  uint32_t keeps_ = 0;               // times that it does not give way
  uint32_t kept_ = 0;                // the same, after it last gave way in vain
  bool sampled_ = false;             // in this wait
  uint64_t begin_ns_ = 0;            // of the wait; 0: none
  uint64_t last_ns_ = 0;             // last question
  uint64_t sample_ns_ = 0;           // when the sample was taken
  uint64_t crowded_until_ns_ = 0;    // others were seen to want the processor
  uint64_t computing_until_ns_ = 0;  // others were seen to compute
  uint64_t preempted_ = 0;           // ThreadUse's, after the last yield that took long
  uint64_t robbed_until_ns_ = 0;     // somebody computed in this job's turn
  bool robbed_ = false;              // in this turn
  uint64_t turn_ns_ = 0;             // begin of the turn that the following are of
  uint64_t spun_ns_ = 0;             // of this wait, in turns
  uint64_t dense_ns_ = 0;            // when the yields below began
  uint32_t robbed_turns_ = 0;        // in a row
  uint32_t dense_yields_ = 0;        // in others' turns, soon after each other
  ThreadUse sample_;
};

// The use of the calling thread.
ThreadUse thread_use();

}  // namespace torii
