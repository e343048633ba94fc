// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The cost of matching: latency of an 8-byte message when both ranks hold other receives that are
// posted earlier, or other messages that arrived earlier and were not asked for. The others have
// tags of their own, are received at the end, and their contents are checked.
//
//   mpi_queues [--max ENTRIES] [--ms MILLISECONDS]
//
// Rank 0 prints "posted ENTRIES MICROSECONDS" and "unexpected ENTRIES MICROSECONDS", one way, for
// 1, 10, 100, 1000 and 10000 other entries.
#include "mpi_bench.h"

enum { kTag = 1, kEmpty = 2, kFirstOther = 100, kBytes = 8 };

static char out[kBytes];
static char in[kBytes];

static void round_trips(long entries, int count) {
  (void)entries;
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      MPI_Send(out, kBytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
      MPI_Recv(in, kBytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, kBytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, kBytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
    }
  }
}

// Nothing passes a message of the same pair: after it, what was sent before has arrived.
static void flush(void) {
  MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - rank, kEmpty, NULL, 0, MPI_BYTE, 1 - rank, kEmpty,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_others(const long* values, int entries) {
  for (int i = 0; i < entries; ++i)
    MPI_Send(&values[i], kBytes, MPI_BYTE, 1 - rank, kFirstOther + i, MPI_COMM_WORLD);
}

static double with_posted(int entries, const long* values, long* got, double seconds) {
  MPI_Request* requests = malloc((size_t)entries * sizeof(*requests));
  if (!requests) fail("mpi_queues: no memory for requests", entries);
  for (int i = 0; i < entries; ++i)
    MPI_Irecv(&got[i], kBytes, MPI_BYTE, 1 - rank, kFirstOther + i, MPI_COMM_WORLD, &requests[i]);
  flush();
  const double t = measure(round_trips, entries, seconds);
  send_others(values, entries);
  MPI_Waitall(entries, requests, MPI_STATUSES_IGNORE);
  free(requests);
  return t;
}

// One rank sends at a time, while the other one takes in what comes.
static double with_unexpected(int entries, const long* values, long* got, double seconds) {
  for (int sender = 0; sender < 2; ++sender) {
    if (rank == sender) send_others(values, entries);
    flush();
  }
  const double t = measure(round_trips, entries, seconds);
  for (int i = 0; i < entries; ++i)
    MPI_Recv(&got[i], kBytes, MPI_BYTE, 1 - rank, kFirstOther + i, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  return t;
}

static double one_case(int posted, int entries, double seconds) {
  long* values = (long*)buffer((size_t)entries * sizeof(long));
  long* got = (long*)buffer((size_t)entries * sizeof(long));
  for (int i = 0; i < entries; ++i) {
    values[i] = i * 3 + rank;
    got[i] = -1;
  }
  fill(out, kBytes, rank);
  const double t = posted ? with_posted(entries, values, got, seconds)
                          : with_unexpected(entries, values, got, seconds);
  expect(in, kBytes, 1 - rank, "mpi_queues: wrong bytes in the message");
  for (int i = 0; i < entries; ++i)
    if (got[i] != i * 3 + 1 - rank) fail("mpi_queues: wrong bytes in another entry", i);
  free(values);
  free(got);
  return t;
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const int max = (int)option(argc, argv, "--max", 10000);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  if (max < 1 || max > 10000 || seconds <= 0)
    fail("usage: mpirun -n 2 mpi_queues [--max ENTRIES] [--ms MILLISECONDS]", max);
  for (int posted = 1; posted >= 0; --posted) {
    for (int n = 1; n <= max; n *= 10) {
      const double t = one_case(posted, n, seconds);
      if (rank == 0) printf("%s %d %.4f\n", posted ? "posted" : "unexpected", n, t / 2 * 1e6);
    }
  }
  MPI_Finalize();
  return 0;
}
