/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * One message of 5 GiB, contiguous, from rank 1 to rank 0; then the same bytes strided. */
#include "check.h"

static uint64_t word(uint64_t i) { return i * 0x9e3779b97f4a7c15ull + 77; }

static void message(uint64_t* data, uint64_t words, int strided) {
  MPI_Datatype block, type;
  MPI_Status status;
  enum { kBlock = 1 << 20 }; /* words in a block */
  if (strided) {             /* the gaps are one word in 2^20 */
    MPI_Type_vector((int)(words / kBlock), kBlock - 1, kBlock, MPI_UINT64_T, &type);
  } else {
    MPI_Type_contiguous(kBlock, MPI_UINT64_T, &block);
    MPI_Type_contiguous((int)(words / kBlock), block, &type);
    MPI_Type_free(&block);
  }
  MPI_Type_commit(&type);
  MPI_Count bytes;
  MPI_Type_size_x(type, &bytes);
  if (1 == world_rank) {
    for (uint64_t i = 0; i < words; ++i) data[i] = word(i);
    MPI_Send(data, 1, type, 0, 1, MPI_COMM_WORLD);
  } else {
    memset(data, 0, words * 8);
    MPI_Recv(data, 1, type, 1, 1, MPI_COMM_WORLD, &status);
    verify_status(&status, 1, 1, bytes, "large");
    for (uint64_t i = 0; i < words; ++i) {
      uint64_t expected = strided && i % kBlock == kBlock - 1 ? 0 : word(i);
      CHECK(data[i] == expected, "word %llu of %llu", (unsigned long long)i,
            (unsigned long long)words);
    }
  }
  MPI_Type_free(&type);
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  uint64_t mebibytes = argc > 1 ? (uint64_t)atoi(argv[1]) : 5120;
  CHECK(mebibytes > 0 && mebibytes % 8 == 0, "%s is no multiple of 8 MiB", argc > 1 ? argv[1] : "");
  uint64_t words = mebibytes << 17;
  if (world_rank < 2) {
    uint64_t* data = malloc(words * 8);
    CHECK(data, "no memory for %llu words", (unsigned long long)words);
    message(data, words, 0);
    message(data, words, 1);
    free(data);
  }
  return finish();
}
