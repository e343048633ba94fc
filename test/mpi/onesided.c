/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * One-sided communication: put, get, accumulate, fetch and op, compare and swap under fence, lock,
 * lock all with flush, and post/start/complete/wait. The argument says where the window's memory
 * comes from: allocate (the default), alloc_mem, malloc or dynamic. */
#include "check.h"

enum { kWords = 50000 };
static int* memory;

static void fences(MPI_Win window, int n) {
  int next = (world_rank + 1) % world_size, last = (world_rank - 1 + world_size) % world_size;
  int *data = malloc(sizeof *data * (size_t)n), *back = malloc(sizeof *back * (size_t)n);
  MPI_Win_fence(0, window);
  for (int i = 0; i < n; ++i) data[i] = world_rank * 1000 + i;
  MPI_Put(data, n, MPI_INT, next, 0, n, MPI_INT, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < n; ++i) CHECK(memory[i] == last * 1000 + i, "put %d: %d", i, memory[i]);
  MPI_Get(back, n, MPI_INT, next, 0, n, MPI_INT, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < n; ++i) CHECK(back[i] == world_rank * 1000 + i, "get %d: %d", i, back[i]);
  for (int i = 0; i < n; ++i) memory[i] = 0;
  MPI_Win_fence(0, window);
  for (int r = 0; r < world_size; ++r) {
    MPI_Accumulate(data, n, MPI_INT, r, 0, n, MPI_INT, MPI_SUM, window);
  }
  MPI_Win_fence(0, window);
  for (int i = 0; i < n; ++i) {
    int expected = world_size * i + 1000 * (world_size * (world_size - 1) / 2);
    CHECK(memory[i] == expected, "accumulate %d: %d, not %d", i, memory[i], expected);
  }
  MPI_Win_fence(0, window);
  free(data);
  free(back);
}

static void locks(MPI_Win window) {
  memory[0] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 50; ++i) {
    int one = 1, seen = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &seen, MPI_INT, 0, 0, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    CHECK(seen >= 0 && seen < 50 * world_size, "fetched %d", seen);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int total = -1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
  MPI_Get(&total, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
  MPI_Win_unlock(0, window);
  CHECK(total == 50 * world_size, "total %d", total);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Everybody's counter is at rank 0, behind a lock made of compare and swap. */
static void passive(MPI_Win window) {
  enum { kTurns = 25, kLock = 8, kCount = 10, kOwn = 16 }; /* of each rank: a long word */
  memset(memory, 0, 1024 * sizeof *memory);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int turn = 0; turn < kTurns; ++turn) {
    int free_word = 0, mine = world_rank + 1, seen = -1, count = -1;
    while (0 != seen) {
      MPI_Compare_and_swap(&mine, &free_word, &seen, MPI_INT, 0, kLock, window);
      MPI_Win_flush(0, window);
    }
    MPI_Get(&count, 1, MPI_INT, 0, kCount, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    ++count;
    MPI_Put(&count, 1, MPI_INT, 0, kCount, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    MPI_Fetch_and_op(&free_word, &seen, MPI_INT, 0, kLock, MPI_REPLACE, window);
    MPI_Win_flush(0, window);
    CHECK(seen == mine, "the lock is %d's, not %d's", seen, mine);
    int64_t add = 3, old = -1;
    MPI_Fetch_and_op(&add, &old, MPI_INT64_T, 0, 0, MPI_SUM, window);
    MPI_Win_flush_local(0, window);
    CHECK(old >= 0 && old % 3 == 0, "fetched %lld", (long long)old);
    int64_t expected = turn, next = turn + 1;
    MPI_Compare_and_swap(&next, &expected, &old, MPI_INT64_T, 0, kOwn + 2 * world_rank, window);
    MPI_Win_flush(0, window);
    CHECK(old == expected, "a swap found %lld, not %lld", (long long)old, (long long)expected);
  }
  MPI_Win_flush_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  int count = -1;
  int64_t sum = -1;
  MPI_Get(&count, 1, MPI_INT, 0, kCount, 1, MPI_INT, window);
  MPI_Get(&sum, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window);
  MPI_Win_flush(0, window);
  CHECK(count == kTurns * world_size, "counted %d", count);
  CHECK(sum == 3 * kTurns * world_size, "summed %lld", (long long)sum);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Accumulates at one place take effect in the order of their calls, also when a long one and short
 * ones are there before rank 1 looks. Around 8 KiB osc/pt2pt's messages are full. */
static void ordered(MPI_Win window) {
  enum { kLeast = 1900, kMost = 2100, kSpinUs = 100 };
  int* data = malloc(sizeof *data * kMost);
  for (int n = kLeast; n <= kMost; n += 3) {
    const int last[] = {n * 10 + 1, n * 10 + 2};
    for (int i = 0; i < n; ++i) data[i] = n * 10;
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
      MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
      MPI_Win_flush(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
      MPI_Accumulate(data, n, MPI_INT, 1, 0, n, MPI_INT, MPI_REPLACE, window);
      MPI_Accumulate(&last[0], 1, MPI_INT, 1, n - 1, 1, MPI_INT, MPI_REPLACE, window);
      MPI_Accumulate(&last[1], 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_REPLACE, window);
      MPI_Win_unlock(1, window);
    } else if (1 == world_rank) {
      const double begin = MPI_Wtime();
      while (MPI_Wtime() - begin < 1e-6 * kSpinUs) {
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 != world_rank) continue;
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    CHECK(memory[n - 1] == last[0] && memory[0] == last[1], "%d words: %d and %d", n, memory[n - 1],
          memory[0]);
    MPI_Win_unlock(1, window);
  }
  free(data);
}

static void epochs(MPI_Win window) {
  MPI_Group world, to, from;
  int next = (world_rank + 1) % world_size, last = (world_rank - 1 + world_size) % world_size;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &next, &to);
  MPI_Group_incl(world, 1, &last, &from);
  for (int turn = 0; turn < 10; ++turn) {
    int value = world_rank * 100 + turn;
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Put(&value, 1, MPI_INT, next, turn, 1, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    CHECK(memory[turn] == last * 100 + turn, "turn %d: %d", turn, memory[turn]);
  }
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Group_free(&world);
}

/* A dynamic window is addressed by the memory of rank 0. */
static void dynamic(void) {
  MPI_Win window;
  MPI_Aint base;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  memory = calloc(kWords, sizeof *memory);
  MPI_Win_attach(window, memory, kWords * (MPI_Aint)sizeof *memory);
  MPI_Get_address(memory, &base);
  MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD);
  for (int turn = 0; turn < 10; ++turn) {
    int one = 1, seen = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Fetch_and_op(&one, &seen, MPI_INT, 0, base, MPI_SUM, window);
    MPI_Put(&turn, 1, MPI_INT, 0, base + (1 + world_rank) * (MPI_Aint)sizeof turn, 1, MPI_INT,
            window);
    MPI_Win_unlock(0, window);
    CHECK(seen >= 0 && seen < 10 * world_size, "fetched %d", seen);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (0 == world_rank) {
    CHECK(memory[0] == 10 * world_size, "summed %d", memory[0]);
    for (int r = 0; r < world_size; ++r) CHECK(memory[1 + r] == 9, "put %d", memory[1 + r]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_detach(window, memory);
  MPI_Win_free(&window);
  free(memory);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  const char* kind = argc > 1 ? argv[1] : "allocate";
  const MPI_Aint bytes = kWords * (MPI_Aint)sizeof *memory;
  MPI_Win window;
  if (0 == strcmp(kind, "dynamic")) {
    dynamic();
    return finish();
  }
  if (0 == strcmp(kind, "allocate")) {
    MPI_Win_allocate(bytes, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  } else {
    if (0 == strcmp(kind, "alloc_mem")) {
      MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory);
    } else {
      CHECK(0 == strcmp(kind, "malloc"), "say allocate, alloc_mem, malloc or dynamic");
      memory = aligned_alloc(64, (size_t)bytes);
    }
    MPI_Win_create(memory, bytes, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  }
  for (int n = 1; n <= kWords; n = n * 9 + 2) fences(window, n);
  locks(window);
  passive(window);
  if (world_size > 1) ordered(window);
  epochs(window);
  MPI_Win_free(&window);
  if (0 == strcmp(kind, "alloc_mem")) MPI_Free_mem(memory);
  if (0 == strcmp(kind, "malloc")) free(memory);
  return finish();
}
