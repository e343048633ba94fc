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

// A message of some pieces, and what asks for the release of the last one.
TEST(MulticastCounts, OverAReliableChannelOnlyPiecesLeave) {
  for (const uint32_t nodes : {2u, 8u, 40u}) {
    NetworkShape shape;
    shape.nodes = nodes;
    shape.reliable = true;
    Network network(shape);
    constexpr uint64_t kPieces = 45, kTimes = 10;
    network.start(std::vector<Step>(kTimes, {What::bcast, 1, kPieces * 1408}));
    ASSERT_TRUE(network.run(kSecond));
    const uint64_t left = network.counts(1).multicast;
    EXPECT_GE(left, kPieces * kTimes);
    EXPECT_LE(left, kPieces * kTimes + 2);
    EXPECT_EQ(network.complaint(), "");
    for (uint32_t i = 0; i < nodes; i++) {
      EXPECT_EQ(network.status(i), Status::ok);
      EXPECT_EQ(network.member(i).requests(), 0u);
      EXPECT_LT(network.counts(i).unicast, kTimes * kPieces / 10) << "statuses only";
    }
  }
}

// Each of the others sends its part, and node 0 multicasts the result.
TEST(MulticastCounts, WhereProcessorsAreSharedFewDatagramsLeave) {
  for (const bool scarce : {false, true}) {
    NetworkShape shape;
    shape.nodes = 8;
    shape.scarce = scarce;
    Network network(shape);
    network.start({{What::barrier, 0, 0}});
    ASSERT_TRUE(network.run(kSecond));
    uint64_t before = 0, left = 0;
    const auto all = [&] {
      uint64_t sum = 0;
      for (uint32_t i = 0; i < 8; i++) sum += network.counts(i).multicast;
      return sum;
    };
    before = all();
    network.start(std::vector<Step>(10, {What::barrier, 0, 0}));
    ASSERT_TRUE(network.run(network.now() + kSecond));
    left = all() - before;
    EXPECT_EQ(left, scarce ? 10u : 80u);
  }
}

TEST(MulticastCounts, OverAReliableChannelMulticastIsTakenAtItsWord) {
  NetworkShape shape;
  shape.nodes = 8;
  shape.reliable = true;
  Network network(shape);
  EXPECT_EQ(network.member(3).state(0), multicast::State::open) << "without a proof";
  network.set_busy(1, 500 * kMs);
  network.start({{What::bcast, 1, 5000}, {What::barrier, 0, 0}, {What::allgather, 0, 5000}});
  ASSERT_TRUE(network.run(2 * kSecond));
  for (uint32_t i = 0; i < shape.nodes; i++) {
    EXPECT_EQ(network.status(i), Status::ok);
    EXPECT_EQ(network.member(i).outgoing().path(), multicast::Path::multicast)
        << "a node that was silent for long is not deaf";
  }
}

}  // namespace
}  // namespace torii::test
