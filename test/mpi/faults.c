/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * "kill": rank 1 kills itself without warning amid traffic of every kind; the others go on
 * until MPI reports an error, and say so. "windows": the same amid operations of a window; the
 * others end by an error. "fork": children come and go during transfers, as of system() and
 * popen().
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kBytes = 1 << 20 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Rank 1 exchanges with everyone, the others with rank 1. */
static int exchange(int victim, int bytes, char* out, char* in) {
  int code = MPI_SUCCESS;
  for (int r = 0; r < world_size && MPI_SUCCESS == code; ++r) {
    if ((world_rank == victim) == (r == victim)) continue;
    code = MPI_Sendrecv(out, bytes, MPI_BYTE, r, 1, in, bytes, MPI_BYTE, r, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
  }
  return code;
}

static void traffic_until_error(void) {
  static const int sizes[] = {0, 8, 3000, 60000, kBytes};
  char *out = calloc(1, kBytes), *in = calloc(1, kBytes);
  CHECK(out && in, "no memory");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  double begin = seconds();
  for (int i = 0; seconds() - begin < 60; ++i) {
    int code = exchange(1, sizes[i % 5], out, in);
    if (1 == world_rank && seconds() - begin > 0.7) raise(SIGKILL);
    if (MPI_SUCCESS != code) {
      char text[MPI_MAX_ERROR_STRING];
      int length;
      MPI_Error_string(code, text, &length);
      fprintf(stderr, "rank %d survived: MPI said %s after %.1f s\n", world_rank, text,
              seconds() - begin);
      fflush(stderr);
      _exit(0); /* MPI_Finalize would wait for the dead */
    }
  }
  fprintf(stderr, "rank %d: no error for a minute\n", world_rank);
  _exit(8);
}

/* One of the operations of a window, and its end. */
static int access_window(MPI_Win win, int kind, int target, char* local) {
  const int bytes = kind % 2 ? 8 : 60000;
  long one = 1, old;
  int code;
  switch (kind % 6 / 2) {
    case 0:
      code = MPI_Put(local, bytes, MPI_BYTE, target, 0, bytes, MPI_BYTE, win);
      break;
    case 1:
      code = MPI_Get(local, bytes, MPI_BYTE, target, 0, bytes, MPI_BYTE, win);
      break;
    default:
      code = MPI_Fetch_and_op(&one, &old, MPI_LONG, target, 0, MPI_SUM, win);
      break;
  }
  return MPI_SUCCESS == code ? MPI_Win_flush(target, win) : code;
}

static void windows_until_error(void) {
  char *base = calloc(1, kBytes), *local = calloc(1, kBytes);
  MPI_Win win;
  CHECK(base && local, "no memory");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Win_create(base, kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_lock_all(0, win);
  double begin = seconds();
  for (int i = 0; seconds() - begin < 60; ++i) {
    int code = MPI_SUCCESS;
    for (int r = 0; r < world_size && MPI_SUCCESS == code; ++r)
      code = access_window(win, i, r, local);
    if (1 == world_rank && seconds() - begin > 0.7) raise(SIGKILL);
    if (MPI_SUCCESS != code) _exit(0);
  }
  printf("rank %d: no error after 60 s\n", world_rank);
  fflush(stdout);
  _exit(8);
}

static void forks(void) {
  int partner = world_rank ^ 1;
  char *out = malloc(kBytes), *in = malloc(kBytes);
  CHECK(out && in, "no memory");
  if (partner < world_size) {
    for (int i = 0; i < 30; ++i) {
      MPI_Request requests[2];
      int bytes = i % 3 ? kBytes : 5000;
      fill(out, (size_t)bytes, (uint32_t)(world_rank + i));
      MPI_Irecv(in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[1]);
      pid_t child = fork();
      CHECK(child >= 0, "fork failed");
      if (0 == child) {
        memset(in, 0xff, kBytes); /* its own copy, not the parent's */
        memset(out, 0xff, kBytes);
        _exit(0);
      }
      if (i % 5 == 0) CHECK(0 == system("true"), "system failed");
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      int status;
      waitpid(child, &status, 0);
      CHECK(WIFEXITED(status) && 0 == WEXITSTATUS(status), "child status %d", status);
      verify(in, (size_t)bytes, (uint32_t)(partner + i), "with a child");
    }
  }
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  CHECK(argc == 2, "say kill, windows or fork");
  if (0 == strcmp(argv[1], "kill")) traffic_until_error();
  if (0 == strcmp(argv[1], "windows")) windows_until_error();
  forks();
  return finish();
}
