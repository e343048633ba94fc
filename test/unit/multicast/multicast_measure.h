// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One operation of a simulated group, measured.
#pragma once

#include <algorithm>
#include <string>

#include "unit/multicast/multicast_kit.h"

namespace torii::test {

struct Measured {
  double us = 0;                // from the call, at the same time everywhere, to the last result
  uint64_t root_datagrams = 0;  // that left the root, until it was quiet
  uint64_t all_datagrams = 0;   // that left all nodes
  uint64_t requests = 0;        // for missing bytes
  std::string complaint;
};

// The mean of several runs of the step, each after a barrier that has become quiet.
inline Measured measure(uint32_t nodes, const Step& step, uint32_t loss_ppm, unsigned runs = 3) {
  Measured sum;
  NetworkShape shape;
  shape.nodes = nodes;
  Network network(shape);
  network.run_until(50 * kMs);
  const auto count = [&](uint32_t node) {
    return network.counts(node).multicast + network.counts(node).unicast;
  };
  const auto requests = [&] {
    uint64_t all = 0;
    for (uint32_t i = 0; i < nodes; i++) all += network.member(i).requests();
    return all;
  };
  for (unsigned run = 0; run < runs; run++) {
    NetworkFaults faults;
    network.set_faults(faults);
    network.start({{What::barrier, 0, 0}});
    if (!network.run(network.now() + 10 * kSecond)) sum.complaint = "no end";
    network.run_until(network.now() + 100 * kMs);
    faults.loss_ppm = loss_ppm;
    network.set_faults(faults);
    const uint64_t root = count(step.root), asked = requests();
    uint64_t all = 0;
    for (uint32_t i = 0; i < nodes; i++) all += count(i);
    const uint64_t start = network.now();
    network.start({step});
    if (!network.run(start + 60 * kSecond)) sum.complaint = "no end";
    uint64_t last = 0;
    for (uint32_t i = 0; i < nodes; i++) last = std::max(last, network.finished_at(i));
    sum.us += double(last - start) / 1000 / runs;
    network.run_until(network.now() + 100 * kMs);
    sum.root_datagrams += count(step.root) - root;
    for (uint32_t i = 0; i < nodes; i++) sum.all_datagrams += count(i);
    sum.all_datagrams -= all;
    sum.requests += requests() - asked;
  }
  sum.root_datagrams /= runs;
  sum.all_datagrams /= runs;
  sum.requests /= runs;
  if (sum.complaint.empty()) sum.complaint = network.complaint();
  return sum;
}

}  // namespace torii::test
