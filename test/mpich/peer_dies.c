// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Rank 1 ends without MPI_Finalize while rank 0 waits for its message: the receive ends with an
// error of its own class, and so does a later send.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int wrong(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length, class;
  MPI_Error_class(code, &class);
  if (MPIX_ERR_PROC_FAILED != class) {
    printf("%s ended with class %d\n", what, class);
    return 1;
  }
  MPI_Error_string(code, text, &length);
  if (NULL == strstr(text, "torii")) {
    printf("%s: the text does not say who found it: %s\n", what, text);
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  int rank, value = 0, errors;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (1 == rank) _exit(0);
  errors =
      wrong("a receive", MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  errors += wrong("a send", MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
  if (0 == errors) printf("No Errors\n");
  fflush(stdout);
  _exit(errors); /* MPI_Finalize is collective */
}
