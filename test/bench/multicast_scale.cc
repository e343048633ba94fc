// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How reliable multicast scales, over a simulated network: 10 Gbit/s, 1 us from node to node,
// 0.5 us of processor for each frame sent or received.
//
//   multicast_scale [--csv] [MOST]      nodes, 1,024 if not given; for multicast_scale.gp
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "unit/multicast/multicast_measure.h"

using namespace torii::test;

namespace {

struct Case {
  const char* name;
  Step step;
  bool with_loss;  // too
};

constexpr Case kCases[] = {
    {"barrier", {What::barrier, 1, 0}, true},
    {"allreduce 8 B", {What::allreduce, 1, 8}, true},
    {"allreduce 1 KiB", {What::allreduce, 1, 1024}, false},
    {"bcast 8 B", {What::bcast, 1, 8}, true},
    {"bcast 64 KiB", {What::bcast, 1, 64 << 10}, true},
    {"bcast 1 MiB", {What::bcast, 1, 1 << 20}, true},
    {"allgather 64 B", {What::allgather, 1, 64}, false},
};
constexpr uint32_t kLosses[] = {0, 1000, 10000};  // of a million datagrams

// One row. False: it went wrong, which the row says.
bool print_row(const Case& one, uint32_t loss_ppm, uint32_t nodes, bool csv) {
  const Measured run = measure(nodes, one.step, loss_ppm);
  printf(
      csv ? "%s,%g,%u,%.1f,%llu,%llu,%llu%s\n" : "%-16s %6g %6u %10.1f %10llu %10llu %10llu %s\n",
      one.name, loss_ppm / 1e4, nodes, run.us, static_cast<unsigned long long>(run.root_datagrams),
      static_cast<unsigned long long>(run.all_datagrams),
      static_cast<unsigned long long>(run.requests), run.complaint.c_str());
  fflush(stdout);
  return run.complaint.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const bool csv = argc > 1 && strcmp(argv[1], "--csv") == 0;
  const int given = csv ? 2 : 1;
  const int most = argc > given ? atoi(argv[given]) : 1024;
  if (argc > given + 1 || most < 2 || most > int(torii::multicast::kNodesMax)) {
    fprintf(stderr, "usage: multicast_scale [--csv] [MOST]   MOST from 2 to %u\n",
            torii::multicast::kNodesMax);
    return 2;
  }
  if (csv) {
    puts("operation,lost %,nodes,us,datagrams of the root,datagrams of all,requests");
  } else {
    printf("%-16s %6s %6s %10s %10s %10s %10s\n", "operation", "lost %", "nodes", "us", "by root",
           "by all", "requests");
  }
  bool good = true;
  for (const Case& one : kCases)
    for (const uint32_t loss_ppm : kLosses)
      for (const int nodes : {2, 8, 16, 64, 256, 1024, 4096})
        if (nodes <= most && (loss_ppm == 0 || one.with_loss))
          good &= print_row(one, loss_ppm, uint32_t(nodes), csv);
  return good ? 0 : 1;
}
