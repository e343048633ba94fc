/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Collectives as a component may carry them out by itself: derived types that differ among ranks,
 * pairs, user's operations that do not commute, in place, the same bits everywhere, communicators
 * of all kinds, beside nonblocking ones and messages.
 *
 *   collective_kinds          all of that
 *   collective_kinds threads  a communicator for each of several threads
 *   collective_kinds dups N   N communicators that come and go; their memory does, too
 *   collective_kinds kill     rank 1 dies; the others get an error
 *   collective_kinds memory   the last rank has no memory to pack; all ranks get an error
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

/* --- types --------------------------------------------------------------------------------- */

/* Every other int of an array, or the same number of ints side by side: rank by rank. */
static void differing_types(MPI_Comm comm, int n) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Datatype strided;
  MPI_Type_vector(n, 1, 2, MPI_INT, &strided);
  MPI_Datatype type;
  MPI_Type_create_resized(strided, 0, 2 * n * (int)sizeof(int), &type);
  MPI_Type_commit(&type);
  const int gaps = rank % 2, step = 1 + gaps;
  int* mine = calloc((size_t)(2 * n), sizeof *mine);
  int* all = calloc((size_t)(2 * n * size), sizeof *all);
  for (int root = 0; root < size; ++root) {
    for (int i = 0; i < 2 * n; ++i) mine[i] = -1;
    for (int i = 0; rank == root && i < n; ++i) mine[i * step] = root * 1000 + i;
    MPI_Bcast(mine, gaps ? 1 : n, gaps ? type : MPI_INT, root, comm);
    for (int i = 0; i < n; ++i)
      CHECK(mine[i * step] == root * 1000 + i, "bcast %d: %d", i, mine[i * step]);
    for (int i = 0; gaps && i < n; ++i) CHECK(mine[2 * i + 1] == -1, "bcast wrote into gap %d", i);
  }
  for (int i = 0; i < n; ++i) mine[i * step] = rank * 1000 + i;
  MPI_Allgather(mine, gaps ? 1 : n, gaps ? type : MPI_INT, all, gaps ? n : 1, gaps ? MPI_INT : type,
                comm);
  const int back = gaps ? 1 : 2;
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < n; ++i) {
      const int got = all[r * n * back + i * back];
      CHECK(got == r * 1000 + i, "allgather %d of %d: %d", i, r, got);
    }
  for (int i = 0; i < 2 * n * size; ++i) all[i] = -1;
  for (int i = 0; i < n; ++i) all[(rank * n + i) * step] = rank * 7 + i;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, gaps ? 1 : n, gaps ? type : MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < n; ++i)
      CHECK(all[(r * n + i) * step] == r * 7 + i, "allgather in place %d of %d", i, r);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < n; ++i) all[(r * n + i) * step] = rank * 10000 + r * 100 + i;
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, gaps ? 1 : n, gaps ? type : MPI_INT, comm);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < n; ++i)
      CHECK(all[(r * n + i) * step] == r * 10000 + rank * 100 + i, "alltoall %d of %d", i, r);
  MPI_Type_free(&type);
  MPI_Type_free(&strided);
  free(mine);
  free(all);
}

/* A buffer at MPI_BOTTOM. */
static void absolute_addresses(MPI_Comm comm) {
  int words[2] = {-1, -1}, lengths[2] = {1, 1}, rank;
  MPI_Aint places[2];
  MPI_Datatype kinds[2] = {MPI_INT, MPI_INT}, type;
  MPI_Get_address(&words[1], &places[0]);
  MPI_Get_address(&words[0], &places[1]);
  MPI_Type_create_struct(2, lengths, places, kinds, &type);
  MPI_Type_commit(&type);
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) words[0] = 11, words[1] = 22;
  MPI_Bcast(MPI_BOTTOM, 1, type, 0, comm);
  CHECK(words[0] == 11 && words[1] == 22, "%d %d", words[0], words[1]);
  MPI_Type_free(&type);
}

static void pairs(MPI_Comm comm) {
  struct {
    double value;
    int place;
  } mine[3], best[3];
  struct {
    long double value;
    int place;
  } far[2], least[2];
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  memset(mine, 0, sizeof mine);
  memset(far, 0, sizeof far);
  for (int i = 0; i < 3; ++i) mine[i].value = (rank + i) % size, mine[i].place = rank;
  MPI_Allreduce(mine, best, 3, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
  for (int i = 0; i < 3; ++i)
    CHECK(best[i].value == size - 1 && (best[i].place + i) % size == size - 1,
          "maxloc %d: %g at %d", i, best[i].value, best[i].place);
  for (int i = 0; i < 2; ++i) far[i].value = rank + i, far[i].place = rank;
  MPI_Reduce(far, least, 2, MPI_LONG_DOUBLE_INT, MPI_MINLOC, size - 1, comm);
  for (int i = 0; rank == size - 1 && i < 2; ++i)
    CHECK(least[i].value == i && least[i].place == 0, "minloc %d", i);
}

/* --- reductions ---------------------------------------------------------------------------- */

/* x -> a * x + b, one behind the other: associative, but not commutative. */
struct affine {
  uint32_t a, b;
};
static void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  const struct affine* f = in;
  struct affine* g = inout;
  (void)type;
  for (int i = 0; i < *count; ++i)
    g[i] = (struct affine){f[i].a * g[i].a, f[i].a * g[i].b + f[i].b};
}

static struct affine function_of(int rank, int i) {
  return (struct affine){(uint32_t)(rank * 2654435761u + i * 40503u) | 1u,
                         (uint32_t)(rank * 97 + i * 13 + 1)};
}

static void ordered(MPI_Comm comm, int n) {
  int rank, size;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Type_contiguous(2, MPI_UINT32_T, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(compose, 0, &op);
  struct affine* mine = malloc(sizeof *mine * (size_t)n);
  struct affine* out = malloc(sizeof *out * (size_t)n);
  struct affine* right = malloc(sizeof *right * (size_t)n);
  for (int i = 0; i < n; ++i) {
    int one = 1;
    mine[i] = function_of(rank, i);
    right[i] = function_of(size - 1, i);
    for (int r = size - 1; r-- > 0;) {
      struct affine before = function_of(r, i);
      compose(&before, &right[i], &one, &type);
    }
  }
  MPI_Allreduce(mine, out, n, type, op, comm);
  CHECK(memcmp(out, right, sizeof *out * (size_t)n) == 0, "allreduce of %d", n);
  memcpy(out, mine, sizeof *out * (size_t)n);
  MPI_Allreduce(MPI_IN_PLACE, out, n, type, op, comm);
  CHECK(memcmp(out, right, sizeof *out * (size_t)n) == 0, "allreduce of %d in place", n);
  for (int root = 0; root < size; ++root) {
    memset(out, 0, sizeof *out * (size_t)n);
    MPI_Reduce(mine, rank == root ? out : NULL, n, type, op, root, comm);
    CHECK(rank != root || memcmp(out, right, sizeof *out * (size_t)n) == 0, "reduce of %d", n);
    memcpy(out, mine, sizeof *out * (size_t)n);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : mine, rank == root ? out : NULL, n, type, op, root,
               comm);
    CHECK(rank != root || memcmp(out, right, sizeof *out * (size_t)n) == 0, "in place of %d", n);
  }
  MPI_Op_free(&op);
  MPI_Type_free(&type);
  free(mine);
  free(out);
  free(right);
}

/* Sums that depend on their order: all ranks must have the same one. */
static void same_bits(MPI_Comm comm, int n) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  double* mine = malloc(sizeof *mine * (size_t)n);
  double* sum = malloc(sizeof *sum * (size_t)n);
  double* first = malloc(sizeof *first * (size_t)n);
  for (int i = 0; i < n; ++i) mine[i] = 1.0 / (3 + rank * 17 + i) * (i % 3 ? 1e9 : 1e-9);
  MPI_Allreduce(mine, sum, n, MPI_DOUBLE, MPI_SUM, comm);
  memcpy(first, sum, sizeof *sum * (size_t)n);
  MPI_Bcast(first, n, MPI_DOUBLE, 0, comm);
  CHECK(memcmp(first, sum, sizeof *sum * (size_t)n) == 0, "%d sums differ", n);
  free(mine);
  free(sum);
  free(first);
}

/* --- communicators and what goes on beside ------------------------------------------------- */

static void all_kinds(MPI_Comm comm) {
  static const int sizes[] = {1, 5, 6, 7, 100, 3000, 30000};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    differing_types(comm, sizes[s] < 5000 ? sizes[s] : 5000);
    ordered(comm, sizes[s]);
    same_bits(comm, sizes[s]);
  }
  absolute_addresses(comm);
  pairs(comm);
}

/* A pending send and receive, and nonblocking collectives, around blocking ones. */
static void beside(MPI_Comm comm) {
  int rank, size, token = -1, sum = 0, word;
  MPI_Request requests[4];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  static char out[300000], in[300000];
  MPI_Irecv(in, sizeof in, MPI_CHAR, (rank + size - 1) % size, 4, comm, &requests[0]);
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
  MPI_Barrier(comm);
  memset(out, rank + 1, sizeof out);
  MPI_Isend(out, sizeof out, MPI_CHAR, (rank + 1) % size, 4, comm, &requests[2]);
  word = rank == size - 1 ? 77 : 0;
  MPI_Bcast(&word, 1, MPI_INT, size - 1, comm);
  MPI_Ibcast(&token, 1, MPI_INT, 0, comm, &requests[3]);
  if (rank == 0) token = -1;
  MPI_Barrier(comm);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  CHECK(word == 77 && sum == size * (size - 1) / 2 &&
            in[sizeof in - 1] == (rank + size - 1) % size + 1,
        "%d %d %d", word, sum, in[sizeof in - 1]);
}

static void subgroups(void) {
  MPI_Comm half, reversed, two[2], inter;
  MPI_Request requests[2];
  int sum = 0, one = 1, size;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  for (int i = 0; i < 6; ++i) beside(half);
  all_kinds(half);
  all_kinds(reversed);
  /* Two at once, which end in any order. */
  MPI_Comm_idup(half, &two[0], &requests[0]);
  MPI_Comm_idup(reversed, &two[1], &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 8; ++i) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, two[i % 2]);
    MPI_Comm_size(two[i % 2], &size);
    CHECK(sum == size, "%d of %d", sum, size);
  }
  if (world_size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5, &inter);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
    MPI_Comm_remote_size(inter, &size);
    CHECK(sum == size, "%d of %d others", sum, size);
    MPI_Barrier(inter);
    MPI_Comm_free(&inter);
  }
  MPI_Comm_free(&two[1]);
  MPI_Comm_free(&two[0]);
  MPI_Comm_free(&half);
  MPI_Comm_free(&reversed);
}

static void* work(void* comm) {
  for (int i = 0; i < 100; ++i) {
    same_bits(*(MPI_Comm*)comm, i % 3 ? 3 : 4000);
    MPI_Barrier(*(MPI_Comm*)comm);
  }
  return NULL;
}

static void threads(void) {
  enum { kThreads = 4 };
  pthread_t ids[kThreads];
  MPI_Comm comms[kThreads];
  for (int i = 0; i < kThreads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < kThreads; ++i) pthread_create(&ids[i], NULL, work, &comms[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(ids[i], NULL);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&comms[i]);
}

static void count_pages(long* all, long* resident) {
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%ld %ld", all, resident) == 2, "/proc/self/statm");
  fclose(file);
}

static long resident_pages(void) {
  long all = 0, resident = 0;
  count_pages(&all, &resident);
  return resident;
}

static void dups(int count) {
  long before = 0;
  for (int i = 0; i < count; ++i) {
    MPI_Comm comm;
    int sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    /* Some are used, so much that they are set up. */
    for (int k = 0; k < (i % 4 ? 0 : 6); ++k) {
      MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
      CHECK(sum == world_size * (world_size - 1) / 2, "%d", sum);
    }
    MPI_Comm_free(&comm);
    if (i == count / 2) before = resident_pages();
  }
  CHECK(resident_pages() - before < 1000, "%ld pages more", resident_pages() - before);
}

/* How an operation ends when the last rank, whose type has gaps, may have no more memory. */
static int starved(MPI_Comm comm, int gathers, int n, int* in, int* out, MPI_Datatype gaps) {
  const int last = world_rank == world_size - 1;
  struct rlimit limit;
  long pages = 0, resident = 0;
  for (int i = 0; i < 5; ++i) MPI_Barrier(comm); /* now it is served, if it will ever be */
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
  count_pages(&pages, &resident);
  const struct rlimit low = {(rlim_t)(pages * sysconf(_SC_PAGESIZE)) + (1 << 20), limit.rlim_max};
  CHECK(!last || setrlimit(RLIMIT_AS, &low) == 0, "setrlimit");
  const int count = last ? 1 : n;
  const MPI_Datatype type = last ? gaps : MPI_INT;
  const int code = gathers ? MPI_Allgather(in, count, type, out, n, MPI_INT, comm)
                           : MPI_Bcast(in, count, type, world_size - 1, comm);
  CHECK(!last || setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  return code;
}

static void without_memory(void) {
  const int n = 2 << 20;
  int* const in = calloc((size_t)(2 * n), sizeof *in);
  int* const out = calloc((size_t)n * (size_t)world_size, sizeof *out);
  MPI_Datatype gaps;
  CHECK(in && out, "%d ints", n);
  MPI_Type_vector(n, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  for (int gathers = 0; gathers < 2; ++gathers) {
    MPI_Comm comm;
    int class = MPI_SUCCESS;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Error_class(starved(comm, gathers, n, in, out, gaps), &class);
    CHECK(class == MPI_ERR_NO_MEM, "error class %d of %s", class, gathers ? "allgather" : "bcast");
    MPI_Comm_free(&comm);
  }
  MPI_Type_free(&gaps);
  free(in);
  free(out);
}

static void killed(void) {
  int sum, code = MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; code == MPI_SUCCESS; ++i) {
    if (world_rank == 1 && i == 50) raise(SIGKILL);
    code = MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  printf("rank %d survived: MPI said MPI_Allreduce failed\n", world_rank);
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  start(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
  if (strcmp(what, "threads") == 0) {
    threads();
  } else if (strcmp(what, "dups") == 0) {
    dups(argc > 2 ? atoi(argv[2]) : 1000);
  } else if (strcmp(what, "memory") == 0) {
    without_memory();
  } else if (strcmp(what, "kill") == 0) {
    killed();
  } else {
    all_kinds(MPI_COMM_WORLD);
    for (int i = 0; i < 20; ++i) beside(MPI_COMM_WORLD);
    subgroups();
    all_kinds(MPI_COMM_SELF);
  }
  return finish();
}
