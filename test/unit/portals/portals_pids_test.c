/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Four processes of one node: two ask for the same pid, the third takes what is left, the fourth
 * has a map of another size than the job. Those that have ids reach each other; those that were
 * refused are told so at once, and delay nobody.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "portals3.h"

enum { kRanks = 4 };

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static void set(const char* name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

static int be(int rank, ptl_pid_t asked) {
  const ptl_process_id_t expected[kRanks] = {{1, 2}, {1, 3}, {0, 0}, {0, 0}};
  ptl_process_id_t id;
  ptl_handle_ni_t ni = PTL_INVALID_HANDLE;
  unsigned long distance = 9;
  ptl_nid_t nids[kRanks];
  const ptl_pid_t map[2] = {4, 5};
  int interfaces;
  set("TORII_RANK", rank);
  CHECK(PtlInit(&interfaces) == PTL_OK);
  if (rank == 3) {
    CHECK(PtlSetPIDMap(PTL_INVALID_HANDLE, map, 2) == PTL_OK);
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, asked, NULL, NULL, &ni) == PTL_FAIL);
    CHECK(ni == PTL_INVALID_HANDLE);
    return 0;
  }
  if (rank == 2) {
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, asked, NULL, NULL, &ni) == PTL_PID_INVALID);
    CHECK(ni == PTL_INVALID_HANDLE);
    return 0;
  }
  CHECK(PtlNIInit(PTL_IFACE_DEFAULT, asked, NULL, NULL, &ni) == PTL_OK);
  CHECK(PtlGetId(ni, &id) == PTL_OK);
  CHECK(id.nid == expected[rank].nid && id.pid == expected[rank].pid);
  CHECK(PtlGetRankId(ni, 1 - rank, &id) == PTL_OK);
  CHECK(id.nid == expected[1 - rank].nid && id.pid == expected[1 - rank].pid);
  CHECK(PtlNIDist(ni, id, &distance) == PTL_OK && distance == 1);
  CHECK(PtlGetRankId(ni, 2, &id) == PTL_FAIL);
  CHECK(PtlGetNIDMap(ni, nids, kRanks) == PTL_FAIL);
  id.nid = 1;
  id.pid = 1;
  CHECK(PtlNIDist(ni, id, &distance) == PTL_PROCESS_INVALID);
  return 0;
}

/* Runs a rank, and stays until the parent has heard from all of them: others may be connecting. */
static void child(int rank, ptl_pid_t asked, const int done[2], const int go[2]) {
  char none;
  close(go[1]);
  if (be(rank, asked)) exit(1);
  close(done[0]);
  close(done[1]);
  if (read(go[0], &none, 1) != 0) exit(1);
  exit(0);
}

int main(void) {
  const ptl_pid_t asked[kRanks] = {2, PTL_PID_ANY, 2, PTL_PID_ANY};
  int failed = 0, done[2], go[2];
  char job[32], none;
  snprintf(job, sizeof job, "pids-%ld", (long)getpid());
  if (pipe(done) || pipe(go)) return 1;
  setenv("TORII_JOB", job, 1);
  set("TORII_SIZE", kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    if (fork() == 0) child(rank, asked[rank], done, go);
  close(done[1]);
  failed |= read(done[0], &none, 1) != 0;
  close(go[1]);
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 1;
    failed |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}
