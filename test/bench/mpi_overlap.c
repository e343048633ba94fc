// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Transfers and computation.
//
//   mpi_overlap [--ms MILLISECONDS]
//
// How much of a transfer hides behind computation: both ranks exchange messages of a size by
// MPI_Irecv and MPI_Isend, compute for as long as the exchange takes, then call MPI_Waitall.
// Rank 0 prints "hidden BYTES PERCENT" for 64 KiB and 1 MiB. 100: it took no longer than the
// computation alone; 0: as long as both one after the other. Each repetition measures exchange,
// computation and both together, since the speed of a machine changes; the medians
// of each decide.
//
// How long a rank waits for one that computes: rank 1 has called MPI_Irecv and computes for 10 ms
// before it calls MPI_Wait; rank 0 calls MPI_Ssend meanwhile. Rank 0 prints "taken BYTES
// MICROSECONDS" for 8 B, 64 KiB and 1 MiB: the median time of MPI_Ssend.
#include "mpi_bench.h"

enum { kTag = 1, kMaxRepetitions = 2000, kProbeSteps = 100000, kLargest = 1 << 20 };
static const double kBusySeconds = 0.01;
static const double kBeginSeconds = 0.001;  // of them, before rank 0 sends

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

// Steps of computation that take so long on this rank.
static long steps_for(double seconds) {
  double work[5];
  for (int i = 0; i < 5; ++i) {
    const double begin = MPI_Wtime();
    compute(kProbeSteps);
    work[i] = MPI_Wtime() - begin;
  }
  return (long)(seconds / median(work, 5) * kProbeSteps) + 1;
}

// One message of rank 0 to rank 1, which computes. Returns the time of MPI_Ssend.
static double send_to_busy(long bytes, long steps) {
  MPI_Request request;
  if (rank == 1) MPI_Irecv(in, (int)bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    compute(steps);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return 0;
  }
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < kBeginSeconds) {
  }
  const double start = MPI_Wtime();
  MPI_Ssend(out, (int)bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

static double taken(long bytes, double seconds) {
  static double time[kMaxRepetitions];
  const double wanted = seconds / kBusySeconds;
  const int count = wanted < 5 ? 5 : wanted > kMaxRepetitions ? kMaxRepetitions : (int)wanted;
  const long steps = steps_for(kBusySeconds);
  for (int i = 0; i < count; ++i) time[i] = send_to_busy(bytes, steps);
  return median(time, count);
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const double seconds = option(argc, argv, "--ms", 100) / 1000;
  if (seconds <= 0) fail("usage: mpirun -n 2 mpi_overlap [--ms MILLISECONDS]", 0);
  out = buffer(kLargest);
  in = buffer(kLargest);
  for (long n = 64 << 10; n <= kLargest; n *= 16) {
    fill(out, n, rank);
    zero(in, n);
    const double percent = hidden(n, seconds);
    expect(in, n, 1 - rank, "mpi_overlap: wrong bytes");
    if (rank == 0) printf("hidden %ld %.2f\n", n, percent);
  }
  const long sizes[] = {8, 64 << 10, 1 << 20};
  for (int i = 0; i < 3; ++i) {
    fill(out, sizes[i], rank);
    memset(in, 0, (size_t)sizes[i]);
    const double time = taken(sizes[i], seconds);
    if (rank == 1) expect(in, sizes[i], 0, "mpi_overlap: wrong bytes");
    if (rank == 0) printf("taken %ld %.3f\n", sizes[i], 1e6 * time);
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
