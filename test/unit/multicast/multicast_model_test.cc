// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Programs of operations that a seed chooses, over a network that loses, doubles and reorders what
// a seed chooses, against a naive model. Every program ends, and every byte is right.
#include <gtest/gtest.h>

#include "sanitized.h"
#include "unit/multicast/multicast_kit.h"

namespace torii::test {
namespace {

uint32_t nodes_of(Random& random) {
  const uint64_t kind = random.between(0, 99);
  if (kind < 70) return static_cast<uint32_t>(random.between(2, 9));
  if (kind < 97) return static_cast<uint32_t>(random.between(10, 40));
  return static_cast<uint32_t>(random.between(41, in_short() ? 60 : 300));
}

uint64_t bytes_of(Random& random) {
  switch (random.between(0, 3)) {
    case 0:
      return random.between(0, 64);
    case 1:
      return random.between(1, 5000);
    case 2:
      return random.between(1, 70000);
    default:
      return random.between(1, 300000);
  }
}

std::vector<Step> steps_of(Random& random, uint32_t nodes) {
  std::vector<Step> steps(random.between(3, 12));
  for (Step& step : steps) {
    step.what = static_cast<What>(random.between(0, 3));
    step.root = static_cast<uint32_t>(random.between(0, nodes - 1));
    step.bytes = bytes_of(random);
    if (nodes > 40 && step.what == What::bcast) step.bytes %= 70000;
    if (step.what == What::allreduce) step.bytes %= multicast::kSmallMax + 1;
    if (step.what == What::allgather) step.bytes = step.bytes % (200000 / nodes);
  }
  return steps;
}

NetworkShape shape_of(Random& random, uint64_t seed) {
  NetworkShape shape;
  shape.seed = seed;
  shape.nodes = nodes_of(random);
  shape.ring = uint64_t{1} << random.between(15, 20);
  shape.frame = random.chance(500000) ? 1456 : random.between(multicast::kLeastFrame, 9000);
  shape.burst = random.between(1, 64);
  NetworkFaults& faults = shape.faults;
  if (random.chance(700000)) faults.loss_ppm = random.chance(500000) ? 10000 : 50000;
  if (random.chance(300000)) faults.duplicate_ppm = 20000;
  if (random.chance(300000)) faults.reorder_ppm = 50000;
  if (random.chance(200000)) faults.deaf_ppm = random.chance(500000) ? 100000 : 1000000;
  if (random.chance(200000)) {
    faults.silent_from = random.between(0, 30 * kMs);
    faults.silent_to = faults.silent_from + random.between(0, 3000 * kMs);
  }
  shape.scarce = random.chance(500000);
  shape.reliable = random.chance(200000);
  if (shape.reliable) faults = {};
  if (random.chance(300000)) {
    faults.compute_ppm = 200000;
    faults.compute_ns = random.chance(500000) ? 3 * kMs : 300 * kMs;
  }
  return shape;
}

void run_seed(uint64_t seed) {
  Random random(seed);
  const NetworkShape shape = shape_of(random, seed);
  const std::vector<Step> steps = steps_of(random, shape.nodes);
  Network network(shape);
  network.start(steps);
  ASSERT_TRUE(network.run(120 * kSecond))
      << "seed " << seed << ": no end; node 0 of " << shape.nodes << " is at step "
      << network.step_of(0) << " of " << steps.size();
  EXPECT_EQ(network.complaint(), "") << "seed " << seed;
  for (uint32_t i = 0; i < shape.nodes; i++) {
    ASSERT_EQ(network.status(i), Status::ok) << "seed " << seed << ", node " << i;
    EXPECT_EQ(network.member(i).discarded(), 0u) << "seed " << seed << ", node " << i;
  }
}

TEST(MulticastModel, ProgramsEndWithTheRightBytes) {
  const uint64_t seeds = in_long() ? 1000 : in_short() ? 30 : 100;
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFatalFailure(); seed++)
    run_seed(seed);
}

// A node dies: each of the others completes its program or hears which one it was.
TEST(MulticastModel, ADeathIsHeardOfByAllWhoWaitForIt) {
  const uint64_t seeds = in_long() ? 1000 : in_short() ? 20 : 100;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    Random random(seed + 5000);
    NetworkShape shape = shape_of(random, seed);
    if (shape.nodes == 2) shape.nodes = 3;
    shape.faults.compute_ppm = 0;
    std::vector<Step> steps = steps_of(random, shape.nodes);
    steps.push_back({What::barrier, 0, 0});
    Network network(shape);
    network.start(steps);
    network.run_until(random.between(0, 40 * kMs));
    // The root of a message, the coordinator, one in the middle of the tree, or any.
    uint32_t dead = static_cast<uint32_t>(random.between(0, shape.nodes - 1));
    if (seed % 4 == 1) dead = 0;
    if (seed % 4 == 2) dead = 1;
    if (seed % 4 == 3) dead = steps[network.step_of(0) % steps.size()].root;
    network.kill(dead);
    network.run_until(network.now() + 50 * kMs);
    network.tell_dead(dead == 0 ? 1 : 0, dead);
    ASSERT_TRUE(network.run(network.now() + 60 * kSecond)) << "seed " << seed << ": no end";
    for (uint32_t i = 0; i < shape.nodes; i++) {
      if (i == dead || network.status(i) == Status::ok) continue;
      EXPECT_EQ(network.status(i), Status::peer_dead) << "seed " << seed << ", node " << i;
      EXPECT_EQ(network.member(i).failed_node(), dead) << "seed " << seed << ", node " << i;
      EXPECT_EQ(network.member(i).failed_detail(), 7u) << "seed " << seed << ", node " << i;
    }
    EXPECT_EQ(network.complaint(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace torii::test
