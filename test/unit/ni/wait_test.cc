// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Waiting: what a waiting thread does, on a clock of the test's own; how many processors there are;
// and a wait between two real processes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "core/base/param.h"
#include "core/base/processors.h"
#include "core/ni/waiter.h"
#include "core/torii.h"
#include "sanitized.h"
#include "unit/ni/waiter_kit.h"

namespace torii {
namespace {

TEST(Waiter, SpinsWhileProcessorsArePlentiful) {
  Thread t(WaitMode::automatic);
  t.poll_for(3 * kSecond);
  EXPECT_EQ(t.yields + t.sleeps, 0u);
}

TEST(Waiter, GivesWayLessOftenWhileNobodyTakesIt) {
  Waiter waiter;
  const auto given = [&](int asked, uint64_t took_ns) {
    int count = 0;
    for (int i = 0; i < asked; ++i) {
      if (!waiter.gives_way()) continue;
      ++count;
      waiter.gave_way(took_ns);
    }
    return count;
  };
  EXPECT_EQ(given(100, 10 * kUs), 100) << "somebody ran each time";
  EXPECT_LE(given(1000, 200), 25);
  EXPECT_GE(given(1000, 200), 10) << "others may come";
  given(64, 10 * kUs);
  EXPECT_EQ(given(100, 10 * kUs), 100);
}

TEST(Waiter, SpinMeansSpin) {
  Thread t(WaitMode::spin, true);
  for (int i = 0; i < 100; ++i) {
    t.poll_for(1 * kMs);
    t.lose(4 * kMs);
  }
  EXPECT_EQ(t.yields + t.sleeps, 0u);
}

TEST(Waiter, YieldsThenSleepsWhenScarce) {
  Thread t(WaitMode::automatic, true);
  t.poll_for(200 * kUs);
  EXPECT_GT(t.yields, 20u);
  EXPECT_EQ(t.sleeps, 0u);
  t.poll_for(2 * kSecond);
  EXPECT_GT(t.slept_ns, 1900 * kMs) << "below 5 % of the processor";
  EXPECT_LE(t.sleep_ns, 5 * kMs);
  EXPECT_LT(t.sleeps, 500u);
  const unsigned before = t.sleeps;
  t.waiter.busy();
  t.poll_for(200 * kUs);
  EXPECT_EQ(t.sleeps, before) << "another wait begins with yields";
}

TEST(Waiter, MostYieldsThatLetSomebodyRunAreNotTimed) {
  Thread t(WaitMode::automatic, true);
  t.yield_ns = 5 * kUs;
  for (int i = 0; i < 160; ++i) {
    t.poll();
    t.waiter.busy();
  }
  EXPECT_EQ(t.yields, 160u);
  EXPECT_EQ(t.untimed, 140u);
  t.yield_ns = 1 * kUs;  // nobody else is there any more
  for (int i = 0; i < 8; ++i) t.poll();
  t.untimed = 0;
  t.poll_for(100 * kUs);
  EXPECT_EQ(t.untimed, 0u);
}

TEST(Waiter, ALongWaitEndsInSleepAlsoAmongOthers) {
  Thread t(WaitMode::automatic, true);
  t.yield_ns = 5 * kUs;
  t.poll_for(600 * kUs);
  EXPECT_GT(t.untimed, 10u);
  EXPECT_GE(t.sleeps, 1u);
}

TEST(Waiter, TheFirstSleepIsAsLongAsTheWait) {
  Thread t(WaitMode::automatic, true);
  while (t.sleeps == 0) t.poll();
  EXPECT_LE(t.sleep_ns, 400 * kUs);
}

TEST(Waiter, SeldomYieldsWhereNobodyElseIs) {
  Thread t(WaitMode::automatic, true);
  t.yield_ns = 300;
  const auto yields = [&t] {
    const unsigned before = t.yields;
    for (int i = 0; i < 100; ++i) {
      t.waiter.busy();
      t.poll_for(20 * kUs);
    }
    return t.yields - before;
  };
  yields();
  const unsigned alone = yields();
  EXPECT_LT(alone, 600u);
  EXPECT_EQ(t.sleeps, 0u);
  t.yield_ns = 2 * kUs;
  yields();
  EXPECT_GT(yields(), alone + 300u) << "somebody came";
}

// Yields that reach nobody of the job end at once; the processor is free for the others in a sleep.
TEST(Waiter, SleepsSoonWhenYieldsAreInVain) {
  Thread t(WaitMode::automatic, true);
  t.policy.apart = true;
  t.yield_ns = 300;
  t.poll_for(100 * kUs);
  EXPECT_GT(t.yields, 0u);
  EXPECT_GT(t.sleeps, 0u);
  t.waiter.busy();
  const unsigned sleeps = t.sleeps;
  t.poll_for(10 * kUs);
  EXPECT_EQ(t.sleeps, sleeps) << "another wait begins with polls";
  while (t.sleeps == sleeps) t.poll();
  EXPECT_LE(t.sleep_ns, 50 * kUs) << "about as long as the wait";
}

TEST(Waiter, ACallerThatOnlyLooksInIsNotPutToSleep) {
  Thread t(WaitMode::automatic, true);
  t.patient = false;
  t.poll_for(1 * kSecond);
  EXPECT_GT(t.yields, 1000u);
  EXPECT_EQ(t.sleeps, 0u);
  t.patient = true;
  t.poll_for(10 * kMs);
  EXPECT_GT(t.sleeps, 0u);
}

TEST(Waiter, ACallerThatOnlyLooksInSleepsShortlyWhenYieldsAreInVain) {
  Thread t(WaitMode::automatic, true);
  t.patient = false;
  t.policy.apart = true;
  t.poll_for(1 * kSecond);
  EXPECT_GT(t.sleeps, 1000u);
  EXPECT_LE(t.slept_ns, 700 * kMs);
}

TEST(Waiter, YieldsThatReachSomebodyAreNotInVain) {
  Thread t(WaitMode::automatic, true);
  t.policy.apart = true;
  t.yield_ns = 5 * kUs;
  t.poll_for(200 * kUs);
  EXPECT_GT(t.yields, 20u);
  EXPECT_EQ(t.sleeps, 0u);
}

TEST(Waiter, SleepsWhenAskedTo) {
  Thread t(WaitMode::sleep, false, 50 * kUs);
  t.poll_for(40 * kUs);
  EXPECT_EQ(t.sleeps, 0u);
  t.poll_for(1 * kSecond);
  EXPECT_EQ(t.yields, 0u);
  EXPECT_GT(t.slept_ns, 950 * kMs);
}

TEST(Waiter, SeesThatOthersWantTheProcessor) {
  Thread t(WaitMode::automatic);
  t.poll_for(1 * kMs);
  t.lose(3 * kMs);
  t.poll_for(1 * kMs);
  EXPECT_GT(t.sleeps, 0u) << "it has waited long enough already";
  t.yield_ns = 20 * kUs;  // others run meanwhile
  t.waiter.busy();
  t.poll_for(250 * kUs);
  EXPECT_GT(t.yields, 8u);
  t.waiter.busy();
  t.yield_ns = 300;  // nobody else any more
  const unsigned before = t.yields;
  for (int i = 0; i < 1000; ++i) {
    t.waiter.busy();
    t.poll_for(20 * kUs);
  }
  EXPECT_LT(t.yields - before, 300u) << "spins again";
}

// A stranger that computes keeps the processor for whole time slices after a yield.
// Two processes that wait for each other in turn on one processor: each polls until its time is up,
// and when it is back its message is there.
TEST(Waiter, SeesItAlsoIfTheTurnOfTheOthersEndsTheWait) {
  Thread t(WaitMode::automatic);
  for (int i = 0; i < 4; ++i) {
    t.poll_for(1400 * kUs);
    t.lose(1400 * kUs);
    t.waiter.busy();
  }
  EXPECT_GT(t.yields, 0u);
}

TEST(Waiter, AnOldSampleTellsNothing) {
  Thread t(WaitMode::automatic);
  for (int i = 0; i < 50; ++i) {
    t.poll_for(100 * kUs);
    t.waiter.busy();
    t.now += 200 * kMs;  // of computation
    g_use.cpu_ns += 195 * kMs;
    ++g_use.preempted;
  }
  EXPECT_EQ(t.yields + t.sleeps, 0u);
}

TEST(Waiter, SleepsSoonWhenStrangersCompute) {
  Thread t(WaitMode::automatic);
  t.poll_for(1 * kMs);
  t.lose(3 * kMs);
  t.poll();
  t.waiter.busy();
  t.yield_ns = 3 * kMs;
  t.poll();
  t.waiter.busy();
  const unsigned yields = t.yields, sleeps = t.sleeps;
  t.poll_for(100 * kUs);
  EXPECT_EQ(t.yields, yields);
  EXPECT_GT(t.sleeps, sleeps);
}

TEST(Waiter, ShortInterruptionsMeanNothing) {
  Thread t(WaitMode::automatic);
  for (int i = 0; i < 100; ++i) {
    t.poll_for(1 * kMs);
    t.lose(100 * kUs);
  }
  EXPECT_EQ(t.yields + t.sleeps, 0u);
}

// Looks at its messages now and then while it computes.
// Half of the time goes to interrupts and to other virtual machines; somebody has the processor for
// some microseconds now and then.
TEST(Waiter, TimeThatNobodyElseHadMeansNothing) {
  Thread t(WaitMode::automatic);
  g_use.queued_ns = 0;
  for (int i = 0; i < 1000; ++i) {
    t.poll_for(1 * kMs);
    t.lose(1 * kMs);
    g_use.queued_ns += 10 * kUs;
  }
  EXPECT_EQ(t.yields + t.sleeps, 0u);
  t.lose(4 * kMs);
  g_use.queued_ns += 4 * kMs;
  t.poll_for(1 * kMs);
  EXPECT_GT(t.yields + t.sleeps, 0u) << "but this time somebody had it";
}

// Others had the processor once; since then yields take long only because of interrupts.
TEST(Waiter, ALongYieldThatNobodyUsedIsNoSignOfOthers) {
  for (const bool switching : {true, false}) {
    Thread t(WaitMode::automatic);
    t.poll_for(1 * kMs);
    t.lose(4 * kMs);
    t.yield_ns = 2 * kUs;
    t.yields_switch = switching;
    for (int i = 0; i < 100000; ++i) {  // short waits
      t.poll();
      t.waiter.busy();
    }
    const unsigned before = t.yields;
    for (int i = 0; i < 1000; ++i) {
      t.poll();
      t.waiter.busy();
    }
    EXPECT_EQ(t.yields > before, switching);
  }
}

TEST(Waiter, DoesNotKeepACallerWithWorkOfItsOwn) {
  for (const WaitMode mode : {WaitMode::automatic, WaitMode::sleep}) {
    Thread t(mode, true);
    for (const uint64_t work : {25 * kUs, 40 * kUs, 200 * kUs, 3 * kMs})
      for (int i = 0; i < 5000; ++i) t.poll(work);
    EXPECT_EQ(t.sleeps, 0u);
  }
}

// The same, but it sleeps by itself in between.
TEST(Waiter, DoesNotKeepACallerThatSleepsByItself) {
  for (const bool scarce : {false, true}) {
    Thread t(WaitMode::automatic, scarce);
    for (int i = 0; i < 10000; ++i) {
      t.poll();
      t.now += 1 * kMs;
      ++g_use.slept;
    }
    EXPECT_EQ(t.sleeps, 0u);
    EXPECT_TRUE(scarce || t.yields == 0);
  }
}

// A driver that cannot sleep now: the thread yields instead, for as long as it takes.
TEST(Waiter, ASleepThatIsRefusedIsAskedForAgain) {
  Thread t(WaitMode::automatic, true);
  t.poll_for(1 * kMs);
  unsigned asked = 0;
  for (int i = 0; i < 1000; ++i) {
    t.now += 600;
    g_use.cpu_ns += 600;
    while (!t.waiter.idle()) {
    }
    asked += t.waiter.rest(t.policy, true, t.now, use, &t.sleep_ns) == Waiter::Rest::sleep;
    t.now += t.yield_ns;
    t.waiter.yielded(t.policy, t.now, t.yield_ns, use);
  }
  EXPECT_GT(asked, 900u);
}

// A folder that plays /sys/fs/cgroup.
class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torii-wait-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { ASSERT_EQ(system(("rm -r " + root_).c_str()), 0); }

  void write(const std::string& path, const std::string& text) {
    const std::string full = root_ + path;
    for (size_t at = root_.size() + 1; (at = full.find('/', at)) != std::string::npos; ++at)
      mkdir(full.substr(0, at).c_str(), 0700);
    FILE* f = fopen(full.c_str(), "w");
    ASSERT_NE(f, nullptr) << full;
    fputs(text.c_str(), f);
    fclose(f);
  }
  double usable(const std::string& groups, double online = 64) {
    return usable_processors(groups, root_, online);
  }

  std::string root_;
};

TEST_F(Groups, NothingSaidMeansAllThatAreOnline) {
  EXPECT_EQ(usable(""), 64);
  EXPECT_EQ(usable("0::/\n"), 64);
  EXPECT_EQ(usable("garbage\n1:cpu\n::\n0::relative\n"), 64);
  write("/a/cpu.max", "max 100000\n");
  write("/a/cpuset.cpus.effective", "\n");
  EXPECT_EQ(usable("0::/a\n"), 64);
}

TEST_F(Groups, TheQuotaOfAnyGroupAbove) {
  write("/a/cpu.max", "150000 100000\n");
  write("/a/b/c/cpu.max", "max 100000\n");
  EXPECT_EQ(usable("0::/a/b/c\n"), 1.5);
  write("/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(usable("0::/a/b/c\n"), 0.5);
  EXPECT_EQ(usable("0::/other\n"), 64);
  write("/cpu.max", "400000 100000\n");
  EXPECT_EQ(usable("0::/\n"), 4) << "as seen in a container";
  EXPECT_EQ(usable("0::/../../host/path\n"), 4);
}

TEST_F(Groups, TheProcessorsOfTheGroup) {
  write("/a/cpuset.cpus.effective", "0-3,8,10-11\n");
  EXPECT_EQ(usable("0::/a\n"), 7);
  EXPECT_EQ(usable("0::/a\n", 2), 2);
  write("/b/cpuset.cpus.effective", "7-3\n");
  EXPECT_EQ(usable("0::/b\n"), 64) << "nonsense is ignored";
}

TEST_F(Groups, TheOldHierarchies) {
  write("/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  write("/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable("4:memory:/x\n3:cpu,cpuacct:/a\n"), 2);
  write("/cpu/c/cpu.cfs_quota_us", "300000\n");
  write("/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable("3:cpuacct,cpu:/c\n"), 3) << "mounted in another order";
  write("/cpu,cpuacct/b/cpu.cfs_quota_us", "-1\n");
  write("/cpu,cpuacct/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable("3:cpu,cpuacct:/b\n"), 64);
}

TEST(Processors, ThisMachineHasSome) {
  EXPECT_GE(usable_processors(), 0.01);
  EXPECT_LE(usable_processors(), double(sysconf(_SC_NPROCESSORS_ONLN)));
}

// A process of another session is not reached where the kernel makes groups of sessions.
TEST(Processors, AYieldStaysInItsSessionsGroup) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  ASSERT_GT(child, 0);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  char autogroups = '0';
  if (FILE* file = std::fopen("/proc/sys/kernel/sched_autogroup_enabled", "r")) {
    autogroups = char(std::fgetc(file));
    std::fclose(file);
  }
  EXPECT_EQ(yield_reaches(uint32_t(child)), autogroups != '1');
  EXPECT_TRUE(yield_reaches(uint32_t(getpid())));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

struct Shared {
  std::atomic<int> ready[2];
  unsigned char address[2][512];
  size_t bytes[2];
};

void received(void* arg, const torii_result_t*) { *static_cast<bool*>(arg) = true; }

// A lock of the caller's, of which only the number of times matters that it was given up.
struct CallersLock {
  bool held = true;
  int given_up = 0;
  torii_lock_t lock{give_up, take, this};
  static void give_up(void* arg) {
    auto* const self = static_cast<CallersLock*>(arg);
    EXPECT_TRUE(self->held);
    self->held = false;
    ++self->given_up;
  }
  static void take(void* arg) {
    auto* const self = static_cast<CallersLock*>(arg);
    EXPECT_FALSE(self->held);
    self->held = true;
  }
};

// One of two processes; false if something failed.
bool play(Shared& shared, int side, double* cpu) {
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = 77;
  options.rank = options.local_rank = unsigned(side);
  options.size = options.local_size = 2;
  CallersLock own;
  if (side == 1) options.lock = &own.lock;
  torii_ni_t* ni;
  torii_peer_t* peer;
  torii_port_t* port;
  if (torii_open(&options, &ni) != TORII_OK) return false;
  shared.bytes[side] = torii_address(ni, shared.address[side], 512);
  ++shared.ready[side];
  while (!shared.ready[1 - side]) usleep(1000);
  if (torii_connect(ni, shared.address[1 - side], shared.bytes[1 - side], &peer) != TORII_OK)
    return false;
  torii_port_open(ni, 0, &port);
  bool done = false;
  torii_data_t data{};
  torii_result_t result;
  if (torii_recv(port, peer, 1, 0, &data, received, &done, nullptr, &result) == TORII_OK)
    done = true;
  if (side == 0) {
    usleep(700000);
    torii_send(port, peer, TORII_STANDARD, 1, 0, &data, received, &done, nullptr);
  }
  const double before = cpu_seconds();
  while (!done) torii_wait_step(ni);
  *cpu = cpu_seconds() - before;
  if (!own.held || (side == 1) != (own.given_up > 0)) return false;
  if (side == 1) torii_send(port, peer, TORII_STANDARD, 1, 0, &data, received, &done, nullptr);
  torii_port_close(port);
  torii_close(ni);
  return true;
}

// Whether a wait sleeps within `most`, on a node with more processes than processors.
bool sleeps_within(std::chrono::milliseconds most, int (*others)()) {
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = 78;
  options.size = options.local_size = 4096;
  torii_ni_t* ni;
  EXPECT_EQ(torii_open(&options, &ni), TORII_OK) << torii_error();
  torii_set_others(ni, others);
  size_t sleeps = 0;
  while (std::strcmp(torii_counter_name(sleeps), "sleeps") != 0) ++sleeps;
  const auto end = std::chrono::steady_clock::now() + most;
  while (torii_counter_value(ni, sleeps) == 0 && std::chrono::steady_clock::now() < end)
    torii_wait_step(ni);
  const bool slept = torii_counter_value(ni, sleeps) > 0;
  torii_close(ni);
  return slept;
}

// A sleep ends by what Torii's drivers have, and lasts about as long as the wait until then.
TEST(Wait, WhoWaitsForEventsOfOthersToo) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(sleeps_within(20s, nullptr));
  EXPECT_TRUE(sleeps_within(20s, [] { return 0; }));
  EXPECT_FALSE(sleeps_within(100ms, [] { return 1; }));
}

// Processor time of a wait of 0.7 s. It says nothing with a sanitizer, where a look costs several
// times as much and some looks are taken for computing of the caller's; that the caller's lock was
// given up shows the sleep there.
constexpr double kAsleepSeconds = test::kSanitized ? 0.7 : 0.1;

// A process that sleeps in torii_wait_step uses next to nothing and is woken by the message, also
// if it calls under a lock of its own.
TEST(Wait, ASleeperIsWoken) {
  std::string why;
  ASSERT_EQ(param_set("wait", "sleep", "test", &why), Status::ok) << why;
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    double cpu = 0;
    const bool ok = play(*shared, 1, &cpu);
    _exit(!ok ? 1 : cpu > kAsleepSeconds ? 2 : 0);
  }
  double cpu = 0;
  EXPECT_TRUE(play(*shared, 0, &cpu)) << torii_error();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), 2) << "it kept the processor busy while it waited";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  munmap(shared, sizeof(Shared));
  ASSERT_EQ(param_set("wait", "auto", "test", &why), Status::ok) << why;
}

}  // namespace
}  // namespace torii
