/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Long queues: 10,000 posted receives and 10,000 unexpected messages with and without
 * wildcards, met in order, backwards and at random; then floods of unexpected messages far
 * beyond the memory for them. */
#include "check.h"

enum { kMany = 10000 };
static int values[kMany];
static MPI_Request requests[kMany];

enum { kForward, kBackward, kRandom, kSameTag, kOrders };

/* Position i of the order is the tag; every tag occurs once (or all are 0). */
static int order_tag(int order, int i) {
  switch (order) {
    case kForward:
      return i;
    case kBackward:
      return kMany - 1 - i;
    case kRandom:
      return (int)((long)i * 7919 % kMany);
    default:
      return 0;
  }
}

static void send_all(int partner) {
  for (int i = 0; i < kMany; ++i) {
    values[i] = i;
    MPI_Isend(&values[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
}

static void send_same_tag(int partner) {
  for (int i = 0; i < kMany; ++i) MPI_Send(&i, 1, MPI_INT, partner, 0, MPI_COMM_WORLD);
}

/* All receives are posted before the first message. */
static void posted_queue(int partner, int receives, int order, int wild) {
  if (!receives) {
    MPI_Barrier(MPI_COMM_WORLD);
    (order == kSameTag ? send_same_tag : send_all)(partner);
    return;
  }
  for (int i = 0; i < kMany; ++i) {
    values[i] = -1;
    MPI_Irecv(&values[i], 1, MPI_INT, wild ? MPI_ANY_SOURCE : partner, order_tag(order, i),
              MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) {
    int expected = order == kSameTag ? i : order_tag(order, i);
    CHECK(values[i] == expected, "posted %d (order %d, wild %d) got %d", i, order, wild, values[i]);
  }
}

/* All messages have arrived, or wait at the sender, before the first receive. */
static void unexpected_queue(int partner, int receives, int order, int wild) {
  if (!receives) {
    for (int i = 0; i < kMany; ++i) {
      values[i] = i;
      MPI_Isend(&values[i], 1, MPI_INT, partner, order == kSameTag ? 0 : i, MPI_COMM_WORLD,
                &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
    return;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kMany; ++i) {
    int value = -1, tag = order_tag(order, i);
    MPI_Status status;
    int any_tag = wild && (order == kForward || order == kSameTag);
    MPI_Recv(&value, 1, MPI_INT, wild ? MPI_ANY_SOURCE : partner, any_tag ? MPI_ANY_TAG : tag,
             MPI_COMM_WORLD, &status);
    verify_status(&status, partner, tag, 4, "unexpected queue");
    CHECK(value == (order == kSameTag ? i : tag), "unexpected %d (order %d, wild %d) got %d", i,
          order, wild, value);
  }
}

/* Everyone floods rank 0, which looks away until all that can be sent is sent. */
static void flood(int count, int bytes) {
  char* data = malloc((size_t)bytes * (size_t)(world_rank ? count : 1));
  CHECK(data, "no memory");
  if (world_rank) {
    MPI_Request* flood_requests = malloc(sizeof *flood_requests * (size_t)count);
    for (int i = 0; i < count; ++i) {
      fill(data + (size_t)i * (size_t)bytes, (size_t)bytes, (uint32_t)(world_rank + i));
      MPI_Isend(data + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD,
                &flood_requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(count, flood_requests, MPI_STATUSES_IGNORE);
    free(flood_requests);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = world_size - 1; from > 0; --from) {
      for (int i = 0; i < count; ++i) {
        MPI_Recv(data, bytes, MPI_BYTE, from, i % 3 ? i : MPI_ANY_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        verify(data, (size_t)bytes, (uint32_t)(from + i), "flood");
      }
    }
  }
  free(data);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  int partner = world_rank ^ 1;
  for (int turn = 0; turn < 2; ++turn) {
    for (int order = 0; order < kOrders; ++order) {
      for (int wild = 0; wild < 2; ++wild) {
        for (int unexpected = 0; unexpected < 2; ++unexpected) {
          if (partner >= world_size)
            MPI_Barrier(MPI_COMM_WORLD);
          else
            (unexpected ? unexpected_queue : posted_queue)(partner, (world_rank & 1) == turn, order,
                                                           wild);
          MPI_Barrier(MPI_COMM_WORLD);
        }
      }
    }
  }
  flood(20000, 64);
  flood(20000, 3000);
  flood(60, 1 << 20);
  return finish();
}
