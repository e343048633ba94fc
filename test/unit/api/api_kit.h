/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * For tests of torii.h in C: ranks of one job in one process.
 */
#ifndef TORII_TEST_API_KIT_H
#define TORII_TEST_API_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torii.h"

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, torii_error()); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

static inline void open_rank(uint32_t rank, uint32_t size, torii_ni_t** ni) {
  torii_options_t options = {.struct_bytes = sizeof(options),
                             .job = 7,
                             .rank = rank,
                             .size = size,
                             .local_rank = rank,
                             .local_size = size};
  CHECK(torii_open(&options, ni) == TORII_OK);
}

static inline void connect_rank(torii_ni_t* from, torii_ni_t* to, torii_peer_t** peer) {
  char address[1024];
  const size_t bytes = torii_address(to, address, sizeof(address));
  CHECK(torii_connect(from, address, bytes, peer) == TORII_OK);
}

/* A callback: counts operations, all of which have to succeed. */
static inline void count(void* arg, const torii_result_t* result) {
  CHECK(result->code == TORII_OK);
  ++*(int*)arg;
}

#endif
