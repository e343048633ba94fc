// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conduct of a waiting thread where jobs poll in turns.
#include <gtest/gtest.h>

#include "core/ni/turns.h"
#include "core/ni/waiter.h"
#include "unit/ni/waiter_kit.h"

namespace torii {
namespace {

// Polls like Ni does where other jobs wait as well, whose turns and this job's follow each other.
struct TurnThread : Thread {
  TurnThread() : Thread(WaitMode::automatic) {
    poll_for(1 * kMs);
    lose(3 * kMs);
    poll();
    waiter.busy();
  }
  Waiter::Rest take_turn(uint64_t work_ns = 40) {
    do {
      now += work_ns;
      g_use.cpu_ns += work_ns;
    } while (!waiter.idle());
    if (!waiter.wants_turns(policy, now)) return poll(work_ns);
    Turns::View view;
    view.begin_ns = now / Turns::kTurnNs * Turns::kTurnNs;
    view.end_ns = view.begin_ns + Turns::kTurnNs;
    view.whose = now / Turns::kTurnNs % 2 ? Turns::View::Whose::mine : Turns::View::Whose::others;
    view.used = used;
    const Waiter::Rest rest = waiter.rest_in_turns(view, patient, now, use);
    in_turn[view.whose == Turns::View::Whose::mine][int(rest)] += 1;
    if (rest == Waiter::Rest::yield) now += yield_ns;
    if (rest == Waiter::Rest::sleep) {
      now = view.end_ns;
      ++g_use.slept;
      waiter.slept(use);
    }
    return rest;
  }
  bool used = true;
  unsigned in_turn[2][3] = {};  // own turn or not; none, yield, sleep
};

TEST(WaiterInTurns, PollsInItsTurnAndLeavesOthersTheirs) {
  TurnThread t;
  ASSERT_TRUE(t.waiter.wants_turns(t.policy, t.now));
  t.yield_ns = 30 * kUs;  // others run
  for (const uint64_t end = t.now + 50 * kMs; t.now < end; t.waiter.busy()) t.take_turn();
  EXPECT_GT(t.in_turn[1][0], 1000u);
  EXPECT_EQ(t.in_turn[1][1] + t.in_turn[1][2], 0u);
  EXPECT_GT(t.in_turn[0][1], 100u);
  EXPECT_EQ(t.in_turn[0][0] + t.in_turn[0][2], 0u);
}

TEST(WaiterInTurns, SleepsToTheEndOfATurnThatYieldsDoNotReach) {
  TurnThread t;
  t.yield_ns = 1 * kUs;
  for (const uint64_t end = t.now + 50 * kMs; t.now < end; t.waiter.busy()) t.take_turn();
  EXPECT_GE(t.in_turn[0][2], 10u);
  EXPECT_LE(t.in_turn[0][1], 40 * t.in_turn[0][2]);
}

TEST(WaiterInTurns, DoesNotSleepForNobodyAndNotWithWorkOfItsOwn) {
  TurnThread absent, impatient, working;
  absent.used = false;
  impatient.patient = false;
  for (TurnThread* t : {&absent, &impatient})
    for (const uint64_t end = t->now + 50 * kMs; t->now < end; t->waiter.busy()) t->take_turn();
  for (const uint64_t end = working.now + 50 * kMs; working.now < end; working.waiter.busy())
    working.take_turn(25 * kUs);
  for (TurnThread* t : {&absent, &impatient, &working}) {
    EXPECT_GT(t->in_turn[0][1], 10u);
    EXPECT_EQ(t->in_turn[0][2], 0u);
  }
}

TEST(WaiterInTurns, ALongWaitEndsInOrdinarySleep) {
  TurnThread t;
  t.yield_ns = 5 * kUs;
  for (const uint64_t end = t.now + 900 * kMs; t.now < end;) t.take_turn();
  EXPECT_FALSE(t.waiter.wants_turns(t.policy, t.now));
  EXPECT_GT(t.slept_ns, 860 * kMs) << "below 5 % of the processor";
  t.waiter.busy();
  EXPECT_TRUE(t.waiter.wants_turns(t.policy, t.now)) << "another wait";
}

// Somebody who knows nothing of turns computes in one after the other.
TEST(WaiterInTurns, NotWhereStrangersComputeInThem) {
  TurnThread t;
  const auto own_turn = [&t](uint64_t lost_ns) {
    t.now = (t.now / (2 * Turns::kTurnNs) + 1) * 2 * Turns::kTurnNs + Turns::kTurnNs;
    t.take_turn();
    t.lose(lost_ns);
    t.take_turn();
    t.waiter.busy();
    return t.waiter.wants_turns(t.policy, t.now);
  };
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(own_turn(i % 4 ? 1 * kMs : 10 * kUs)) << "now and then";
  unsigned turns = 0;
  while (own_turn(1 * kMs)) ASSERT_LT(++turns, 10u);
  t.now += 600 * kMs;
  EXPECT_TRUE(own_turn(10 * kUs)) << "another attempt";
}

TEST(WaiterInTurns, NotForAJobThatIsTooLargeByItselfAndNotAlone) {
  TurnThread t;
  t.policy.scarce = true;
  EXPECT_FALSE(t.waiter.wants_turns(t.policy, t.now));
  Thread alone(WaitMode::automatic);
  alone.poll_for(5 * kMs);
  EXPECT_FALSE(alone.waiter.wants_turns(alone.policy, alone.now));
}

}  // namespace
}  // namespace torii
