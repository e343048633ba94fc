// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How time and datagrams grow with the number of nodes; test/bench/multicast_scale prints more.
#include <gtest/gtest.h>

#include "sanitized.h"
#include "unit/multicast/multicast_kit.h"
#include "unit/multicast/multicast_measure.h"

namespace torii::test {
namespace {

uint32_t many() { return in_long() ? 1024 : in_short() ? 128 : 256; }

TEST(MulticastCounts, WithoutLossTheRootSendsAsMuchToManyAsToFew) {
  const Step message{What::bcast, 1, 65536};
  const Measured few = measure(8, message, 0), lots = measure(many(), message, 0);
  EXPECT_EQ(few.complaint + lots.complaint, "");
  EXPECT_LE(lots.root_datagrams, few.root_datagrams + 2);
  EXPECT_GE(lots.root_datagrams, few.root_datagrams - 2);
  EXPECT_LE(lots.us, 1.5 * few.us);
}

TEST(MulticastCounts, WithOnePercentOfLossTheRootSendsAtMostTwice) {
  for (const uint32_t nodes : {8u, 64u, many()}) {
    const Step message{What::bcast, 1, 65536};
    const Measured clean = measure(nodes, message, 0), lossy = measure(nodes, message, 10000);
    EXPECT_EQ(lossy.complaint, "");
    EXPECT_LE(lossy.root_datagrams, 2 * clean.root_datagrams) << nodes;
  }
}

TEST(MulticastCounts, BarrierAndAllreduceGrowWithTheLogarithm) {
  for (const Step& step : {Step{What::barrier, 0, 0}, Step{What::allreduce, 0, 8}}) {
    const Measured few = measure(8, step, 0), lots = measure(many(), step, 0);
    EXPECT_EQ(few.complaint + lots.complaint, "");
    // 3 and 10 doublings, and the first tree has no level.
    EXPECT_LE(lots.us, 10.0 / 3 * 2 * few.us);
  }
}

TEST(MulticastCounts, ALongStreamIsReleasedByHalvesAndFillsTheNetwork) {
  const uint64_t bytes = uint64_t(in_short() ? 4 : 16) << 20;
  const Measured run = measure(16, {What::bcast, 1, bytes}, 0);
  EXPECT_EQ(run.complaint, "");
  const double least = double(bytes) * Network::kNsPerByte / 1000;
  EXPECT_LE(run.us, 1.25 * least);
}

}  // namespace
}  // namespace torii::test
