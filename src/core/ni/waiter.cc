// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/waiter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/base/descriptor.h"

namespace torii {

namespace {

constexpr uint64_t kUs = 1000;
constexpr uint64_t kMs = 1000 * kUs;

constexpr uint64_t kYieldNs = 300 * kUs;  // of a wait, before it sleeps
constexpr uint64_t kSleepLeastNs = 200 * kUs;
constexpr uint64_t kSleepMostNs = 5 * kMs;
constexpr uint64_t kWatchNs = 50 * kUs;      // of a wait, before the thread watches itself
constexpr uint64_t kLookNs = 200 * kUs;      // between two samples
constexpr uint64_t kRecentNs = 20 * kMs;     // between a sample and the next wait's
constexpr uint64_t kLateNs = 50 * kUs;       // between two questions: something was in between
constexpr uint64_t kLostNs = 500 * kUs;      // without the processor: somebody else had it
constexpr uint64_t kCrowdedNs = 1000 * kMs;  // that long it is believed
constexpr uint64_t kBusyNs = 100 * kMs;      // the same of others that compute
constexpr uint64_t kSwitchNs = 1200;         // a yield that takes longer let somebody else run
constexpr uint64_t kComputesNs = 400 * kUs;  // a yield that takes longer let somebody compute
constexpr uint64_t kShortSpinNs = 20 * kUs;  // then, before a sleep: about what sleeping costs
constexpr uint32_t kQuickYields = 256;       // in a row: nobody else is there any more
constexpr uint32_t kVainYields = 8;          // in a row: those who are there were not reached
constexpr uint32_t kScarceGlances = 1;       // polls that find nothing, worth a yield
constexpr uint32_t kAloneGlances = 128;      // the same where nobody else is there
constexpr uint32_t kKeepsMost = 63;          // so often in a row no way is given at most
constexpr uint32_t kTurns = 7;               // yields after one that let somebody run
constexpr uint32_t kRobbedTurns = 4;         // in a row: somebody computes who knows no turns
constexpr uint64_t kRobbedNs = 500 * kMs;    // that long it is believed
constexpr uint64_t kDenseNs = 200 * kUs;  // for so many yields in others' turns: those whose turn
constexpr uint32_t kDenseYields = 16;     // it is are elsewhere, or are not reached

// The kernel's account of one thread; it stays open.
class Schedstat {
 public:
  Schedstat() : fd_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  uint64_t queued_ns() const {
    char text[64] = {};
    unsigned long long ran = 0, queued = 0;
    if (!fd_ || pread(fd_.get(), text, sizeof(text) - 1, 0) <= 0 ||
        std::sscanf(text, "%llu %llu", &ran, &queued) != 2)
      return ThreadUse::kUnknown;
    return queued;
  }

 private:
  Descriptor fd_;
};

}  // namespace

// The kernel brings getrusage's times up to date only now and then.
ThreadUse thread_use() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  thread_local const Schedstat schedstat;
  return {uint64_t(cpu.tv_sec) * 1000000000u + uint64_t(cpu.tv_nsec), uint64_t(usage.ru_nvcsw),
          uint64_t(usage.ru_nivcsw), schedstat.queued_ns()};
}

void Waiter::begin(uint64_t now_ns) {
  begin_ns_ = last_ns_ = now_ns;
  spun_ns_ = 0;
  sampled_ = false;
}

// Since the last sample the thread did nothing but ask. A caller that computes, or sleeps by
// itself, between two looks does not want to be kept.
bool Waiter::only_waits(ThreadUse (*use)()) {
  const ThreadUse now = use();
  const bool only = now.slept == sample_.slept && now.cpu_ns - sample_.cpu_ns <= allowed_cpu_ns_;
  sample_ = now;
  allowed_cpu_ns_ = 0;
  return only;
}

// The sample says so: since the one `before`, which was taken so long ago, somebody else had the
// processor, and not because the thread slept. Time that is missing may also have gone to
// interrupts or to another virtual machine, which do not come back sooner if one yields.
bool Waiter::deprived(const ThreadUse& before, uint64_t ago_ns) const {
  const bool known =
      sample_.queued_ns != ThreadUse::kUnknown && before.queued_ns != ThreadUse::kUnknown;
  return sample_.slept == before.slept && sample_.preempted != before.preempted &&
         ago_ns >= sample_.cpu_ns - before.cpu_ns + kLostNs &&
         (!known || sample_.queued_ns - before.queued_ns >= kLostNs);
}

// While processors seem to be plentiful: are they? A wait may end with the turn of the others in
// which its message was sent; then the next one tells.
void Waiter::watch(uint64_t now_ns, ThreadUse (*use)()) {
  const bool late = now_ns - last_ns_ >= kLateNs;
  last_ns_ = now_ns;
  if (!late && (now_ns - begin_ns_ < kWatchNs || (sampled_ && now_ns - sample_ns_ < kLookNs)))
    return;
  const ThreadUse before = sample_;
  const bool only = only_waits(use);
  const uint64_t ago = now_ns - sample_ns_;
  if (sampled_ ? only && deprived(before, ago) : ago < kRecentNs && deprived(before, ago)) {
    crowded_until_ns_ = now_ns + kCrowdedNs;
    quick_yields_ = 0;
  } else if (sampled_ ? !only : late) {
    begin(now_ns);
  }
  sampled_ = true;
  sample_ns_ = now_ns;
}

Waiter::Rest Waiter::rest(const WaitPolicy& policy, bool patient, uint64_t now_ns,
                          ThreadUse (*use)(), uint64_t* sleep_ns) {
  allow();
  if (policy.mode == WaitMode::spin) return Rest::none;
  if (begin_ns_ == 0) begin(now_ns);
  const bool asked = policy.mode == WaitMode::sleep;
  const bool scarce = policy.scarce || now_ns < crowded_until_ns_;
  if (!asked && !scarce) {
    glances_ = kGlances;
    watch(now_ns, use);
    return Rest::none;
  }
  const bool busy_others = !policy.scarce && now_ns < computing_until_ns_;
  const bool in_vain = policy.apart && quick_yields_ >= kVainYields;
  const Rest meanwhile = scarce && !busy_others ? Rest::yield : Rest::none;
  const uint64_t waited = now_ns - begin_ns_;
  const uint64_t limit = asked ? policy.spin_ns : busy_others || in_vain ? kShortSpinNs : kYieldNs;
  if (waited < limit / 2 || (!patient && !in_vain)) return meanwhile;
  if (!sampled_) {
    sample_ = use();
    sample_ns_ = now_ns;
    sampled_ = true;
    allowed_cpu_ns_ = 0;
    return meanwhile;
  }
  if (waited < limit) return meanwhile;
  glances_ = kScarceGlances;
  if (!only_waits(use)) {
    begin(now_ns);
    return Rest::none;
  }
  // One that only looks in gives a turn now and then to those whom its yields do not reach.
  if (!patient) {
    begin_ns_ = 0;
    *sleep_ns = kShortSpinNs;
    return Rest::sleep;
  }
  // Others than Torii's drivers may have something for the caller: it is kept from looking for
  // about as long as it has waited already.
  *sleep_ns = std::clamp(waited, in_vain ? kShortSpinNs : kSleepLeastNs, kSleepMostNs);
  return Rest::sleep;
}

// The thread polls in its job's turn. Does it have the processor all the time? Others that wait in
// turns leave it soon.
void Waiter::spend_turn(const Turns::View& view, uint64_t now_ns, ThreadUse (*use)()) {
  const uint64_t gap = now_ns - last_ns_;
  if (turn_ns_ != view.begin_ns) {
    turn_ns_ = view.begin_ns;
    if (!robbed_) robbed_turns_ = 0;
    robbed_ = false;
    only_waits(use);
    sample_ns_ = now_ns;
  } else if (gap >= kLateNs) {
    const ThreadUse before = sample_;
    only_waits(use);
    if (!robbed_ && deprived(before, now_ns - sample_ns_)) {
      robbed_ = true;
      if (++robbed_turns_ % kRobbedTurns == 0) robbed_until_ns_ = now_ns + kRobbedNs;
    }
    sample_ns_ = now_ns;
  } else {
    spun_ns_ += gap;
  }
  sampled_ = true;
}

Waiter::Rest Waiter::rest_in_turns(const Turns::View& view, bool patient, uint64_t now_ns,
                                   ThreadUse (*use)()) {
  allow();
  if (begin_ns_ == 0) {
    begin_ns_ = now_ns;
    spun_ns_ = 0;
  }
  crowded_until_ns_ = now_ns + kCrowdedNs;
  quick_yields_ = 0;
  if (view.whose == Turns::View::Whose::mine) {
    glances_ = kGlances;
    spend_turn(view, now_ns, use);
    last_ns_ = now_ns;
    return Rest::none;
  }
  last_ns_ = now_ns;
  glances_ = kScarceGlances;
  if (now_ns - dense_ns_ >= kDenseNs || turn_ns_ != view.begin_ns) {
    turn_ns_ = view.begin_ns;
    dense_ns_ = now_ns;
    dense_yields_ = 0;
  }
  return ++dense_yields_ > kDenseYields && patient && view.used ? Rest::sleep : Rest::yield;
}

// Those who wait give the processor back soon. One that computes does not: among strangers it is
// better to sleep, for a sleeper whose message comes gets the processor at once. Processes of one
// job compute so that others can go on, and yielding to them costs less. Where nobody is known to
// be there, an interrupt may have made the yield long.
void Waiter::yielded(const WaitPolicy& policy, uint64_t now_ns, uint64_t took_ns,
                     ThreadUse (*use)()) {
  bool switched = took_ns >= kSwitchNs;
  if (switched && !policy.scarce) {
    const uint64_t preempted = use().preempted;
    switched = preempted != preempted_;
    preempted_ = preempted;
  }
  glances_ = switched ? kScarceGlances : quick_yields_ < kQuickYields ? kGlances : kAloneGlances;
  const bool known = policy.scarce && policy.mode == WaitMode::automatic;
  turns_ = known && switched ? kTurns : 0;
  if (switched && took_ns >= kComputesNs) computing_until_ns_ = now_ns + kBusyNs;
  if (switched) {
    if (crowded_until_ns_ != 0) crowded_until_ns_ = now_ns + kCrowdedNs;
    quick_yields_ = 0;
  } else if (quick_yields_ < kQuickYields && ++quick_yields_ == kQuickYields) {
    crowded_until_ns_ = 0;
  }
}

void Waiter::gave_way(uint64_t took_ns) {
  kept_ = took_ns >= kSwitchNs ? 0 : std::min(2 * kept_ + 1, kKeepsMost);
  keeps_ = kept_;
}

void Waiter::slept(ThreadUse (*use)()) {
  sample_ = use();
  allowed_cpu_ns_ = 0;
}

}  // namespace torii
