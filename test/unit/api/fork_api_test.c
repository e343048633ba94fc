/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Children of a process that has network interfaces open: whatever they call, and however they
 * end, messages of the parent go on. Two ranks in one process, over each driver.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_kit.h"
#include "portals3.h"

enum { kRanks = 2, kBytes = 200000 };

/* Memory that threads of the parent had is lost to its children: no leak of theirs. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "detect_leaks=0"; }

static torii_ni_t* ni[kRanks];
static torii_peer_t* peer[kRanks];
static torii_port_t* port[kRanks];
static ptl_handle_ni_t portals;

static void open_all(void) {
  for (uint32_t i = 0; i < kRanks; ++i) {
    open_rank(i, kRanks, &ni[i]);
  }
  for (int i = 0; i < kRanks; ++i) {
    connect_rank(ni[i], ni[1 - i], &peer[i]);
    CHECK(torii_port_open(ni[i], 0, &port[i]) == TORII_OK);
  }
}

/* Both ways, so that each end would notice that the other one went away. */
static void exchange(const char* after) {
  static char out[kBytes], in[kBytes];
  for (int from = 0; from < kRanks; ++from) {
    const torii_data_t sent = {.bytes = kBytes, .base = out}, got = {.bytes = kBytes, .base = in};
    torii_result_t result;
    int done = 0, due, code;
    memset(out, 17 + from, kBytes);
    memset(in, 0, kBytes);
    code = torii_recv(port[1 - from], peer[1 - from], 5, 0, &got, count, &done, NULL, &result);
    CHECK(code == TORII_PENDING);
    code = torii_send(port[from], peer[from], TORII_STANDARD, 5, 0, &sent, count, &done, NULL);
    CHECK(code == TORII_OK || code == TORII_PENDING);
    due = 1 + (code == TORII_PENDING);
    for (long round = 0; round < 20000000 && done < due; ++round)
      for (int i = 0; i < kRanks; ++i) torii_progress(ni[i]);
    if (done < due || memcmp(in, out, kBytes) != 0) {
      fprintf(stderr, "rank %d does not reach the other one after %s\n", from, after);
      exit(1);
    }
  }
}

static void end_at_once(void) { _exit(0); }
static void end_in_order(void) { exit(0); }
static void fini(void) {
  PtlNIFini(portals);
  PtlFini();
  exit(0);
}
static void close_all(void) {
  for (int i = 0; i < kRanks; ++i) torii_close(ni[i]);
  exit(0);
}
/* Opens what it has already, and ends as if it were the parent. */
static void open_again(void) {
  ptl_handle_ni_t again;
  PtlNIFini(portals);
  if (PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &again) == PTL_OK) _exit(1);
  exit(0);
}
static void poll_once(void) {
  freopen("/dev/null", "w", stderr);
  torii_progress(ni[0]);
}
static void send_once(void) {
  const torii_data_t out = {.bytes = 8, .base = &ni};
  freopen("/dev/null", "w", stderr);
  torii_send(port[0], peer[0], TORII_STANDARD, 5, 0, &out, count, NULL, NULL);
}

static const struct {
  const char* what;
  void (*run)(void);
  int refused; /* the child is ended, and told why */
} children[] = {
    {"_exit", end_at_once, 0},     {"exit", end_in_order, 0},    {"PtlFini", fini, 0},
    {"torii_close", close_all, 0}, {"PtlNIInit", open_again, 0}, {"torii_progress", poll_once, 1},
    {"torii_send", send_once, 1},
};

static void run_child(int which) {
  int status;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    prctl(PR_SET_DUMPABLE, 0);
    children[which].run();
    _exit(3);
  }
  exchange(children[which].what); /* beside it */
  CHECK(waitpid(child, &status, 0) == child);
  if (children[which].refused ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT
                              : !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "the child that calls %s ended with status 0x%x\n", children[which].what,
            status);
    exit(1);
  }
  exchange(children[which].what);
}

static void over(const char* drivers) {
  CHECK(torii_param_set("drivers", drivers, "fork_api_test") == TORII_OK);
  open_all();
  CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &portals) == PTL_OK);
  exchange("the start");
  for (size_t i = 0; i < sizeof(children) / sizeof(*children); ++i) run_child((int)i);
  CHECK(0 == system("exit 0"));
  FILE* const pipe = popen("echo hello", "r");
  char line[16] = "";
  CHECK(pipe && fgets(line, sizeof(line), pipe) && strcmp(line, "hello\n") == 0);
  CHECK(pclose(pipe) == 0);
  exchange("system and popen");
  CHECK(PtlNIFini(portals) == PTL_OK);
  for (int i = 0; i < kRanks; ++i) CHECK(torii_close(ni[i]) == TORII_OK);
}

int main(void) {
  int interfaces;
  CHECK(PtlInit(&interfaces) == PTL_OK);
  over("shm,self");
  over("udp,self");
  PtlFini();
  puts("ok");
  return 0;
}
