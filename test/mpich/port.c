// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Rank 0 opens a port, rank 1 connects to it: the name has room for the address.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char port[MPI_MAX_PORT_NAME];
  MPI_Comm other;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (0 == rank) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Close_port(port);
  } else {
    MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
  }
  MPI_Barrier(other);
  MPI_Comm_remote_size(other, &size);
  MPI_Comm_disconnect(&other);
  if (0 == rank) printf(1 == size ? "No Errors\n" : "the other side has %d processes\n", size);
  MPI_Finalize();
  return 0;
}
