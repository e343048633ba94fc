// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Latency and bandwidth between ranks 0 and 1 by message size, for whatever MPI it runs over.
// Every size is checked first: a pattern there and back.
//
//   mpi_pingpong [--max BYTES] [--ms MILLISECONDS] [--alloc 1]
//
// --alloc 1: the messages lie in memory from MPI_Alloc_mem.
//
// Rank 0 prints one line for each size: "latency BYTES MICROSECONDS", one way, the median of the
// batches; then "bandwidth BYTES MB/S" (10^6 bytes), many messages in flight in one direction.
#include "mpi_window.h"

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
  expect(in, bytes, 1 - rank, "mpi_pingpong: wrong bytes");
}

static void check_windows(long bytes) {
  const long all = bytes * window_of(bytes);
  fill(out, all, rank);
  zero(in, all);
  windows(bytes, 1);
  if (rank == 1) expect(in, all, 0, "mpi_pingpong: wrong bytes in a window");
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const long max = (long)option(argc, argv, "--max", 4 << 20);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  if (max < 0 || max > (1 << 30) || seconds <= 0)
    fail("usage: mpirun -n 2 mpi_pingpong [--max BYTES] [--ms MILLISECONDS] [--alloc 1]", max);
  const size_t bytes = max > kWindowBytes ? (size_t)max : kWindowBytes;
  const int alloc = option(argc, argv, "--alloc", 0) != 0;
  out = alloc ? mpi_buffer(bytes) : buffer(bytes);
  in = alloc ? mpi_buffer(bytes) : buffer(bytes);
  for (long n = 0; n <= max; n = n ? n * 2 : 1) {
    check(n);
    const double t = measure(round_trips, n, seconds);
    if (rank == 0) printf("latency %ld %.4f\n", n, t / 2 * 1e6);
  }
  for (long n = 1; n <= max; n *= 2) {
    check_windows(n);
    const double t = measure(windows, n, seconds);
    if (rank == 0) printf("bandwidth %ld %.2f\n", n, (double)n * window_of(n) / t / 1e6);
  }
  if (alloc) {
    MPI_Free_mem(out);
    MPI_Free_mem(in);
  } else {
    free(out);
    free(in);
  }
  MPI_Finalize();
  return 0;
}
