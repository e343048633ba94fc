/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Threads with a communicator each, between two ranks: all kinds of messages at the same time, none
 * of which may reach another thread, and requests of all communicators waited for together; puts
 * and gets in one window, that each thread completes for itself.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 2
#define ROUNDS 300
#define WINDOW 64
#define LONG 200000 /* integers */
#define PART 2000   /* integers of a thread in the window */

struct thread {
  pthread_t id;
  int number;
  MPI_Comm comm;
  int wrong;
};

static int rank;
static MPI_Win shared;

static int value(int thread, int round, int i) {
  return thread * 100000000 + round * 1000 + i % 1000;
}

/* A window of messages to the other rank, and one of its. */
static void windows(struct thread* own, int round) {
  MPI_Request requests[2 * WINDOW];
  int out[WINDOW], in[WINDOW];
  for (int i = 0; i < WINDOW; ++i) {
    MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? 1 - rank : MPI_ANY_SOURCE, i, own->comm, &requests[i]);
  }
  for (int i = 0; i < WINDOW; ++i) {
    out[i] = value(own->number, round, i);
    if (i % 8) {
      MPI_Isend(&out[i], 1, MPI_INT, 1 - rank, i, own->comm, &requests[WINDOW + i]);
    } else {
      MPI_Issend(&out[i], 1, MPI_INT, 1 - rank, i, own->comm, &requests[WINDOW + i]);
    }
  }
  MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < WINDOW; ++i) own->wrong += in[i] != value(own->number, round, i);
}

/* A long message that is probed for, and a receive that is withdrawn. */
static void probes(struct thread* own, int round) {
  static const int tag = 1000;
  int* data = malloc(LONG * sizeof *data);
  MPI_Request request, never;
  MPI_Message message;
  MPI_Status status;
  int count = 0, cancelled = 0;
  MPI_Irecv(&count, 1, MPI_INT, 1 - rank, 2000, own->comm, &never);
  if (0 == rank) {
    for (int i = 0; i < LONG; ++i) data[i] = value(own->number, round, i);
    MPI_Isend(data, LONG, MPI_INT, 1, tag, own->comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own->comm, &message, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    own->wrong += LONG != count || tag != status.MPI_TAG || 0 != status.MPI_SOURCE;
    MPI_Mrecv(data, LONG, MPI_INT, &message, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; ++i) own->wrong += data[i] != value(own->number, round, i);
  }
  MPI_Cancel(&never);
  MPI_Wait(&never, &status);
  MPI_Test_cancelled(&status, &cancelled);
  own->wrong += !cancelled;
  free(data);
}

/* Between data and this thread's part of the other rank's memory, in pieces. */
static void move(const struct thread* own, int* data, int piece, int put) {
  for (int i = 0; i < PART; i += piece) {
    const int count = PART - i < piece ? PART - i : piece;
    const MPI_Aint there = own->number * PART + i;
    if (put) {
      MPI_Put(&data[i], count, MPI_INT, 1 - rank, there, count, MPI_INT, shared);
    } else {
      MPI_Get(&data[i], count, MPI_INT, 1 - rank, there, count, MPI_INT, shared);
    }
  }
}

static void puts_and_gets(struct thread* own, int round) {
  int out[PART], in[PART];
  const int piece = 1 + 37 * round % 100;
  for (int i = 0; i < PART; ++i) out[i] = value(own->number, round, i);
  move(own, out, piece, 1);
  if (round % 2) {
    MPI_Win_flush(1 - rank, shared);
  } else {
    MPI_Win_flush_all(shared);
  }
  move(own, in, piece, 0);
  if (round % 3) {
    MPI_Win_flush(1 - rank, shared);
  } else {
    MPI_Win_flush_local_all(shared);
  }
  for (int i = 0; i < PART; ++i) own->wrong += in[i] != out[i];
}

static void* exchange(void* arg) {
  struct thread* own = arg;
  for (int round = 0; round < ROUNDS; ++round) {
    int sum = 0, mine = value(own->number, round, rank);
    windows(own, round);
    if (0 == round % 30) probes(own, round);
    puts_and_gets(own, round);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own->comm);
    own->wrong += sum != value(own->number, round, 0) + value(own->number, round, 1);
  }
  return NULL;
}

/* One thread waits for requests of all communicators. */
static int together(struct thread* threads) {
  MPI_Request requests[2 * THREADS];
  int in[THREADS], out[THREADS], wrong = 0;
  for (int i = 0; i < THREADS; ++i) {
    out[i] = value(i, 0, rank);
    MPI_Irecv(&in[i], 1, MPI_INT, 1 - rank, 0, threads[i].comm, &requests[i]);
    MPI_Isend(&out[i], 1, MPI_INT, 1 - rank, 0, threads[i].comm, &requests[THREADS + i]);
  }
  MPI_Waitall(2 * THREADS, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < THREADS; ++i) wrong += in[i] != value(i, 0, 1 - rank);
  return wrong;
}

int main(int argc, char** argv) {
  struct thread threads[THREADS];
  int size = 0, level = 0, wrong = 0, all = 0;
  int* memory = malloc(THREADS * PART * sizeof *memory);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (2 != size || MPI_THREAD_MULTIPLE != level) {
    fprintf(stderr, "wants 2 ranks, and threads\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (int i = 0; i < THREADS; ++i) {
    threads[i] = (struct thread){.number = i};
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
  }
  MPI_Win_create(memory, THREADS * PART * sizeof *memory, sizeof *memory, MPI_INFO_NULL,
                 MPI_COMM_WORLD, &shared);
  MPI_Win_lock_all(0, shared);
  for (int i = 0; i < THREADS; ++i) {
    pthread_create(&threads[i].id, NULL, exchange, &threads[i]);
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i].id, NULL);
    wrong += threads[i].wrong;
  }
  wrong += together(threads);
  MPI_Win_unlock_all(shared);
  MPI_Win_free(&shared);
  free(memory);
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (0 == rank) printf(0 == all ? "No Errors\n" : "%d errors\n", all);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_free(&threads[i].comm);
  MPI_Finalize();
  return 0 == all ? 0 : 1;
}
