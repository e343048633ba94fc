// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Turns of jobs that wait for the same processors: who is next, what a table full of nonsense can
// do, and how processes find the table.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/ni/turn_page.h"
#include "core/ni/turns.h"

namespace torii {
namespace {

using Whose = Turns::View::Whose;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kStart = 5000 * Turns::kTurnNs;

ProcessorSet some(uint64_t bits) {
  ProcessorSet set;
  set.words[0] = bits;
  return set;
}

struct Job : Turns {
  Job(uint64_t number, TurnTable* table, uint64_t processors = 3)
      : Turns(number, some(processors)) {
    use(table);
  }
};

class Table : public ::testing::Test {
 protected:
  // All look every 0.1 ms for so long.
  void pass(const std::vector<Turns*>& jobs, uint64_t ns) {
    for (const uint64_t end = now + ns; now < end; now += kMs / 10)
      for (Turns* job : jobs) job->look(now);
  }
  // How many of `jobs` have the turn, at each of the next turns.
  std::vector<unsigned> owners(const std::vector<Turns*>& jobs, unsigned turns) {
    std::vector<unsigned> counts;
    for (now = (now / Turns::kTurnNs + 1) * Turns::kTurnNs; turns > 0; --turns) {
      unsigned mine = 0;
      for (Turns* job : jobs) mine += job->look(now).whose == Whose::mine;
      counts.push_back(mine);
      now += Turns::kTurnNs;
    }
    return counts;
  }

  TurnTable table{};
  uint64_t now = kStart;
};

TEST_F(Table, WithoutATableOrOthersThereAreNoTurns) {
  Job nowhere(1, nullptr), only(2, &table), same(2, &table);
  for (int i = 0; i < 100; ++i, now += kMs) {
    EXPECT_EQ(nowhere.look(now).whose, Whose::nobodys);
    EXPECT_EQ(only.look(now).whose, Whose::nobodys);
    EXPECT_EQ(same.look(now).whose, Whose::nobodys);
  }
  EXPECT_TRUE(only.alone());
}

TEST_F(Table, EachJobHasItsTurn) {
  Job a(1, &table), b(2, &table), c(3, &table);
  pass({&a, &b, &c}, 10 * kMs);
  unsigned had[3] = {};
  for (int turn = 0; turn < 30; ++turn) {
    for (const unsigned count : owners({&a, &b, &c}, 1)) EXPECT_EQ(count, 1u);
    unsigned i = 0;
    for (Turns* job : {&a, &b, &c}) had[i++] += job->look(now - kMs).whose == Whose::mine;
  }
  for (const unsigned turns : had) EXPECT_EQ(turns, 10u);
}

TEST_F(Table, ProcessesOfAJobHaveItTogether) {
  Job a0(1, &table), a1(1, &table), b(2, &table);
  pass({&a0, &a1, &b}, 10 * kMs);
  for (int i = 0; i < 100; ++i, now += kMs / 3) {
    const Turns::View view = a0.look(now);
    EXPECT_EQ(view.whose, a1.look(now).whose);
    EXPECT_NE(view.whose, b.look(now).whose);
    EXPECT_LE(view.begin_ns, now);
    EXPECT_GT(view.end_ns, now);
    EXPECT_LE(view.end_ns, now + Turns::kTurnNs);
  }
}

TEST_F(Table, AJobThatStoppedWaitingHoldsNobodyUp) {
  Job a(1, &table), b(2, &table);
  pass({&a, &b}, 10 * kMs);
  EXPECT_NE(a.look(now).whose, Whose::nobodys);
  pass({&a}, Turns::kRecentNs + 2 * Turns::kTurnNs);
  for (int i = 0; i < 100; ++i, now += kMs) EXPECT_EQ(a.look(now).whose, Whose::nobodys);
  pass({&a, &b}, 10 * kMs);
  EXPECT_NE(a.look(now).whose, Whose::nobodys) << "it is back";
}

// Worth a sleep: those who have the turn are there.
TEST_F(Table, ATurnIsUsedByThoseWhoWaitedSinceTheirLast) {
  Job a(1, &table), b(2, &table);
  pass({&a, &b}, 10 * kMs);
  while (a.look(now).whose != Whose::others) now += kMs, b.look(now);
  EXPECT_TRUE(a.look(now).used);
  now += 4 * Turns::kTurnNs;
  ASSERT_EQ(a.look(now).whose, Whose::others);
  EXPECT_FALSE(a.look(now).used);
}

TEST_F(Table, OtherProcessorsDoNotMatter) {
  Job a(1, &table, 3), b(2, &table, 12);
  pass({&a, &b}, 10 * kMs);
  EXPECT_EQ(a.look(now).whose, Whose::nobodys);
  Job c(3, &table, 6);  // shares with both, so that all three count alike
  pass({&a, &b, &c}, 10 * kMs);
  for (const unsigned count : owners({&a, &b, &c}, 12)) EXPECT_EQ(count, 1u);
}

TEST_F(Table, ThePlacesOfAJobsProcessesAreAddedUp) {
  Job a0(1, &table, 1), a1(1, &table, 2), b0(2, &table, 2), b1(2, &table, 1);
  pass({&a0, &a1, &b0, &b1}, 10 * kMs);
  for (const unsigned count : owners({&a0, &a1, &b0, &b1}, 12)) EXPECT_EQ(count, 2u);
}

TEST_F(Table, AFullTableIsForThoseWhoAreThere) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (uint64_t i = 1; i <= TurnTable::kSlots; ++i) {
    jobs.push_back(std::make_unique<Job>(i, &table));
    jobs.back()->look(now);
  }
  Job late(100, &table), second(101, &table);
  EXPECT_EQ(late.look(now).whose, Whose::nobodys);
  now += Turns::kForgottenNs;
  late.look(now);
  second.look(now);
  now += Turns::kTurnNs;
  EXPECT_NE(late.look(now).whose, Whose::nobodys);
  for (auto& job : jobs) job->look(now);
  now += Turns::kTurnNs;
  EXPECT_NE(late.look(now).whose, Whose::nobodys) << "its place is its own";
}

// Whatever the table says, a look ends, and a turn is not longer than a turn.
TEST_F(Table, NonsenseCostsNoMoreThanTurns) {
  Job a(1, &table);
  srand(1);
  const auto random = [] {
    return uint64_t(rand()) << 33 ^ uint64_t(rand()) << 11 ^ uint64_t(rand());
  };
  unsigned mine = 0, turns = 0;
  for (int round = 0; round < 20000; ++round, now += kMs / 7) {
    if (round % 3 == 0) {
      auto& slot = table.slots[rand() % TurnTable::kSlots];
      slot.job = rand() % 3 ? random() : round % 2;
      const uint64_t seen[] = {random(), ~uint64_t{0}, 0, now, now + kMs, now - kMs};
      slot.seen_ns = seen[rand() % 6];
      slot.processors[0] = random();
    }
    const Turns::View view = a.look(now);
    if (view.whose == Whose::nobodys) continue;
    ++turns;
    mine += view.whose == Whose::mine;
    EXPECT_LE(view.end_ns, now + Turns::kTurnNs);
    EXPECT_GT(view.end_ns, now);
  }
  EXPECT_GT(turns, 0u);
  EXPECT_GE(mine, turns / TurnTable::kSlots / 2);
}

TEST_F(Table, ATimeFarInTheFutureDoesNotCount) {
  Job a(1, &table);
  a.look(now);
  for (unsigned i = 1; i < TurnTable::kSlots; ++i) {
    table.slots[i].job = 100 + i;
    table.slots[i].seen_ns = ~uint64_t{0};
    table.slots[i].processors[0] = 3;
  }
  now += Turns::kTurnNs;
  EXPECT_EQ(a.look(now).whose, Whose::nobodys);
  Job b(2, &table);
  b.look(now);
  now += Turns::kTurnNs;
  b.look(now);
  a.look(now);
  now += Turns::kTurnNs;
  EXPECT_NE(a.look(now).whose, Whose::nobodys) << "their places are free";
}

std::string own_name() { return format_text("torii-turns-test-%d", getpid()); }

TEST(TurnPage, ProcessesOfOneNameFindOnePage) {
  TurnPage first(own_name()), second(own_name()), other(own_name() + "-other");
  EXPECT_TRUE(first.look());
  ASSERT_NE(first.table(), nullptr);
  EXPECT_TRUE(first.holds());
  EXPECT_TRUE(second.look());
  ASSERT_NE(second.table(), nullptr);
  EXPECT_FALSE(second.holds());
  EXPECT_FALSE(second.look()) << "the same page again";
  first.table()->slots[3].job = 77;
  EXPECT_EQ(second.table()->slots[3].job, 77u);
  EXPECT_TRUE(other.look());
  ASSERT_NE(other.table(), nullptr);
}

TEST(TurnPage, AVisitOfManyDoesNotFillTheHolder) {
  TurnPage holder(own_name());
  holder.look();
  for (int i = 0; i < 500; ++i) {
    TurnPage visitor(own_name());
    EXPECT_TRUE(visitor.look()) << i;
    if (i % 50 == 0) holder.look();
  }
}

// Killed, so that it can clean up nothing.
TEST(TurnPage, OneThatLooksOftenDoesNotFillAHolderThatComputes) {
  TurnPage holder(own_name()), often(own_name());
  holder.look();
  EXPECT_TRUE(often.look());
  for (int i = 0; i < 20000; ++i) ASSERT_FALSE(often.look()) << i;
  TurnPage late(own_name());
  EXPECT_TRUE(late.look()) << "there is no room left in the holder's queue";
  EXPECT_EQ(late.holds(), false);
}

TEST(TurnPage, TheNextOneTakesOverFromOneThatDied) {
  const std::string name = own_name();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    TurnPage page(name);
    page.look();
    if (page.table()) page.table()->slots[0].job = 99;
    if (write(ready[1], page.holds() ? "y" : "n", 1) != 1) _exit(1);
    pause();
  }
  ASSERT_GT(child, 0);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  TurnPage survivor(name);
  ASSERT_TRUE(survivor.look());
  EXPECT_EQ(survivor.table()->slots[0].job, 99u);
  EXPECT_FALSE(survivor.holds());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(survivor.look()) << "the same memory";
  EXPECT_TRUE(survivor.holds());
  TurnPage later(name);
  EXPECT_TRUE(later.look());
  EXPECT_EQ(later.table()->slots[0].job, 99u);
  close(ready[0]);
  close(ready[1]);
}

TEST(TurnPage, AHolderWithAnotherMemoryIsNotBelieved) {
  TurnPage holder(own_name());
  holder.look();
  ASSERT_NE(holder.table(), nullptr);
  holder.table()->magic = 1;
  TurnPage visitor(own_name());
  EXPECT_FALSE(visitor.look());
  EXPECT_EQ(visitor.table(), nullptr);
}

TEST(TurnPage, ThisProcessHasANameAndProcessors) {
  EXPECT_EQ(turn_page_name().rfind("torii-turns-", 0), 0u);
  uint64_t any = 0;
  for (const uint64_t word : own_processors().words) any |= word;
  EXPECT_NE(any, 0u);
  TurnPage none("");
  EXPECT_FALSE(none.look());
}

}  // namespace
}  // namespace torii
