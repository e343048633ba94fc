/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Probe, matched probe, matched receive; cancel. */
#include "check.h"

static const int kSizes[] = {0, 1, 100, 5000, 70000, 1 << 20, 3 << 20};
enum { kKinds = 7 };
static char* buffer;

static void send_all(int partner, int tag) {
  for (int i = 0; i < kKinds; ++i) {
    fill(buffer, (size_t)kSizes[i], (uint32_t)(i + tag));
    MPI_Send(buffer, kSizes[i], MPI_BYTE, partner, tag, MPI_COMM_WORLD);
  }
}

static void probes(int partner, int tag, int wild) {
  int source = wild ? MPI_ANY_SOURCE : partner, any = wild ? MPI_ANY_TAG : tag;
  for (int i = 0; i < kKinds; ++i) {
    MPI_Status status, again;
    int flag = 0;
    if (i & 1) {
      MPI_Probe(source, any, MPI_COMM_WORLD, &status);
    } else {
      while (!flag) MPI_Iprobe(source, any, MPI_COMM_WORLD, &flag, &status);
    }
    verify_status(&status, partner, tag, kSizes[i], "probe");
    MPI_Iprobe(source, any, MPI_COMM_WORLD, &flag, &again);
    CHECK(flag, "a probed message was gone");
    verify_status(&again, partner, tag, kSizes[i], "second probe");
    memset(buffer, 0, (size_t)kSizes[i]);
    MPI_Recv(buffer, kSizes[i], MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
             &status);
    verify(buffer, (size_t)kSizes[i], (uint32_t)(i + tag), "probed");
  }
}

/* Takes all messages out of matching first and receives them backwards. */
static void matched_probes(int partner, int tag) {
  MPI_Message messages[kKinds];
  MPI_Status status;
  int flag = 0;
  for (int i = 0; i < kKinds; ++i) {
    if (i & 1) {
      MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &messages[i], &status);
    } else {
      for (flag = 0; !flag;) {
        MPI_Improbe(partner, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &messages[i], &status);
      }
    }
    verify_status(&status, partner, tag, kSizes[i], "mprobe");
  }
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
  CHECK(!flag, "messages that were taken are still seen");
  for (int i = kKinds - 1; i >= 0; --i) {
    memset(buffer, 0, (size_t)kSizes[i]);
    if (i & 1) {
      MPI_Mrecv(buffer, kSizes[i], MPI_BYTE, &messages[i], &status);
    } else {
      MPI_Request request;
      MPI_Imrecv(buffer, kSizes[i], MPI_BYTE, &messages[i], &request);
      MPI_Wait(&request, &status);
    }
    CHECK(messages[i] == MPI_MESSAGE_NULL, "the message handle stayed");
    verify_status(&status, partner, tag, kSizes[i], "mrecv");
    verify(buffer, (size_t)kSizes[i], (uint32_t)(i + tag), "mrecv");
  }
}

static void no_process(void) {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status);
  CHECK(message == MPI_MESSAGE_NO_PROC, "matched probe of MPI_PROC_NULL");
  MPI_Mrecv(buffer, 10, MPI_BYTE, &message, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL, "source %d", status.MPI_SOURCE);
}

static void cancels(int partner) {
  enum { kPosted = 20 };
  MPI_Request requests[kPosted];
  int values[kPosted], cancelled;
  MPI_Status status;
  for (int i = 0; i < kPosted; ++i) {
    values[i] = -1;
    MPI_Irecv(&values[i], 1, MPI_INT, i % 3 ? partner : MPI_ANY_SOURCE, i % 2 ? 77 : MPI_ANY_TAG,
              MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < kPosted; i += 2) { /* every second goes, the rest keep their order */
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled, "receive %d could not be cancelled", i);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kPosted / 2; ++i) MPI_Send(&i, 1, MPI_INT, partner, 77, MPI_COMM_WORLD);
  for (int i = 1; i < kPosted; i += 2) {
    MPI_Wait(&requests[i], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(!cancelled, "receive %d says cancelled", i);
    CHECK(values[i] == i / 2, "receive %d got %d", i, values[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  /* Too late: the message has matched. */
  int value = -1, flag = 0;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, partner, 78, MPI_COMM_WORLD, &request);
  MPI_Sendrecv(&world_rank, 1, MPI_INT, partner, 78, NULL, 0, MPI_INT, MPI_PROC_NULL, 0,
               MPI_COMM_WORLD, &status);
  while (!flag) MPI_Request_get_status(request, &flag, &status);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(!cancelled && value == partner, "cancelled %d, value %d", cancelled, value);
  /* A cancelled persistent receive can be started again. */
  MPI_Recv_init(&value, 1, MPI_INT, partner, 79, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "persistent receive not cancelled");
  MPI_Sendrecv(NULL, 0, MPI_INT, partner, 80, NULL, 0, MPI_INT, partner, 80, MPI_COMM_WORLD,
               &status);
  MPI_Start(&request);
  MPI_Send(&world_rank, 1, MPI_INT, partner, 79, MPI_COMM_WORLD);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(!cancelled && value == partner, "cancelled %d, value %d", cancelled, value);
  MPI_Request_free(&request);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  buffer = malloc((size_t)kSizes[kKinds - 1]);
  CHECK(buffer, "no memory");
  int partner = world_rank ^ 1;
  no_process();
  for (int turn = 0; turn < 2; ++turn) {
    if (partner < world_size) {
      for (int wild = 0; wild < 2; ++wild) {
        if ((world_rank & 1) == turn)
          send_all(partner, 11 + wild);
        else
          probes(partner, 11 + wild, wild);
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Sends that matched probes take wait for the receives, so they go without blocking. */
    if (partner < world_size && (world_rank & 1) == turn) {
      MPI_Request requests[kKinds];
      char* copies[kKinds];
      for (int i = 0; i < kKinds; ++i) {
        copies[i] = malloc((size_t)kSizes[i] + 1);
        fill(copies[i], (size_t)kSizes[i], (uint32_t)(i + 20));
        MPI_Isend(copies[i], kSizes[i], MPI_BYTE, partner, 20, MPI_COMM_WORLD, &requests[i]);
      }
      MPI_Waitall(kKinds, requests, MPI_STATUSES_IGNORE);
      for (int i = 0; i < kKinds; ++i) free(copies[i]);
    } else if (partner < world_size) {
      matched_probes(partner, 20);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (partner < world_size) {
    cancels(partner);
  } else { /* the odd one out goes through the same barriers */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return finish();
}
