/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Groups as a C program sees them: four ranks in one process, on one simulated network.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_kit.h"

enum { kRanks = 4, kRounds = 100 };

static torii_ni_t* ni[kRanks];
static torii_peer_t* peer[kRanks][kRanks];
static torii_port_t* port[kRanks];
static torii_group_t* group[kRanks];

static void progress(void) {
  for (int round = 0; round < 200; ++round)
    for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
}

static uint64_t counter(torii_ni_t* of, const char* name) {
  for (size_t i = 0; i < torii_counter_count(); ++i)
    if (strcmp(torii_counter_name(i), name) == 0) return torii_counter_value(of, i);
  CHECK(!"no such counter");
  return 0;
}

static void open_all(void) {
  CHECK(torii_param_set("drivers", "sim", "group_api_test") == TORII_OK);
  for (uint32_t i = 0; i < kRanks; ++i) {
    open_rank(i, kRanks, &ni[i]);
    CHECK(torii_port_open(ni[i], 2, &port[i]) == TORII_OK);
  }
  for (int i = 0; i < kRanks; ++i) {
    for (int k = 0; k < kRanks; ++k) {
      connect_rank(ni[i], ni[k], &peer[i][k]);
    }
    CHECK(torii_group_open(ni[i], "c", 1, peer[i], kRanks, &group[i]) == TORII_OK);
  }
  progress();
}

int main(void) {
  open_all();
  for (int i = 0; i < kRanks; ++i) {
    CHECK(torii_group_path(group[i]) == TORII_MULTICAST);
    CHECK(strcmp(torii_group_text(group[i]), "group c of 4: one frame by sim") == 0);
  }
  int sends = 0, pending = 0;
  for (int round = 0; round < kRounds; ++round) {
    char text[64], got[64];
    snprintf(text, sizeof(text), "round %d", round);
    torii_data_t out = {.layout = TORII_CONTIGUOUS, .base = text, .bytes = strlen(text) + 1};
    torii_data_t in = {.layout = TORII_CONTIGUOUS, .base = got, .bytes = sizeof(got)};
    const int from = round % kRanks;
    const int code = torii_group_send(group[from], port[from], 5, 6, &out, count, &sends);
    CHECK(code == TORII_OK || code == TORII_PENDING);
    pending += code == TORII_PENDING;
    progress();
    CHECK(sends == pending);
    for (int i = 0; i < kRanks; ++i) {
      torii_result_t result;
      int received = 0;
      const int empty = torii_probe(port[i], peer[i][from], 5, 0, &result);
      CHECK(empty == (i == from ? TORII_EMPTY : TORII_OK));
      if (i == from) continue;
      CHECK(torii_recv(port[i], peer[i][from], 5, 0, &in, count, &received, NULL, &result) ==
            TORII_OK);
      CHECK(strcmp(got, text) == 0 && result.user == 6 && result.source == peer[i][from]);
    }
  }
  CHECK(counter(ni[0], "multicast_frames") == kRounds / kRanks);
  CHECK(counter(ni[0], "group_unicasts") == 0);
  for (int i = 0; i < kRanks; ++i) CHECK(torii_group_close(group[i]) == TORII_OK);
  for (int i = 0; i < kRanks; ++i) CHECK(torii_close(ni[i]) == TORII_OK);
  return 0;
}
