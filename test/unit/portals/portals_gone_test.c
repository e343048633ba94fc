/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A put and a get to a process that was gone before the first contact: they begin, and end with
 * PTL_NI_PEER_DEAD within a second, whether the process died or closed its interface.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "portals3.h"
#include "unit/api/api_kit.h"

enum { kBytes = 100, kSoonMs = 1000 };

static ptl_handle_ni_t join(int rank) {
  char text[16];
  int interfaces;
  ptl_handle_ni_t ni;
  snprintf(text, sizeof text, "%d", rank);
  setenv("TORII_RANK", text, 1);
  CHECK(PtlInit(&interfaces) == PTL_OK);
  CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
  return ni;
}

static void expect_failure(ptl_handle_eq_t eq, ptl_event_kind_t kind) {
  ptl_event_t event;
  int which;
  CHECK(PtlEQPoll(&eq, 1, kSoonMs, &event, &which) == PTL_OK);
  CHECK(event.type == kind && event.ni_fail_type == PTL_NI_PEER_DEAD);
}

/* Comes when rank 1 is gone. */
static void reach_it(ptl_handle_ni_t ni, int gone) {
  static char memory[kBytes];
  char none;
  ptl_process_id_t other;
  ptl_handle_eq_t eq;
  ptl_handle_md_t md;
  ptl_md_t whole = {.start = memory, .length = kBytes, .threshold = PTL_MD_THRESH_INF};
  CHECK(read(gone, &none, 1) == 1);
  CHECK(PtlEQAlloc(ni, 16, PTL_EQ_HANDLER_NONE, &eq) == PTL_OK);
  whole.options = PTL_MD_EVENT_START_DISABLE;
  whole.eq_handle = eq;
  CHECK(PtlMDBind(ni, whole, PTL_RETAIN, &md) == PTL_OK);
  CHECK(PtlGetRankId(ni, 1, &other) == PTL_OK);
  for (int again = 0; again < 2; ++again) {
    CHECK(PtlPut(md, PTL_NO_ACK_REQ, other, 4, 0, 7, 0, 0) == PTL_OK);
    expect_failure(eq, PTL_EVENT_SEND_END);
    CHECK(PtlGet(md, other, 4, 0, 7, 0) == PTL_OK);
    expect_failure(eq, PTL_EVENT_REPLY_END);
  }
  CHECK(PtlNIFini(ni) == PTL_OK);
}

static int try_it(const char* name, int closes) {
  int gone[2], stay[2], status = 1, failed = 0;
  char job[48], none = 0;
  pid_t first, second;
  snprintf(job, sizeof job, "gone-%s-%ld", name, (long)getpid());
  setenv("TORII_JOB", job, 1);
  CHECK(pipe(gone) == 0 && pipe(stay) == 0);
  first = fork();
  if (first == 0) {
    reach_it(join(0), gone[0]);
    exit(0);
  }
  second = fork();
  if (second == 0) {
    ptl_handle_ni_t ni = join(1);
    if (!closes) _exit(0);
    CHECK(PtlNIFini(ni) == PTL_OK);
    CHECK(write(gone[1], &none, 1) == 1);
    close(stay[1]);
    _exit(read(stay[0], &none, 1) != 0);
  }
  if (!closes) {
    failed |= waitpid(second, &status, 0) != second || status != 0;
    CHECK(write(gone[1], &none, 1) == 1);
  }
  failed |= waitpid(first, &status, 0) != first || status != 0;
  close(stay[1]);
  if (closes) failed |= waitpid(second, &status, 0) != second || status != 0;
  return failed;
}

int main(void) {
  setenv("TORII_SIZE", "2", 1);
  return try_it("dead", 0) | try_it("closed", 1);
}
