// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How a group finds out whom its multicast reaches, and what it does for the others; late and
// silent nodes, and the end of a group.
#include <gtest/gtest.h>

#include <utility>

#include "unit/multicast/multicast_kit.h"

namespace torii::test {
namespace {

using multicast::Path;
using multicast::State;

NetworkShape shape_with(uint32_t nodes) {
  NetworkShape shape;
  shape.nodes = nodes;
  return shape;
}

// Runs a program to its end, which has to be good.
void complete(Network& network, uint32_t nodes, const std::vector<Step>& steps) {
  network.start(steps);
  ASSERT_TRUE(network.run(network.now() + 20 * kSecond));
  EXPECT_EQ(network.complaint(), "");
  for (uint32_t i = 0; i < nodes; i++) EXPECT_EQ(network.status(i), Status::ok);
}

TEST(MulticastPaths, AVerdictComesWithinAMillisecondIfAllHear) {
  Network network(shape_with(100));
  network.run_until(kMs);
  for (uint32_t i = 0; i < 100; i++) {
    EXPECT_EQ(network.member(i).state(network.now()), State::open);
    EXPECT_EQ(network.member(i).outgoing().path(), Path::multicast);
  }
  EXPECT_EQ(network.counts(0).multicast, 2u);
  EXPECT_EQ(network.counts(0).unicast, 0u);
}

TEST(MulticastPaths, FewDeafNodesGetCopiesAndManyATree) {
  Network network(shape_with(40));
  for (const uint32_t node : {7u, 8u, 9u}) network.set_deaf(node, true);
  network.run_until(50 * kMs);
  EXPECT_EQ(network.member(0).outgoing().path(), Path::degraded);
  EXPECT_EQ(network.member(0).outgoing().deaf().count(), 3u);
  complete(network, 40, {{What::bcast, 0, 5000}, {What::allreduce, 0, 64}});
  EXPECT_EQ(network.member(8).requests(), 0u) << "copies come without a request";

  Network other(shape_with(40));
  for (uint32_t node = 1; node < 40; node++) other.set_deaf(node, true);
  other.run_until(60 * kMs);
  for (uint32_t node = 0; node < 40; node++)
    EXPECT_EQ(other.member(node).outgoing().path(), Path::tree);
  const uint64_t before = other.counts(5).unicast, multicast = other.counts(5).multicast;
  complete(other, 40, {{What::bcast, 5, 50000}});
  EXPECT_EQ(other.counts(5).multicast, multicast);
  EXPECT_LE(other.counts(5).unicast - before, 4u * 36 + 8) << "four branches, 36 pieces";
  EXPECT_EQ(other.member(6).requests(), 0u);
}

TEST(MulticastPaths, MulticastThatStopsIsLeftAndTakenUpAgain) {
  for (const uint32_t nodes : {8u, 40u}) {
    NetworkShape shape = shape_with(nodes);
    shape.faults.silent_from = 100 * kMs;
    shape.faults.silent_to = 400 * kMs;
    Network network(shape);
    network.run_until(100 * kMs);
    const std::vector<Step> some(4, {What::bcast, 2, 20000});
    complete(network, nodes, some);
    EXPECT_LT(network.now(), 150 * kMs);
    EXPECT_EQ(network.member(2).outgoing().path(), Path::tree);
    const uint64_t requests = network.member(1).requests();
    complete(network, nodes, some);
    EXPECT_EQ(network.member(1).requests(), requests) << "the tree needs none";
    // The next proof finds it working.
    network.run_until(1500 * kMs);
    complete(network, nodes, some);
    network.run_until(5 * kSecond);
    EXPECT_EQ(network.member(2).outgoing().path(), Path::multicast);
    const uint64_t unicast = network.counts(2).unicast;
    complete(network, nodes, some);
    EXPECT_LE(network.counts(2).unicast - unicast, 8u);
  }
}

// A process that shares its processor with others does not run for a while, and its socket
// overruns. What it then asks for comes by unicast, from a writer that has long had nothing to
// send.
TEST(MulticastPaths, ANodeThatSleptIsNotDeaf) {
  Network network(shape_with(8));
  network.run_until(kMs);
  // The window grows until a message leaves at once.
  complete(network, 8, std::vector<Step>(40, Step{What::bcast, 0, 900'000}));
  ASSERT_GT(network.member(0).window(), 700u);
  for (int round = 0; round < 4; round++) {
    network.start({{What::bcast, 0, 900'000}});
    network.run_until(network.now() + 50 * kUs);
    network.set_busy(3, network.now() + 60 * kMs);
    ASSERT_TRUE(network.run(network.now() + kSecond));
    EXPECT_EQ(network.complaint(), "");
  }
  EXPECT_GT(network.counts(3).overrun, 100u);
  EXPECT_EQ(network.member(0).outgoing().path(), Path::multicast);
}

TEST(MulticastPaths, BarriersAloneFindADeafNode) {
  Network network(shape_with(6));
  network.run_until(kMs);
  network.set_deaf(4, true);
  complete(network, 6, std::vector<Step>(3, Step{}));
  EXPECT_TRUE(network.member(1).outgoing().deaf().has(4));
  const uint64_t now = network.now();
  complete(network, 6, std::vector<Step>(3, Step{}));
  EXPECT_LT(network.now() - now, 200 * kUs);
}

// The root computes after its broadcast. Datagrams that its multicast lost come from others.
TEST(MulticastPaths, ARootThatComputesDoesNotHoldUpRepair) {
  NetworkShape shape = shape_with(8);
  Network network(shape);
  network.run_until(kMs);
  network.set_deaf(3, true);
  network.start({{What::bcast, 2, 60000}, {What::barrier, 0, 0}});
  network.run_until(network.now() + 70 * kUs);
  network.set_busy(2, network.now() + kSecond);
  network.run_until(network.now() + 30 * kMs);
  EXPECT_GE(network.step_of(3), 1u) << "has the message";
  EXPECT_TRUE(network.run(3 * kSecond));
  EXPECT_EQ(network.complaint(), "");
}

TEST(MulticastPaths, ALateNodeFindsAllThatWasSmall) {
  Network network(shape_with(20));
  network.run_until(kMs);
  network.set_busy(11, 300 * kMs);
  network.start(std::vector<Step>(20, Step{What::bcast, 3, 1000}));
  network.run_until(200 * kMs);
  EXPECT_EQ(network.step_of(12), 20u);
  EXPECT_EQ(network.step_of(11), 0u);
  EXPECT_TRUE(network.run(kSecond));
  EXPECT_EQ(network.complaint(), "");
}

// A message that does not fit sockets and ring waits for the last one.
TEST(MulticastPaths, ALongMessageWaitsForALateNode) {
  Network network(shape_with(20));
  network.run_until(kMs);
  network.set_busy(11, 300 * kMs);
  network.start({{What::bcast, 3, 3000000}});
  network.run_until(200 * kMs);
  EXPECT_LT(network.counts(3).multicast, 30u);
  EXPECT_TRUE(network.run(kSecond));
  EXPECT_EQ(network.complaint(), "");
  EXPECT_EQ(network.counts(11).overrun, 0u);
}

TEST(MulticastPaths, DifferentCallsAreFoundOut) {
  for (const uint32_t nodes : {4u, 30u}) {
    Network network(shape_with(nodes));
    network.run_until(kMs);
    for (uint32_t node = 0; node < nodes; node++) {
      std::byte in[8]{}, out[8]{};
      Call call;
      call.what = What::allreduce;
      call.bytes = node == 2 ? 4 : 8;
      call.in = in;
      call.out = out;
      call.reduction.combine = [](void*, const void*, void*, uint64_t) {};
      EXPECT_EQ(network.member(node).begin(call, network.now()), Status::pending);
    }
    network.run_until(kSecond);
    for (uint32_t node = 0; node < nodes; node++) {
      EXPECT_EQ(network.member(node).status(), Status::invalid) << node;
      EXPECT_EQ(network.member(node).begin({}, network.now()), Status::invalid);
    }
  }
}

TEST(MulticastPaths, WhatIsNotServedIsRefused) {
  Network network(shape_with(2));
  Call call;
  call.what = What::allreduce;
  call.bytes = multicast::kSmallMax + 1;
  EXPECT_EQ(network.member(0).begin(call, 0), Status::unsupported);
  call = {};
  call.root = 2;
  EXPECT_EQ(network.member(0).begin(call, 0), Status::invalid);
}

// A group that is closed answers until nobody needs it.
TEST(MulticastPaths, ClosedNodesAnswerTheLastOnes) {
  NetworkShape shape = shape_with(6);
  shape.faults.loss_ppm = 100000;
  for (shape.seed = 1; shape.seed <= 50; shape.seed++) {
    Network network(shape);
    network.run_until(100 * kMs);
    std::vector<Step> steps(5, Step{What::bcast, 1, 100});
    if (shape.seed % 2) steps.push_back({What::barrier, 0, 0});
    network.start(steps);
    bool closed[6] = {};
    for (bool over = false; !over && network.now() < 10 * kSecond;) {
      network.run_until(network.now() + 100 * kUs);
      over = true;
      for (uint32_t node = 0; node < 6; node++) {
        const bool ended = network.status(node) == Status::ok;
        if (ended && !std::exchange(closed[node], true)) network.close(node);
        over &= ended;
      }
    }
    EXPECT_EQ(network.complaint(), "");
    network.run_until(network.now() + 2 * kSecond);
    for (uint32_t node = 0; node < 6; node++) {
      EXPECT_EQ(network.status(node), Status::ok) << "seed " << shape.seed << ", node " << node;
      EXPECT_EQ(network.member(node).state(network.now()), State::gone);
    }
  }
}

}  // namespace
}  // namespace torii::test
