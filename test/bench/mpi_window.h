// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Windows of messages from rank 0 to rank 1, for programs that send many at once.
#ifndef TORII_BENCH_MPI_WINDOW_H
#define TORII_BENCH_MPI_WINDOW_H

#include "mpi_bench.h"

enum {
  kWindow = 64,             // messages in flight
  kWindowBytes = 16 << 20,  // fewer when they are large
  kTag = 1,
  kAnswer = 2,
};

static char* out;
static char* in;
static MPI_Request requests[2 * kWindow];  // enough for both directions

static inline int window_of(long bytes) {
  const long fit = bytes > 0 ? kWindowBytes / bytes : kWindow;
  return fit < 1 ? 1 : fit > kWindow ? kWindow : (int)fit;
}

// Each window ends with an empty answer, so that the sender's clock sees the last byte arrive.
static inline void windows(long bytes, int count) {
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

#endif
