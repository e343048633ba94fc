// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The progress thread: when it looks for the application, the lock that it visits, and two
// processes of which one computes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/param.h"
#include "core/ni/ni.h"
#include "core/torii.h"
#include "sanitized.h"
#include "world.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::pattern;

constexpr size_t kLarge = 1 << 20;

// --- when it looks ----------------------------------------------------------------------------

TEST(Watch, LooksRarelyAtAnApplicationThatStays) {
  Watch watch;
  uint64_t time = 0, last = 0;
  unsigned looks = 0;
  for (uint32_t turns = 2; time < 1000000000; ++looks) time += last = watch.look(turns += 2, false);
  EXPECT_EQ(last, Watch::kMost);
  EXPECT_LT(looks, 220u);
}

TEST(Watch, SeesThatTheApplicationIsElsewhere) {
  Watch watch;
  EXPECT_EQ(watch.look(6, false), Watch::kLeast);
  EXPECT_GT(watch.look(8, false), Watch::kLeast);
  EXPECT_EQ(watch.look(8, false), 0u);
  watch.back(false, true);
  EXPECT_EQ(watch.look(8, false), Watch::kLeast) << "a pause before the next try";
  EXPECT_EQ(watch.look(8, false), 0u);
}

TEST(Watch, InsideForLongIsNotElsewhere) {
  Watch watch;
  for (int i = 0; i < 10; ++i) EXPECT_NE(watch.look(7, false), 0u);
}

TEST(Watch, ShortAbsencesInVainAreLookedForLessAndLess) {
  Watch watch;
  unsigned absences = 0;
  uint64_t time = 0;
  for (uint32_t turns = 2; time < 1000000000; turns += 2) {
    time += watch.look(turns, false);
    if (watch.look(turns, false) != 0) continue;
    ++absences;
    watch.back(false, false);
  }
  EXPECT_LT(absences, 220u);
}

TEST(Watch, LeavesASleepingApplicationAlone) {
  Watch watch;
  watch.look(2, false);
  EXPECT_EQ(watch.look(2, false), 0u);
  watch.back(true, false);
  EXPECT_EQ(watch.look(2, false), Watch::kMost);
  EXPECT_TRUE(watch.hears_calls());
}

TEST(Watch, IsThereSoonAfterACall) {
  Watch watch;
  uint32_t turns = 2;
  for (int i = 0; i < 20; ++i) watch.look(turns += 2, false);
  EXPECT_TRUE(watch.hears_calls());
  EXPECT_EQ(watch.look(turns += 2, true), Watch::kGlance);
  EXPECT_FALSE(watch.hears_calls()) << "the next one says nothing new";
  EXPECT_EQ(watch.look(turns, true), 0u);
}

TEST(Watch, CallsFromAnApplicationThatStaysAreHeardLessAndLess) {
  Watch watch;
  uint64_t time = 0;
  unsigned looks = 0;
  for (uint32_t turns = 2; time < 1000000000; ++looks) {
    const uint64_t pause = watch.look(turns += 2, true);
    EXPECT_FALSE(watch.hears_calls());
    time += pause;
  }
  EXPECT_LT(looks, 1300u);
}

// --- the lock ---------------------------------------------------------------------------------

class Locks : public ::testing::TestWithParam<NiLock::Users> {
 protected:
  Locks() { lock_.use(NiLock::kind_for(GetParam(), true)); }
  NiLock lock_;
};

TEST_P(Locks, TheVisitorStaysOutWhileSomebodyIsInside) {
  const uint32_t before = lock_.turns();
  ASSERT_TRUE(lock_.visit());
  lock_.leave();
  EXPECT_EQ(lock_.turns(), before) << "a visit is no turn";
  lock_.lock();
  std::thread([&] { EXPECT_FALSE(lock_.visit()); }).join();
  lock_.unlock();
  EXPECT_NE(lock_.turns(), before);
  std::thread([&] {
    EXPECT_TRUE(lock_.visit());
    lock_.leave();
  }).join();
}

TEST_P(Locks, TheVisitorIsToldToLeave) {
  std::atomic<bool> inside{false}, got_in{false};
  std::thread visitor([&] {
    ASSERT_TRUE(lock_.visit());
    EXPECT_FALSE(lock_.visitor_in_the_way());
    inside = true;
    while (!lock_.visitor_in_the_way()) std::this_thread::yield();
    EXPECT_FALSE(got_in);
    lock_.leave();
  });
  while (!inside) std::this_thread::yield();
  EXPECT_TRUE(lock_.try_lock()) << "it waits for a visitor";
  got_in = true;
  lock_.unlock();
  visitor.join();
}

TEST_P(Locks, NobodyMeetsAnybodyInside) {
  constexpr unsigned kTurns = 20000;
  const unsigned threads = GetParam() == NiLock::Users::one_thread ? 1 : 2;
  std::mutex own;  // of the application
  uint64_t shared[2] = {};
  std::atomic<unsigned> going{threads};
  const auto work = [&] {
    ++shared[0];
    ASSERT_EQ(++shared[1], shared[0]);
  };
  std::vector<std::thread> application;
  for (unsigned i = 0; i < threads; ++i)
    application.emplace_back([&] {
      for (unsigned turn = 0; turn < kTurns; ++turn) {
        std::unique_lock<std::mutex> guard(own, std::defer_lock);
        if (GetParam() == NiLock::Users::in_turn) guard.lock();
        lock_.lock();
        work();
        lock_.unlock();
        if (turn % 256 == 0) std::this_thread::yield();
      }
      --going;
    });
  uint64_t visits = 0;
  while (going || visits == 0) {
    if (!lock_.visit()) continue;
    work();
    ++visits;
    lock_.leave();
  }
  for (std::thread& thread : application) thread.join();
  EXPECT_EQ(shared[0], threads * uint64_t{kTurns} + visits);
}

INSTANTIATE_TEST_SUITE_P(Threads, Locks,
                         ::testing::Values(NiLock::Users::one_thread, NiLock::Users::in_turn,
                                           NiLock::Users::threads));

// --- two processes ----------------------------------------------------------------------------

struct Shared {
  std::atomic<int> ready[2];
  std::atomic<int> stage;
  unsigned char address[2][512];
  size_t bytes[2];
};

bool meet(Shared& shared, int side, torii_ni_t** ni, torii_peer_t** peer, torii_port_t** port) {
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = 78;
  options.rank = options.local_rank = unsigned(side);
  options.size = options.local_size = 2;
  if (torii_open(&options, ni) != TORII_OK) return false;
  shared.bytes[side] = torii_address(*ni, shared.address[side], 512);
  ++shared.ready[side];
  while (!shared.ready[1 - side]) usleep(1000);
  return torii_connect(*ni, shared.address[1 - side], shared.bytes[1 - side], peer) == TORII_OK &&
         torii_port_open(*ni, 0, port) == TORII_OK;
}

// Posts a receive, then does not call Torii until the other process has said that it is through.
int compute_meanwhile(Shared& shared) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  torii_ni_t* ni;
  torii_peer_t* peer;
  torii_port_t* port;
  if (!meet(shared, 1, &ni, &peer, &port)) return 1;
  std::vector<uint8_t> in(kLarge + 1);
  Outcome received;
  torii_result_t now{};
  const torii_data_t data = flat(in.data(), kLarge);
  if (torii_recv(port, peer, 3, 0, &data, note, &received, nullptr, &now) != TORII_PENDING)
    return 2;
  shared.stage = 1;
  volatile double x = 1;
  while (shared.stage == 1) x = x * 0.5 + 1;
  if (received.calls != 0) return 3;
  torii_progress(ni);
  if (received.calls != 1) return 4;  // all was there already
  if (in != pattern(kLarge, 8)) return 5;
  torii_port_close(port);
  torii_close(ni);
  return 0;
}

TEST(ProgressThread, ARendezvousWithAProcessThatComputes) {
  std::string why;
  ASSERT_EQ(param_set("progress_thread", "1", "test", &why), Status::ok) << why;
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  const pid_t child = fork();
  if (child == 0) _exit(compute_meanwhile(*shared));
  torii_ni_t* ni;
  torii_peer_t* peer;
  torii_port_t* port;
  ASSERT_TRUE(meet(*shared, 0, &ni, &peer, &port)) << torii_error();
  while (shared->stage == 0) torii_progress(ni);
  std::vector<uint8_t> out = pattern(kLarge, 8);
  Outcome sent;
  const torii_data_t data = flat(out.data(), kLarge);
  ASSERT_EQ(torii_send(port, peer, TORII_STANDARD, 3, 0, &data, note, &sent, nullptr),
            TORII_PENDING);
  for (int i = 0; i < 100 && sent.calls == 0; ++i) torii_wait(ni, 100);
  EXPECT_EQ(sent.calls, 1);
  shared->stage = 2;
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  torii_port_close(port);
  torii_close(ni);
  munmap(shared, sizeof(Shared));
  ASSERT_EQ(param_set("progress_thread", "0", "test", &why), Status::ok) << why;
}

// A forked child has no such thread, and ends all the same.
TEST(ProgressThread, AForkedChildEnds) {
  if (test::kAddressSanitizer)
    GTEST_SKIP() << "this sanitizer's allocator does not survive a fork beside another thread";
  std::string why;
  ASSERT_EQ(param_set("progress_thread", "1", "test", &why), Status::ok) << why;
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = 79;
  options.size = options.local_size = 1;
  torii_ni_t* ni;
  ASSERT_EQ(torii_open(&options, &ni), TORII_OK) << torii_error();
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      exit(0);  // destroys what is open
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  }
  EXPECT_EQ(torii_close(ni), TORII_OK);
  ASSERT_EQ(param_set("progress_thread", "0", "test", &why), Status::ok) << why;
}

}  // namespace
}  // namespace torii
