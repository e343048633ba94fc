/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Accumulates of all ranks at once on the same words of the first and the last rank: operations and
 * types that a network can do and others, single and long, and all of it between the operations of
 * exclusive epochs. The argument says where the window's memory comes from: malloc (the default) or
 * allocate. With a second one rank 1 does 1000 of them at rank 0 in each of two windows. */
#include "check.h"

enum { kTurns = 40, kLong = 40, kWords = 64 };
enum word {
  SUM = 0, /* of single ones and of the long ones, which go on to kLong */
  MAX = kLong,
  MIN,
  XOR,
  OR,
  AND,
  LOGICAL,
  PRODUCT,
  REAL, /* a double */
  HALVES,
  SWAPPED,
  COUNT /* of the exclusive epochs */
};
static int64_t* memory;

static int64_t fetch(MPI_Win window, int target, int word, MPI_Op op, int64_t value) {
  int64_t old = -1;
  MPI_Fetch_and_op(&value, &old, MPI_INT64_T, target, word, op, window);
  MPI_Win_flush(target, window);
  return old;
}

static void accumulate(MPI_Win window, int target, int word, MPI_Op op, int64_t value) {
  MPI_Accumulate(&value, 1, MPI_INT64_T, target, word, 1, MPI_INT64_T, op, window);
  MPI_Win_flush(target, window); /* `value` may be read until then */
}

static void turn(MPI_Win window, int target, int n) {
  const int64_t own = (int64_t)1 << world_rank;
  const int rank_of_turn = n * world_size + world_rank;
  int64_t ones[kLong], olds[kLong];
  for (int i = 0; i < kLong; ++i) ones[i] = 1;
  const int64_t before = fetch(window, target, SUM, MPI_SUM, 1);
  CHECK(before >= 2 * n && before < 2 * kTurns * world_size, "turn %d: %lld", n, (long long)before);
  MPI_Get_accumulate(ones, kLong, MPI_INT64_T, olds, kLong, MPI_INT64_T, target, SUM, kLong,
                     MPI_INT64_T, MPI_SUM, window);
  MPI_Win_flush(target, window);
  CHECK(olds[0] > before, "turn %d: %lld after %lld", n, (long long)olds[0], (long long)before);
  CHECK(olds[1] >= n, "turn %d: %lld", n, (long long)olds[1]);
  CHECK(fetch(window, target, SUM, MPI_NO_OP, 0) > olds[0], "turn %d: a sum went back", n);
  accumulate(window, target, MAX, MPI_MAX, rank_of_turn);
  accumulate(window, target, MIN, MPI_MIN, -rank_of_turn);
  fetch(window, target, XOR, MPI_BXOR, own);
  accumulate(window, target, OR, MPI_BOR, own);
  accumulate(window, target, AND, MPI_BAND, ~own);
  accumulate(window, target, LOGICAL, MPI_LAND, 1);
  accumulate(window, target, PRODUCT, MPI_PROD, n == 0 ? 2 : 1);
  const double half = 0.5;
  MPI_Accumulate(&half, 1, MPI_DOUBLE, target, REAL, 1, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_flush(target, window);
  const int32_t pair[2] = {1, -1};
  MPI_Accumulate(pair, 2, MPI_INT32_T, target, HALVES, 2, MPI_INT32_T, MPI_SUM, window);
  MPI_Win_flush(target, window);
  int64_t seen = fetch(window, target, SWAPPED, MPI_NO_OP, 0), found = -1;
  for (;;) { /* adds 3 */
    const int64_t next = seen + 3;
    MPI_Compare_and_swap(&next, &seen, &found, MPI_INT64_T, target, SWAPPED, window);
    MPI_Win_flush(target, window);
    if (found == seen) break;
    CHECK(found > seen, "%lld after %lld", (long long)found, (long long)seen);
    seen = found;
  }
}

static void expect(int word, int64_t value) {
  CHECK(memory[word] == value, "word %d: %lld, not %lld", word, (long long)memory[word],
        (long long)value);
}

static void all_at_once(MPI_Win window) {
  const int last = world_size - 1;
  const int64_t count = (int64_t)kTurns * world_size, ranks = ((int64_t)1 << world_size) - 1;
  memset(memory, 0, kWords * sizeof *memory);
  memory[AND] = -1;
  memory[LOGICAL] = memory[PRODUCT] = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int n = 0; n < kTurns; ++n) {
    turn(window, 0, n);
    if (last > 0) turn(window, last, n);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, window);
  if (world_rank == 0 || world_rank == last) {
    const int32_t pair[2] = {(int32_t)count, (int32_t)-count};
    int64_t halves;
    double real;
    memcpy(&halves, pair, sizeof halves);
    memcpy(&real, &memory[REAL], sizeof real);
    expect(SUM, 2 * count);
    for (int i = 1; i < kLong; ++i) expect(i, count);
    expect(MAX, count - 1);
    expect(MIN, 1 - count);
    expect(XOR, kTurns % 2 ? ranks : 0);
    expect(OR, ranks);
    expect(AND, ~ranks);
    expect(LOGICAL, 1);
    expect(PRODUCT, (int64_t)1 << world_size);
    CHECK(real == 0.5 * (double)count, "%f, not %f", real, 0.5 * (double)count);
    expect(HALVES, halves);
    expect(SWAPPED, 3 * count);
  }
  MPI_Win_unlock(world_rank, window);
}

/* A long one to the next rank is under way, and so are messages, when a short one goes to the rank
 * after it, where the long one of another may hold the lock. */
static void overlapping(MPI_Win window) {
  enum { kBytes = 100000 };
  static char out[kBytes], in[kBytes];
  const int next = (world_rank + 1) % world_size, after = (world_rank + 2) % world_size;
  const int previous = (world_rank + world_size - 1) % world_size;
  const int64_t one = 1;
  int64_t ones[kLong], old = -1;
  MPI_Request requests[2];
  for (int i = 0; i < kLong; ++i) ones[i] = 1;
  memset(memory, 0, kWords * sizeof *memory);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int n = 0; n < kTurns; ++n) {
    out[0] = out[kBytes - 1] = (char)n;
    MPI_Irecv(in, kBytes, MPI_CHAR, previous, n, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, kBytes, MPI_CHAR, next, n, MPI_COMM_WORLD, &requests[1]);
    MPI_Accumulate(ones, kLong, MPI_INT64_T, next, 0, kLong, MPI_INT64_T, MPI_SUM, window);
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, after, 0, MPI_SUM, window);
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, next, 0, MPI_SUM, window);
    if (n % 4 == 3) MPI_Win_flush_all(window);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in[0] == (char)n && in[kBytes - 1] == (char)n, "message %d", n);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, window);
  expect(0, 3 * kTurns);
  for (int i = 1; i < kLong; ++i) expect(i, kTurns);
  MPI_Win_unlock(world_rank, window);
}

/* Everybody's sums at the target, where `before` halves are already. */
static void add_halves(MPI_Win window, int target, int before) {
  enum { kSums = 500 };
  const double half = 0.5, sum = half * (before + kSums * world_size);
  double real;
  MPI_Win_lock_all(0, window);
  for (int n = 0; n < kSums; ++n) {
    MPI_Accumulate(&half, 1, MPI_DOUBLE, target, REAL, 1, MPI_DOUBLE, MPI_SUM, window);
    MPI_Win_flush(target, window);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, window);
  memcpy(&real, &memory[REAL], sizeof real);
  if (world_rank == target) CHECK(real == sum, "%f, not %f", real, sum);
  MPI_Win_unlock(world_rank, window);
}

/* Rank 0, whose memory it is, has the same lock as others: it has used it by a swap before. */
static void owner(MPI_Win window) {
  const int64_t next = 1, expected = 0;
  int64_t old = -1;
  memset(memory, 0, kWords * sizeof *memory);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  MPI_Compare_and_swap(&next, &expected, &old, MPI_INT64_T, world_rank, SWAPPED, window);
  MPI_Win_flush(world_rank, window);
  CHECK(old == 0, "%lld", (long long)old);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  add_halves(window, 0, 0);
}

/* The last rank locks rank 0 while an accumulate to rank 1, whose lock may lie at rank 0, is under
 * way. Afterwards the lock of rank 1 still keeps everybody out. */
static void neighbours(MPI_Win window) {
  const double half = 0.5;
  memset(memory, 0, kWords * sizeof *memory);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int n = 0; n < kTurns && world_rank == world_size - 1; ++n) {
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    MPI_Accumulate(&half, 1, MPI_DOUBLE, 1, REAL, 1, MPI_DOUBLE, MPI_SUM, window);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Win_unlock(0, window);
    MPI_Win_unlock(1, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  add_halves(window, 1, kTurns);
}

/* The report counts as many questions as these and not three times as many. */
static void count(MPI_Win window) {
  const int64_t one = 1;
  int64_t old = -1;
  MPI_Win_lock_all(0, window);
  for (int n = 0; n < 1000 && world_rank == 1; ++n) {
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, COUNT, MPI_SUM, window);
    MPI_Win_flush(0, window);
  }
  MPI_Win_unlock_all(window);
}

/* Nobody comes between two operations of an exclusive epoch, whatever ran before. */
static void exclusive(MPI_Win window) {
  for (int n = 0; n < kTurns; ++n) {
    const int target = n % 4 < 2 ? 0 : world_size - 1;
    const int64_t one = 1;
    int64_t first = -1, second = -1;
    if (n % 2) {
      MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
      MPI_Fetch_and_op(&one, &first, MPI_INT64_T, target, COUNT, MPI_SUM, window);
      MPI_Win_unlock(target, window);
      continue;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Fetch_and_op(&one, &first, MPI_INT64_T, target, COUNT, MPI_SUM, window);
    MPI_Win_flush(target, window);
    MPI_Fetch_and_op(&one, &second, MPI_INT64_T, target, COUNT, MPI_SUM, window);
    MPI_Win_unlock(target, window);
    CHECK(second == first + 1, "%lld after %lld", (long long)second, (long long)first);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* before the memory is cleared or freed */
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  const char* kind = argc > 1 ? argv[1] : "malloc";
  const MPI_Aint bytes = kWords * (MPI_Aint)sizeof *memory;
  /* The memory of the second window may lie where that of the first one was. */
  for (int round = 0; round < 2; ++round) {
    MPI_Win window;
    if (0 == strcmp(kind, "allocate")) {
      MPI_Win_allocate(bytes, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    } else {
      CHECK(0 == strcmp(kind, "malloc"), "say allocate or malloc");
      memory = calloc(kWords, sizeof *memory);
      MPI_Win_create(memory, bytes, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    if (argc > 2) {
      count(window);
    } else {
      all_at_once(window);
      exclusive(window);
      overlapping(window);
      owner(window);
      neighbours(window);
      exclusive(window);
    }
    MPI_Win_free(&window);
    if (0 == strcmp(kind, "malloc")) free(memory);
  }
  return finish();
}
