// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Latency and bandwidth between ranks 0 and 1 by message size, for whatever MPI it runs over.
// Every size is checked first (a pattern there and back), then measured in short batches whose
// length is calibrated, so that one run takes about as long over a fast and over a slow path.
//
//   mpi_pingpong [--max BYTES] [--ms MILLISECONDS]
//
// Rank 0 prints one line for each size: "latency BYTES MICROSECONDS", one way, the median of the
// batches; then "bandwidth BYTES MB/S" (10^6 bytes), many messages in flight in one direction.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  kBatches = 5,
  kWindow = 64,             // messages in flight, bandwidth
  kWindowBytes = 16 << 20,  // fewer when they are large
  kTag = 1,
  kAnswer = 2,
};

static int rank;
static char* out;
static char* in;
static MPI_Request requests[kWindow];

static void fail(const char* what, long bytes) {
  fprintf(stderr, "mpi_pingpong: %s at %ld bytes\n", what, bytes);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int window_of(long bytes) {
  const long fit = bytes > 0 ? kWindowBytes / bytes : kWindow;
  return fit < 1 ? 1 : fit > kWindow ? kWindow : (int)fit;
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

// Each window ends with an empty answer, so that the sender's clock sees the last byte arrive.
static void windows(long bytes, int count) {
  const int window = window_of(bytes);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < window; ++k) {
      if (rank == 0)
        MPI_Isend(out + k * bytes, (int)bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[k]);
      else
        MPI_Irecv(in + k * bytes, (int)bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &requests[k]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
      MPI_Recv(NULL, 0, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(NULL, 0, MPI_BYTE, 0, kAnswer, MPI_COMM_WORLD);
  }
}

static void check(long bytes) {
  for (long i = 0; i < bytes; ++i) out[i] = (char)(i * 7 + bytes + rank);
  memset(in, 0, (size_t)bytes);
  round_trips(bytes, 1);
  for (long i = 0; i < bytes; ++i)
    if (in[i] != (char)(i * 7 + bytes + 1 - rank)) fail("wrong bytes", bytes);
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Seconds of one call of `work` with count 1, the median of the batches.
static double measure(void (*work)(long, int), long bytes, double seconds) {
  double batch[kBatches];
  work(bytes, 4);  // first use of buffers and paths
  double once = 0, begin;
  for (int i = 0; i < 3; ++i) {
    begin = MPI_Wtime();
    work(bytes, 4);
    const double t = (MPI_Wtime() - begin) / 4;
    if (i == 0 || t < once) once = t;
  }
  const double wanted = once > 0 ? seconds / kBatches / once : 1000;
  int count = wanted < 1 ? 1 : wanted > 100000 ? 100000 : (int)wanted;
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < kBatches; ++i) {
    begin = MPI_Wtime();
    work(bytes, count);
    batch[i] = (MPI_Wtime() - begin) / count;
  }
  qsort(batch, kBatches, sizeof(batch[0]), by_value);
  return batch[kBatches / 2];
}

static char* buffer(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, bytes) != 0) fail("no memory", (long)bytes);
  memset(memory, 1, bytes);
  return memory;
}

int main(int argc, char** argv) {
  long max = 4 << 20;
  double seconds = 0.01;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--max") == 0) max = atol(argv[i + 1]);
    if (strcmp(argv[i], "--ms") == 0) seconds = atof(argv[i + 1]) / 1000;
  }
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || max < 0 || max > (1 << 30) || seconds <= 0) {
    if (rank == 0) fprintf(stderr, "usage: mpirun -n 2 mpi_pingpong [--max BYTES] [--ms N]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t bytes = max > kWindowBytes ? (size_t)max : kWindowBytes;
  out = buffer(bytes);
  in = buffer(bytes);
  for (long n = 0; n <= max; n = n ? n * 2 : 1) {
    check(n);
    const double t = measure(round_trips, n, seconds);
    if (rank == 0) printf("latency %ld %.4f\n", n, t / 2 * 1e6);
  }
  for (long n = 1; n <= max; n *= 2) {
    const double t = measure(windows, n, seconds);
    if (rank == 0) printf("bandwidth %ld %.2f\n", n, (double)n * window_of(n) / t / 1e6);
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
