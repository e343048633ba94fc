/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Truncation: the error class, the prefix that is delivered, and nothing beyond it. */
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
