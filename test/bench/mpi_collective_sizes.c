// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Time of six collectives by size. Roots go round, and every rank writes its part before each call.
// A barrier ends each batch, so that the slowest rank counts. The result of each operation is
// checked before it is measured.
//
//   mpi_collective_sizes [--max BYTES | --sizes BYTES,...] [--ms MILLISECONDS]
//
// Rank 0 prints "OPERATION BYTES MICROSECONDS"; bytes are those of one part: of alltoall, and of
// allgather, what each rank gives to each.
#include "mpi_bench.h"

enum { kBarrier, kBcast, kReduce, kAllreduce, kAllgather, kAlltoall, kOperations };
static const char* const names[kOperations] = {"barrier",   "bcast",     "reduce",
                                               "allreduce", "allgather", "alltoall"};

static int operation;
static char* out;
static char* in;

static void call(long bytes, int root) {
  const int n = (int)bytes;
  switch (operation) {
    case kBarrier:
      MPI_Barrier(MPI_COMM_WORLD);
      break;
    case kBcast:
      MPI_Bcast(root == rank ? out : in, n, MPI_BYTE, root, MPI_COMM_WORLD);
      break;
    case kReduce:
      MPI_Reduce(out, in, n / 8, MPI_INT64_T, MPI_SUM, root, MPI_COMM_WORLD);
      break;
    case kAllreduce:
      MPI_Allreduce(out, in, n / 8, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kAllgather:
      MPI_Allgather(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
      break;
    case kAlltoall:
      MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
      break;
  }
}

// All ranks call it with the same count.
static void repeat(long bytes, int count) {
  const long written = operation == kAlltoall ? bytes * ranks : bytes;
  for (int i = 0; i < count; ++i) {
    const int root = i % ranks;
    if (operation != kBarrier && (operation != kBcast || root == rank))
      memset(out, i, (size_t)written);
    call(bytes, root);
  }
  if (operation != kBarrier && count > 1) MPI_Barrier(MPI_COMM_WORLD);
}

// The parts are patterns that tell sender and receiver; sums are of whole numbers.
static void check(long bytes) {
  const int root = ranks - 1;
  int64_t* numbers = (int64_t*)out;
  if (operation == kReduce || operation == kAllreduce) {
    const int64_t* sums = (const int64_t*)in;
    for (long i = 0; i < bytes / 8; ++i) numbers[i] = i * (rank + 1);
    call(bytes, root);
    for (long i = 0; (operation == kAllreduce || rank == root) && i < bytes / 8; ++i)
      if (sums[i] != i * ranks * (ranks + 1) / 2) fail("mpi_collective_sizes: wrong sum", i);
    return;
  }
  for (int to = 0; to < ranks && operation != kBarrier; ++to)
    fill(out + to * bytes, bytes, operation == kAlltoall ? rank * ranks + to : rank);
  call(bytes, root);
  if (operation == kBcast) expect(root == rank ? out : in, bytes, root, "wrong bcast");
  for (int from = 0; from < ranks && operation >= kAllgather; ++from)
    expect(in + from * bytes, bytes, operation == kAlltoall ? from * ranks + rank : from,
           "mpi_collective_sizes: wrong part");
}

enum { kSizesMost = 32 };

// Sizes from the command line, or each the fourfold of the one before. Returns how many.
static int sizes_of(int argc, char** argv, long* sizes) {
  const long most = (long)option(argc, argv, "--max", 1 << 20);
  int count = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], "--sizes") != 0) continue;
    for (const char* at = argv[i + 1]; *at && count < kSizesMost; at += *at == ',') {
      char* end;
      sizes[count++] = strtol(at, &end, 10);
      if (end == at || (*end && *end != ',')) return 0;
      at = end;
    }
    return count;
  }
  for (long bytes = 8; bytes <= most && count < kSizesMost; bytes *= 4) sizes[count++] = bytes;
  return count;
}

int main(int argc, char** argv) {
  begin_program(&argc, &argv, 2, 64);
  const double seconds = option(argc, argv, "--ms", 6) / 1000;
  long sizes[kSizesMost], most = 0;
  const int count = sizes_of(argc, argv, sizes);
  for (int i = 0; i < count; ++i) most = sizes[i] > most ? sizes[i] : most;
  for (int i = 0; i < count; ++i)
    if (sizes[i] < 8 || sizes[i] % 8 != 0) most = 0;
  if (seconds <= 0 || most < 8)
    fail("usage: mpi_collective_sizes [--max BYTES | --sizes BYTES,...] [--ms MS], multiples of 8",
         most);
  out = buffer((size_t)(most * ranks));
  in = buffer((size_t)(most * ranks));
  for (operation = 0; operation < kOperations; ++operation) {
    for (int i = 0; i < (operation == kBarrier ? 1 : count); ++i) {
      check(sizes[i]);
      show(names[operation], operation == kBarrier ? 0 : sizes[i],
           measure(repeat, sizes[i], seconds));
    }
  }
  MPI_Finalize();
  free(out);
  free(in);
  return 0;
}
