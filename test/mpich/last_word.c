/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The last that rank 1 does is to send to rank 0, which looks for it later: it must arrive, though
 * its sender is in MPI_Finalize and its driver may have to send it again.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank = 0, word = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (1 == rank) {
    word = 42;
    MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  } else {
    usleep(300000);
    MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (0 == rank) printf("%s\n", 42 == word ? "No Errors" : "another word");
  MPI_Finalize();
  return 42 == word ? 0 : 1;
}
