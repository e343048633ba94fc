// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One-sided communication of rank 0 with the memory of rank 1, for whatever MPI it runs over, under
// MPI_Win_lock_all. Every size is checked first. Rank 1 waits inside MPI meanwhile.
//
//   mpi_onesided [--max BYTES] [--ms MILLISECONDS] [--memory NUMBER]
//
// --memory 0: the window is from MPI_Win_allocate; 1: its memory is from MPI_Alloc_mem; 2: it is
// ordinary memory. Without it: one after the other.
//
// Rank 0 prints "MEMORY_fetch_and_op 8 MICROSECONDS" and "MEMORY_compare_and_swap 8 MICROSECONDS",
// MEMORY being "allocate", "alloc_mem" or "malloc"; for each size "MEMORY_put BYTES MICROSECONDS"
// and "MEMORY_get BYTES MICROSECONDS", each with its flush; then "MEMORY_put_bandwidth BYTES MB/S"
// and "MEMORY_get_bandwidth BYTES MB/S" (10^6 bytes), many under way before a flush.
#include <stdint.h>

#include "mpi_window.h"

static const char* const kMemories[] = {"allocate", "alloc_mem", "malloc"};
enum { kMemoryKinds = sizeof kMemories / sizeof kMemories[0] };

static MPI_Win window;
static int memory_kind;

// Rank 1 waits here until rank 0 is through.
static void end_of_batch(void) {
  if (rank == 0)
    MPI_Send(NULL, 0, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD);
  else
    MPI_Recv(NULL, 0, MPI_BYTE, 0, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void puts_one_by_one(long bytes, int count) {
  for (int i = 0; rank == 0 && i < count; ++i) {
    MPI_Put(out, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
    MPI_Win_flush(1, window);
  }
  end_of_batch();
}

static void gets_one_by_one(long bytes, int count) {
  for (int i = 0; rank == 0 && i < count; ++i) {
    MPI_Get(in, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
    MPI_Win_flush(1, window);
  }
  end_of_batch();
}

static void puts_together(long bytes, int count) {
  const int many = window_of(bytes);
  for (int i = 0; rank == 0 && i < count; ++i) {
    for (int k = 0; k < many; ++k)
      MPI_Put(out + k * bytes, (int)bytes, MPI_BYTE, 1, k * bytes, (int)bytes, MPI_BYTE, window);
    MPI_Win_flush(1, window);
  }
  end_of_batch();
}

static void gets_together(long bytes, int count) {
  const int many = window_of(bytes);
  for (int i = 0; rank == 0 && i < count; ++i) {
    for (int k = 0; k < many; ++k)
      MPI_Get(in + k * bytes, (int)bytes, MPI_BYTE, 1, k * bytes, (int)bytes, MPI_BYTE, window);
    MPI_Win_flush(1, window);
  }
  end_of_batch();
}

static int64_t fetched;

static void fetches(long bytes, int count) {
  const int64_t one = 1;
  for (int i = 0; rank == 0 && i < count; ++i) {
    const int64_t before = fetched;
    MPI_Fetch_and_op(&one, &fetched, MPI_INT64_T, 1, 0, MPI_SUM, window);
    MPI_Win_flush(1, window);
    if (fetched != before + 1) fail("mpi_onesided: a wrong sum was fetched", bytes);
  }
  end_of_batch();
}

static void swaps(long bytes, int count) {
  for (int i = 0; rank == 0 && i < count; ++i) {
    const int64_t before = fetched, next = before + 1;
    MPI_Compare_and_swap(&next, &before, &fetched, MPI_INT64_T, 1, 0, window);
    MPI_Win_flush(1, window);
    if (fetched != before) fail("mpi_onesided: a swap found another value", bytes);
    fetched = next;
  }
  end_of_batch();
}

static void check(char* memory, long bytes, void (*puts)(long, int), void (*gets)(long, int)) {
  const long all = puts == puts_together ? bytes * window_of(bytes) : bytes;
  fill(out, all, 0);
  zero(in, all);
  if (rank == 1) zero(memory, all);
  MPI_Win_sync(window);
  MPI_Barrier(MPI_COMM_WORLD);
  puts(bytes, 1);
  MPI_Win_sync(window);
  if (rank == 1) expect(memory, all, 0, "mpi_onesided: wrong bytes put");
  gets(bytes, 1);
  if (rank == 0) expect(in, all, 0, "mpi_onesided: wrong bytes got");
}

static char* open_window(size_t bytes) {
  char* memory = NULL;
  if (memory_kind == 0) {
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  } else {
    memory = memory_kind == 1 ? mpi_buffer(bytes) : buffer(bytes);
    MPI_Win_create(memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  }
  memset(memory, 0, bytes);
  MPI_Win_lock_all(0, window);
  MPI_Win_sync(window);
  MPI_Barrier(MPI_COMM_WORLD);
  return memory;
}

static void report(const char* name, void (*work)(long, int), long bytes, double seconds) {
  const double t = measure(work, bytes, seconds);
  const int many = work == puts_together || work == gets_together;
  if (rank != 0) return;
  if (many)
    printf("%s_%s %ld %.4f\n", kMemories[memory_kind], name, bytes,
           (double)bytes * window_of(bytes) / t / 1e6);
  else
    printf("%s_%s %ld %.4f\n", kMemories[memory_kind], name, bytes, t * 1e6);
}

static void close_window(char* memory) {
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  if (memory_kind == 1) MPI_Free_mem(memory);
  if (memory_kind == 2) free(memory);
}

static void one_memory(long max, double seconds) {
  char* const memory = open_window(max > kWindowBytes ? (size_t)max : kWindowBytes);
  fetched = -1;
  fetches(8, 1);  // finds 0
  report("fetch_and_op", fetches, 8, seconds);
  ++fetched;
  report("compare_and_swap", swaps, 8, seconds);
  for (long n = 1; n <= max; n *= 2) {
    check(memory, n, puts_one_by_one, gets_one_by_one);
    report("put", puts_one_by_one, n, seconds);
    report("get", gets_one_by_one, n, seconds);
  }
  for (long n = 1; n <= max; n *= 2) {
    check(memory, n, puts_together, gets_together);
    report("put_bandwidth", puts_together, n, seconds);
    report("get_bandwidth", gets_together, n, seconds);
  }
  close_window(memory);
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 2);
  const long max = (long)option(argc, argv, "--max", 4 << 20);
  const double seconds = option(argc, argv, "--ms", 10) / 1000;
  const int wanted = (int)option(argc, argv, "--memory", -1);
  if (max < 1 || max > (1 << 30) || seconds <= 0 || wanted < -1 || wanted >= kMemoryKinds)
    fail("usage: mpirun -n 2 mpi_onesided [--max BYTES] [--ms MILLISECONDS] [--memory 0|1|2]", max);
  const size_t bytes = max > kWindowBytes ? (size_t)max : kWindowBytes;
  out = buffer(bytes);
  in = buffer(bytes);
  for (memory_kind = 0; memory_kind < kMemoryKinds; ++memory_kind)
    if (wanted == -1 || wanted == memory_kind) one_memory(max, seconds);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
