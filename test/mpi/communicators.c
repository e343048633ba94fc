/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Thousands of communicators at once: messages with equal tags stay in theirs, duplicates,
 * splits with other rank orders, and reuse after many were freed, with messages left behind. */
#include "check.h"

enum { kMany = 3000 };
static MPI_Comm comms[kMany];

/* One message in each, sent forward, received backward: only the context tells them apart. */
static void isolate(int count) {
  static int sent[kMany];
  static MPI_Request requests[kMany];
  int next = (world_rank + 1) % world_size, last = (world_rank - 1 + world_size) % world_size;
  for (int i = 0; i < count; ++i) {
    sent[i] = world_rank * kMany + i;
    MPI_Isend(&sent[i], 1, MPI_INT, next, 0, comms[i], &requests[i]);
  }
  for (int i = count - 1; i >= 0; --i) {
    int value = -1;
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, i & 1 ? MPI_ANY_SOURCE : last, i & 2 ? MPI_ANY_TAG : 0, comms[i],
             &status);
    verify_status(&status, last, 0, 4, "isolation");
    CHECK(value == last * kMany + i, "communicator %d got %d, not %d", i, value, last * kMany + i);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void splits(void) {
  MPI_Comm reversed, half;
  int rank, size, value = -1;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  MPI_Comm_rank(reversed, &rank);
  CHECK(rank == world_size - 1 - world_rank, "rank %d", rank);
  MPI_Status status;
  MPI_Sendrecv(&world_rank, 1, MPI_INT, (rank + 1) % world_size, 1, &value, 1, MPI_INT,
               MPI_ANY_SOURCE, 1, reversed, &status);
  verify_status(&status, (rank - 1 + world_size) % world_size, 1, 4, "reversed");
  CHECK(value == (world_rank + 1) % world_size, "value %d", value);
  MPI_Comm_split(reversed, world_rank & 1, 0, &half);
  MPI_Comm_rank(half, &rank);
  MPI_Comm_size(half, &size);
  MPI_Sendrecv(&world_rank, 1, MPI_INT, (rank + 1) % size, 1, &value, 1, MPI_INT,
               (rank - 1 + size) % size, 1, half, &status);
  CHECK((value & 1) == (world_rank & 1), "rank %d is not in my half", value);
  MPI_Comm_free(&half);
  MPI_Comm_free(&reversed);
}

/* A message that nobody receives ends with its communicator, whoever gets the number next. */
static void left_behind(void) {
  enum { kRounds = 20 };
  int next = (world_rank + 1) % world_size, last = (world_rank - 1 + world_size) % world_size;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Comm comm;
    int flag = 0, value = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send(&round, 1, MPI_INT, next, 1, comm);
    while (!flag) MPI_Iprobe(last, 1, comm, &flag, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "round %d: a message of a freed communicator is here", round);
    MPI_Barrier(comm); /* what is sent below must not be seen above */
    int again = 1000 + round;
    MPI_Sendrecv(&again, 1, MPI_INT, next, 1, &value, 1, MPI_INT, last, 1, comm, MPI_STATUS_IGNORE);
    CHECK(value == again, "round %d: got %d, not %d", round, value, again);
    MPI_Comm_free(&comm);
  }
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  int many = argc > 1 ? atoi(argv[1]) : kMany;
  CHECK(many > 0 && many <= kMany, "count %d", many);
  for (int i = 0; i < many; ++i)
    MPI_Comm_dup(i % 5 || 0 == i ? MPI_COMM_WORLD : comms[i / 2], &comms[i]);
  isolate(many);
  for (int i = 0; i < many; i += 2) MPI_Comm_free(&comms[i]);
  for (int i = 0; i < many; i += 2) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  isolate(many);
  for (int i = 0; i < many; ++i) MPI_Comm_free(&comms[i]);
  splits();
  left_behind();
  return finish();
}
