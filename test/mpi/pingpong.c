/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Ping-pong of every size class up to 8 MiB, aligned and not, between neighbours; then the same
 * in both directions at once, and between all pairs with few sizes. Usage: pingpong [LARGEST
 * [STRIDE]], 8388608 and 1: bytes, and the distance between the smallest sizes. */
#include "check.h"

enum { kLargest = 8 << 20, kSlack = 64 };

static char *out, *in;

static void echo(int partner, size_t bytes, size_t shift, int leads) {
  uint32_t seed = (uint32_t)(bytes * 3 + shift);
  MPI_Status status;
  memset(in, 0xee, bytes + kSlack < 4096 ? bytes + kSlack : 4096);
  if (leads) {
    fill(out + shift, bytes, seed);
    MPI_Send(out + shift, (int)bytes, MPI_BYTE, partner, 5, MPI_COMM_WORLD);
    MPI_Recv(in + 7 * shift % kSlack, (int)bytes, MPI_BYTE, partner, 6, MPI_COMM_WORLD, &status);
    verify_status(&status, partner, 6, (MPI_Count)bytes, "echo");
    verify(in + 7 * shift % kSlack, bytes, seed, "echo");
  } else {
    MPI_Recv(in + shift, (int)bytes, MPI_BYTE, partner, 5, MPI_COMM_WORLD, &status);
    verify_status(&status, partner, 5, (MPI_Count)bytes, "first way");
    verify(in + shift, bytes, seed, "first way");
    MPI_Send(in + shift, (int)bytes, MPI_BYTE, partner, 6, MPI_COMM_WORLD);
  }
}

static void both_ways(int partner, size_t bytes) {
  MPI_Request requests[2];
  MPI_Status status[2];
  fill(out, bytes, (uint32_t)world_rank);
  memset(in, 0, bytes);
  MPI_Irecv(in, (int)bytes, MPI_BYTE, partner, 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, (int)bytes, MPI_BYTE, partner, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, status);
  verify_status(&status[0], partner, 9, (MPI_Count)bytes, "both ways");
  verify(in, bytes, (uint32_t)partner, "both ways");
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  out = malloc(kLargest + kSlack);
  in = malloc(kLargest + kSlack);
  CHECK(out && in, "no memory");
  int partner = world_rank ^ 1;
  size_t largest = argc > 1 ? (size_t)atol(argv[1]) : kLargest;
  size_t stride = argc > 2 ? (size_t)atol(argv[2]) : 1;
  CHECK(largest >= 1024 && largest <= kLargest && stride > 0, "bad arguments");
  if (partner < world_size) {
    for (size_t bytes = 0; bytes <= 1100; bytes += stride)
      echo(partner, bytes, bytes % 13, world_rank & 1);
    for (size_t power = 1024; power <= largest; power *= 2) {
      for (int delta = -3; delta <= 3; ++delta) {
        size_t bytes = power + (size_t)delta;
        if (bytes <= largest) echo(partner, bytes, (size_t)(delta + 3) * 5 % 11, world_rank & 1);
      }
      echo(partner, power / 8 * 11 / 2 % largest, 1, !(world_rank & 1));
    }
    for (size_t bytes = 1; bytes <= largest; bytes = bytes * 3 + 1) both_ways(partner, bytes);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 0; step < world_size; ++step) {
    int to = (world_rank + step) % world_size, from = (world_rank - step + world_size) % world_size;
    for (size_t bytes = 0; bytes <= 1 << 20; bytes = bytes * 33 + 5) {
      fill(out, bytes, (uint32_t)(world_rank * 100 + to));
      MPI_Status status;
      MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, step, in, (int)bytes, MPI_BYTE, from, step,
                   MPI_COMM_WORLD, &status);
      verify_status(&status, from, step, (MPI_Count)bytes, "all pairs");
      verify(in, bytes, (uint32_t)(from * 100 + world_rank), "all pairs");
    }
  }
  return finish();
}
