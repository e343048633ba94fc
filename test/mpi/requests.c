/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The life of requests: given back before they complete, cancelled, tested in every way, used for
 * errors, and outliving their communicator. */
#include "check.h"

enum { kMany = 5000, kTag = 5 };

static void to_partner(int partner, int value, MPI_Comm comm) {
  MPI_Send(&value, 1, MPI_INT, partner, kTag, comm);
}

static void meet(int partner) {
  MPI_Sendrecv(NULL, 0, MPI_INT, partner, kMany, NULL, 0, MPI_INT, partner, kMany, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

/* The receives go on without their requests. */
static void given_back_early(int partner) {
  static int values[kMany];
  MPI_Request request;
  memset(values, 0, sizeof values);
  for (int i = 0; i < kMany; ++i) {
    MPI_Irecv(&values[i], 1, MPI_INT, partner, kTag, MPI_COMM_WORLD, &request);
    if (i % 2) MPI_Request_free(&request);
    to_partner(partner, i, MPI_COMM_WORLD);
    if (i % 2 == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_REQUEST_NULL == request, "request %d", i);
  }
  meet(partner);
  for (int i = 0; i < kMany; ++i) CHECK(values[i] == i, "receive %d got %d", i, values[i]);
}

static void many_at_once(int partner) {
  static MPI_Request requests[kMany];
  static int values[kMany];
  int index, count, flag = 0, left = kMany / 2;
  static int indices[kMany];
  MPI_Status status;
  for (int i = 0; i < kMany; ++i)
    MPI_Irecv(&values[i], 1, MPI_INT, i % 3 ? partner : MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
              &requests[i]);
  meet(partner);
  MPI_Testall(kMany, requests, &flag, MPI_STATUSES_IGNORE);
  CHECK(!flag, "%d receives of nothing", kMany);
  for (int i = kMany - 1; i >= 0; --i) {
    MPI_Request sent;
    MPI_Isend(&i, 1, MPI_INT, partner, i, MPI_COMM_WORLD, &sent);
    MPI_Test(&sent, &flag, &status);
    if (!flag) MPI_Wait(&sent, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag, "send %d says it was cancelled", i);
  }
  MPI_Request_get_status(requests[kMany - 1], &flag, &status);
  MPI_Waitany(kMany / 4, requests, &index, &status);
  CHECK(status.MPI_TAG == index && status.MPI_SOURCE == partner, "tag %d, source %d, index %d",
        status.MPI_TAG, status.MPI_SOURCE, index);
  left--;
  while (left > 0) {
    MPI_Waitsome(kMany / 2, requests, &count, indices, MPI_STATUSES_IGNORE);
    left -= count;
  }
  MPI_Waitall(kMany / 2, requests + kMany / 2, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) CHECK(values[i] == i, "receive %d got %d", i, values[i]);
}

static void cancelled(int partner) {
  MPI_Request request;
  MPI_Status status;
  int value = -1, flag = 0;
  MPI_Irecv(&value, 1, MPI_INT, partner, kTag, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag, "a receive that nothing can match was not cancelled, value %d", value);
  meet(partner);
  MPI_Irecv(&value, 1, MPI_INT, partner, kTag, MPI_COMM_WORLD, &request);
  to_partner(partner, 77, MPI_COMM_WORLD);
  do { /* completes without being waited for */
    MPI_Request_get_status(request, &flag, &status);
  } while (!flag);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(!flag && 77 == value, "cancelled %d after it completed, value %d", flag, value);
}

static void truncated(int partner) {
  MPI_Request request;
  MPI_Status status;
  int in[2] = {0, 0}, out[4] = {1, 2, 3, 4}, code, class;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 2; ++i) {
    if (0 == i) MPI_Irecv(in, 2, MPI_INT, partner, kTag, MPI_COMM_WORLD, &request);
    MPI_Send(out, 4, MPI_INT, partner, kTag, MPI_COMM_WORLD);
    code = 0 == i ? MPI_Wait(&request, &status)
                  : MPI_Recv(in, 2, MPI_INT, partner, kTag, MPI_COMM_WORLD, &status);
    MPI_Error_class(code, &class);
    CHECK(MPI_ERR_TRUNCATE == class, "class %d of code %d, way %d", class, code, i);
    CHECK(1 == in[0] && 2 == in[1], "the prefix is %d %d, way %d", in[0], in[1], i);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The communicator is freed while a receive of it waits. */
static void outlives_communicator(int partner) {
  for (int i = 0; i < 50; ++i) {
    MPI_Comm pair, other;
    MPI_Request request;
    int value = 0, wrong = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &pair);
    MPI_Irecv(&value, 1, MPI_INT, partner, kTag, pair, &request);
    MPI_Barrier(pair);
    to_partner(partner, i, pair);
    MPI_Comm_free(&pair);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Sendrecv(&i, 1, MPI_INT, partner, kTag, &wrong, 1, MPI_INT, partner, kTag, other,
                 MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(value == i && wrong == i, "%d and %d, not %d", value, wrong, i);
    MPI_Comm_free(&other);
  }
}

int main(int argc, char** argv) {
  int partner;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  partner = world_rank ^ 1;
  if (partner < world_size) {
    given_back_early(partner);
    many_at_once(partner);
    cancelled(partner);
    truncated(partner);
  }
  if (world_size % 2 == 0) outlives_communicator(partner);
  return finish();
}
