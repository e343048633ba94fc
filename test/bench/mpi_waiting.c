// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What waiting costs others: all ranks but 0 wait in MPI_Recv while rank 0 counts for some
// seconds, outside of MPI, on the same cores; then it sends what they wait for.
//
//   mpi_waiting [--seconds SECONDS]
//
// Rank 0 prints "cpu RANKS PERCENT", the share of a core that a waiting rank used on average, and
// "speed RANKS PERCENT", how fast it counted against the same while the others slept outside of
// MPI.
#define _GNU_SOURCE
#include <sys/resource.h>
#include <time.h>

#include "mpi_bench.h"

enum { kTag = 1 };

static double wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double processor_time(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void sleep_for(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static volatile long counter;

// Steps in a second.
static double count_for(double seconds) {
  const double begin = wall();
  double now = begin;
  long steps = 0;
  while (now - begin < seconds) {
    for (int i = 0; i < 10000; ++i) ++counter;
    steps += 10000;
    now = wall();
  }
  return (double)steps / (now - begin);
}

static double wait_and_use(double seconds) {
  double value = 0;
  const double used = processor_time(), begin = wall();
  MPI_Recv(&value, 1, MPI_DOUBLE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const double share = (processor_time() - used) / (wall() - begin);
  if (value != seconds) fail("mpi_waiting: wrong value", (long)value);
  return share;
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 64);
  double seconds = option(argc, argv, "--seconds", 2), share = 0, all = 0;
  if (seconds <= 0) fail("usage: mpi_waiting [--seconds SECONDS]", 0);
  // The others sleep a little longer than rank 0 counts, and longer than it takes to leave MPI.
  const double alone_for = seconds / 4, margin = 0.3;
  double alone = 0, shared = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    sleep_for(margin);
    alone = count_for(alone_for);
    sleep_for(2 * margin);
    shared = count_for(seconds);
    for (int i = 1; i < ranks; ++i) MPI_Send(&seconds, 1, MPI_DOUBLE, i, kTag, MPI_COMM_WORLD);
  } else {
    sleep_for(alone_for + 2 * margin);
    share = wait_and_use(seconds);
  }
  MPI_Reduce(&share, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("cpu %d %.2f\n", ranks, 100 * all / (ranks - 1));
    printf("speed %d %.2f\n", ranks, 100 * shared / alone);
  }
  MPI_Finalize();
  return 0;
}
