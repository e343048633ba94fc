/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A server and its clients, as Portals 3.3 programs for Cray's Portals and OrangeFS are written,
 * with their headers. The clients know the server by its pid; each puts a number, and the server
 * prints the sum when all have. Compiled and started like this:
 *
 *   cc -o portals_server portals_server.c $(pkg-config --cflags --libs torii) \
 *     $(pkg-config --variable=rpath torii)
 *   mpirun -n 1 ./portals_server : -n 3 ./portals_server client
 */
#include <portals/p3api/debug.h>
#include <portals/p3nal_utcp.h>
#include <portals/portals3.h>
#include <stdio.h>
#include <stdlib.h>

enum { kServerPid = 99, kPortal = 6, kQueue = 1024, kRetryMs = 100 };

static unsigned int rank, size;

static void fail(const char* call, const char* reason) {
  fprintf(stderr, "rank %u: %s: %s\n", rank, call, reason);
  exit(1);
}

/* A call of Portals that returned `code`. */
static void check(const char* call, int code) {
  if (code != PTL_OK) fail(call, PtlErrorStr((unsigned int)code));
}

/* The number travels with the header of the put, which has no other bytes. */
static ptl_md_t no_bytes(unsigned int options, ptl_handle_eq_t queue) {
  ptl_md_t md = {0};
  md.options = options | PTL_MD_EVENT_START_DISABLE;
  md.threshold = PTL_MD_THRESH_INF;
  md.eq_handle = queue;
  return md;
}

/* Clients repeat puts, so each one's number counts once. */
static void serve(ptl_handle_ni_t ni, ptl_handle_eq_t queue) {
  const ptl_process_id_t anyone = {PTL_NID_ANY, PTL_PID_ANY};
  ptl_handle_me_t entry;
  ptl_handle_md_t accepting;
  ptl_event_t event;
  unsigned long long sum = 0;
  unsigned int missing = size - 1;
  char* const counted = calloc(size, 1);
  if (counted == NULL) fail("calloc", "out of memory");
  check("PtlMEAttach",
        PtlMEAttach(ni, kPortal, anyone, 0, ~0ull, PTL_RETAIN, PTL_INS_AFTER, &entry));
  check("PtlMDAttach",
        PtlMDAttach(entry, no_bytes(PTL_MD_OP_PUT, queue), PTL_RETAIN, &accepting));
  while (missing > 0) {
    check("PtlEQWait", PtlEQWait(queue, &event));
    if (event.type != PTL_EVENT_PUT_END || event.match_bits >= size) continue;
    if (counted[event.match_bits]) continue;
    counted[event.match_bits] = 1;
    sum += event.hdr_data;
    missing--;
  }
  free(counted);
  printf("the server has %u numbers, whose sum is %llu\n", size - 1, sum);
}

/* The process that has the server's pid. */
static ptl_process_id_t find_server(ptl_handle_ni_t ni) {
  ptl_process_id_t id = {0, 0};
  for (unsigned int i = 0; i < size; ++i) {
    check("PtlGetRankId", PtlGetRankId(ni, i, &id));
    if (id.pid == kServerPid) return id;
  }
  fail("find_server", "no process has the server's pid; start one without an argument");
  return id;
}

static void put_number(ptl_handle_ni_t ni, ptl_handle_eq_t queue) {
  const ptl_process_id_t server = find_server(ni);
  ptl_handle_md_t source;
  ptl_event_t event;
  int which, acknowledged = 0;
  check("PtlMDBind", PtlMDBind(ni, no_bytes(0, queue), PTL_RETAIN, &source));
  while (!acknowledged) {
    check("PtlPut", PtlPut(source, PTL_ACK_REQ, server, kPortal, 0, rank, 0, rank * 10));
    while (!acknowledged && PtlEQPoll(&queue, 1, kRetryMs, &event, &which) == PTL_OK) {
      if (event.ni_fail_type != PTL_NI_OK) fail("PtlPut", PtlNIFailStr(ni, event.ni_fail_type));
      acknowledged = event.type == PTL_EVENT_ACK;
    }
  }
}

int main(int argc, char** argv) {
  ptl_handle_ni_t ni;
  ptl_handle_eq_t queue;
  int interfaces;
  (void)argv;
  check("PtlInit", PtlInit(&interfaces));
  PtlNIDebug(PTL_INVALID_HANDLE, PTL_DBG_NONE);
  check("PtlNIInit",
        PtlNIInit(PTL_IFACE_DEFAULT, argc > 1 ? PTL_PID_ANY : kServerPid, NULL, NULL, &ni));
  check("PtlGetRank", PtlGetRank(ni, &rank, &size));
  check("PtlEQAlloc", PtlEQAlloc(ni, kQueue, PTL_EQ_HANDLER_NONE, &queue));
  if (argc > 1) {
    put_number(ni, queue);
  } else {
    serve(ni, queue);
  }
  check("PtlNIFini", PtlNIFini(ni));
  PtlFini();
  return 0;
}
