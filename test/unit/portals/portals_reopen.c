/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Started as every rank of a job: opens and closes the Portals interface several times, and sends
 * a message around the job each time. Options: the number of openings (default 4), and "fini" to
 * call PtlFini and PtlInit between them. Prints a line; exit status 0 if all is well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "portals3.h"
#include "unit/api/api_kit.h"

enum { kPortal = 4, kRetryMs = 50, kBytes = 3000 };

static char out[kBytes], in[kBytes];

/* A put that arrives before the entry of the target is there is dropped, so it is repeated until
 * it is acknowledged. */
static void send_around(ptl_handle_ni_t ni, unsigned rank, unsigned size, unsigned round) {
  const ptl_process_id_t anyone = {PTL_NID_ANY, PTL_PID_ANY};
  const ptl_pid_t bits = 100 + round;
  ptl_process_id_t next;
  ptl_handle_eq_t eq;
  ptl_handle_me_t me;
  ptl_handle_md_t target, source;
  ptl_md_t md = {.start = in, .length = kBytes, .threshold = PTL_MD_THRESH_INF};
  int got = 0, acked = 0, which;
  memset(out, 'a' + (int)((rank + round) % 26), kBytes);
  memset(in, 0, kBytes);
  CHECK(PtlEQAlloc(ni, 1024, PTL_EQ_HANDLER_NONE, &eq) == PTL_OK);
  CHECK(PtlMEAttach(ni, kPortal, anyone, bits, 0, PTL_RETAIN, PTL_INS_AFTER, &me) == PTL_OK);
  md.options = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE;
  md.eq_handle = eq;
  CHECK(PtlMDAttach(me, md, PTL_RETAIN, &target) == PTL_OK);
  md.start = out;
  CHECK(PtlMDBind(ni, md, PTL_RETAIN, &source) == PTL_OK);
  CHECK(PtlGetRankId(ni, (rank + 1) % size, &next) == PTL_OK);
  while (!got || !acked) {
    ptl_event_t event;
    if (!acked) CHECK(PtlPut(source, PTL_ACK_REQ, next, kPortal, 0, bits, 0, rank) == PTL_OK);
    while (PtlEQPoll(&eq, 1, kRetryMs, &event, &which) == PTL_OK) {
      CHECK(event.ni_fail_type == PTL_NI_OK);
      if (event.type == PTL_EVENT_PUT_END) CHECK(event.hdr_data == (rank + size - 1) % size);
      got |= event.type == PTL_EVENT_PUT_END;
      acked |= event.type == PTL_EVENT_ACK;
      if (got && acked) break;
    }
  }
  for (int i = 0; i < kBytes; ++i)
    CHECK(in[i] == 'a' + (int)((rank + size - 1) % size + round) % 26);
}

/* Before PtlNIInit there is no handle: what is set then is for the interface that is opened next.
 */
static void set_rank_of_the_next(void) {
  unsigned rank, size;
  ptl_handle_ni_t ni;
  CHECK(PtlSetRank(PTL_INVALID_HANDLE, 3, 3) == PTL_FAIL);
  CHECK(PtlSetRank(PTL_INVALID_HANDLE, 3, 700) == PTL_OK);
  for (int first = 1; first >= 0; --first) {
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
    CHECK(PtlGetRank(ni, &rank, &size) == PTL_OK);
    CHECK((size == 700 && rank == 3) == first);
    CHECK(PtlNIFini(ni) == PTL_OK);
  }
}

/* A child's calls do not end its parent's part in the job. */
static void fork_a_child(void) {
  int status = 0, interfaces;
  ptl_handle_ni_t ni;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    PtlFini();
    CHECK(PtlInit(&interfaces) == PTL_OK);
    _exit(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) == PTL_FAIL ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
  const int fini = argc > 2 && strcmp(argv[2], "fini") == 0;
  unsigned rank = 0, size = 0;
  int interfaces;
  alarm(50);
  CHECK(PtlInit(&interfaces) == PTL_OK);
  set_rank_of_the_next();
  for (unsigned round = 0; round < rounds; ++round) {
    ptl_handle_ni_t ni;
    CHECK(PtlSetRank(PTL_INVALID_HANDLE, -1, -1) == PTL_OK);
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
    CHECK(PtlGetRank(ni, &rank, &size) == PTL_OK);
    send_around(ni, rank, size, round);
    CHECK(PtlNIFini(ni) == PTL_OK);
    if (round == 0) fork_a_child();
    if (!fini || round + 1 == rounds) continue;
    PtlFini();
    CHECK(PtlInit(&interfaces) == PTL_OK);
  }
  PtlFini();
  printf("ok: rank %u of %u, %u openings\n", rank, size, rounds);
  return 0;
}
