/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Memory as a C program sees it: two ranks in one process; with a driver that has memory to give,
 * and with one that has none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_kit.h"

enum { kRanks = 2, kBytes = 1 << 20 };

static torii_ni_t* ni[kRanks];
static torii_peer_t* peer[kRanks];
static torii_port_t* port[kRanks];

static uint64_t counter(torii_ni_t* of, const char* name) {
  for (size_t i = 0; i < torii_counter_count(); ++i)
    if (strcmp(torii_counter_name(i), name) == 0) return torii_counter_value(of, i);
  CHECK(!"no such counter");
  return 0;
}

static void open_all(const char* drivers) {
  CHECK(torii_param_set("drivers", drivers, "memory_api_test") == TORII_OK);
  CHECK(torii_current() == NULL);
  for (uint32_t i = 0; i < kRanks; ++i) {
    open_rank(i, kRanks, &ni[i]);
    CHECK(torii_current() == ni[0]);
  }
}

static void connect_all(void) {
  for (int i = 0; i < kRanks; ++i) {
    connect_rank(ni[i], ni[1 - i], &peer[i]);
    CHECK(torii_port_open(ni[i], 0, &port[i]) == TORII_OK);
  }
}

static void close_all(void) {
  for (int i = 0; i < kRanks; ++i) CHECK(torii_close(ni[i]) == TORII_OK);
  CHECK(torii_current() == NULL);
}

static char value(size_t i, int seed) { return (char)(i * 31 + (i >> 12) + (size_t)seed); }

/* From rank 0's memory into rank 1's. */
static void send(char* from, char* to, size_t bytes, int seed) {
  const torii_data_t out = {.bytes = bytes, .base = from}, in = {.bytes = bytes, .base = to};
  torii_result_t result;
  int done = 0, due = 0, code;
  for (size_t i = 0; i < bytes; ++i) from[i] = value(i, seed);
  memset(to, 0, bytes);
  code = torii_recv(port[1], peer[1], 5, 0, &in, count, &done, NULL, &result);
  CHECK(code == TORII_PENDING);
  code = torii_send(port[0], peer[0], TORII_STANDARD, 5, 0, &out, count, &done, NULL);
  CHECK(code == TORII_OK || code == TORII_PENDING);
  due = 1 + (code == TORII_PENDING);
  for (int round = 0; round < 100000 && done < due; ++round)
    for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
  CHECK(done == due);
  for (size_t i = 0; i < bytes; ++i) CHECK(to[i] == value(i, seed));
}

static void refuses(const char* what, int code, int expected, const char* word) {
  if (code == expected && strstr(torii_error(), word)) return;
  fprintf(stderr, "%s: code %d (%s), expected %d and \"%s\"\n", what, code, torii_error(), expected,
          word);
  exit(1);
}

static void errors(void) {
  int local = 0;
  void *a = NULL, *b = NULL;
  refuses("no interface", torii_memory_alloc(NULL, 1, 0, &a), TORII_ERR_INVALID, "null");
  refuses("no place", torii_memory_alloc(ni[0], 1, 0, NULL), TORII_ERR_INVALID, "null");
  refuses("no bytes", torii_memory_alloc(ni[0], 0, 0, &a), TORII_ERR_INVALID, "0 bytes");
  refuses("alignment", torii_memory_alloc(ni[0], 1, 48, &a), TORII_ERR_INVALID, "power of two");
  refuses("too much", torii_memory_alloc(ni[0], (size_t)1 << 60, 0, &a), TORII_ERR_NO_MEMORY,
          "1152921504606846976 bytes");
  CHECK(a == NULL);
  CHECK(torii_memory_alloc(ni[0], 10000, 0, &a) == TORII_OK);
  CHECK(torii_memory_alloc(ni[1], 10000, 0, &b) == TORII_OK);
  refuses("foreign", torii_memory_free(ni[0], &local), TORII_ERR_INVALID, "no address");
  refuses("inside", torii_memory_free(ni[0], (char*)a + 4096), TORII_ERR_INVALID, "no address");
  refuses("null", torii_memory_free(ni[0], NULL), TORII_ERR_INVALID, "null");
  refuses("other's", torii_memory_free(ni[0], b), TORII_ERR_INVALID, "no address");
  CHECK(torii_memory_free(ni[0], a) == TORII_OK);
  refuses("twice", torii_memory_free(ni[0], a), TORII_ERR_INVALID, "given back");
  CHECK(torii_memory_free(ni[1], b) == TORII_OK);
}

static void sizes_and_alignments(void) {
  enum { kCount = 60 };
  char* all[kCount];
  for (int i = 0; i < kCount; ++i) {
    const size_t bytes = (size_t)1 << (i % 24), alignment = (size_t)1 << (i % 23);
    void* at = NULL;
    CHECK(torii_memory_alloc(ni[0], bytes, i % 2 ? alignment : 0, &at) == TORII_OK);
    CHECK((uintptr_t)at % (i % 2 ? alignment : 64) == 0);
    all[i] = at;
    memset(at, i, bytes);
  }
  for (int i = 0; i < kCount; ++i) {
    const size_t bytes = (size_t)1 << (i % 24);
    CHECK(all[i][0] == i && all[i][bytes - 1] == i);
    CHECK(torii_memory_free(ni[0], all[i]) == TORII_OK);
  }
}

/* Messages of all lengths; `shared`: the driver has memory to give. */
static void messages(int shared) {
  void *from = NULL, *to = NULL;
  char* ordinary = malloc(kBytes);
  CHECK(torii_memory_alloc(ni[0], kBytes, 0, &from) == TORII_OK);
  CHECK(torii_memory_alloc(ni[1], kBytes, 0, &to) == TORII_OK);
  CHECK((counter(ni[0], "allocated_bytes") >= kBytes) == shared);
  for (size_t bytes = 1; bytes <= kBytes; bytes *= 4) {
    send(from, to, bytes, 1);
    send(from, ordinary, bytes, 2);
    send(ordinary, to, bytes, 3);
    send((char*)from + 5, (char*)to + 3, bytes - (bytes > 8 ? 8 : 0), 4);
  }
  const uint64_t before = counter(ni[1], "direct_bytes") + counter(ni[1], "pulled_bytes");
  send(from, to, 20000, 5); /* short for a rendezvous of ordinary memory */
  const uint64_t after = counter(ni[1], "direct_bytes") + counter(ni[1], "pulled_bytes");
  CHECK((after > before) == shared);
  CHECK(torii_memory_free(ni[0], from) == TORII_OK);
  CHECK(torii_memory_free(ni[1], to) == TORII_OK);
  free(ordinary);
}

/* Until `*done` operations are over. */
static void await(const int* done, int due) {
  for (int round = 0; round < 100000 && *done < due; ++round)
    for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
  CHECK(*done == due);
}

/* Until nothing is under way that has no callback. */
static void settle(torii_import_t* import, int expected) {
  int code = TORII_PENDING;
  for (int round = 0; round < 100000 && code == TORII_PENDING; ++round) {
    for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
    code = torii_import_test(import);
  }
  CHECK(code == expected);
}

static void refused(void* arg, const torii_result_t* result) {
  CHECK(result->code == TORII_ERR_INVALID);
  ++*(int*)arg;
}

/* Accesses without a callback, and one that is refused. */
static void posted(torii_import_t* import, char* memory) {
  enum { kMany = 100, kEach = 16 };
  char out[kMany * kEach], in[kMany * kEach] = "";
  int code, done = 0, due;
  for (size_t i = 0; i < sizeof out; ++i) out[i] = value(i, 9);
  for (int i = 0; i < kMany; ++i) {
    code = torii_write(import, 1000 + i * kEach, out + i * kEach, kEach, TORII_COMPLETE_REMOTE,
                       NULL, NULL);
    CHECK(code == TORII_OK || code == TORII_PENDING);
  }
  settle(import, TORII_OK);
  CHECK(memcmp(memory + 1000, out, sizeof out) == 0);
  for (int i = 0; i < kMany; ++i) {
    code = torii_read(import, 1000 + i * kEach, in + i * kEach, kEach, NULL, NULL);
    CHECK(code == TORII_OK || code == TORII_PENDING);
  }
  settle(import, TORII_OK);
  CHECK(memcmp(in, out, sizeof out) == 0);
  CHECK(torii_read(import, 4090, in, 8, NULL, NULL) == TORII_PENDING);
  settle(import, TORII_ERR_INVALID);
  CHECK(torii_import_test(import) == TORII_OK);
  code = torii_flush(ni[0], peer[0], refused, &done);
  CHECK(code == TORII_PENDING || code == TORII_ERR_INVALID);
  due = code == TORII_PENDING;
  await(&done, due);
}

/* Rank 0 reaches memory of rank 1, allocated by Torii or not. */
static void remote(int allocated) {
  const unsigned all = TORII_MAY_READ | TORII_MAY_WRITE | TORII_MAY_UPDATE;
  torii_export_t* exported = NULL;
  torii_import_t* import = NULL;
  char key[TORII_KEY_MAX], text[] = "through the window", back[sizeof(text)] = "";
  torii_limits_t limits = {.struct_bytes = sizeof(limits)};
  void* memory = NULL;
  uint64_t old = 1, word = 0;
  int done = 0, due = 0;
  if (allocated) {
    CHECK(torii_memory_alloc(ni[1], 4096, 0, &memory) == TORII_OK);
  } else {
    memory = aligned_alloc(64, 4096);
  }
  memset(memory, 0, 4096);
  CHECK(torii_export(ni[1], memory, 4096, all, 99, &exported) == TORII_OK);
  const size_t bytes = torii_export_key(exported, key, sizeof(key));
  CHECK(bytes > 0 && bytes <= sizeof(key));
  CHECK(torii_import(ni[0], peer[0], key, bytes, 99, &import) == TORII_OK);
  CHECK(!torii_import_address(import) || allocated);
  due += torii_write(import, 100, text, sizeof(text), TORII_COMPLETE_REMOTE, count, &done);
  await(&done, due);
  due += torii_read(import, 100, back, sizeof(back), count, &done);
  await(&done, due);
  CHECK(strcmp(back, text) == 0 && strcmp((char*)memory + 100, text) == 0);
  CHECK(torii_write_now(import, 4090, text, sizeof(text)) == TORII_EMPTY); /* out of bounds */
  if (torii_write_now(import, 200, text, sizeof(text)) == TORII_OK)
    CHECK(strcmp((char*)memory + 200, text) == 0);
  memset(back, 0, sizeof(back));
  if (torii_read_now(import, 100, back, sizeof(back)) == TORII_OK) CHECK(strcmp(back, text) == 0);
  due += torii_atomic(import, 8, TORII_ATOMIC_ADD, 8, 5, 0, &old, count, &done);
  await(&done, due);
  memcpy(&word, (char*)memory + 8, sizeof(word));
  CHECK(old == 0 && word == 5);
  posted(import, memory);
  due += torii_flush(ni[0], NULL, count, &done);
  await(&done, due);
  CHECK(torii_limits(ni[0], peer[0], &limits) == TORII_OK);
  CHECK(limits.frame > 0 && limits.frame <= limits.eager);
  CHECK(torii_import_drop(import) == TORII_OK);
  CHECK(torii_unexport(exported, count, &done) == TORII_OK);
  if (allocated) {
    CHECK(torii_memory_free(ni[1], memory) == TORII_OK);
  } else {
    free(memory);
  }
}

int main(void) {
  const char* const with[] = {"shm", "sim"};
  for (int i = 0; i < 2; ++i) {
    void* kept = NULL;
    open_all(with[i]);
    connect_all();
    errors();
    sizes_and_alignments();
    int shared = 1;
    if (i == 0) { /* the system may forbid what shm needs for it */
      void* probe = NULL;
      CHECK(torii_memory_alloc(ni[0], 1, 0, &probe) == TORII_OK);
      shared = counter(ni[0], "allocated_bytes") > 0;
      CHECK(torii_memory_free(ni[0], probe) == TORII_OK);
    }
    messages(shared);
    remote(0);
    remote(1);
    if (i == 0 && shared) CHECK(counter(ni[1], "direct_bytes") > kBytes);
    CHECK(torii_memory_alloc(ni[0], kBytes, 0, &kept) == TORII_OK);
    memset(kept, 'k', kBytes);
    close_all();
    CHECK(((char*)kept)[kBytes - 1] == 'k');
    memset(kept, 'l', kBytes);
  }
  open_all("self"); /* has nothing to give */
  errors();
  sizes_and_alignments();
  CHECK(counter(ni[0], "allocated_bytes") == 0);
  close_all();
  return 0;
}
