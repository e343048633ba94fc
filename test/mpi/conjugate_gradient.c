/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Conjugate gradients for Poisson's equation on a square grid whose rows are divided among the
 * ranks: neighbours exchange rows by messages, dot products and the final solution go by
 * collectives. The solution is known, so the result is checked; it is printed in six digits, which
 * do not depend on the order of the sums.
 *
 *   conjugate_gradient [N]    grid of N x N points, 96 by default
 *
 * Rank 0 prints "solution SUM", and how long the collectives took.
 */
#include <math.h>

#include "check.h"

static int side;     /* of the grid */
static int first;    /* row of this rank */
static int rows;     /* of this rank */
static double spent; /* seconds in collectives */

static double* vector(void) {
  /* A row before and one behind: the neighbours', or the border's zeros. */
  double* v = calloc((size_t)(rows + 2) * (size_t)side, sizeof *v);
  CHECK(v, "%d rows", rows);
  return v + side;
}

static void release(double* v) { free(v - side); }

/* Sums of `count` numbers of all ranks. */
static void add_up(double* sums, int count) {
  const double begin = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  spent += MPI_Wtime() - begin;
}

static double dot(const double* a, const double* b) {
  double sum = 0;
  for (int i = 0; i < rows * side; ++i) sum += a[i] * b[i];
  add_up(&sum, 1);
  return sum;
}

static void exchange_rows(double* v) {
  const int above = first > 0 ? world_rank - 1 : MPI_PROC_NULL;
  const int below = first + rows < side ? world_rank + 1 : MPI_PROC_NULL;
  double* const last = v + (rows - 1) * side;
  MPI_Sendrecv(v, side, MPI_DOUBLE, above, 1, last + side, side, MPI_DOUBLE, below, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, side, MPI_DOUBLE, below, 2, v - side, side, MPI_DOUBLE, above, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* out = A v, A being the five-point Laplacian. */
static void apply(double* v, double* out) {
  exchange_rows(v);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < side; ++c) {
      const double* const at = v + r * side + c;
      out[r * side + c] =
          4 * at[0] - at[-side] - at[side] - (c > 0 ? at[-1] : 0) - (c + 1 < side ? at[1] : 0);
    }
}

/* Solves A x = b; returns the number of iterations. */
static int solve(double* x, const double* b) {
  double* const residual = vector();
  double* const direction = vector();
  double* const applied = vector();
  const size_t bytes = (size_t)(rows * side) * sizeof *x;
  memcpy(residual, b, bytes);
  memcpy(direction, b, bytes);
  double square = dot(residual, residual);
  const double enough = square * 1e-24;
  int count = 0;
  for (; square > enough; ++count) {
    CHECK(count < 10 * side, "no end, the residual's square is %g", square);
    apply(direction, applied);
    const double step = square / dot(direction, applied);
    for (int i = 0; i < rows * side; ++i) {
      x[i] += step * direction[i];
      residual[i] -= step * applied[i];
    }
    const double before = square;
    square = dot(residual, residual);
    for (int i = 0; i < rows * side; ++i)
      direction[i] = residual[i] + square / before * direction[i];
  }
  release(residual);
  release(direction);
  release(applied);
  return count;
}

static double wanted(int row, int column) {
  return row * 7 % 11 * 0.1 * (1 + 0.01 * column) + (row == column);
}

/* All ranks get the whole solution; sum of its values. The ranks' rows differ in number, so each
 * gives as many as the first one. */
static double whole(const double* x) {
  const int most = (side + world_size - 1) / world_size * side;
  double* const all = calloc((size_t)(most * world_size), sizeof *all);
  double* const mine = calloc((size_t)most, sizeof *mine);
  CHECK(all && mine, "%d ranks", world_size);
  memcpy(mine, x, (size_t)(rows * side) * sizeof *mine);
  const double begin = MPI_Wtime();
  MPI_Allgather(mine, most, MPI_DOUBLE, all, most, MPI_DOUBLE, MPI_COMM_WORLD);
  spent += MPI_Wtime() - begin;
  double sum = 0;
  for (int row = 0; row < side; ++row)
    for (int c = 0; c < side; ++c) {
      const double value = all[row * side + c];
      CHECK(fabs(value - wanted(row, c)) < 1e-7, "(%d, %d): %.9f", row, c, value);
      sum += value;
    }
  free(all);
  free(mine);
  return sum;
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  side = argc > 1 && world_rank == 0 ? atoi(argv[1]) : 96;
  MPI_Bcast(&side, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const int most = (side + world_size - 1) / world_size;
  first = world_rank * most;
  rows = first + most <= side ? most : side - first;
  CHECK(rows > 0, "%d rows for %d ranks", side, world_size);
  double* const exact = vector();
  double* const b = vector();
  double* const x = vector();
  for (int i = 0; i < rows * side; ++i) exact[i] = wanted(first + i / side, i % side);
  apply(exact, b);
  const double begin = MPI_Wtime();
  const int count = solve(x, b);
  const double sum = whole(x);
  double times[2] = {spent, MPI_Wtime() - begin}, longest[2];
  MPI_Reduce(times, longest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    printf("solution %.6f\n", sum);
    printf("%d iterations, %.3f ms of %.3f ms in collectives\n", count, longest[0] * 1e3,
           longest[1] * 1e3);
  }
  release(exact);
  release(b);
  release(x);
  return finish();
}
