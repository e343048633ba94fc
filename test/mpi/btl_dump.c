/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The output of btl/torii when ob1's dump asks every byte transfer layer about every process: once
 * without details, once with them. It goes to standard error, for the caller to check. */
#include <stdbool.h>

#include "check.h"
/* Open MPI's own; after mpi.h. */
#include <ompi/mca/pml/pml.h>

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  /* Messages, because collective operations may have counters of their own. */
  const int to = (world_rank + 1) % world_size, from = (world_rank + world_size - 1) % world_size;
  int got = -1;
  MPI_Sendrecv(&world_rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  CHECK(got == from, "got %d, not %d", got, from);
  for (int details = 0; world_rank == 0 && details < 2; ++details) {
    const int code = mca_pml.pml_dump((struct ompi_communicator_t*)MPI_COMM_WORLD, details);
    CHECK(code == 0, "code %d", code);
  }
  return finish();
}
