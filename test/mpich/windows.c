/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Windows of each kind: accumulates of all ranks on the same places, of several types, lengths and
 * layouts, lose nothing. On one node a target is reached that does not call MPI.
 *
 * windows [by-messages]: with the argument it is not. */
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "../mpi/check.h"

enum { kPlaces = 64, kRounds = 400, kBulk = 1 << 17, kLong = kBulk / 2 / sizeof(int) };

struct pair {
  double value;
  int index;
};

/* The content of a rank's part of the window. */
struct part {
  int counts[kPlaces];
  long double sums[kPlaces];
  double halves[kPlaces];
  struct pair least;
  long token;
  char bulk[kBulk];
};

static struct part* memory;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One of each round's operations; every one adds 1 to each count. */
static void count_up(MPI_Win window, int rank, int way) {
  static int ones[kPlaces], old[kPlaces];
  const MPI_Aint at = offsetof(struct part, counts);
  for (int i = 0; i < kPlaces; ++i) ones[i] = 1;
  if (way == 0) {
    MPI_Accumulate(ones, kPlaces, MPI_INT, rank, at, kPlaces, MPI_INT, MPI_SUM, window);
  } else if (way == 1) {
    for (int i = 0; i < kPlaces; ++i) {
      MPI_Fetch_and_op(ones, old, MPI_INT, rank, at + i * (int)sizeof(int), MPI_SUM, window);
    }
  } else {
    MPI_Datatype every_other;
    MPI_Type_vector(kPlaces / 2, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    for (int i = 0; i < 2; ++i) {
      MPI_Get_accumulate(ones, 1, every_other, old, kPlaces / 2, MPI_INT, rank,
                         at + i * (int)sizeof(int), 1, every_other, MPI_SUM, window);
    }
    MPI_Type_free(&every_other);
  }
}

/* Operands must stay until the window is flushed. */
static void add_up(MPI_Win window, int rank, int round) {
  static long double sums[kPlaces];
  static double halves[kPlaces];
  static struct pair mine[kRounds];
  for (int i = 0; i < kPlaces; ++i) sums[i] = i, halves[i] = 0.5 * i;
  mine[round] = (struct pair){world_rank + 100.0 - round, world_rank};
  MPI_Accumulate(sums, kPlaces, MPI_LONG_DOUBLE, rank, offsetof(struct part, sums), kPlaces,
                 MPI_LONG_DOUBLE, MPI_SUM, window);
  MPI_Accumulate(halves, kPlaces, MPI_DOUBLE, rank, offsetof(struct part, halves), kPlaces,
                 MPI_DOUBLE, MPI_SUM, window);
  MPI_Accumulate(&mine[round], 1, MPI_DOUBLE_INT, rank, offsetof(struct part, least), 1,
                 MPI_DOUBLE_INT, MPI_MINLOC, window);
}

/* A lock that goes round by compare and swap: nobody else has it. */
static void take_token(MPI_Win window, int rank) {
  const MPI_Aint at = offsetof(struct part, token);
  long mine = world_rank + 1, none = 0, old = -1;
  do {
    MPI_Compare_and_swap(&mine, &none, &old, MPI_LONG, rank, at, window);
    MPI_Win_flush(rank, window);
  } while (old != 0);
  MPI_Fetch_and_op(&none, &old, MPI_LONG, rank, at, MPI_REPLACE, window);
  MPI_Win_flush(rank, window);
  CHECK(old == mine, "the token of rank %d was taken by %ld", world_rank, old);
}

static void nothing_is_lost(MPI_Win window) {
  memset(memory, 0, sizeof *memory);
  memory->least.value = 1e9;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int round = 0; round < kRounds; ++round) {
    const int rank = round % world_size;
    count_up(window, rank, round % 3);
    add_up(window, rank, round);
    if (round % 20 == 0) take_token(window, 0);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = (kRounds - 1 - world_rank) / world_size; /* of the rounds that came here */
  const int times = world_size * (last + 1);
  const double least = 100.0 - (last * world_size + world_rank);
  for (int i = 0; i < kPlaces; ++i) {
    CHECK(memory->counts[i] == times, "count %d is %d, not %d", i, memory->counts[i], times);
    CHECK(memory->sums[i] == (long double)i * times, "sum %d is %Lf", i, memory->sums[i]);
    CHECK(memory->halves[i] == 0.5 * i * times, "half %d is %f", i, memory->halves[i]);
  }
  CHECK(memory->least.value == least && memory->least.index == 0, "least %f of %d, not %f of 0",
        memory->least.value, memory->least.index, least);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Put and get of all layouts. */
static void data_arrive(MPI_Win window) {
  const int next = (world_rank + 1) % world_size;
  int data[kPlaces], back[kPlaces];
  MPI_Datatype every_other;
  MPI_Request request;
  MPI_Type_vector(kPlaces / 2, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  for (int i = 0; i < kPlaces; ++i) data[i] = 1000 * world_rank + i, back[i] = -1;
  MPI_Win_fence(0, window);
  MPI_Put(data, kPlaces, MPI_INT, next, 0, kPlaces, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Get(back, kPlaces, MPI_INT, next, 0, kPlaces, MPI_INT, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < kPlaces; ++i) CHECK(back[i] == data[i], "%d: %d", i, back[i]);
  for (int i = 0; i < kPlaces; ++i) data[i] = -data[i];
  MPI_Put(data, kPlaces / 2, MPI_INT, next, 0, 1, every_other, window);
  MPI_Win_fence(0, window);
  MPI_Get(back, 1, every_other, next, 0, kPlaces / 2, MPI_INT, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  for (int i = 0; i < kPlaces / 2; ++i) {
    const int expected = i % 2 == 0 ? data[i / 2] : -data[i]; /* new or from before */
    CHECK(back[2 * i] == expected, "%d: %d, not %d", i, back[2 * i], expected);
  }
  MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
  MPI_Rput(data, kPlaces, MPI_INT, next, 0, kPlaces, MPI_INT, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_flush(next, window);
  MPI_Rget(back, kPlaces, MPI_INT, next, 0, kPlaces, MPI_INT, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock(next, window);
  for (int i = 0; i < kPlaces; ++i) CHECK(back[i] == data[i], "%d: %d", i, back[i]);
  MPI_Type_free(&every_other);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Much data between memory in one piece and memory with gaps. */
static void long_data_arrive(MPI_Win window) {
  static int data[kLong], back[kLong], there[2 * kLong];
  const int next = (world_rank + 1) % world_size,
            before = (world_rank + world_size - 1) % world_size;
  const MPI_Aint at = offsetof(struct part, bulk);
  MPI_Datatype every_other;
  MPI_Type_vector(kLong, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  for (int i = 0; i < kLong; ++i) data[i] = 1000000 * world_rank + i, back[i] = -1;
  memset(memory->bulk, 0, kBulk);
  MPI_Win_fence(0, window);
  MPI_Put(data, kLong, MPI_INT, next, at, 1, every_other, window);
  MPI_Win_fence(0, window);
  memcpy(there, memory->bulk, sizeof there);
  MPI_Get(back, kLong, MPI_INT, next, at, 1, every_other, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  for (int i = 0; i < kLong; ++i) {
    CHECK(there[2 * i] == 1000000 * before + i && there[2 * i + 1] == 0, "%d: %d and %d", i,
          there[2 * i], there[2 * i + 1]);
    CHECK(back[i] == data[i], "%d: %d came back", i, back[i]);
  }
  memset(there, 0, sizeof there);
  MPI_Win_fence(0, window);
  MPI_Get(there, 1, every_other, next, at, 1, every_other, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  for (int i = 0; i < kLong; ++i) CHECK(there[2 * i] == data[i], "%d: %d", i, there[2 * i]);
  MPI_Type_free(&every_other);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Many pieces of all lengths under way at the same time. */
static void pieces_arrive(MPI_Win window) {
  enum { kPieces = 500 };
  static char data[kBulk], back[kBulk];
  const int next = (world_rank + 1) % world_size,
            before = (world_rank + world_size - 1) % world_size;
  const MPI_Aint at = offsetof(struct part, bulk);
  MPI_Request requests[2];
  int begin = 0, bytes = 0;
  for (int i = 0; i < kBulk; ++i) data[i] = (char)(i * 7 + i / 251 + world_rank), back[i] = 0;
  memset(memory->bulk, 0, kBulk);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < kPieces; ++i, begin += bytes) {
    bytes = 1 + i % 23 * (i % 23);
    MPI_Put(data + begin, bytes, MPI_CHAR, next, at + begin, bytes, MPI_CHAR, window);
  }
  MPI_Rput(data + begin, 1, MPI_CHAR, next, at + begin, 1, MPI_CHAR, window, &requests[0]);
  MPI_Rput(data + begin + 1, 3000, MPI_CHAR, next, at + begin + 1, 3000, MPI_CHAR, window,
           &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  const int all = begin + 3001;
  CHECK(all <= kBulk, "%d bytes", all);
  MPI_Win_flush(next, window);
  begin = 0;
  for (int i = 0; i < kPieces; ++i, begin += bytes) {
    bytes = 1 + i % 23 * (i % 23);
    MPI_Get(back + begin, bytes, MPI_CHAR, next, at + begin, bytes, MPI_CHAR, window);
  }
  MPI_Rget(back + begin, 3001, MPI_CHAR, next, at + begin, 3001, MPI_CHAR, window, &requests[0]);
  MPI_Win_flush_all(window);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < all; ++i) {
    const char expected = (char)(i * 7 + i / 251 + before);
    CHECK(back[i] == data[i], "byte %d came back as %d, not %d", i, back[i], data[i]);
    CHECK(memory->bulk[i] == expected, "byte %d is %d, not %d", i, memory->bulk[i], expected);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 is elsewhere, and reached also by the smallest put. */
static void nobody_is_home(MPI_Win window, int updates) {
  static char data[kBulk], back[kBulk];
  const MPI_Aint at = offsetof(struct part, bulk);
  int one = 1, old = -1;
  double time;
  memset(memory, 0, sizeof *memory);
  memset(data, 77, kBulk);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) usleep(700000);
  if (world_rank == 1) {
    usleep(100000);
    time = seconds();
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Put(data, kBulk, MPI_CHAR, 0, at, kBulk, MPI_CHAR, window);
    MPI_Win_flush(0, window);
    MPI_Get(back, kBulk, MPI_CHAR, 0, at, kBulk, MPI_CHAR, window);
    MPI_Win_flush(0, window);
    MPI_Put(&data[1], 1, MPI_CHAR, 0, at, 1, MPI_CHAR, window);
    MPI_Win_flush(0, window);
    if (updates) {
      MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, window);
      MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    time = seconds() - time;
    CHECK(0 == memcmp(back, data, kBulk), "got %d first", back[0]);
    CHECK(!updates || old == 0, "fetched %d", old);
    CHECK(time < 0.3, "it took %.3f s", time);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void errors_are_told(MPI_Win window) {
  int value = 0, code, class;
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, window);
  code = MPI_Put(&value, 1, MPI_INT, 0, sizeof *memory, 1, MPI_INT, window);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_RMA_RANGE, "a put behind the end: class %d", class);
  MPI_Win_fence(0, window);
}

int main(int argc, char** argv) {
  MPI_Win window;
  start(&argc, &argv, MPI_THREAD_SINGLE);

  MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  data_arrive(window);
  long_data_arrive(window);
  pieces_arrive(window);
  nothing_is_lost(window);
  if (argc == 1) nobody_is_home(window, 1);
  errors_are_told(window);
  MPI_Win_free(&window);

  memory = malloc(sizeof *memory);
  MPI_Win_create(memory, sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  data_arrive(window);
  long_data_arrive(window);
  pieces_arrive(window);
  nothing_is_lost(window);
  if (argc == 1) nobody_is_home(window, 0);
  errors_are_told(window);
  MPI_Win_free(&window);
  free(memory);

  MPI_Alloc_mem(sizeof *memory, MPI_INFO_NULL, &memory);
  MPI_Win_create(memory, sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  data_arrive(window);
  long_data_arrive(window);
  pieces_arrive(window);
  nothing_is_lost(window);
  if (argc == 1) nobody_is_home(window, 0);
  MPI_Win_free(&window);
  MPI_Free_mem(memory);

  MPI_Win_allocate_shared(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  data_arrive(window);
  long_data_arrive(window);
  pieces_arrive(window);
  nothing_is_lost(window);
  if (argc == 1) nobody_is_home(window, 0);
  MPI_Win_free(&window);
  return finish();
}
