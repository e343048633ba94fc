/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Every rank tells where it runs, after all of them have heard of each other.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char name[MPI_MAX_PROCESSOR_NAME];
  int rank, size, sum, length;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(name, &length);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum == size * (size - 1) / 2) printf("rank %d on %s\n", rank, name);
  MPI_Finalize();
  return 0;
}
