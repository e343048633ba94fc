/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * check.h: what every MPI test program uses. A program validates its data, ends the job at the
 * first difference with rank, place and values, and says "ok" on rank 0 when all was right.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int world_rank, world_size;

/* Ends the job unless `condition` holds; the rest is a printf message with the values. */
#define CHECK(condition, ...)                                               \
  do {                                                                      \
    if (!(condition)) fail_at(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (0)

__attribute__((format(printf, 4, 5), noreturn)) static void fail_at(const char* file, int line,
                                                                    const char* what,
                                                                    const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "rank %d: %s:%d: not true: %s: %s\n", world_rank, file, line, what, text);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 3);
  abort();
}

static void start(int* argc, char*** argv, int threads) {
  int provided;
  MPI_Init_thread(argc, argv, threads, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  CHECK(provided >= threads, "thread level %d, wanted %d", provided, threads);
}

/* Every rank must come here. */
static int finish(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (0 == world_rank) printf("ok\n");
  fflush(stdout);
  MPI_Finalize();
  return 0;
}

/* Byte `i` of the pattern with this seed. */
static inline uint8_t pattern(uint64_t i, uint32_t seed) {
  return (uint8_t)(i * 131 + (i >> 8) * 17 + (i >> 16) * 3 + seed * 59 + 7);
}

static inline void fill(void* buffer, size_t bytes, uint32_t seed) {
  uint8_t* b = buffer;
  for (size_t i = 0; i < bytes; ++i) b[i] = pattern(i, seed);
}

/* The first `bytes` have the pattern. */
static inline void verify(const void* buffer, size_t bytes, uint32_t seed, const char* what) {
  const uint8_t* b = buffer;
  for (size_t i = 0; i < bytes; ++i) {
    CHECK(b[i] == pattern(i, seed), "%s: byte %zu of %zu is %u, not %u", what, i, bytes, b[i],
          pattern(i, seed));
  }
}

/* All `bytes` still have this value. */
static inline void verify_value(const void* buffer, size_t bytes, int value, const char* what) {
  const uint8_t* b = buffer;
  for (size_t i = 0; i < bytes; ++i) {
    CHECK(b[i] == value, "%s: byte %zu of %zu is %u, not %d", what, i, bytes, b[i], value);
  }
}

static inline void verify_status(const MPI_Status* status, int source, int tag, MPI_Count bytes,
                                 const char* what) {
  MPI_Count got = -1;
  MPI_Get_elements_x(status, MPI_BYTE, &got);
  CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && got == bytes,
        "%s: status says source %d, tag %d, %lld bytes; not %d, %d, %lld", what, status->MPI_SOURCE,
        status->MPI_TAG, (long long)got, source, tag, (long long)bytes);
}

/* Small repeatable random numbers. */
static inline uint32_t draw(uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(*state >> 33);
}

#endif /* CHECK_H */
