// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Time of collectives over all ranks. Every call's result is checked once before it is measured.
//
//   mpi_collectives [--small 1] [--ms MILLISECONDS]
//
// Rank 0 prints "OPERATION BYTES MICROSECONDS": allreduce of 8 bytes (a sum of doubles), alltoall
// of 1 KiB for each pair, and without --small barrier, and bcast of 1 KiB, 5,000 B and 1 MiB.
// Broadcasts go round: each rank in turn is the root, so that none can run ahead.
#include "mpi_bench.h"

static const long bcasts[] = {1024, 5000, 1 << 20};
static char* out;
static char* in;

static void barrier(long bytes, int count) {
  (void)bytes;
  for (int i = 0; i < count; ++i) MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(long bytes, int count) {
  for (int i = 0; i < count; ++i)
    MPI_Allreduce(out, in, (int)(bytes / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(long bytes, int count) {
  for (int i = 0; i < count; ++i)
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void bcast(long bytes, int count) {
  for (int i = 0; i < count; ++i)
    for (int root = 0; root < ranks; ++root)
      MPI_Bcast(root == rank ? out : in, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void check_allreduce(void) {
  double mine = rank + 1, sum = 0;
  memcpy(out, &mine, sizeof(mine));
  allreduce(8, 1);
  memcpy(&sum, in, sizeof(sum));
  if (sum != ranks * (ranks + 1) / 2.0) fail("mpi_collectives: wrong sum", (long)sum);
}

static void check_alltoall(long bytes) {
  for (int to = 0; to < ranks; ++to) fill(out + to * bytes, bytes, rank * ranks + to);
  zero(in, bytes * ranks);
  alltoall(bytes, 1);
  for (int from = 0; from < ranks; ++from)
    expect(in + from * bytes, bytes, from * ranks + rank, "mpi_collectives: wrong alltoall");
}

static void check_bcast(long bytes) {
  for (int root = 0; root < ranks; ++root) {
    fill(in, bytes, root == rank ? root : ranks);
    MPI_Bcast(in, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    expect(in, bytes, root, "mpi_collectives: wrong bcast");
  }
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 64);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  const int small = (int)option(argc, argv, "--small", 0);
  if (seconds <= 0) fail("usage: mpi_collectives [--small 1] [--ms MILLISECONDS]", 0);
  out = buffer(1 << 20);
  in = buffer(1 << 20);
  check_allreduce();
  show("allreduce", 8, measure(allreduce, 8, seconds));
  check_alltoall(1024);
  show("alltoall", 1024, measure(alltoall, 1024, seconds));
  if (!small) show("barrier", 0, measure(barrier, 0, seconds));
  for (size_t i = 0; !small && i < sizeof bcasts / sizeof *bcasts; ++i) {
    check_bcast(bcasts[i]);
    show("bcast", bcasts[i], measure(bcast, bcasts[i], seconds) / ranks);
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
