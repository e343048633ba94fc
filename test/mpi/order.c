/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Matching order: any source, any tag, explicit receives between wildcards, the tag's upper
 * bound, and collectives' traffic that MPI_ANY_TAG must not see. Usage: order [ROUNDS], 1. */
#include "check.h"

enum { kCount = 400 };

/* A message carries (sender, its serial number) and filler of varying length. */
static size_t message_bytes(int serial) {
  static const size_t kBytes[] = {8, 8, 40, 200, 3000, 8, 9000, 70000, 16, 8};
  return kBytes[serial % 10];
}

static void any_source_any_tag(void) {
  static int buffer[70000 / 4];
  if (0 == world_rank) {
    int* next = calloc((size_t)world_size, sizeof *next);
    for (int i = 0; i < kCount * (world_size - 1); ++i) {
      MPI_Status status;
      MPI_Recv(buffer, sizeof buffer, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
               &status);
      int from = buffer[0], serial = buffer[1];
      CHECK(from == status.MPI_SOURCE, "message of %d says source %d", from, status.MPI_SOURCE);
      CHECK(serial == next[from], "from %d came %d, expected %d", from, serial, next[from]);
      verify_status(&status, from, serial % 7, (MPI_Count)message_bytes(serial), "wildcards");
      ++next[from];
    }
    free(next);
  } else {
    for (int i = 0; i < kCount; ++i) {
      buffer[0] = world_rank;
      buffer[1] = i;
      MPI_Send(buffer, (int)message_bytes(i), MPI_BYTE, 0, i % 7, MPI_COMM_WORLD);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Receives posted beforehand, wildcards of all four kinds mixed: each message goes to the first
 * posted receive that fits. The expectation comes from a list walked in order. */
struct posted {
  int source, tag, value[2], taken;
};

static void posted_mix(int early) {
  enum { kPosted = 300 };
  struct posted posted[kPosted];
  MPI_Request requests[kPosted];
  int messages[kPosted][2], partner = world_rank ^ 1;
  uint64_t state = 4242;
  if (partner >= world_size) return;
  for (int i = 0; i < kPosted; ++i) {
    int tag = (int)(draw(&state) % 5);
    int kind = (int)(draw(&state) % 4);
    messages[i][0] = tag;
    messages[i][1] = i;
    posted[i] = (struct posted){.source = kind & 1 ? MPI_ANY_SOURCE : partner,
                                .tag = kind & 2 ? MPI_ANY_TAG : (int)(draw(&state) % 5),
                                .value = {-1, -1}};
  }
  if (world_rank & 1) { /* the sender */
    if (!early) MPI_Recv(NULL, 0, MPI_BYTE, partner, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kPosted; ++i) {
      MPI_Send(messages[i], 2, MPI_INT, partner, messages[i][0], MPI_COMM_WORLD);
    }
    return;
  }
  for (int i = 0; i < kPosted; ++i) {
    MPI_Irecv(posted[i].value, 2, MPI_INT, posted[i].source, posted[i].tag, MPI_COMM_WORLD,
              &requests[i]);
  }
  if (!early) MPI_Send(NULL, 0, MPI_BYTE, partner, 1000, MPI_COMM_WORLD);
  int expected[kPosted];
  for (int i = 0; i < kPosted; ++i) expected[i] = -1;
  int leftover = 0;
  for (int m = 0; m < kPosted; ++m) {
    int p = 0;
    while (p < kPosted &&
           (posted[p].taken || (posted[p].tag != MPI_ANY_TAG && posted[p].tag != messages[m][0])))
      ++p;
    if (p == kPosted) {
      ++leftover;
      continue;
    }
    posted[p].taken = 1;
    expected[p] = m;
  }
  for (int i = 0; i < kPosted; ++i) {
    MPI_Status status;
    if (expected[i] < 0) continue;
    MPI_Wait(&requests[i], &status);
    verify_status(&status, partner, messages[expected[i]][0], 8, "posted mix");
    CHECK(posted[i].value[1] == expected[i],
          "receive %d (source %d, tag %d) got message %d, not %d", i, posted[i].source,
          posted[i].tag, posted[i].value[1], expected[i]);
  }
  for (int i = 0; i < kPosted; ++i) { /* receives that fit none are withdrawn */
    MPI_Status status;
    int cancelled = 0;
    if (expected[i] >= 0) continue;
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled, "receive %d for tag %d matched what it must not", i, posted[i].tag);
  }
  for (int i = 0; i < leftover; ++i) {
    int value[2];
    MPI_Recv(value, 2, MPI_INT, partner, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void tag_bounds(void) {
  int *upper, found, partner = world_rank ^ 1;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &found);
  CHECK(found && *upper >= 32767, "MPI_TAG_UB %d", found ? *upper : -1);
  if (partner >= world_size) return;
  static int tags[6]; /* outlives the requests */
  const int chosen[6] = {0, 1, 32767, *upper / 2, *upper - 1, *upper};
  memcpy(tags, chosen, sizeof tags);
  for (int i = 5; i >= 0; --i) {
    MPI_Request request;
    MPI_Isend(&tags[i], 1, MPI_INT, partner, tags[i], MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  for (int i = 0; i < 6; ++i) {
    int value = -1;
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, partner, tags[i], MPI_COMM_WORLD, &status);
    verify_status(&status, partner, tags[i], 4, "tag bounds");
    CHECK(value == tags[i], "tag %d brought %d", tags[i], value);
  }
}

/* Receives for anything stay posted while collectives run on the same communicator. */
static void any_tag_and_collectives(void) {
  MPI_Request requests[4];
  int values[4] = {-1, -1, -1, -1};
  for (int i = 0; i < 4; ++i) {
    MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < 50; ++i) {
    int mine = world_rank + i, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == world_size * i + world_size * (world_size - 1) / 2, "sum %d", sum);
    MPI_Bcast(&sum, 1, MPI_INT, i % world_size, MPI_COMM_WORLD);
  }
  for (int i = 0; i < 4; ++i) {
    int flag;
    MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "a collective's message matched receive %d", i);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 4; ++i) {
    int value = world_rank * 10 + i;
    MPI_Send(&value, 1, MPI_INT, (world_rank + 1) % world_size, i, MPI_COMM_WORLD);
  }
  int left = (world_rank - 1 + world_size) % world_size;
  for (int i = 0; i < 4; ++i) {
    MPI_Status status;
    MPI_Wait(&requests[i], &status);
    verify_status(&status, left, i, 4, "after collectives");
    CHECK(values[i] == left * 10 + i, "value %d", values[i]);
  }
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  CHECK(rounds > 0, "%s is no number of rounds", argv[1]);
  for (int round = 0; round < rounds; ++round) {
    any_source_any_tag();
    posted_mix(0);
    MPI_Barrier(MPI_COMM_WORLD);
    posted_mix(1);
    MPI_Barrier(MPI_COMM_WORLD);
    tag_bounds();
    MPI_Barrier(MPI_COMM_WORLD);
    any_tag_and_collectives();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return finish();
}
