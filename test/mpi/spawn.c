/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Processes of other jobs: MPI_Comm_spawn twice and messages both ways, or ("connect") accept
 * and connect between the two halves of the job, repeated. Another argument is the command to
 * spawn in place of this program. */
#include "check.h"

static void talk(MPI_Comm inter, int lead) {
  int remote, rank;
  static char out[300000], in[300000];
  MPI_Comm_remote_size(inter, &remote);
  MPI_Comm_rank(inter, &rank);
  MPI_Request* requests = malloc(sizeof *requests * (size_t)remote);
  CHECK(requests, "no memory");
  for (int bytes = 0; bytes <= 300000; bytes = bytes * 7 + 3) {
    fill(out, (size_t)bytes, (uint32_t)(rank + (lead ? 0 : 100)));
    for (int r = 0; r < remote; ++r) {
      MPI_Isend(out, bytes, MPI_BYTE, r, bytes, inter, &requests[r]);
    }
    for (int r = 0; r < remote; ++r) {
      MPI_Status status;
      MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, bytes, inter, &status);
      CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < remote, "source %d", status.MPI_SOURCE);
      verify(in, (size_t)bytes, (uint32_t)(status.MPI_SOURCE + (lead ? 100 : 0)), "other job");
    }
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(inter);
  }
  free(requests);
  MPI_Comm merged;
  int size, sum = 0, one = 1;
  MPI_Intercomm_merge(inter, !lead, &merged);
  MPI_Comm_size(merged, &size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
  CHECK(sum == size, "sum %d of %d", sum, size);
  MPI_Comm_free(&merged);
}

static void accept_and_connect(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm half, inter;
  int upper = world_rank >= world_size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &half);
  for (int turn = 0; turn < 3; ++turn) {
    if (0 == world_rank) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (upper)
      MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    else
      MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    talk(inter, upper);
    MPI_Comm_disconnect(&inter);
    if (0 == world_rank) MPI_Close_port(port);
  }
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Comm parent, inter;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  MPI_Comm_get_parent(&parent);
  if (MPI_COMM_NULL != parent) {
    talk(parent, 0);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
  }
  if (argc > 1 && 0 == strcmp(argv[1], "connect")) {
    accept_and_connect();
    return finish();
  }
  for (int turn = 0; turn < 2; ++turn) {
    int codes[2];
    MPI_Comm_spawn(argv[argc > 1], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   codes);
    CHECK(0 == codes[0] && 0 == codes[1], "spawn codes %d %d", codes[0], codes[1]);
    talk(inter, 1);
    MPI_Comm_disconnect(&inter);
  }
  return finish();
}
