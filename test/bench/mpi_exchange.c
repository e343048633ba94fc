// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Time of exchanges that production codes are made of, over all ranks and by message size. Every
// exchange's data is checked once before it is measured.
//
//   mpi_exchange [--max BYTES] [--ms MILLISECONDS]
//
// Rank 0 prints "OPERATION BYTES MICROSECONDS" for sizes of 1 B, 4 B, 16 B and so on: "ring", an
// MPI_Sendrecv from the rank before to the one behind; "neighbours", messages to both of them and
// from both at once; "alltoall", BYTES for each pair.
#include "mpi_bench.h"

static char* out;
static char* in;
static long largest;

static int before(void) { return (rank + ranks - 1) % ranks; }
static int behind(void) { return (rank + 1) % ranks; }

static void ring(long bytes, int count) {
  for (int i = 0; i < count; ++i)
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, behind(), 0, in, (int)bytes, MPI_BYTE, before(), 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* With two ranks each is the other's neighbour on both sides: tags tell which message is meant. */
static void neighbours(long bytes, int count) {
  enum { kForward, kBackward };
  for (int i = 0; i < count; ++i) {
    MPI_Request requests[4];
    MPI_Irecv(in, (int)bytes, MPI_BYTE, before(), kForward, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + largest, (int)bytes, MPI_BYTE, behind(), kBackward, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Isend(out, (int)bytes, MPI_BYTE, behind(), kForward, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out, (int)bytes, MPI_BYTE, before(), kBackward, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
}

static void alltoall(long bytes, int count) {
  for (int i = 0; i < count; ++i)
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void check(long bytes) {
  fill(out, bytes, rank);
  zero(in, 2 * largest);
  ring(bytes, 1);
  expect(in, bytes, before(), "mpi_exchange: wrong data in the ring");
  zero(in, 2 * largest);
  neighbours(bytes, 1);
  expect(in, bytes, before(), "mpi_exchange: wrong data from the rank before");
  expect(in + largest, bytes, behind(), "mpi_exchange: wrong data from the rank behind");
  for (int to = 0; to < ranks; ++to) fill(out + to * bytes, bytes, rank * ranks + to);
  zero(in, bytes * ranks);
  alltoall(bytes, 1);
  for (int from = 0; from < ranks; ++from)
    expect(in + from * bytes, bytes, from * ranks + rank, "mpi_exchange: wrong alltoall");
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 64);
  largest = (long)option(argc, argv, "--max", 1 << 20);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  if (seconds <= 0 || largest < 1 || largest > 1 << 24)
    fail("usage: mpi_exchange [--max BYTES] [--ms MILLISECONDS]", largest);
  out = buffer((size_t)(largest * ranks));
  in = buffer((size_t)(largest * ranks));
  for (long n = 1; n <= largest; n *= 4) {
    check(n);
    show("ring", n, measure(ring, n, seconds));
    show("neighbours", n, measure(neighbours, n, seconds));
    show("alltoall", n, measure(alltoall, n, seconds));
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
