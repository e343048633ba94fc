// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The least times of this machine, at this moment: the time for a cache line to get from one core
// to another, the bandwidth of memcpy, and the cost of the kernel's cross-memory attach.
//
//   floor CORE CORE [both]
//
// Prints "line NS" (one way; each direction has a line of its own), "memcpy MB/S" (10^6 bytes,
// one thread, 4 MiB past what the caches hold of it), "readv-1 NS", "readv-65536 NS" (one call of
// process_vm_readv), and if asked "both-BYTES MB/S" (both processes at once read blocks of that
// size from each other by process_vm_readv, both directions together, in windows, batches and
// buffers like those of mpi_windows: what a transport without a copy of its own can reach at most).
// The last two are missing where the kernel refuses. Medians of short batches.
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
  kBothLeast = 8 << 10,
  kBothMost = 4 << 20,
  kBothBlocks = 64,      // as many as mpi_windows has in flight,
  kBothArea = 16 << 20,  // or fewer
  kBothBatches = 5,
  kBothCalibration = 4,  // windows
};

static const double kBothBatchNs = 10e6;

struct shared {
  _Alignas(128) _Atomic unsigned long ball[2][16];
  _Alignas(128) atomic_int waiting[2];  // times that this side came to a meeting
  _Alignas(128) atomic_int refused;
  atomic_int windows;  // of a batch
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

static double middle(double* values, int count) {
  qsort(values, (size_t)count, sizeof(values[0]), by_value);
  return values[count / 2];
}

static double median(double* values) { return middle(values, kBatches); }

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

static char* pages(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, bytes) != 0) stop("floor: posix_memalign");
  return memory;
}

static void meet(struct shared* shared, int side) {
  const int number = atomic_fetch_add(&shared->waiting[side], 1) + 1;
  while (atomic_load(&shared->waiting[1 - side]) < number) {
  }
}

// Windows in which each side reads as many blocks; returns the time of one in nanoseconds.
static double read_windows(struct shared* shared, int side, pid_t peer, char* from, char* to,
                           size_t bytes, size_t blocks, int windows) {
  meet(shared, side);
  const double begin = now_ns();
  for (int w = 0; w < windows; ++w) {
    for (size_t k = 0; k < blocks; ++k) {
      struct iovec local = {to + k * bytes, bytes}, remote = {from + k * bytes, bytes};
      if (process_vm_readv(peer, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
        atomic_store(&shared->refused, 1);
    }
    meet(shared, side);
  }
  return (now_ns() - begin) / windows;
}

// Both sides call it; `from` and `to` have the same addresses in both.
static void show_both(struct shared* shared, int side, pid_t peer, char* from, char* to) {
  memset(from, 5 + side, kBothArea);
  memset(to, 0, kBothArea);
  for (size_t bytes = kBothLeast; bytes <= kBothMost; bytes *= 2) {
    const size_t blocks = kBothArea / bytes < kBothBlocks ? kBothArea / bytes : kBothBlocks;
    double batch[kBothBatches];
    read_windows(shared, side, peer, from, to, bytes, blocks, kBothCalibration);
    const double one = read_windows(shared, side, peer, from, to, bytes, blocks, kBothCalibration);
    if (side == 0)
      atomic_store(&shared->windows, one < kBothBatchNs ? (int)(kBothBatchNs / one) : 1);
    meet(shared, side);
    const int windows = atomic_load(&shared->windows);
    for (int b = 0; b < kBothBatches; ++b)
      batch[b] = 2 * (double)(blocks * bytes) * 1e3 /
                 read_windows(shared, side, peer, from, to, bytes, blocks, windows);
    if (atomic_load(&shared->refused)) return;
    if (to[blocks * bytes - 1] != 6 - side) stop("floor: process_vm_readv read something else");
    if (side == 0) printf("both-%zu %.1f\n", bytes, middle(batch, kBothBatches));
  }
}

// The other core's process: bounces, reads while it is read from if there is `from`, then sleeps.
static void other(struct shared* shared, int core, char* from, char* to) {
  unsigned long line = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_to(core);
  bounce(shared, 1, &line, kBounces * (kBatches + 1));
  if (from) {
    meet(shared, 1);
    show_both(shared, 1, getppid(), from, to);
  }
  pause();
}

int main(int argc, char** argv) {
  const int both = argc == 4 && 0 == strcmp(argv[3], "both");
  if (argc != 3 && !both) {
    fprintf(stderr, "usage: floor CORE CORE [both]\n");
    return 2;
  }
  struct shared* shared =
      mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) stop("floor: mmap");
  memset(shared->page, 3, sizeof(shared->page));
  char *from = both ? pages(kBothArea) : NULL, *to = both ? pages(kBothArea) : NULL;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // refused where it is not needed
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) stop("floor: fork");
  if (child == 0) {
    other(shared, atoi(argv[2]), from, to);
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
  if (both) {
    meet(shared, 0);
    show_both(shared, 0, child, from, to);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  free(from);
  free(to);
  return 0;
}
