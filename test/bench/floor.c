// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What this machine needs at least, at this moment: the time for a cache line to get from one core
// to another, the bandwidth of memcpy, and the cost of the kernel's cross-memory attach.
//
//   floor CORE CORE
//
// Prints "line NS" (one way; each direction has a line of its own), "memcpy MB/S" (10^6 bytes,
// one thread, 4 MiB past what the caches hold of it), and "readv-1 NS", "readv-65536 NS" (one call
// of process_vm_readv), which are missing where the kernel refuses. Medians of short batches.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  kBatches = 21,
  kBounces = 500,
  kCopies = 4,
  kCopyBytes = 4 << 20,
  kCopyArea = 32 << 20,
  kReads = 100,
  kReadBytes = 64 << 10,
};

struct shared {
  _Alignas(128) _Atomic unsigned long ball[2][16];
  _Alignas(128) char page[kReadBytes];
};

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void stop(const char* why) {
  perror(why);
  exit(1);
}

static void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) stop("floor: sched_setaffinity");
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values) {
  qsort(values, kBatches, sizeof(values[0]), by_value);
  return values[kBatches / 2];
}

static void bounce(struct shared* shared, int side, unsigned long* line, int count) {
  _Atomic unsigned long* mine = &shared->ball[side][0];
  _Atomic unsigned long* theirs = &shared->ball[1 - side][0];
  for (int i = 0; i < count; ++i) {
    ++*line;
    if (side == 0) atomic_store_explicit(mine, *line, memory_order_release);
    while (atomic_load_explicit(theirs, memory_order_acquire) != *line) {
    }
    if (side == 1) atomic_store_explicit(mine, *line, memory_order_release);
  }
}

static void show_copies(void) {
  double batch[kBatches];
  char *from = malloc(kCopyArea), *to = malloc(kCopyArea);
  if (!from || !to) stop("floor: malloc");
  memset(from, 1, kCopyArea);
  memset(to, 2, kCopyArea);
  size_t at = 0;
  for (int b = 0; b < kBatches; ++b) {
    const double begin = now_ns();
    for (int i = 0; i < kCopies; ++i) {
      memcpy(to + at, from + at, kCopyBytes);
      at = (at + kCopyBytes) % kCopyArea;
    }
    batch[b] = (double)kCopies * kCopyBytes / (now_ns() - begin) * 1e3;
  }
  for (size_t i = 0; i < kCopyArea; i += 4096)
    if (to[i] != 1) stop("floor: memcpy did not copy");
  printf("memcpy %.1f\n", median(batch));
  free(from);
  free(to);
}

static void show_reads(pid_t child, void* address, size_t bytes) {
  static char target[kReadBytes];
  double batch[kBatches];
  struct iovec local = {target, bytes}, remote = {address, bytes};
  for (int b = 0; b < kBatches; ++b) {
    const double begin = now_ns();
    for (int i = 0; i < kReads; ++i)
      if (process_vm_readv(child, &local, 1, &remote, 1, 0) != (ssize_t)bytes) return;
    batch[b] = (now_ns() - begin) / kReads;
  }
  if (target[0] != 3 || target[bytes - 1] != 3) stop("floor: process_vm_readv read something else");
  printf("readv-%zu %.1f\n", bytes, median(batch));
}

// The other core's process: bounces, then sleeps while it is read from.
static void other(struct shared* shared, int core) {
  unsigned long line = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_to(core);
  bounce(shared, 1, &line, kBounces * (kBatches + 1));
  pause();
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: floor CORE CORE\n");
    return 2;
  }
  struct shared* shared =
      mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) stop("floor: mmap");
  memset(shared->page, 3, sizeof(shared->page));
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) stop("floor: fork");
  if (child == 0) {
    other(shared, atoi(argv[2]));
    _exit(1);
  }
  bind_to(atoi(argv[1]));
  double batch[kBatches];
  unsigned long line = 0;
  bounce(shared, 0, &line, kBounces);
  for (int b = 0; b < kBatches; ++b) {
    const double begin = now_ns();
    bounce(shared, 0, &line, kBounces);
    batch[b] = (now_ns() - begin) / kBounces / 2;
  }
  printf("line %.2f\n", median(batch));
  show_copies();
  show_reads(child, shared->page, 1);
  show_reads(child, shared->page, kReadBytes);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
