// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The price of waiting: all ranks but 0 wait in MPI_Recv while rank 0 counts for a second and
// then for some more, outside of MPI, on the same cores; then it sends what they wait for.
//
//   mpi_waiting [--seconds SECONDS]
//
// Rank 0 prints "cpu RANKS PERCENT", the share of a core that a waiting rank used on average after
// the first second, and "speed RANKS PERCENT", how fast it counted after that second against the
// same while the others slept outside of MPI. All ranks are on one node: it reads what they use
// from /proc.
#define _GNU_SOURCE
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "mpi_bench.h"

enum { kTag = 1 };

static double wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// The processor time of all threads of the process, in seconds.
static double processor_time(int process) {
  char path[96];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR* threads = opendir(path);
  if (!threads) fail("mpi_waiting: no such process on this node", process);
  double sum = 0;
  for (struct dirent* thread; (thread = readdir(threads)) != NULL;) {
    const int id = atoi(thread->d_name);
    if (id == 0) continue;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, id);
    FILE* file = fopen(path, "r");
    unsigned long long ns = 0;
    if (!file || fscanf(file, "%llu", &ns) != 1) fail("mpi_waiting: /proc has no times of", id);
    fclose(file);
    sum += (double)ns * 1e-9;
  }
  closedir(threads);
  return sum;
}

// The processor time of the others, on average.
static double waiting_time(const int* processes) {
  double sum = 0;
  for (int i = 1; i < ranks; ++i) sum += processor_time(processes[i]);
  return sum / (ranks - 1);
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

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 64);
  double seconds = option(argc, argv, "--seconds", 2);
  if (seconds <= 0) fail("usage: mpi_waiting [--seconds SECONDS]", 0);
  const int process = (int)getpid();
  int* processes = calloc((size_t)ranks, sizeof *processes);
  if (!processes) fail("no memory", ranks);
  MPI_Gather(&process, 1, MPI_INT, processes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  // The others sleep a little longer than rank 0 counts, and longer than it takes to leave MPI.
  const double alone_for = seconds / 4, margin = 0.3, first = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    sleep_for(margin);
    const double alone = count_for(alone_for);
    sleep_for(2 * margin);
    count_for(first);
    const double used = waiting_time(processes), begin = wall();
    const double shared = count_for(seconds);
    printf("cpu %d %.2f\n", ranks, 100 * (waiting_time(processes) - used) / (wall() - begin));
    printf("speed %d %.2f\n", ranks, 100 * shared / alone);
    for (int i = 1; i < ranks; ++i) MPI_Send(&seconds, 1, MPI_DOUBLE, i, kTag, MPI_COMM_WORLD);
  } else {
    double value = 0;
    sleep_for(alone_for + 2 * margin);
    MPI_Recv(&value, 1, MPI_DOUBLE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (value != seconds) fail("mpi_waiting: wrong value", (long)value);
  }
  free(processes);
  MPI_Finalize();
  return 0;
}
