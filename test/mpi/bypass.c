/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * For Torii's progress thread: rank 0 exchanges messages with ranks that compute, and only when
 * they are through may those go on and call MPI again. They learn it from memory that all ranks
 * share. `bypass threads` asks for MPI_THREAD_MULTIPLE. `bypass senders` needs no thread: the ranks
 * that compute have begun to send, and the receiver gets at their memory itself. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kTag = 5, kLarge = 1 << 20, kMedium = 32 << 10, kMany = 200, kMaxRanks = 256 };
static const double kPatience = 20; /* seconds */

static volatile int* stage; /* by rank: messages that rank 0 is through with */

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void share_memory(void) {
  char name[] = "/tmp/torii-bypass-XXXXXX";
  int fd = -1;
  if (world_rank == 0) {
    fd = mkstemp(name);
    CHECK(fd >= 0, "%s cannot be made", name);
    CHECK(ftruncate(fd, kMaxRanks * sizeof(int)) == 0, "no room in %s", name);
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  FILE* file = fopen(name, "r+");
  CHECK(file, "%s cannot be opened", name);
  stage = mmap(NULL, kMaxRanks * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  CHECK(stage != MAP_FAILED, "%s cannot be mapped", name);
  fclose(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) {
    close(fd);
    unlink(name);
  }
}

/* Without MPI, until rank 0 is through with `wanted`. */
static void compute_until(int wanted, const char* what) {
  const double end = seconds() + kPatience;
  volatile double x = 1;
  while (stage[world_rank] < wanted) {
    for (int i = 0; i < 1000; ++i) x = x * 0.5 + 1;
    CHECK(seconds() < end, "%s: rank 0 is still busy with it after %g s", what, kPatience);
  }
}

/* Every second block of 100 bytes. */
static MPI_Datatype make_gaps(void) {
  MPI_Datatype type;
  MPI_Type_vector(kLarge / 100, 100, 200, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

static void pack(uint8_t* to, const uint8_t* from) {
  for (int i = 0; i < kLarge / 100; ++i) memcpy(to + 100 * i, from + 200 * i, 100);
}

enum { kGapsBytes = kLarge / 100 * 100 };

/* Checks the bytes that the type takes from memory whose first kLarge bytes have the pattern and
 * the others are 0. */
static void verify_packed(const uint8_t* packed, uint32_t seed, const char* what) {
  for (int i = 0; i < kGapsBytes; ++i) {
    const int from = i / 100 * 200 + i % 100;
    const int expected = from < kLarge ? pattern((uint64_t)from, seed) : 0;
    CHECK(packed[i] == expected, "%s: byte %d is %d, not %d", what, i, packed[i], expected);
  }
}

static void serve(int rank, uint8_t* buffer, MPI_Datatype gaps) {
  int through = 0;
  fill(buffer, kLarge, (uint32_t)rank);
  MPI_Send(buffer, kLarge, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
  stage[rank] = ++through;
  MPI_Send(buffer, kGapsBytes, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
  stage[rank] = ++through;
  MPI_Send(buffer, 1, gaps, rank, kTag, MPI_COMM_WORLD);
  stage[rank] = ++through;
  MPI_Recv(buffer, kLarge, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  verify(buffer, kLarge, (uint32_t)rank + 1, "contiguous, from a rank that computes");
  stage[rank] = ++through;
  MPI_Recv(buffer, kGapsBytes, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  verify_packed(buffer, (uint32_t)rank + 1, "with gaps, from a rank that computes");
  stage[rank] = ++through;
  fill(buffer, kMedium, 9);
  for (int i = 0; i < kMany; ++i) MPI_Ssend(buffer, kMedium, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
  stage[rank] = ++through;
}

static void compute(uint8_t* buffer, uint8_t* packed, MPI_Datatype gaps) {
  MPI_Request request, many[kMany];
  const uint32_t seed = (uint32_t)world_rank;

  MPI_Irecv(buffer, kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  compute_until(1, "receive");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  verify(buffer, kLarge, seed, "receive");

  memset(buffer, 0, 2 * kLarge);
  MPI_Irecv(buffer, 1, gaps, 0, kTag, MPI_COMM_WORLD, &request);
  compute_until(2, "receive into gaps");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  pack(packed, buffer);
  verify(packed, kGapsBytes, seed, "receive into gaps");

  MPI_Irecv(buffer, kGapsBytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  compute_until(3, "receive of what was packed");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  verify_packed(buffer, seed, "receive of what was packed");

  fill(buffer, kLarge, seed + 1);
  memset(buffer + kLarge, 0, kLarge);
  MPI_Isend(buffer, kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  compute_until(4, "send");
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  MPI_Isend(buffer, 1, gaps, 0, kTag, MPI_COMM_WORLD, &request);
  compute_until(5, "send with gaps");
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  for (int i = 0; i < kMany; ++i)
    MPI_Irecv(buffer, kMedium, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &many[i]);
  compute_until(6, "many receives");
  MPI_Waitall(kMany, many, MPI_STATUSES_IGNORE);
  verify(buffer, kMedium, 9, "many receives");
}

enum { kTurns = 30 };

/* The sender of two in every three messages computes, so that the receiver also meets senders that
 * were there the last time. */
static void receive_from_computing(int rank, uint8_t* buffer) {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int k = 0; k < 2; ++k) {
      MPI_Recv(buffer + k * kLarge, kLarge, MPI_BYTE, rank, kTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      verify(buffer + k * kLarge, kLarge, (uint32_t)(2 * turn + k), "from a sender that computes");
    }
    stage[rank] = turn + 1;
    MPI_Recv(buffer, kLarge, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    verify(buffer, kLarge, (uint32_t)(2 * turn), "from a sender that waits");
  }
}

static void send_and_compute(uint8_t* buffer) {
  MPI_Request requests[2];
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int k = 0; k < 2; ++k) fill(buffer + k * kLarge, kLarge, (uint32_t)(2 * turn + k));
    for (int k = 0; k < 2; ++k)
      MPI_Isend(buffer + k * kLarge, kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &requests[k]);
    if (turn % 2) { /* the receiver has answered, and the sender looks once more */
      int through;
      for (const double end = seconds() + 30e-6; seconds() < end;) continue;
      MPI_Testall(2, requests, &through, MPI_STATUSES_IGNORE);
    }
    compute_until(turn + 1, "receive from a sender that computes");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Send(buffer, kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  const int senders = argc > 1 && 0 == strcmp(argv[1], "senders");
  const int threads = argc > 1 && 0 == strcmp(argv[1], "threads");
  start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  CHECK(world_size <= kMaxRanks, "%d ranks", world_size);
  share_memory();
  uint8_t* buffer = calloc(2, kLarge);
  uint8_t* packed = malloc(kLarge);
  CHECK(buffer && packed, "no memory");
  MPI_Datatype gaps = make_gaps();
  if (senders && world_rank == 0) {
    for (int rank = 1; rank < world_size; ++rank) receive_from_computing(rank, buffer);
  } else if (senders) {
    send_and_compute(buffer);
  } else if (world_rank == 0) {
    for (int rank = 1; rank < world_size; ++rank) serve(rank, buffer, gaps);
  } else {
    compute(buffer, packed, gaps);
  }
  MPI_Type_free(&gaps);
  free(packed);
  free(buffer);
  return finish();
}
