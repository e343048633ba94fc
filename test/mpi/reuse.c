/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * reuse [ROUNDS]: two ranks send each other messages from memory that is given back right after,
 * and got again at the same address with other bytes. While they are under way the process forks,
 * the child changes its copy, the parent writes beside the messages, and what lies behind them is
 * unmapped. Every byte is right: nobody keeps a registration, or a page, that is no longer the
 * memory's.
 */
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kBeside = 64, kHalf = 2 << 20 };

static const size_t sizes[] = {1000, 60000, 300000, 1 << 20};

/* Twice kHalf bytes. Mapped ones are at `place` if that is free. */
static uint8_t* take(int mapped, void* place) {
  void* const memory =
      mapped ? mmap(place, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
             : malloc(2 * kHalf);
  CHECK(NULL != memory && MAP_FAILED != memory, "no memory");
  return memory;
}

static void give_back(int mapped, uint8_t* memory) {
  if (mapped) {
    munmap(memory, kHalf);
  } else {
    free(memory);
    malloc_trim(0);
  }
}

/* A child with other bytes in its copy, which lives until it is killed, or its parent ends. */
static pid_t fork_beside(uint8_t* out, uint8_t* in, size_t bytes) {
  const pid_t child = fork();
  CHECK(child >= 0, "no fork");
  if (0 == child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(out, 0xee, bytes);
    memset(in, 0xdd, bytes);
    for (;;) pause();
  }
  return child;
}

/* True if the memory was where it was before. */
static int swap(int round) {
  static uint8_t* places[2];
  const int mapped = round / 4 % 2 == 0, other = 1 - world_rank;
  const size_t bytes = sizes[round % 4];
  uint8_t* const out = take(mapped, places[0]);
  uint8_t* const in = take(mapped, places[1]);
  const int again = out == places[0] && in == places[1];
  MPI_Request requests[2];
  pid_t child;
  fill(out + kBeside, bytes, (uint32_t)(2 * round + world_rank));
  memset(in, 0x55, bytes + 2 * kBeside);
  MPI_Irecv(in + kBeside, (int)bytes, MPI_BYTE, other, round, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out + kBeside, (int)bytes, MPI_BYTE, other, round, MPI_COMM_WORLD, &requests[1]);
  child = fork_beside(out, in, bytes + 2 * kBeside);
  out[0] = in[0] = (uint8_t)round;
  if (mapped) {
    munmap(out + kHalf, kHalf);
    munmap(in + kHalf, kHalf);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  verify(in + kBeside, bytes, (uint32_t)(2 * round + other), "received");
  verify_value(in + kBeside + bytes, kBeside, 0x55, "behind what was received");
  CHECK(in[0] == (uint8_t)round, "the parent's own byte is %u", in[0]);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  memset(out, 0xcc, bytes + kBeside);
  give_back(mapped, out);
  give_back(mapped, in);
  if (mapped) {
    places[0] = out;
    places[1] = in;
  }
  return again;
}

int main(int argc, char** argv) {
  int again = 0;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  const int rounds = argc > 1 ? atoi(argv[1]) : 64;
  CHECK(2 == world_size && rounds >= 16, "%d ranks, not 2, or %d rounds, not 16", world_size,
        rounds);
  for (int round = 0; round < rounds; ++round) again += swap(round);
  CHECK(again > 0, "no address was used again in %d rounds", rounds);
  return finish();
}
