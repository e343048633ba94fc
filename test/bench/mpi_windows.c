// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Many messages in flight between ranks 0 and 1: bandwidth in both directions at once, and the
// rate of small messages. One window of every size is checked first.
//
//   mpi_windows [--max BYTES] [--ms MILLISECONDS]
//
// Rank 0 prints "bidirectional BYTES MB/S" (10^6 bytes, both directions together) and
// "rate BYTES MESSAGES/S" (millions, one direction, windows of 64, up to 1 KiB), medians of the
// batches.
#include "mpi_window.h"

enum { kLargestRate = 1024 };

// Both sides end a window only when they have what the other one sent in it.
static void both_ways(long bytes, int count) {
  const int window = window_of(bytes), peer = 1 - rank;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < window; ++k)
      MPI_Irecv(in + k * bytes, (int)bytes, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, &requests[k]);
    for (int k = 0; k < window; ++k)
      MPI_Isend(out + k * bytes, (int)bytes, MPI_BYTE, peer, kTag, MPI_COMM_WORLD,
                &requests[window + k]);
    MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
  }
}

static void check(void (*work)(long, int), long bytes, int window, const char* where) {
  const long all = bytes * window;
  fill(out, all, rank);
  zero(in, all);
  work(bytes, 1);
  if (work == both_ways || rank == 1) expect(in, all, 1 - rank, where);
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const long max = (long)option(argc, argv, "--max", 4 << 20);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  if (max < 0 || max > kWindowBytes || seconds <= 0)
    fail("usage: mpirun -n 2 mpi_windows [--max BYTES] [--ms MILLISECONDS]", max);
  out = buffer(kWindowBytes);
  in = buffer(kWindowBytes);
  for (long n = 1; n <= max; n *= 2) {
    const int window = window_of(n);
    check(both_ways, n, window, "mpi_windows: wrong bytes of both ways");
    const double t = measure(both_ways, n, seconds);
    if (rank == 0) printf("bidirectional %ld %.2f\n", n, 2.0 * (double)n * window / t / 1e6);
  }
  for (long n = 0; n <= max && n <= kLargestRate; n = n ? n * 2 : 1) {
    check(windows, n, kWindow, "mpi_windows: wrong bytes of one way");
    const double t = measure(windows, n, seconds);
    if (rank == 0) printf("rate %ld %.4f\n", n, kWindow / t / 1e6);
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
