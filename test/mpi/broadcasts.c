/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The last rank broadcasts the same number of bytes several times, and sends little else, so that
 * what leaves it can be counted. Rank 0 prints how much that is.
 */
#include "check.h"

enum { COUNT = 10, BYTES = 64 << 10, FIRST = 5 };

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  const int root = world_size - 1;
  uint8_t* const data = malloc(BYTES);
  CHECK(NULL != data, "no memory");
  /* By then it is known what serves the communicator. */
  for (int i = 0; i < FIRST; ++i) MPI_Barrier(MPI_COMM_WORLD);
  for (uint32_t turn = 0; turn < COUNT; ++turn) {
    memset(data, 0, BYTES);
    if (root == world_rank) fill(data, BYTES, turn);
    MPI_Bcast(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
    verify(data, BYTES, turn, "broadcast");
  }
  free(data);
  if (0 == world_rank) printf("%d broadcasts of %d bytes\n", COUNT, BYTES);
  return finish();
}
