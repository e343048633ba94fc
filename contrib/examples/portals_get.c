/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A Portals 3.3 program as it is written for the reference implementation, with the headers of
 * that: each process reads a line of the next one's memory. With an argument it says which requests
 * it drops and accepts. Compiled and started like this:
 *
 *   cc -o portals_get portals_get.c $(pkg-config --cflags --libs torii) \
 *     $(pkg-config --variable=rpath torii)
 *   mpirun -n 4 ./portals_get
 */
#include <p3api/debug.h>
#include <p3nal_utcp.h>
#include <p3rt/p3rt.h>
#include <stdio.h>
#include <stdlib.h>

enum { kPortal = 5, kBytes = 80, kRetryMs = 100 };

/* Where the reference implementation writes to. */
FILE* utcp_api_out;
FILE* utcp_lib_out;

static unsigned int rank, size;

/* A call of Portals that returned `code`. */
static void check(const char* call, int code) {
  if (code == PTL_OK) return;
  fprintf(stderr, "rank %u: %s: %s\n", rank, call, PtlErrorStr((unsigned int)code));
  exit(1);
}

static ptl_md_t describe(void* start, unsigned int options, ptl_handle_eq_t queue) {
  ptl_md_t md = {0};
  md.start = start;
  md.length = kBytes;
  md.options = options | PTL_MD_EVENT_START_DISABLE;
  md.threshold = PTL_MD_THRESH_INF;
  md.eq_handle = queue;
  return md;
}

int main(int argc, char** argv) {
  const ptl_process_id_t anyone = {PTL_NID_ANY, PTL_PID_ANY};
  ptl_process_id_t self, next;
  ptl_handle_ni_t ni;
  ptl_handle_eq_t queue;
  ptl_handle_me_t entry;
  ptl_handle_md_t readable, copy;
  ptl_event_t event;
  char line[kBytes], read[kBytes];
  int interfaces, which, was_read = 0, has_read = 0;
  (void)argv;
  utcp_api_out = utcp_lib_out = stderr;

  check("PtlInit", PtlInit(&interfaces));
  PtlNIDebug(PTL_INVALID_HANDLE, argc > 1 ? PTL_DBG_DROP | PTL_DBG_ACCEPT : PTL_DBG_NONE);
  check("PtlNIInit", PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
  check("PtlGetId", PtlGetId(ni, &self));
  check("PtlGetRank", PtlGetRank(ni, &rank, &size));
  check("PtlGetRankId", PtlGetRankId(ni, (rank + 1) % size, &next));
  snprintf(line, sizeof line, "rank %u, which is pid %u of node %u", rank, self.pid, self.nid);

  /* Memory that all may read, and memory to read into. */
  check("PtlEQAlloc", PtlEQAlloc(ni, 64, PTL_EQ_HANDLER_NONE, &queue));
  check("PtlMEAttach", PtlMEAttach(ni, kPortal, anyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
  check("PtlMDAttach",
        PtlMDAttach(entry, describe(line, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, queue), PTL_RETAIN,
                    &readable));
  check("PtlMDBind", PtlMDBind(ni, describe(read, 0, queue), PTL_RETAIN, &copy));

  /* A target that has no entry yet drops a get, and does not tell: so it is repeated until the
   * reply comes. */
  while (!was_read || !has_read) {
    if (!has_read) check("PtlGet", PtlGet(copy, next, kPortal, 0, 0, 0));
    while ((!was_read || !has_read) && PtlEQPoll(&queue, 1, kRetryMs, &event, &which) == PTL_OK) {
      was_read |= event.type == PTL_EVENT_GET_END;
      has_read |= event.type == PTL_EVENT_REPLY_END && event.ni_fail_type == PTL_NI_OK;
    }
  }
  check("PtlNIFini", PtlNIFini(ni));
  PtlFini();
  printf("rank %u read from %s\n", rank, read);
  return 0;
}
