// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Latency between ranks 0 and 1 by where the messages lie: in memory from malloc at both ends, in
// memory from MPI_Alloc_mem at both ends, or in the latter at one end. Every size and place is
// checked first; the places take turns, so that whatever else the machine does meets all of them.
//
//   mpi_memory [--min BYTES] [--max BYTES] [--ms MILLISECONDS]
//
// Rank 0 prints for each size "PLACE BYTES MICROSECONDS", one way, the median of the turns, for
// the places "malloc", "alloc_mem", "alloc_source" and "alloc_target"; then "alloc_ratio BYTES
// RATIO", alloc_mem over malloc, the median of the turns.
#include "mpi_bench.h"

enum { kPlaces = 4, kTurns = 7, kTag = 1 };

static const char* const kNames[kPlaces] = {"malloc", "alloc_mem", "alloc_source", "alloc_target"};

static char* ordinary[2];   // sent from, received into
static char* allocated[2];  // the same
static char* out;
static char* in;

static void use(int place) {
  out = place == 1 || place == 2 ? allocated[0] : ordinary[0];
  in = place == 1 || place == 3 ? allocated[1] : ordinary[1];
}

static void round_trips(long bytes, int count) {
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      MPI_Send(out, (int)bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
      MPI_Recv(in, (int)bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, (int)bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, (int)bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
    }
  }
}

static void check(long bytes) {
  fill(out, bytes, rank);
  zero(in, bytes);
  round_trips(bytes, 1);
  expect(in, bytes, 1 - rank, "mpi_memory: wrong bytes");
}

static void one_size(long bytes, double seconds) {
  double times[kPlaces][kTurns], ratios[kTurns];
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int i = 0; i < kPlaces; ++i) {
      const int place = (turn + i) % kPlaces;
      use(place);
      if (turn == 0) check(bytes);
      times[place][turn] = measure(round_trips, bytes, seconds / kTurns) / 2;
    }
    ratios[turn] = times[1][turn] / times[0][turn];
  }
  if (rank != 0) return;
  for (int place = 0; place < kPlaces; ++place)
    printf("%s %ld %.4f\n", kNames[place], bytes, median(times[place], kTurns) * 1e6);
  printf("alloc_ratio %ld %.3f\n", bytes, median(ratios, kTurns));
  fflush(stdout);
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const long min = (long)option(argc, argv, "--min", 1024);
  const long max = (long)option(argc, argv, "--max", 4 << 20);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  if (min < 1 || max < min || max > (1 << 30) || seconds <= 0)
    fail("usage: mpirun -n 2 mpi_memory [--min BYTES] [--max BYTES] [--ms MILLISECONDS]", max);
  for (int i = 0; i < 2; ++i) {
    ordinary[i] = buffer((size_t)max);
    allocated[i] = mpi_buffer((size_t)max);
  }
  for (long n = min; n <= max; n *= 2) one_size(n, seconds);
  for (int i = 0; i < 2; ++i) {
    free(ordinary[i]);
    MPI_Free_mem(allocated[i]);
  }
  MPI_Finalize();
  return 0;
}
