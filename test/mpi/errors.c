/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Truncation: the error class, the prefix that is delivered, and nothing beyond it. Receives that
 * are pending when another one fails go on. */
#include "check.h"

enum { kGuard = 64 };
static char *out, *in;

static void expect_truncation(int code, const char* what) {
  int class = MPI_SUCCESS;
  if (MPI_SUCCESS != code) MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TRUNCATE, "%s: code %d, class %d", what, code, class);
}

enum { kBlocking, kPosted, kMatched, kStrided, kWays };

static void receive_short(int way, int partner, int capacity) {
  MPI_Request request;
  MPI_Message message;
  MPI_Status status;
  MPI_Datatype strided;
  memset(in, 0x5a, (size_t)capacity * 2 + kGuard);
  switch (way) {
    case kBlocking: /* most often unexpected: the sender runs ahead */
      MPI_Barrier(MPI_COMM_WORLD);
      expect_truncation(
          MPI_Recv(in, capacity, MPI_BYTE, partner, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "MPI_Recv");
      break;
    case kPosted:
      MPI_Irecv(in, capacity, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      expect_truncation(MPI_Wait(&request, &status), "MPI_Wait");
      CHECK(status.MPI_SOURCE == partner, "source %d", status.MPI_SOURCE);
      break;
    case kMatched:
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Mprobe(partner, 4, MPI_COMM_WORLD, &message, &status);
      expect_truncation(MPI_Mrecv(in, capacity, MPI_BYTE, &message, &status), "MPI_Mrecv");
      break;
    case kStrided:
      MPI_Type_vector(capacity, 1, 2, MPI_BYTE, &strided);
      MPI_Type_commit(&strided);
      MPI_Irecv(in, 1, strided, partner, 4, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      expect_truncation(MPI_Wait(&request, &status), "strided");
      MPI_Type_free(&strided);
      for (int i = capacity - 1; i >= 0; --i) { /* gather, checking the gaps */
        CHECK(i == capacity - 1 || in[2 * i + 1] == 0x5a, "gap after element %d written", i);
      }
      for (int i = 0; i < capacity; ++i) in[i] = in[2 * i];
      memset(in + capacity, 0x5a, kGuard);
      break;
  }
  char what[80];
  snprintf(what, sizeof what, "%d bytes, way %d: %s", capacity, way, "prefix");
  verify(in, (size_t)capacity, 3, what);
  snprintf(what, sizeof what, "%d bytes, way %d: %s", capacity, way, "beyond the receive");
  verify_value(in + capacity, kGuard, 0x5a, what);
}

enum { kWaitany, kWaitsome, kWaitall, kTestany, kTestsome, kCalls, kPending = 3 };

/* The last request fails, the others are pending. */
static void complete_failed(int call, MPI_Request* requests) {
  MPI_Status statuses[kPending + 1];
  int indices[kPending + 1], index = kPending, count = 1, flag = 0, code = MPI_SUCCESS;
  while (!flag) {
    flag = 1;
    switch (call) {
      case kWaitany:
        code = MPI_Waitany(kPending + 1, requests, &index, statuses);
        break;
      case kWaitsome:
        code = MPI_Waitsome(kPending + 1, requests, &count, indices, statuses);
        break;
      case kWaitall:
        code = MPI_Waitall(kPending + 1, requests, statuses);
        break;
      case kTestany:
        code = MPI_Testany(kPending + 1, requests, &index, &flag, statuses);
        break;
      case kTestsome:
        code = MPI_Testsome(kPending + 1, requests, &count, indices, statuses);
        flag = count > 0;
        break;
    }
    if (MPI_SUCCESS != code) break;
  }
  CHECK(code != MPI_SUCCESS, "call %d: no error", call);
  for (int i = 0; i < kPending; ++i)
    CHECK(requests[i] != MPI_REQUEST_NULL, "call %d: pending request %d is gone", call, i);
}

/* A message into a type of two pieces goes another way than one that is in one piece. */
static void receive_with_pending(int call, int partner, MPI_Datatype type) {
  MPI_Request requests[kPending + 1];
  for (int i = 0; i <= kPending; ++i) /* requests that are used again have seen an error */
    MPI_Irecv(in, 1, type, partner, 9, MPI_COMM_WORLD, &requests[i]);
  MPI_Send(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD);
  for (int i = 0; i <= kPending; ++i)
    expect_truncation(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), "before");
  for (int i = 0; i <= kPending; ++i)
    MPI_Irecv(in + i * 1000, i < kPending ? 20 : 1, type, partner, 10 + i, MPI_COMM_WORLD,
              &requests[i]);
  MPI_Send(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD);
  complete_failed(call, requests);
  MPI_Send(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD);
  for (int i = 0; i < kPending; ++i) {
    MPI_Status status;
    int code = MPI_Wait(&requests[i], &status);
    CHECK(code == MPI_SUCCESS, "call %d: code %d of pending request %d", call, code, i);
    verify_status(&status, partner, 10 + i, 40, "pending");
  }
}

static void send_to_pending(int partner) {
  MPI_Recv(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i <= kPending; ++i) MPI_Send(out, 40, MPI_BYTE, partner, 9, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(out, 40, MPI_BYTE, partner, 10 + kPending, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_BYTE, partner, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < kPending; ++i) MPI_Send(out, 40, MPI_BYTE, partner, 10 + i, MPI_COMM_WORLD);
}

static void pending(int partner) {
  MPI_Datatype types[2];
  MPI_Type_contiguous(2, MPI_BYTE, &types[0]);
  MPI_Type_vector(2, 1, 2, MPI_BYTE, &types[1]);
  for (int t = 0; t < 2; ++t) {
    MPI_Type_commit(&types[t]);
    for (int call = 0; call < kCalls; ++call) {
      if (partner >= world_size) continue;
      if (world_rank & 1) {
        send_to_pending(partner);
      } else {
        receive_with_pending(call, partner, types[t]);
      }
    }
    MPI_Type_free(&types[t]);
  }
}

int main(int argc, char** argv) {
  static const int sizes[] = {2, 30, 64, 1000, 5000, 20000, 70000, 1 << 20, 3000001};
  start(&argc, &argv, MPI_THREAD_SINGLE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  out = malloc(4 << 20);
  in = malloc(8 << 20);
  CHECK(out && in, "no memory");
  int partner = world_rank ^ 1;
  for (int turn = 0; turn < 2; ++turn) {
    for (int s = 0; s < 9; ++s) {
      for (int way = 0; way < kWays; ++way) {
        for (int part = 0; part < 3; ++part) {
          int capacity = part == 0 ? sizes[s] - 1 : part == 1 ? sizes[s] / 2 : 0;
          if (partner >= world_size) {
            MPI_Barrier(MPI_COMM_WORLD);
          } else if ((world_rank & 1) == turn) {
            fill(out, (size_t)sizes[s], 3);
            MPI_Barrier(MPI_COMM_WORLD);
            int code = MPI_Send(out, sizes[s], MPI_BYTE, partner, 4, MPI_COMM_WORLD);
            CHECK(code == MPI_SUCCESS, "the sender got code %d", code);
          } else if (way == kStrided && capacity == 0) {
            receive_short(kPosted, partner, capacity);
          } else {
            receive_short(way, partner, capacity);
          }
        }
      }
    }
  }
  pending(partner);
  /* The pair still works, and receives larger than the message are no error. */
  if (partner < world_size) {
    MPI_Status status;
    fill(out, 1000, (uint32_t)world_rank);
    int code = MPI_Sendrecv(out, 1000, MPI_BYTE, partner, 5, in, 4000, MPI_BYTE, partner, 5,
                            MPI_COMM_WORLD, &status);
    CHECK(code == MPI_SUCCESS, "code %d", code);
    verify_status(&status, partner, 5, 1000, "larger receive");
    verify(in, 1000, (uint32_t)partner, "larger receive");
  }
  return finish();
}
