/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Send modes: a synchronous send completes only after its receive has matched, a ready send
 * meets its receive, a buffered send returns at once whatever the receiver does. */
#include "check.h"

static const int kSizes[] = {0, 1, 100, 4096, 30000, 300000, 2 << 20};
enum { kKinds = 7, kLargest = 2 << 20 };
static char *out, *in;

static void token(int partner, int sends) {
  if (sends)
    MPI_Send(NULL, 0, MPI_INT, partner, 90, MPI_COMM_WORLD);
  else
    MPI_Recv(NULL, 0, MPI_INT, partner, 90, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void synchronous(int partner, int sends) {
  for (int i = 0; i < kKinds; ++i) {
    MPI_Request request;
    int flag = 0;
    if (sends) {
      fill(out, (size_t)kSizes[i], (uint32_t)i);
      MPI_Issend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &request);
      token(partner, 1); /* the envelope is there, or on its way, without a receive */
      for (int poll = 0; poll < 2000; ++poll) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a synchronous send of %d bytes completed unmatched", kSizes[i]);
      }
      token(partner, 1); /* now the partner may receive */
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Ssend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD);
    } else {
      token(partner, 0);
      MPI_Iprobe(partner, i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* no match */
      token(partner, 0);
      MPI_Recv(in, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      verify(in, (size_t)kSizes[i], (uint32_t)i, "issend");
      MPI_Recv(in, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      verify(in, (size_t)kSizes[i], (uint32_t)i, "ssend");
    }
  }
}

static void ready(int partner, int sends) {
  for (int i = 0; i < kKinds; ++i) {
    MPI_Request request;
    if (sends) {
      fill(out, (size_t)kSizes[i], (uint32_t)i + 3);
      token(partner, 0);
      if (i & 1) {
        MPI_Rsend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD);
      } else {
        MPI_Irsend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    } else {
      MPI_Irecv(in, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &request);
      token(partner, 1);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      verify(in, (size_t)kSizes[i], (uint32_t)i + 3, "rsend");
    }
  }
}

static void buffered(int partner, int sends) {
  size_t total = 0;
  for (int i = 0; i < kKinds; ++i) total += (size_t)kSizes[i] + MPI_BSEND_OVERHEAD;
  char* space = malloc(3 * total);
  CHECK(space, "no memory");
  if (sends) {
    void* detached;
    int size;
    MPI_Buffer_attach(space, (int)(3 * total));
    for (int i = 0; i < kKinds; ++i) {
      MPI_Request request;
      MPI_Datatype strided;
      fill(out, (size_t)kSizes[i], (uint32_t)i + 5);
      if (i % 3 == 2) {
        MPI_Ibsend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, &request);
        memset(out, 0x77, (size_t)kSizes[i]); /* the memory is ours again */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Bsend(out, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD);
        memset(out, 0x77, (size_t)kSizes[i]);
      }
      fill(out, 40000, 6);
      MPI_Type_vector(10000, 2, 4, MPI_BYTE, &strided);
      MPI_Type_commit(&strided);
      MPI_Bsend(out, 1, strided, partner, 50 + i, MPI_COMM_WORLD);
      MPI_Type_free(&strided);
    }
    token(partner, 1);
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == space, "another buffer came back");
  } else {
    token(partner, 0); /* all sends have returned */
    for (int i = kKinds - 1; i >= 0; --i) {
      memset(in, 0, kLargest);
      MPI_Recv(in, kSizes[i], MPI_BYTE, partner, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      verify(in, (size_t)kSizes[i], (uint32_t)i + 5, "bsend");
      MPI_Recv(in, 20000, MPI_BYTE, partner, 50 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (size_t b = 0; b < 20000; ++b) {
        size_t place = b / 2 * 4 + b % 2;
        CHECK((uint8_t)in[b] == pattern(place, 6), "strided bsend: byte %zu", b);
      }
    }
  }
  free(space);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  out = malloc(kLargest);
  in = malloc(kLargest);
  CHECK(out && in, "no memory");
  int partner = world_rank ^ 1;
  if (partner < world_size) {
    for (int turn = 0; turn < 2; ++turn) {
      int sends = (world_rank & 1) == turn;
      synchronous(partner, sends);
      ready(partner, sends);
      buffered(partner, sends);
    }
  }
  return finish();
}
