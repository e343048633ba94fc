// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The rate of small messages from rank 0 to rank 1 in a program with MPI_THREAD_MULTIPLE: one
// thread, then two with a communicator each. The bytes of the first window are checked.
//
//   mpi_threads [--ms MILLISECONDS]
//
// Rank 0 prints "thread_rate THREADS MESSAGES/S" (millions, of all threads together).
#include <pthread.h>

#include "mpi_bench.h"

enum { kThreads = 2, kInFlight = 64, kWindowsBetweenLooks = 64 };

struct thread {
  pthread_t id;
  int number;
  MPI_Comm comm;
  double rate;
};

static double seconds;

static void one_window(struct thread* own, char* bytes, MPI_Request* requests) {
  for (int i = 0; i < kInFlight; ++i) {
    if (rank == 0)
      MPI_Isend(&bytes[i], 1, MPI_CHAR, 1, 0, own->comm, &requests[i]);
    else
      MPI_Irecv(&bytes[i], 1, MPI_CHAR, 0, 0, own->comm, &requests[i]);
  }
  MPI_Waitall(kInFlight, requests, MPI_STATUSES_IGNORE);
}

// The receiver says when the time is over: what it has counted has arrived.
static void* send_and_receive(void* arg) {
  struct thread* own = arg;
  MPI_Request requests[kInFlight];
  char bytes[kInFlight];
  long messages = 0;
  memset(bytes, 0, sizeof bytes);
  if (rank == 0) fill(bytes, kInFlight, own->number);
  one_window(own, bytes, requests);
  expect(bytes, kInFlight, own->number, "mpi_threads: wrong bytes");
  MPI_Barrier(own->comm);
  const double begin = MPI_Wtime();
  double now = begin;
  for (int go = 1; go;) {
    for (int i = 0; i < kWindowsBetweenLooks; ++i) one_window(own, bytes, requests);
    messages += (long)kInFlight * kWindowsBetweenLooks;
    now = MPI_Wtime();
    go = now - begin < seconds;
    MPI_Bcast(&go, 1, MPI_INT, 1, own->comm);
  }
  own->rate = (double)messages / (now - begin);
  return NULL;
}

int main(int argc, char** argv) {
  struct thread threads[kThreads];
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  seconds = option(argc, argv, "--ms", 100) / 1000;
  if (ranks != 2 || seconds <= 0) fail("usage: mpirun -n 2 mpi_threads [--ms MILLISECONDS]", ranks);
  if (level != MPI_THREAD_MULTIPLE) fail("mpi_threads: this MPI has no MPI_THREAD_MULTIPLE", level);
  for (int i = 0; i < kThreads; ++i) {
    threads[i].number = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
  }
  for (int many = 1; many <= kThreads; ++many) {
    double rate = 0;
    for (int i = 0; i < many; ++i)
      if (pthread_create(&threads[i].id, NULL, send_and_receive, &threads[i]) != 0)
        fail("mpi_threads: no thread", i);
    for (int i = 0; i < many; ++i) {
      pthread_join(threads[i].id, NULL);
      rate += threads[i].rate;
    }
    MPI_Bcast(&rate, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    if (rank == 0) printf("thread_rate %d %.4f\n", many, rate / 1e6);
  }
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&threads[i].comm);
  MPI_Finalize();
  return 0;
}
