/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A thread with a stack of 32 KiB, or the least that the system gives (aarch64: 128 KiB), opens,
 * sends, receives and closes, over each driver.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api_kit.h"

enum { kRanks = 2, kMessages = 40, kStack = 32 << 10 };

static torii_ni_t* ni[kRanks];
static torii_peer_t* peer[kRanks];
static torii_port_t* port[kRanks];
static char out[300000], in[kMessages][300000];

/* So many at once that each driver sends as many frames by a call as it can. */
static void exchange(size_t bytes) {
  static torii_result_t results[kMessages];
  const torii_data_t sent = {.bytes = bytes, .base = out};
  int done = 0, due = 0;
  memset(in, 0, sizeof(in));
  for (int i = 0; i < kMessages; ++i) {
    const torii_data_t got = {.bytes = bytes, .base = in[i]};
    const int code = torii_recv(port[1], peer[1], 5, 0, &got, count, &done, NULL, &results[i]);
    CHECK(code == TORII_PENDING);
    ++due;
  }
  for (int i = 0; i < kMessages; ++i) {
    const int code = torii_send(port[0], peer[0], TORII_STANDARD, 5, 0, &sent, count, &done, NULL);
    CHECK(code == TORII_OK || code == TORII_PENDING);
    due += code == TORII_PENDING;
  }
  for (long round = 0; round < 20000000 && done < due; ++round)
    for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
  CHECK(done == due);
  for (int i = 0; i < kMessages; ++i) CHECK(memcmp(in[i], out, bytes) == 0);
}

static void* over(void* drivers) {
  CHECK(torii_param_set("drivers", drivers, "stack_api_test") == TORII_OK);
  for (uint32_t i = 0; i < kRanks; ++i) {
    open_rank(i, kRanks, &ni[i]);
  }
  for (int i = 0; i < kRanks; ++i) {
    connect_rank(ni[i], ni[1 - i], &peer[i]);
    CHECK(torii_port_open(ni[i], 0, &port[i]) == TORII_OK);
  }
  exchange(8);
  exchange(3000);
  exchange(sizeof(out));
  for (int i = 0; i < kRanks; ++i) CHECK(torii_close(ni[i]) == TORII_OK);
  return NULL;
}

int main(void) {
  static char* const drivers[] = {"shm,self", "udp,self"};
  const long least = sysconf(_SC_THREAD_STACK_MIN);
  pthread_attr_t attributes;
  memset(out, 77, sizeof(out));
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, least > kStack ? (size_t)least : kStack) == 0);
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, over, drivers[i]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  puts("ok");
  return 0;
}
