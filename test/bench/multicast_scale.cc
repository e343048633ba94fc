// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How reliable multicast scales, over a simulated network: 10 Gbit/s, 1 us from node to node,
// 0.5 us of processor for each frame sent or received.
//
//   multicast_scale [MOST]      nodes, 1,024 if not given
#include <cstdio>
#include <cstdlib>

#include "unit/multicast/multicast_measure.h"

using namespace torii::test;

namespace {

struct Case {
  const char* name;
  Step step;
  uint32_t loss_ppm;
};

constexpr Case kCases[] = {
    {"barrier", {What::barrier, 1, 0}, 0},
    {"allreduce 8 B", {What::allreduce, 1, 8}, 0},
    {"allreduce 1 KiB", {What::allreduce, 1, 1024}, 0},
    {"bcast 8 B", {What::bcast, 1, 8}, 0},
    {"bcast 64 KiB", {What::bcast, 1, 64 << 10}, 0},
    {"bcast 1 MiB", {What::bcast, 1, 1 << 20}, 0},
    {"allgather 64 B", {What::allgather, 1, 64}, 0},
    {"barrier, 1 % lost", {What::barrier, 1, 0}, 10000},
    {"bcast 8 B, 1 % lost", {What::bcast, 1, 8}, 10000},
    {"bcast 64 KiB, 0.1 % lost", {What::bcast, 1, 64 << 10}, 1000},
    {"bcast 64 KiB, 1 % lost", {What::bcast, 1, 64 << 10}, 10000},
    {"bcast 1 MiB, 1 % lost", {What::bcast, 1, 1 << 20}, 10000},
};

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? atoi(argv[1]) : 1024;
  if (argc > 2 || most < 2 || most > int(torii::multicast::kNodesMax)) {
    fprintf(stderr, "usage: multicast_scale [MOST]   MOST from 2 to %u\n",
            torii::multicast::kNodesMax);
    return 2;
  }
  printf("%-26s %6s %10s %10s %10s %10s\n", "operation", "nodes", "us", "by root", "by all",
         "requests");
  bool good = true;
  for (const Case& one : kCases) {
    for (const int nodes : {2, 8, 16, 64, 256, 1024, 4096}) {
      if (nodes > most) break;
      const Measured run = measure(uint32_t(nodes), one.step, one.loss_ppm);
      printf("%-26s %6d %10.1f %10llu %10llu %10llu %s\n", one.name, nodes, run.us,
             static_cast<unsigned long long>(run.root_datagrams),
             static_cast<unsigned long long>(run.all_datagrams),
             static_cast<unsigned long long>(run.requests), run.complaint.c_str());
      fflush(stdout);
      good &= run.complaint.empty();
    }
  }
  return good ? 0 : 1;
}
