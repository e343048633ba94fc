// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
//   member_dies OPERATION VICTIM
//
// Rank VICTIM ends without MPI_Finalize while the others are in collective operations with it. They
// get an error of its own class, which names that rank, and get one again.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kWords = 2000, kRanks = 16 };
static int rank, size;
static int out[kRanks * kWords], in[kRanks * kWords];

static int carry_out(const char* operation, int root) {
  if (0 == strcmp(operation, "barrier")) return MPI_Barrier(MPI_COMM_WORLD);
  if (0 == strcmp(operation, "bcast")) return MPI_Bcast(out, kWords, MPI_INT, root, MPI_COMM_WORLD);
  if (0 == strcmp(operation, "reduce"))
    return MPI_Reduce(out, in, kWords, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  if (0 == strcmp(operation, "allreduce"))
    return MPI_Allreduce(out, in, kWords, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (0 == strcmp(operation, "allgather"))
    return MPI_Allgather(out, kWords, MPI_INT, in, kWords, MPI_INT, MPI_COMM_WORLD);
  if (0 == strcmp(operation, "alltoall"))
    return MPI_Alltoall(out, kWords, MPI_INT, in, kWords, MPI_INT, MPI_COMM_WORLD);
  fprintf(stderr, "member_dies: no operation %s\n", operation);
  _exit(2);
}

static int wrong(int code, int victim) {
  char text[MPI_MAX_ERROR_STRING], name[32];
  int length, class;
  MPI_Error_class(code, &class);
  MPI_Error_string(code, text, &length);
  snprintf(name, sizeof name, "rank %d on ", victim);
  if (MPIX_ERR_PROC_FAILED == class && NULL != strstr(text, name)) return 0;
  printf("rank %d: an error of class %d: %s\n", rank, class, text);
  return 1;
}

/* The end of a survivor must not be taken for the victim's. */
static void leave_together(int victim) {
  MPI_Request requests[kRanks];
  int count = 0;
  for (int i = 0; i < size; ++i) {
    if (i == rank || i == victim) continue;
    MPI_Irecv(NULL, 0, MPI_INT, i, 1, MPI_COMM_WORLD, &requests[count++]);
  }
  for (int i = 0; i < size; ++i) {
    if (i != rank && i != victim) MPI_Ssend(NULL, 0, MPI_INT, i, 1, MPI_COMM_WORLD);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
  int victim, code = MPI_SUCCESS, errors;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (3 != argc || size > kRanks) return 2;
  victim = atoi(argv[2]);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; MPI_SUCCESS == code; ++i) {
    if (rank == victim && 20 == i) _exit(0);
    code = carry_out(argv[1], i % size);
  }
  errors = wrong(code, victim) + wrong(carry_out(argv[1], 0), victim);
  if (0 == errors) printf("rank %d: No Errors\n", rank);
  fflush(stdout);
  leave_together(victim);
  _exit(errors); /* MPI_Finalize is collective */
}
