/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Rank 0 computes for 30 ms and sends a few bytes, many times, and then computes for long. The
 * bytes leave meanwhile: rank 1 compares the times. Both are on one machine, under one clock.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { kSends = 60 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compute(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

int main(int argc, char** argv) {
  int rank;
  double sent, sum = 0, longest = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < kSends; ++i) {
    if (0 == rank) {
      compute(0.03);
      sent = now();
      MPI_Send(&sent, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else if (1 == rank) {
      MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      const double delay = now() - sent;
      sum += delay;
      if (delay > longest) longest = delay;
    }
  }
  if (0 == rank) compute(3);
  if (1 == rank) {
    printf("delay: %.1f ms on the average, %.1f ms at most\n", sum / kSends * 1e3, longest * 1e3);
    if (sum / kSends < 0.1 && longest < 1) printf("ok\n");
  }
  MPI_Finalize();
  return 0;
}
