/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * silence SECONDS [kill | stop SECONDS | compute SECONDS]: every rank exchanges with every other
 * one for so long. After half a second of it rank 0 says "exchanging", and rank 1 kills itself, is
 * stopped for a while, or makes no calls for a while. A rank with an error says so, and when the
 * last exchange had gone well, and ends; else rank 0 says "ok". Each exchange has other bytes, and
 * a rank that gets wrong ones ends the job.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 100000

static void stop_for(double seconds) {
  const pid_t self = getpid();
  if (0 == fork()) {
    usleep((useconds_t)(seconds * 1e6));
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

static void compute_for(double seconds) {
  const double end = MPI_Wtime() + seconds;
  while (MPI_Wtime() < end) {
  }
}

/* With all others in turn; whatever fails first. */
static int round_trip(int rank, int size, char* out, char* in, int bytes, int round) {
  memset(out, 31 * rank + round, (size_t)bytes);
  for (int distance = 0; distance < size; ++distance) {
    const int other = (distance + size - rank) % size;
    if (other == rank) continue;
    const int code = MPI_Sendrecv(out, bytes, MPI_BYTE, other, 1, in, bytes, MPI_BYTE, other, 1,
                                  MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (MPI_SUCCESS != code) return code;
    const char expected = (char)(31 * other + round);
    for (int at = 0; at < bytes; ++at) {
      if (in[at] == expected) continue;
      fprintf(stderr, "rank %d: not true: round %d, byte %d of rank %d is %d, not %d\n", rank,
              round, at, other, in[at], expected);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  int rank, size, done = 0, told = 0;
  char *out = calloc(1, BYTES), *in = calloc(1, BYTES);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2 || NULL == out || NULL == in) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const double begin = MPI_Wtime(), seconds = atof(argv[1]);
  double good = begin;
  for (int i = 0; !done; ++i) {
    done = MPI_Wtime() - begin > seconds; /* rank 0 decides */
    int code = round_trip(rank, size, out, in, i % 2 ? 8 : BYTES, i);
    if (MPI_SUCCESS == code) code = MPI_Bcast(&done, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (MPI_SUCCESS != code) {
      char text[MPI_MAX_ERROR_STRING];
      int length;
      MPI_Error_string(code, text, &length);
      fprintf(stderr, "rank %d: error after %.1f s: %s\n", rank, MPI_Wtime() - good, text);
      fflush(stderr);
      _exit(0); /* MPI_Finalize would wait for the dead */
    }
    good = MPI_Wtime();
    if (0 == rank && !told && good - begin >= 0.5) {
      printf("exchanging\n");
      fflush(stdout);
      told = 1;
    }
    if (1 != rank || argc < 3 || good - begin < 0.5) continue;
    if (0 == strcmp(argv[2], "kill")) raise(SIGKILL);
    if (0 == strcmp(argv[2], "stop") && argc > 3) stop_for(atof(argv[3]));
    if (0 == strcmp(argv[2], "compute") && argc > 3) compute_for(atof(argv[3]));
    argc = 2;
  }
  if (0 == rank) printf("ok\n");
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
