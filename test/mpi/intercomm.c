/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Intercommunicators between the lower and the upper half: messages, wildcards, statuses,
 * collectives, and the merge. */
#include "check.h"

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  CHECK(world_size >= 2, "needs two ranks");
  int half = world_size / 2, upper = world_rank >= half;
  int rank, remote;
  MPI_Comm mine, inter, merged;
  MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &mine);
  MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, upper ? 0 : half, 12, &inter);
  MPI_Comm_rank(mine, &rank);
  MPI_Comm_remote_size(inter, &remote);
  CHECK(remote == (upper ? half : world_size - half), "remote size %d", remote);
  static char out[100000], in[100000];
  for (int bytes = 0; bytes <= 100000; bytes = bytes * 9 + 11) {
    MPI_Request* requests = malloc(sizeof *requests * (size_t)remote);
    fill(out, (size_t)bytes, (uint32_t)world_rank);
    for (int r = 0; r < remote; ++r) {
      MPI_Isend(out, bytes, MPI_BYTE, r, 4, inter, &requests[r]);
    }
    for (int r = 0; r < remote; ++r) {
      MPI_Status status;
      MPI_Recv(in, bytes, MPI_BYTE, bytes & 1 ? MPI_ANY_SOURCE : r, MPI_ANY_TAG, inter, &status);
      CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < remote, "source %d", status.MPI_SOURCE);
      int sender = status.MPI_SOURCE + (upper ? 0 : half);
      verify_status(&status, status.MPI_SOURCE, 4, bytes, "inter");
      verify(in, (size_t)bytes, (uint32_t)sender, "inter");
    }
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    free(requests);
    MPI_Barrier(inter);
  }
  int value = world_rank + 1, sum = 0, expected = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
  for (int r = 0; r < world_size; ++r) expected += (r >= half) != upper ? r + 1 : 0;
  CHECK(sum == expected, "sum %d, not %d", sum, expected);
  value = upper ? -1 : 4711;
  MPI_Bcast(&value, 1, MPI_INT, upper ? 0 : (0 == rank ? MPI_ROOT : MPI_PROC_NULL), inter);
  CHECK(value == 4711, "broadcast %d", value);
  MPI_Intercomm_merge(inter, upper, &merged);
  MPI_Comm_rank(merged, &rank);
  CHECK(rank == world_rank, "merged rank %d", rank);
  value = 1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, merged);
  CHECK(sum == world_size, "merged sum %d", sum);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
  return finish();
}
