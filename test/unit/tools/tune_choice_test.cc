// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/tune/tune_choice.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace torii::tune;

namespace {

constexpr uint64_t kK = 1024;

// Costs of the four ways at sizes from 4k to 2m: eager up to 512k, `both` from 64k on.
std::vector<SizeCost> costs_of(double (*cost)(Way, uint64_t)) {
  std::vector<SizeCost> costs;
  for (uint64_t bytes = 4 * kK; bytes <= 2048 * kK; bytes *= 2) {
    SizeCost one;
    one.bytes = bytes;
    for (size_t way = 0; way < kWays; ++way) one.cost[way] = cost(Way(way), bytes);
    if (bytes > 512 * kK) one.cost[size_t(Way::eager)] = HUGE_VAL;
    if (bytes < 64 * kK) one.cost[size_t(Way::both)] = HUGE_VAL;
    costs.push_back(one);
  }
  return costs;
}

// Eager wins up to 32k, announced copies to 64k, attach to 256k, both from there on.
double four_reigns(Way way, uint64_t bytes) {
  const Way best = bytes <= 32 * kK    ? Way::eager
                   : bytes <= 64 * kK  ? Way::ring
                   : bytes <= 256 * kK ? Way::attach
                                       : Way::both;
  return way == best ? 0 : 1;
}

const Switches kFarOff{4 * kK, 4 * kK, kNever};

TEST(TuneChoice, MessagesGoTheWayTheSwitchesSay) {
  const Switches s{10, 20, 30};
  EXPECT_EQ(way_of(s, 0), Way::eager);
  EXPECT_EQ(way_of(s, 10), Way::eager);
  EXPECT_EQ(way_of(s, 11), Way::ring);
  EXPECT_EQ(way_of(s, 19), Way::ring);
  EXPECT_EQ(way_of(s, 20), Way::attach);
  EXPECT_EQ(way_of(s, 29), Way::attach);
  EXPECT_EQ(way_of(s, 30), Way::both);
  EXPECT_EQ(way_of({50, 20, 30}, 40), Way::eager);
}

TEST(TuneChoice, FindsEverySwitch) {
  const Switches best = choose_switches(costs_of(four_reigns), kFarOff, 1024 * kK, 0.005);
  EXPECT_EQ(best, (Switches{32 * kK, 128 * kK, 512 * kK}));
  EXPECT_EQ(mean_cost(best, costs_of(four_reigns)), 0);
  EXPECT_GT(mean_cost(kFarOff, costs_of(four_reigns)), 0.5);
}

TEST(TuneChoice, StaysWithWhatIsAsGood) {
  const auto costs = costs_of([](Way way, uint64_t) { return way == Way::both ? 0.0 : 0.004; });
  const Switches now{48 * kK, 96 * kK, 96 * kK};
  EXPECT_EQ(choose_switches(costs, now, 1024 * kK, 0.005), now);
  EXPECT_NE(choose_switches(costs, now, 1024 * kK, 0.0001), now);
}

TEST(TuneChoice, VeryLongMessagesAreNotCopiedTwice) {
  const auto costs = costs_of([](Way way, uint64_t) { return way == Way::ring ? 0.0 : 1.0; });
  EXPECT_EQ(choose_switches(costs, {4 * kK, kNever, kNever}, 1024 * kK, 0.005).remote_min,
            1024 * kK);
}

TEST(TuneChoice, WithoutAttachItsSwitchesAreLeftAlone) {
  const auto costs = costs_of([](Way way, uint64_t bytes) {
    if (way == Way::attach || way == Way::both) return double(HUGE_VAL);
    return (way == Way::eager) == (bytes <= 128 * kK) ? 0.0 : 1.0;
  });
  const Switches best = choose_switches(costs, {16 * kK, 64 * kK, 64 * kK}, 1024 * kK, 0.005);
  EXPECT_EQ(best, (Switches{128 * kK, 64 * kK, 64 * kK}));
}

TEST(TuneChoice, RingsGrowOnlyForAGain) {
  EXPECT_EQ(choose_size({0, -0.01, -0.3, -0.31}, 0, 0.02), 2u);
  EXPECT_EQ(choose_size({0, -0.01, -0.3, -0.31}, 3, 0.02), 3u);
  EXPECT_EQ(choose_size({0, 0.5, 0.6}, 2, 0.02), 0u);
  EXPECT_EQ(choose_size({0, -0.5}, 9, 0.02), 1u);  // the one in force is not among them
}

TEST(TuneChoice, DisturbedRoundsDoNotCount) {
  bool noisy = true;
  using Verdict = std::vector<bool>;
  EXPECT_EQ(rounds_that_count({{0, 100}, {1, 100}, {0, 140}, {0, 151}, {0, 66}, {0, 100}}, &noisy),
            (Verdict{true, false, true, false, false, true}));
  EXPECT_FALSE(noisy);
  EXPECT_EQ(rounds_that_count({{1, 100}, {2, 100}, {3, 100}, {0, 100}}, &noisy),
            (Verdict{true, true, true, true}));
  EXPECT_TRUE(noisy);
  EXPECT_TRUE(rounds_that_count({}, &noisy).empty());
}

TEST(TuneChoice, Quantiles) {
  EXPECT_EQ(quantile({7}, 0.25), 7);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 0.25), 2);
}

}  // namespace
