/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * bulk MEGABYTES [both [FILE [KIB]]]: rank 0 sends so much to rank 1 (and "both": rank 1 to rank 0)
 * in messages of so many KiB (4096), and goes on until there is such a file on its node; every byte
 * is looked at. Says after each 4 MiB how far it is, at last "ok", and how fast it was.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP (4 << 20)

static uint64_t word_of(int from, long message, long at) {
  return (uint64_t)(message * 2 + from + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)at;
}

/* Rank 0 decides. */
static int is_over(long message, long messages, const char* file) {
  int over = message >= messages && (NULL == file || 0 == access(file, F_OK));
  MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return over;
}

int main(int argc, char** argv) {
  int rank;
  long wrong = 0, all_wrong;
  const long bytes = argc > 4 ? atol(argv[4]) << 10 : STEP, words = bytes / 8;
  uint64_t* out = malloc((size_t)bytes);
  uint64_t* in = malloc((size_t)bytes);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 2 || NULL == out || NULL == in) MPI_Abort(MPI_COMM_WORLD, 2);
  const long least = (atol(argv[1]) << 20) / bytes;
  const int both = argc > 2 && 0 == strcmp(argv[2], "both");
  const char* file = argc > 3 ? argv[3] : NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  long messages = 0;
  for (long m = 0; !is_over(m, least, file); messages = ++m) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const int sends = 0 == rank || both, receives = 1 == rank || both;
    if (receives) {
      memset(in, 0, (size_t)bytes);
      MPI_Irecv(in, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    }
    if (sends) {
      for (long i = 0; i < words; ++i) out[i] = word_of(rank, m, i);
      MPI_Isend(out, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (long i = 0; receives && i < words; ++i) wrong += in[i] != word_of(1 - rank, m, i);
    if (0 == rank && 0 == (m + 1) * bytes % STEP) printf("at %ld MB\n", (m + 1) * bytes >> 20);
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - begin;
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (0 == rank && 0 == all_wrong) printf("ok\n");
  if (0 == rank)
    printf("%.1f MB/s in %.1f s\n", (double)messages * (double)bytes / seconds / 1e6, seconds);
  free(out);
  free(in);
  MPI_Finalize();
  return 0 == rank && 0 != all_wrong;
}
