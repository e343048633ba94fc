// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Every rank adds its number to a sum that all must get; rank 0 says so.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 1000; ++i) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size * (size - 1) / 2) {
    printf("rank %d: the sum is %d\n", rank, sum);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (0 == rank) printf("No Errors\n");
  MPI_Finalize();
  return 0;
}
