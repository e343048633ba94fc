/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * exchange SECONDS [FILE [ROUNDS]]: every rank sends to all others and receives from them, messages
 * of many sizes, again and again for so long, until there is such a file ("-": none) and so many
 * times, and looks at every byte. Says "ok" at the end, and how much memory each rank has got since
 * it has sent all sizes some times.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES 8
static const int sizes[SIZES] = {0, 1, 64, 1000, 4096, 20000, 100000, 1000000};

static unsigned char byte_of(int from, int to, int round, int at) {
  return (unsigned char)(from * 31 + to * 17 + round * 7 + at + at / 251);
}

/* Returns how many bytes were wrong. */
static long swap(int rank, int other, int round, unsigned char* out, unsigned char* in) {
  const int bytes = sizes[round % SIZES];
  long wrong = 0;
  MPI_Status status;
  int count;
  for (int i = 0; i < bytes; ++i) out[i] = byte_of(rank, other, round, i);
  MPI_Sendrecv(out, bytes, MPI_BYTE, other, round & 0xff, in, bytes, MPI_BYTE, other, round & 0xff,
               MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  for (int i = 0; i < bytes; ++i) wrong += in[i] != byte_of(other, rank, round, i);
  return wrong + (count != bytes);
}

/* KiB of memory that is there; 0: unknown. */
static long resident(void) {
  long all = 0, there = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (NULL == file) return 0;
  if (2 != fscanf(file, "%ld %ld", &all, &there)) there = 0;
  fclose(file);
  return there * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char** argv) {
  int rank, size, round = 0, go_on = 1;
  long wrong = 0, all_wrong, before = 0;
  unsigned char* out = malloc(1000000);
  unsigned char* in = malloc(1000000);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2 || argc > 4 || NULL == out || NULL == in) MPI_Abort(MPI_COMM_WORLD, 2);
  const double end = MPI_Wtime() + atof(argv[1]);
  const char* const file = argc > 2 && 0 != strcmp(argv[2], "-") ? argv[2] : NULL;
  const int rounds = argc > 3 ? atoi(argv[3]) : SIZES;
  for (; go_on; ++round) {
    for (int distance = 0; distance < size; ++distance) { /* pairs, all ranks at once */
      const int other = (distance + size - rank) % size;
      if (other != rank) wrong += swap(rank, other, round, out, in);
    }
    if (8 * SIZES == round) before = resident();
    if (0 == rank)
      go_on = MPI_Wtime() < end || round < rounds || (NULL != file && 0 != access(file, F_OK));
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (0 == rank && 0 == all_wrong) printf("ok\n");
  if (0 == rank) fprintf(stderr, "%d rounds\n", round);
  if (before > 0) fprintf(stderr, "rank %d grew by %ld KiB\n", rank, resident() - before);
  free(out);
  free(in);
  MPI_Finalize();
  return 0 == rank && 0 != all_wrong;
}
