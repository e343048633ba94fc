/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * MPI_THREAD_MULTIPLE: threads of two ranks talk in pairs at once (own tag, own communicator),
 * share one wildcard queue, probe with matched receives, poll, give requests back early, and wait
 * for each other's. Argument: threads. */
#include <pthread.h>

#include "check.h"

enum { kMost = 8, kTurns = 300, kMany = 2000 };
static MPI_Comm comms[kMost];
static int partner;
static int threads;

static void pairs(int id, char* out, char* in, MPI_Comm comm, int tag) {
  static const int sizes[] = {4, 0, 64, 1000, 9000, 80000, 4, 500000, 16, 300};
  for (int i = 0; i < kTurns; ++i) {
    int bytes = sizes[i % 10];
    uint32_t mine = (uint32_t)(world_rank * 100 + id * 10 + i),
             theirs = (uint32_t)(partner * 100 + id * 10 + i);
    MPI_Status status;
    fill(out, (size_t)bytes, mine);
    if (i % 3 == 0) {
      MPI_Sendrecv(out, bytes, MPI_BYTE, partner, tag, in, bytes, MPI_BYTE, partner, tag, comm,
                   &status);
    } else {
      MPI_Request requests[2];
      MPI_Status both[2];
      int done = 0;
      MPI_Irecv(in, bytes, MPI_BYTE, partner, tag, comm, &requests[0]);
      MPI_Isend(out, bytes, MPI_BYTE, partner, tag, comm, &requests[1]);
      if (i % 3 == 1)
        MPI_Waitall(2, requests, both);
      else
        while (!done) MPI_Testall(2, requests, &done, both);
      status = both[0];
    }
    verify_status(&status, partner, tag, bytes, "thread pairs");
    verify(in, (size_t)bytes, theirs, "thread pairs");
  }
}

/* Every thread receives whatever comes by matched probe; the sum over all tells what came. */
static long shared_queue(char* out, char* in) {
  long sum = 0;
  for (int i = 0; i < kTurns; ++i) {
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int bytes = 4 + i * 37 % 20000;
    memcpy(out, &i, sizeof i);
    MPI_Isend(out, bytes, MPI_BYTE, partner, i % 5, MPI_COMM_WORLD, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    int size, value;
    MPI_Get_count(&status, MPI_BYTE, &size);
    MPI_Mrecv(in, size, MPI_BYTE, &message, &status);
    memcpy(&value, in, sizeof value);
    CHECK(size == 4 + value * 37 % 20000 && status.MPI_TAG == value % 5,
          "message %d of %d bytes, tag %d", value, size, status.MPI_TAG);
    sum += value;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return sum;
}

static void send_many(MPI_Comm comm) {
  for (int i = 0; i < kMany; ++i) MPI_Send(&i, 1, MPI_INT, partner, 6, comm);
}

/* The other thread makes progress for this one at any moment, also between the receive and its
 * request's end. */
static void given_back_early(int id) {
  static int values[kMost][kMany];
  MPI_Request kept[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int i = 0; i < kMany; ++i) {
    MPI_Request request;
    MPI_Irecv(&values[id][i], 1, MPI_INT, partner, 6, comms[id], &request);
    MPI_Send(&i, 1, MPI_INT, partner, 6, comms[id]);
    if (i % 3 == 0) {
      MPI_Request_free(&request);
    } else {
      MPI_Wait(&kept[i % 2], MPI_STATUS_IGNORE);
      kept[i % 2] = request;
    }
  }
  MPI_Waitall(2, kept, MPI_STATUSES_IGNORE);
  MPI_Sendrecv(NULL, 0, MPI_INT, partner, 7, NULL, 0, MPI_INT, partner, 7, comms[id],
               MPI_STATUS_IGNORE);
  for (int i = 0; i < kMany; ++i) CHECK(values[id][i] == i, "receive %d got %d", i, values[id][i]);
}

/* Receives that one thread posts and another one waits for. */
static int handed_values[kMost][kMany];
static MPI_Request handed[kMost][kMany];

static void post_for_another(int id) {
  for (int i = 0; i < kMany; ++i)
    MPI_Irecv(&handed_values[id][i], 1, MPI_INT, partner, 6, comms[id], &handed[id][i]);
}

static void wait_for_another(int id) {
  const int other = (id + 1) % threads;
  send_many(comms[id]);
  MPI_Waitall(kMany, handed[other], MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i)
    CHECK(handed_values[other][i] == i, "receive %d got %d", i, handed_values[other][i]);
}

struct worker {
  pthread_t thread;
  int id;
  int part;
  long sum;
};

static void* work(void* arg) {
  struct worker* worker = arg;
  char *out = malloc(1 << 20), *in = malloc(1 << 20);
  CHECK(out && in, "no memory");
  if (0 == worker->part) pairs(worker->id, out, in, MPI_COMM_WORLD, worker->id);
  if (1 == worker->part) pairs(worker->id, out, in, comms[worker->id], 5);
  if (2 == worker->part) worker->sum = shared_queue(out, in);
  if (3 == worker->part) given_back_early(worker->id);
  if (4 == worker->part) post_for_another(worker->id);
  if (5 == worker->part) wait_for_another(worker->id);
  free(out);
  free(in);
  return NULL;
}

/* MPI_Waitall ends with the first error, also if another message comes only afterwards. */
static void an_error_ends_waitall(void) {
  char big[64] = {0}, small[4], late[4];
  int go = 0, class = MPI_SUCCESS;
  MPI_Request requests[2];
  MPI_Status both[2];
  if (world_rank > partner) {
    /* Open MPI 4.1's own MPI_Waitall does not end if the error is older than the call. */
    MPI_Recv(&go, 1, MPI_INT, partner, 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(big, sizeof big, MPI_BYTE, partner, 70, MPI_COMM_WORLD);
    MPI_Recv(&go, 1, MPI_INT, partner, 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(big, sizeof late, MPI_BYTE, partner, 71, MPI_COMM_WORLD);
    return;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Irecv(late, sizeof late, MPI_BYTE, partner, 71, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(small, sizeof small, MPI_BYTE, partner, 70, MPI_COMM_WORLD, &requests[1]);
  MPI_Send(&go, 1, MPI_INT, partner, 72, MPI_COMM_WORLD);
  CHECK(MPI_ERR_IN_STATUS == MPI_Waitall(2, requests, both), "a truncated message is no error");
  CHECK(MPI_ERR_PENDING == both[0].MPI_ERROR, "status %d of what is to come", both[0].MPI_ERROR);
  MPI_Error_class(both[1].MPI_ERROR, &class);
  CHECK(MPI_ERR_TRUNCATE == class, "class %d", class);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Send(&go, 1, MPI_INT, partner, 72, MPI_COMM_WORLD);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_MULTIPLE);
  threads = argc > 1 ? atoi(argv[1]) : 4;
  CHECK(threads > 0 && threads <= kMost, "threads %d", threads);
  partner = world_rank ^ 1;
  for (int i = 0; i < threads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  if (partner < world_size) an_error_ends_waitall();
  for (int part = 0; part < 6; ++part) {
    struct worker workers[kMost];
    long sum = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (partner >= world_size) continue;
    for (int i = 0; i < threads; ++i) {
      workers[i] = (struct worker){.id = i, .part = part};
      CHECK(0 == pthread_create(&workers[i].thread, NULL, work, &workers[i]), "no thread");
    }
    for (int i = 0; i < threads; ++i) {
      pthread_join(workers[i].thread, NULL);
      sum += workers[i].sum;
    }
    if (2 == part) {
      CHECK(sum == (long)threads * kTurns * (kTurns - 1) / 2, "sum %ld", sum);
    }
  }
  for (int i = 0; i < threads; ++i) MPI_Comm_free(&comms[i]);
  return finish();
}
