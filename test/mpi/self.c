/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Messages to oneself, posted first and unexpected, in every mode. */
#include "check.h"

int main(int argc, char** argv) {
  static const int sizes[] = {0, 1, 64, 5000, 100000, 5 << 20};
  start(&argc, &argv, MPI_THREAD_SINGLE);
  char *out = malloc(5 << 20), *in = malloc(5 << 20);
  CHECK(out && in, "no memory");
  MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  for (int c = 0; c < 2; ++c) {
    int me = c ? 0 : world_rank;
    for (int s = 0; s < 6; ++s) {
      size_t bytes = (size_t)sizes[s];
      for (int mode = 0; mode < 4; ++mode) {
        MPI_Request requests[2];
        MPI_Status status[2], probed;
        int flag = 0;
        fill(out, bytes, (uint32_t)(mode + s));
        memset(in, 0, bytes);
        if (mode < 2) { /* posted first */
          MPI_Irecv(in, sizes[s], MPI_BYTE, mode ? me : MPI_ANY_SOURCE, 3, comms[c], &requests[1]);
          if (mode)
            MPI_Irsend(out, sizes[s], MPI_BYTE, me, 3, comms[c], &requests[0]);
          else
            MPI_Isend(out, sizes[s], MPI_BYTE, me, 3, comms[c], &requests[0]);
        } else {
          (mode == 2 ? MPI_Isend : MPI_Issend)(out, sizes[s], MPI_BYTE, me, 3, comms[c],
                                               &requests[0]);
          if (mode == 3) {
            MPI_Test(&requests[0], &flag, &status[0]);
            CHECK(!flag, "a synchronous send to oneself completed unmatched");
          }
          MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &probed);
          verify_status(&probed, me, 3, sizes[s], "self probe");
          MPI_Irecv(in, sizes[s], MPI_BYTE, me, MPI_ANY_TAG, comms[c], &requests[1]);
        }
        MPI_Waitall(2, requests, status);
        verify_status(&status[1], me, 3, sizes[s], "self");
        verify(in, bytes, (uint32_t)(mode + s), "self");
      }
    }
  }
  MPI_Datatype strided; /* typed on one side, then on both */
  MPI_Type_vector(1000, 3, 5, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  fill(out, 20000, 8);
  MPI_Sendrecv(out, 1, strided, 0, 1, in, 3000, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < 12000; ++i) {
    CHECK((uint8_t)in[i] == pattern(i / 12 * 20 + i % 12, 8), "strided: byte %zu", i);
  }
  memset(in, 0, 20000);
  MPI_Sendrecv(out, 1, strided, 0, 1, in, 1, strided, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < 19992; ++i) {
    CHECK((uint8_t)in[i] == (i % 20 < 12 ? pattern(i, 8) : 0), "both strided: byte %zu", i);
  }
  MPI_Type_free(&strided);
  return finish();
}
