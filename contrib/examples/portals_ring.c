/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A complete Portals 3.3 program: each process puts a greeting into memory of the next one, and
 * prints what the one before it has put into its own. Compiled and started like this:
 *
 *   cc -o portals_ring portals_ring.c $(pkg-config --cflags --libs torii) \
 *     $(pkg-config --variable=rpath torii)
 *   mpirun -n 4 ./portals_ring
 */
#include <portals3.h>
#include <stdio.h>
#include <stdlib.h>

enum { kPortal = 4, kBytes = 80, kRetryMs = 100 };

static unsigned int rank, size;

static void fail(const char* call, const char* reason) {
  fprintf(stderr, "rank %u: %s: %s\n", rank, call, reason);
  exit(1);
}

/* A call of Portals that returned `code`. */
static void check(const char* call, int code) {
  if (code != PTL_OK) fail(call, PtlErrorStr((unsigned int)code));
}

/* Takes the next event; returns 0 if none comes for a while. */
static int next_event(ptl_handle_ni_t ni, ptl_handle_eq_t queue, ptl_event_t* event) {
  int which;
  const int code = PtlEQPoll(&queue, 1, kRetryMs, event, &which);
  if (code == PTL_EQ_EMPTY) return 0;
  check("PtlEQPoll", code);
  if (event->ni_fail_type != PTL_NI_OK)
    fail(PtlEventKindStr(event->type), PtlNIFailStr(ni, event->ni_fail_type));
  return 1;
}

static ptl_md_t describe(void* start, unsigned int options, int threshold, ptl_handle_eq_t queue) {
  ptl_md_t md = {0};
  md.start = start;
  md.length = kBytes;
  md.options = options | PTL_MD_EVENT_START_DISABLE;
  md.threshold = threshold;
  md.eq_handle = queue;
  return md;
}

int main(void) {
  const ptl_process_id_t anyone = {PTL_NID_ANY, PTL_PID_ANY};
  ptl_process_id_t self, next;
  ptl_handle_ni_t ni;
  ptl_handle_eq_t queue;
  ptl_handle_me_t entry;
  ptl_handle_md_t source, target;
  ptl_event_t event;
  char greeting[kBytes], heard[kBytes];
  int interfaces, received = 0, acknowledged = 0;

  /* Who am I, and who is next? The launcher has numbered the processes. */
  check("PtlInit", PtlInit(&interfaces));
  check("PtlNIInit", PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
  check("PtlGetId", PtlGetId(ni, &self));
  check("PtlGetRank", PtlGetRank(ni, &rank, &size));
  check("PtlGetRankId", PtlGetRankId(ni, (rank + 1) % size, &next));
  snprintf(greeting, sizeof greeting, "rank %u, which is pid %u of node %u", rank, self.pid,
           self.nid);

  /* Memory that accepts one put, and memory to put from. */
  check("PtlEQAlloc", PtlEQAlloc(ni, 16, PTL_EQ_HANDLER_NONE, &queue));
  check("PtlMEAttach", PtlMEAttach(ni, kPortal, anyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
  check("PtlMDAttach",
        PtlMDAttach(entry, describe(heard, PTL_MD_OP_PUT, 1, queue), PTL_RETAIN, &target));
  check("PtlMDBind",
        PtlMDBind(ni, describe(greeting, 0, PTL_MD_THRESH_INF, queue), PTL_RETAIN, &source));

  /* A target that has no entry yet drops a put, and does not tell: so it is put until the target
   * acknowledges it. The entry accepts one of several that arrive. */
  while (!received || !acknowledged) {
    if (!acknowledged) check("PtlPut", PtlPut(source, PTL_ACK_REQ, next, kPortal, 0, 0, 0, 0));
    while ((!received || !acknowledged) && next_event(ni, queue, &event)) {
      received |= event.type == PTL_EVENT_PUT_END;
      acknowledged |= event.type == PTL_EVENT_ACK;
    }
  }
  check("PtlNIFini", PtlNIFini(ni));
  PtlFini();
  printf("rank %u heard from %s\n", rank, heard);
  return 0;
}
