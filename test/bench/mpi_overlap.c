// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How much of a transfer hides behind computation: both ranks exchange messages of a size by
// MPI_Irecv and MPI_Isend, compute for as long as the exchange takes, then call MPI_Waitall.
//
//   mpi_overlap [--ms MILLISECONDS]
//
// Rank 0 prints "hidden BYTES PERCENT" for 64 KiB and 1 MiB. 100: it took no longer than the
// computation alone; 0: as long as both one after the other. Each repetition measures exchange,
// computation and both together, since the speed of a machine changes; the medians
// of each decide.
#include "mpi_bench.h"

enum { kTag = 1, kMaxRepetitions = 2000, kProbeSteps = 100000, kLargest = 1 << 20 };

static char* out;
static char* in;
static volatile double state = 2.0;

// Stays in registers, so that it does not compete for memory; its start is not for the compiler to
// know.
static void compute(long steps) {
  double x = state;
  for (long i = 0; i < steps; ++i) x = x * 0.999999 + 1e-6;
  state = x + 1.0;
}

static double exchange(long bytes, long steps) {
  MPI_Request requests[2];
  const int peer = 1 - rank;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  MPI_Irecv(in, (int)bytes, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, (int)bytes, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, &requests[1]);
  if (steps > 0) compute(steps);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  return MPI_Wtime() - begin;
}

static double computing(long steps) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  compute(steps);
  return MPI_Wtime() - begin;
}

static double hidden(long bytes, double seconds) {
  static double transfer[kMaxRepetitions], work[kMaxRepetitions], both[kMaxRepetitions];
  int count = 11;
  for (int i = 0; i < count; ++i) transfer[i] = exchange(bytes, 0);
  double once = median(transfer, count);
  MPI_Bcast(&once, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) work[i] = computing(kProbeSteps);
  double step = median(work, count) / kProbeSteps;
  MPI_Bcast(&step, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  const long steps = (long)(once / step) + 1;
  const double wanted = seconds / (4 * once);
  count = agreed(wanted < 5 ? 5 : wanted > kMaxRepetitions ? kMaxRepetitions : (int)wanted);
  for (int i = 0; i < count; ++i) {
    transfer[i] = exchange(bytes, 0);
    work[i] = computing(steps);
    both[i] = exchange(bytes, steps);
  }
  const double alone = median(transfer, count), busy = median(work, count);
  const double less = alone < busy ? alone : busy;
  const double percent = 100 * (alone + busy - median(both, count)) / less;
  return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const double seconds = option(argc, argv, "--ms", 100) / 1000;
  if (seconds <= 0) fail("usage: mpirun -n 2 mpi_overlap [--ms MILLISECONDS]", 0);
  out = buffer(kLargest);
  in = buffer(kLargest);
  for (long n = 64 << 10; n <= kLargest; n *= 16) {
    fill(out, n, rank);
    memset(in, 0, (size_t)n);
    const double percent = hidden(n, seconds);
    expect(in, n, 1 - rank, "mpi_overlap: wrong bytes");
    if (rank == 0) printf("hidden %ld %.2f\n", n, percent);
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
