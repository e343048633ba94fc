/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Collective operations of all ranks, so long that Torii multicasts them between nodes.
 *
 *   multicast until FILE
 *       Broadcasts of some lengths, from each rank in turn, until there is such a file. Every byte
 *       is looked at. Rank 0 says "exchanging" after some.
 *
 *   multicast kill RANK ROOT
 *       Broadcasts from ROOT, sums and barriers. After half a second RANK kills itself, whatever it
 *       does. A rank that gets an error says so, and ends.
 *
 *   multicast count N
 *       N broadcasts from rank 0.
 */
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "../mpi/check.h"

#define MOST 1000000
static const int lengths[] = {100000, 40000, MOST, 64000};
static char* data;

static void until(const char* file) {
  int go_on = 1;
  for (uint32_t round = 0; go_on; ++round) {
    const int root = (int)round % world_size, bytes = lengths[round % 4];
    if (world_rank == root) fill(data, (size_t)bytes, round);
    MPI_Bcast(data, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    verify(data, (size_t)bytes, round, "broadcast");
    if (0 == world_rank && 20 == round) printf("exchanging\n"), fflush(stdout);
    if (0 == world_rank) go_on = round < 40 || 0 != access(file, F_OK);
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

static void die(int signal) {
  (void)signal;
  raise(SIGKILL);
}

static int round_of_three(int root) {
  int sum = 0, code = MPI_Bcast(data, lengths[0], MPI_BYTE, root, MPI_COMM_WORLD);
  if (MPI_SUCCESS == code)
    code = MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return MPI_SUCCESS == code ? MPI_Barrier(MPI_COMM_WORLD) : code;
}

static void killed(int victim, int root) {
  const struct itimerval half_a_second = {.it_value = {.tv_usec = 500000}};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 10; ++i) CHECK(MPI_SUCCESS == round_of_three(root), "round %d", i);
  if (world_rank == victim) {
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &half_a_second, NULL);
  }
  for (;;) {
    const double begin = MPI_Wtime();
    const int code = round_of_three(root);
    if (MPI_SUCCESS == code) continue;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: error after %.1f s: %s\n", world_rank, MPI_Wtime() - begin, text);
    fflush(stderr);
    _exit(0); /* MPI_Finalize would wait for the dead */
  }
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  const char* const what = argc > 1 ? argv[1] : "";
  data = calloc(1, MOST);
  CHECK(NULL != data, "%d bytes", MOST);
  if (0 == strcmp(what, "until") && 3 == argc) {
    until(argv[2]);
  } else if (0 == strcmp(what, "kill") && 4 == argc) {
    killed(atoi(argv[2]), atoi(argv[3]));
  } else if (0 == strcmp(what, "count") && 3 == argc) {
    for (int i = 0; i < atoi(argv[2]); ++i)
      MPI_Bcast(data, lengths[0], MPI_BYTE, 0, MPI_COMM_WORLD);
  } else {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  free(data);
  return finish();
}
