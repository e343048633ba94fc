/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * One-sided communication carried by messages: put, get, accumulate, fetch and op under fence,
 * lock and post/start/complete/wait. */
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
  memset(memory, 0, sizeof *memory * (size_t)n);
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

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  MPI_Win window;
  MPI_Win_allocate(kWords * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &memory, &window);
  for (int n = 1; n <= kWords; n = n * 9 + 2) fences(window, n);
  locks(window);
  epochs(window);
  MPI_Win_free(&window);
  return finish();
}
