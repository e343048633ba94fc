/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Talks all the time for so many seconds, which is as long for every rank: to be run twice at once.
 *
 * turns SECONDS */
#include "check.h"

static void talk(double until) {
  for (int more = 1, round = 0; more; ++round) {
    int mine[2] = {world_rank + round, MPI_Wtime() < until}, sum[2] = {0, 0};
    MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum[0] == world_size * (world_size - 1) / 2 + world_size * round, "round %d: sum %d",
          round, sum[0]);
    more = sum[1] == world_size;
  }
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  talk(MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 1));
  return finish();
}
