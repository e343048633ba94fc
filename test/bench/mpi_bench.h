// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The common part of the MPI programs here: buffers, patterns to check, options, and measuring
// in batches whose length is calibrated, so that a run takes about as long over a fast and over a
// slow path. Each program is one file that includes this one.
#ifndef TORII_BENCH_MPI_BENCH_H
#define TORII_BENCH_MPI_BENCH_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 5 };

static int rank;
static int ranks;

static inline void fail(const char* what, long value) {
  fprintf(stderr, "%s (%ld), rank %d\n", what, value, rank);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

// The value behind `name` on the command line, or the other one.
static inline double option(int argc, char** argv, const char* name, double otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return atof(argv[i + 1]);
  return otherwise;
}

static inline void begin_program(int* argc, char*** argv, int least, int most) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < least || ranks > most) fail("wrong number of ranks", ranks);
}

// Touched, so that no page is missing while the clock runs.
static inline char* buffer(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, bytes ? bytes : 1) != 0) fail("no memory", (long)bytes);
  memset(memory, 1, bytes ? bytes : 1);
  return memory;
}

// The same from MPI_Alloc_mem.
static inline char* mpi_buffer(size_t bytes) {
  void* memory = NULL;
  MPI_Alloc_mem((MPI_Aint)(bytes ? bytes : 1), MPI_INFO_NULL, &memory);
  memset(memory, 1, bytes ? bytes : 1);
  return memory;
}

static inline char pattern(long i, long bytes, int from) {
  return (char)(i * 7 + bytes + 31 * from);
}

static inline void fill(char* data, long bytes, int from) {
  for (long i = 0; i < bytes; ++i) data[i] = pattern(i, bytes, from);
}

// Not bare memset: gcc takes a size that may be negative for a very large one, and says so.
static inline void zero(void* data, long bytes) {
  if (bytes > 0) memset(data, 0, (size_t)bytes);
}

static inline void expect(const char* data, long bytes, int from, const char* where) {
  for (long i = 0; i < bytes; ++i)
    if (data[i] != pattern(i, bytes, from)) fail(where, bytes);
}

static inline int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static inline double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof(values[0]), by_value);
  return values[count / 2];
}

static inline double timed(void (*work)(long, int), long argument, int count) {
  const double begin = MPI_Wtime();
  work(argument, count);
  return (MPI_Wtime() - begin) / count;
}

// A line of rank 0's: "NAME BYTES MICROSECONDS".
static inline void show(const char* name, long bytes, double seconds) {
  if (rank != 0) return;
  printf("%s %ld %.4f\n", name, bytes, seconds * 1e6);
  fflush(stdout);
}

// Rank 0's opinion, known to all.
static inline int agreed(int value) {
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return value;
}

// Seconds that work(argument, 1) takes, the median of batches that take `seconds` together. Work
// that takes that long by itself is done only twice. Where the first ones were lucky, on a network
// that loses packets, there are fewer batches: they may take four times as long.
static inline double measure(void (*work)(long, int), long argument, double seconds) {
  double batch[kBatches];
  work(argument, 1);  // first use of buffers and paths
  double once = timed(work, argument, 1);
  if (agreed(once > seconds)) return once;
  for (int i = 0; i < 3; ++i) {
    const double t = timed(work, argument, 4);
    if (t < once) once = t;
  }
  const double wanted = once > 0 ? seconds / kBatches / once : 1000;
  const int count = agreed(wanted < 1 ? 1 : wanted > 100000 ? 100000 : (int)wanted);
  double sum = 0;
  int batches = 0;
  do {
    batch[batches] = timed(work, argument, count);
    sum += batch[batches++] * count;
  } while (!agreed(sum > 4 * seconds) && batches < kBatches);
  return median(batch, batches);
}

#endif
