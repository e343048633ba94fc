/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Collectives over messages, with sizes on both sides of the algorithms' switches, every root,
 * non-blocking ones in flight together, and with sends and receives between them. */
#include "check.h"

static int *out, *in;
enum { kLargest = 300000 };

static int element(int rank, int i) { return rank * 7919 + i * 31 + 5; }

static void rooted(int root, int n) {
  for (int i = 0; i < n; ++i) out[i] = world_rank == root ? element(root, i) : -1;
  MPI_Bcast(out, n, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) CHECK(out[i] == element(root, i), "bcast %d of %d: %d", i, n, out[i]);
  for (int i = 0; i < n; ++i) out[i] = element(world_rank, i);
  MPI_Reduce(out, in, n, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD);
  if (world_rank == root) {
    for (int i = 0; i < n; ++i)
      CHECK(in[i] == element(world_size - 1, i), "reduce %d: %d", i, in[i]);
  }
  MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, root, MPI_COMM_WORLD);
  if (world_rank == root) {
    for (int r = 0; r < world_size; ++r) {
      for (int i = 0; i < n; ++i) CHECK(in[r * n + i] == element(r, i), "gather %d %d", r, i);
    }
    memcpy(out, in, sizeof *out * (size_t)(n * world_size));
  }
  memset(in, 0, sizeof *in * (size_t)n);
  MPI_Scatter(out, n, MPI_INT, in, n, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) CHECK(in[i] == element(world_rank, i), "scatter %d", i);
}

static void unrooted(int n) {
  for (int i = 0; i < n; ++i) out[i] = i + world_rank;
  MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int ranks = world_size * (world_size - 1) / 2;
  for (int i = 0; i < n; ++i) CHECK(in[i] == i * world_size + ranks, "allreduce %d: %d", i, in[i]);
  for (int i = 0; i < n; ++i) out[i] = element(world_rank, i);
  MPI_Allgather(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < world_size; ++r) {
    for (int i = 0; i < n; ++i) CHECK(in[r * n + i] == element(r, i), "allgather %d %d", r, i);
  }
  for (int r = 0; r < world_size; ++r) {
    for (int i = 0; i < n; ++i) out[r * n + i] = element(world_rank * 100 + r, i);
  }
  MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < world_size; ++r) {
    for (int i = 0; i < n; ++i) {
      CHECK(in[r * n + i] == element(r * 100 + world_rank, i), "alltoall %d %d", r, i);
    }
  }
  for (int i = 0; i < n; ++i) out[i] = i * (world_rank + 1);
  MPI_Scan(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) {
    CHECK(in[i] == i * (world_rank + 1) * (world_rank + 2) / 2, "scan %d: %d", i, in[i]);
  }
  for (int i = 0; i < n * world_size; ++i) out[i] = i + world_rank;
  MPI_Reduce_scatter_block(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) {
    int expected = (world_rank * n + i) * world_size + ranks;
    CHECK(in[i] == expected, "reduce_scatter %d: %d, not %d", i, in[i], expected);
  }
}

static void variable(int n) { /* rank r gives (r % 3) * n elements to everyone */
  int *counts = malloc(sizeof *counts * 2 * (size_t)world_size), *places = counts + world_size;
  for (int r = 0, place = 0; r < world_size; ++r) {
    counts[r] = r % 3 * n;
    places[r] = place;
    place += counts[r] + 1;
  }
  for (int i = 0; i < counts[world_rank]; ++i) out[i] = element(world_rank, i);
  MPI_Allgatherv(out, counts[world_rank], MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < world_size; ++r) {
    for (int i = 0; i < counts[r]; ++i) {
      CHECK(in[places[r] + i] == element(r, i), "allgatherv %d %d", r, i);
    }
  }
  free(counts);
}

static void in_flight(int n) {
  enum { kAtOnce = 6 };
  MPI_Request requests[kAtOnce + 2];
  int token = -1, next = (world_rank + 1) % world_size;
  int last = (world_rank - 1 + world_size) % world_size;
  MPI_Irecv(&token, 1, MPI_INT, last, 3, MPI_COMM_WORLD, &requests[kAtOnce]);
  for (int k = 0; k < kAtOnce; ++k) {
    int *mine = out + k * n, *result = in + k * n;
    for (int i = 0; i < n; ++i) mine[i] = world_rank == k % world_size ? element(k, i) : k + i;
    if (k & 1)
      MPI_Iallreduce(mine, result, n, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &requests[k]);
    else
      MPI_Ibcast(mine, n, MPI_INT, k % world_size, MPI_COMM_WORLD, &requests[k]);
  }
  MPI_Isend(&world_rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[kAtOnce + 1]);
  MPI_Waitall(kAtOnce + 2, requests, MPI_STATUSES_IGNORE);
  CHECK(token == last, "token %d", token);
  for (int k = 0; k < kAtOnce; ++k) {
    for (int i = 0; i < n; ++i) {
      int low = element(k, i) < k + i || world_size == 1 ? element(k, i) : k + i;
      int expected = k & 1 ? low : element(k, i), got = (k & 1 ? in : out)[k * n + i];
      CHECK(got == expected, "in flight %d, element %d: %d, not %d", k, i, got, expected);
    }
  }
}

int main(int argc, char** argv) {
  static const int sizes[] = {1, 7, 300, 5000, 40000};
  start(&argc, &argv, MPI_THREAD_SINGLE);
  size_t room = sizeof *out * (size_t)kLargest * (size_t)(world_size > 6 ? world_size : 6);
  out = malloc(room);
  in = malloc(room);
  CHECK(out && in, "no memory");
  for (int s = 0; s < 5; ++s) {
    for (int root = 0; root < world_size; ++root) rooted(root, sizes[s]);
    unrooted(sizes[s]);
    variable(sizes[s]);
    in_flight(sizes[s]);
  }
  for (int i = 0; i < 500; ++i) MPI_Barrier(MPI_COMM_WORLD);
  return finish();
}
