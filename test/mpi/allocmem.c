/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Messages from and to memory of MPI_Alloc_mem: all lengths and places, before and after
 * communicators are made, between allocations, in collectives, to spawned processes. With the
 * argument "torii" such messages must have been copied directly, "frames": must not. */
#include "check.h"

enum { kMax = 3 << 20, kGuard = 64 };

static char* memory(size_t bytes) {
  void* at = NULL;
  MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &at);
  CHECK(at, "no memory for %zu bytes", bytes);
  return at;
}

/* With everybody at once: from `out` of each rank into `in` of the one after it. */
static void around(char* out, char* in, int bytes, MPI_Comm comm) {
  int rank, size;
  MPI_Request request;
  MPI_Status status;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int last = (rank + size - 1) % size;
  fill(out, (size_t)bytes, (uint32_t)(rank + bytes));
  memset(in, 'g', (size_t)bytes + kGuard);
  MPI_Irecv(in, bytes, MPI_BYTE, last, 3, comm, &request);
  MPI_Send(out, bytes, MPI_BYTE, (rank + 1) % size, 3, comm);
  MPI_Wait(&request, &status);
  verify_status(&status, last, 3, bytes, "around");
  verify(in, (size_t)bytes, (uint32_t)(last + bytes), "around");
  verify_value(in + bytes, kGuard, 'g', "behind the message");
}

/* Every length, with both ends or one of them in such memory, at odd places. */
static void all_sizes(char* out, char* in, MPI_Comm comm) {
  char* ordinary = malloc(kMax + kGuard);
  CHECK(ordinary, "no memory");
  for (int bytes = 0; bytes <= kMax; bytes = bytes * 3 + 1) {
    around(out, in, bytes, comm);
    around(ordinary, in, bytes, comm);
    around(out, ordinary, bytes, comm);
  }
  const int edges[] = {8296, 8297, 16384, 32768, 65535, 65536, 131071, 131072, 1 << 20, kMax};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; ++i) {
    around(out, in, edges[i], comm);
    if (edges[i] > 100) around(out + 37, in + 91, edges[i] - 91, comm);
  }
  free(ordinary);
}

/* Memory that is given back and taken again between messages, and comes to lie elsewhere. */
static void come_and_go(void) {
  uint64_t state = 5; /* the same lengths everywhere */
  char *out = NULL, *in = NULL, *extra = NULL;
  for (int turn = 0; turn < 60; ++turn) {
    const int bytes = (int)(draw(&state) % (turn % 3 ? 200000 : kMax)) + 1;
    out = memory((size_t)bytes);
    if (turn % 4 == world_rank % 4) extra = memory(100000);
    in = memory((size_t)bytes + kGuard);
    around(out, in, bytes, MPI_COMM_WORLD);
    MPI_Free_mem(out);
    MPI_Free_mem(in);
    if (turn % 4 == (world_rank + 2) % 4 && extra) {
      MPI_Free_mem(extra);
      extra = NULL;
    }
  }
  if (extra) MPI_Free_mem(extra);
}

/* Many messages at once, some of them strided at one end, in pieces of one allocation. */
static void many_at_once(char* out, char* in) {
  enum { kMany = 24, kEach = 100000 };
  MPI_Request requests[2 * kMany];
  MPI_Datatype strided;
  const int next = (world_rank + 1) % world_size;
  const int last = (world_rank + world_size - 1) % world_size;
  MPI_Type_vector(kEach / 1000, 500, 1000, MPI_BYTE, &strided);
  MPI_Type_commit(&strided);
  for (int round = 0; round < 5; ++round) {
    memset(in, 0, kMany * kEach);
    for (int i = 0; i < kMany; ++i) {
      fill(out + i * kEach, kEach, (uint32_t)(world_rank * 100 + i));
      MPI_Irecv(in + i * kEach, kEach / (i % 3 ? 1 : 2), MPI_BYTE, last, i, MPI_COMM_WORLD,
                &requests[i]);
    }
    for (int i = 0; i < kMany; ++i) {
      MPI_Isend(out + i * kEach, i % 3 ? kEach : 1, i % 3 ? MPI_BYTE : strided, next, i,
                MPI_COMM_WORLD, &requests[kMany + i]);
    }
    MPI_Waitall(2 * kMany, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMany; ++i) {
      const uint32_t seed = (uint32_t)(last * 100 + i);
      const uint8_t* got = (const uint8_t*)in + i * kEach;
      if (i % 3) {
        verify(got, kEach, seed, "one of many");
        continue;
      }
      for (int k = 0; k < kEach / 2; ++k) {
        const uint64_t from = (uint64_t)(k / 500 * 1000 + k % 500);
        CHECK(got[k] == pattern(from, seed), "strided byte %d is %u", k, got[k]);
      }
    }
  }
  MPI_Type_free(&strided);
}

static void collectives(char* out, char* in) {
  const int each = kMax / (8 * world_size);
  for (int root = 0; root < world_size; ++root) {
    if (root == world_rank) fill(out, kMax, (uint32_t)root);
    MPI_Bcast(out, kMax, MPI_BYTE, root, MPI_COMM_WORLD);
    verify(out, kMax, (uint32_t)root, "broadcast");
  }
  for (int r = 0; r < world_size; ++r)
    fill(out + r * each, (size_t)each, (uint32_t)(world_rank * 50 + r));
  MPI_Alltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, MPI_COMM_WORLD);
  for (int r = 0; r < world_size; ++r)
    verify(in + r * each, (size_t)each, (uint32_t)(r * 50 + world_rank), "all to all");
}

/* Hints for another pool of Open MPI are that pool's business. */
static void hints(void) {
  const char* const texts[] = {"mpool=torii", "mpool=hugepage", "page_size=2M", "nonsense,,="};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    MPI_Info info;
    char* at = NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpool_hints", texts[i]);
    MPI_Alloc_mem(200000, info, &at);
    CHECK(at, "no memory with %s", texts[i]);
    around(at, at + 100000, 99000, MPI_COMM_WORLD);
    MPI_Free_mem(at);
    MPI_Info_free(&info);
  }
}

static void with_spawned(char* program, char* out, char* in) {
  MPI_Comm parent, inter, merged;
  int codes[2];
  MPI_Comm_get_parent(&parent);
  const int child = MPI_COMM_NULL != parent;
  if (child) {
    inter = parent;
  } else {
    MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
  }
  MPI_Intercomm_merge(inter, child, &merged);
  all_sizes(out, in, merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&inter);
}

static MPI_T_pvar_session session;
static MPI_T_pvar_handle copied; /* bytes that Torii copied directly, from now on */
static int counting;

static void start_counting(void) {
  int provided, index, n;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&session);
  counting = MPI_SUCCESS ==
                 MPI_T_pvar_get_index("mtl_torii_direct_bytes", MPI_T_PVAR_CLASS_COUNTER, &index) &&
             MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, index, NULL, &copied, &n);
}

static void stop_counting(const char* expected) {
  unsigned long long mine = 0, all = 0;
  if (counting) {
    MPI_T_pvar_read(session, copied, &mine);
    MPI_T_pvar_handle_free(session, &copied);
  }
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (0 == strcmp(expected, "torii")) CHECK(all > kMax, "%llu bytes copied directly", all);
  if (0 == strcmp(expected, "frames")) CHECK(all == 0, "%llu bytes copied directly", all);
}

/* Frees the attribute's memory while MPI_Finalize begins. */
static int free_at_end(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm;
  (void)key;
  (void)extra;
  return MPI_Free_mem(value);
}

static void in_one_job(char* out, char* in) {
  MPI_Comm twin;
  all_sizes(out, in, MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  char *later_out = memory(kMax), *later_in = memory(kMax + kGuard);
  all_sizes(later_out, later_in, twin);
  MPI_Comm_free(&twin);
  many_at_once(later_out, later_in);
  MPI_Free_mem(later_in);
  MPI_Free_mem(later_out);
  collectives(out, in);
  come_and_go();
  hints();
}

int main(int argc, char** argv) {
  MPI_Comm parent;
  int key;
  start(&argc, &argv, MPI_THREAD_SINGLE);
  start_counting();
  char *out = memory(kMax), *in = memory(kMax + kGuard), *kept = memory(50000);
  const char* mode = argc > 1 ? argv[1] : "";
  MPI_Comm_get_parent(&parent);
  if (MPI_COMM_NULL != parent || 0 == strcmp(mode, "spawn")) {
    with_spawned(argv[argc > 2 ? 2 : 0], out, in);
  } else {
    in_one_job(out, in);
  }
  stop_counting(mode);
  MPI_Free_mem(out);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_at_end, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, in);
  memset(kept, 'k', 50000);
  if (MPI_COMM_NULL != parent) {
    MPI_Finalize();
    return 0;
  }
  const int code = finish();
  /* It was not given back, so it is still there. */
  for (int i = 0; i < 50000; ++i)
    if (kept[i] != 'k') return 4;
  return code;
}
