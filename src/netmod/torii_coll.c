/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Collective operations by Torii's groups. All decisions are made of what all members have alike:
 * communicator, root, bytes, operation, and for reductions the type. Whether a type is plain memory
 * is each member's own business, and decides nothing that others see.
 *
 * A communicator is set up in one of its first calls, not when it is made: one that is made and
 * freed costs nothing, and all members are there.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

#define CALLS_BEFORE 3
#define MEMBERS_MOST 256
#define STEPS_ALONE 4 /* of progress, before MPICH's other parts have theirs */

/* --- waiting ------------------------------------------------------------------------------- */

/* Returns the error of what else was going on. */
static int wait_for(const torii_flag_t* flag) {
  int mpi_errno = MPI_SUCCESS;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
  for (unsigned steps = 1; !__atomic_load_n(&flag->done, __ATOMIC_ACQUIRE); ++steps) {
    int other;
    torii_wait_step(NETMOD_TORII_NI);
    if (0 != steps % STEPS_ALONE) continue;
    MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
    MPIDI_TORII_global.next = NETMOD_TORII_PASSES;
    other = MPID_Progress_test(NULL);
    MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
    if (MPI_SUCCESS == mpi_errno) mpi_errno = other;
  }
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
  return mpi_errno;
}

/* Waits for the end of an operation that returned `code`. False: it is not served. */
static bool ended(int code, const torii_flag_t* flag, const char* what, int* mpi_errno) {
  const bool pending = TORII_PENDING == code;
  if (pending) {
    *mpi_errno = wait_for(flag);
    code = flag->result.code;
  }
  if (likely(TORII_OK == code)) return true;
  if (TORII_ERR_UNSUPPORTED == code) return false;
  if (!pending) {
    *mpi_errno = netmod_torii_refused(code, what);
  } else if (NULL != flag->result.source) {
    *mpi_errno = netmod_torii_lost(code, what, flag->result.source);
  } else {
    *mpi_errno = netmod_torii_error(code, what);
  }
  return true;
}

/* --- set-up -------------------------------------------------------------------------------- */

/* Can the core find out whether its members can be served? The same for all of them. */
static bool may_serve(MPIR_Comm* comm) {
  return MPIR_COMM_KIND__INTRACOMM == comm->comm_kind && 2 <= comm->local_size &&
         MEMBERS_MOST >= comm->local_size;
}

/* False: this process cannot. Where drivers neither map memory nor have multicast no group is
 * opened to find that out, but for MPI_COMM_WORLD, which the report is to tell of. */
static bool open_group(MPIR_Comm* comm) {
  const netmod_torii_context_t context = comm->context_id; /* its members have it in common */
  const int size = comm->local_size;
  torii_peer_t** const peers = MPL_malloc((size_t)size * sizeof(torii_peer_t*), MPL_MEM_COMM);
  const bool reported = comm == MPIR_Process.comm_world;
  int mpi_errno;
  bool known = NULL != peers;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
  for (int i = 0; known && i < size; ++i) {
    peers[i] = netmod_torii_peer(MPIDIU_comm_rank_to_av(comm, i), 0, &mpi_errno);
    known = NULL != peers[i] &&
            (reported || i == comm->rank || torii_peer_may_join(NETMOD_TORII_NI, peers[i]));
  }
  known = known && TORII_OK == torii_group_open(NETMOD_TORII_NI, &context, sizeof context, peers,
                                                (size_t)size, &NETMOD_TORII_COMM(comm)->group);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
  MPL_free(peers);
  return known;
}

static bool prepare(MPIR_Comm* comm) {
  torii_flag_t flag = {.done = 0};
  bool all = false;
  int code;
  if (MPI_SUCCESS != netmod_torii_all_agree(comm, open_group(comm), &all) || !all) return false;
  code = torii_group_prepare(NETMOD_TORII_COMM(comm)->group, torii_flag, &flag);
  if (TORII_PENDING == code) {
    wait_for(&flag);
    code = flag.result.code;
  }
  return TORII_OK == code;
}

/* May this call be served? The first calls are not; a later one finds out, with all members,
 * whether the communicator can be. */
static bool set_up(MPIR_Comm* comm) {
  MPIDI_TORII_comm_t* const own = NETMOD_TORII_COMM(comm);
  if (NETMOD_TORII_COLL_NEW != own->coll) return false;
  if (!may_serve(comm)) {
    own->coll = NETMOD_TORII_COLL_REFUSED;
    return false;
  }
  if (own->calls++ < CALLS_BEFORE && comm != MPIR_Process.comm_world) return false;
  own->coll = NETMOD_TORII_COLL_SETTING_UP;
  if (prepare(comm)) {
    own->coll = NETMOD_TORII_COLL_READY;
    return true;
  }
  netmod_torii_coll_close(comm);
  own->coll = NETMOD_TORII_COLL_REFUSED;
  return false;
}

static inline bool serves(MPIR_Comm* comm) {
  return likely(NETMOD_TORII_COLL_READY == NETMOD_TORII_COMM(comm)->coll) || set_up(comm);
}

/* Its members may go on with what they have begun. At the end of the program the interface is
 * closed already. */
void netmod_torii_coll_close(MPIR_Comm* comm) {
  MPIDI_TORII_comm_t* const own = NETMOD_TORII_COMM(comm);
  if (NULL != own->group && NULL != NETMOD_TORII_NI) torii_group_close(own->group);
  own->group = NULL;
}

/* --- barrier and bcast --------------------------------------------------------------------- */

bool netmod_torii_barrier(MPIR_Comm* comm, int* mpi_errno) {
  torii_flag_t flag = {.done = 0};
  if (!serves(comm)) return false;
  return ended(torii_group_barrier(NETMOD_TORII_COMM(comm)->group, torii_flag, &flag), &flag,
               "a barrier", mpi_errno);
}

bool netmod_torii_bcast(void* buffer, MPI_Aint count, MPI_Datatype type, int root, MPIR_Comm* comm,
                        int* mpi_errno) {
  struct netmod_torii_stream* stream;
  torii_flag_t flag = {.done = 0};
  torii_data_t data;
  bool served;
  int code;
  if (!serves(comm)) return false;
  *mpi_errno = netmod_torii_describe(buffer, count, type, &data, &stream);
  if (MPI_SUCCESS != *mpi_errno) {
    MPI_Aint size;
    MPIR_Datatype_get_size_macro(type, size);
    data = (torii_data_t){.bytes = (uint64_t)(size * count)};
    stream = NULL;
  }
  code =
      torii_group_bcast(NETMOD_TORII_COMM(comm)->group, (uint32_t)root, &data, torii_flag, &flag);
  served = ended(code, &flag, "a broadcast", mpi_errno);
  netmod_torii_stream_free(stream);
  return served;
}

/* --- reductions ---------------------------------------------------------------------------- */

struct operation {
  MPI_Op op;
  MPI_Datatype type;
  MPI_Aint element; /* bytes; 0: not served */
};

static void combine(void* context, const void* in, void* inout, uint64_t bytes) {
  const struct operation* const own = context;
  MPIR_Reduce_local(in, inout, (MPI_Aint)bytes / own->element, own->type, own->op);
}

/* Elements have to lie side by side. Pairs as of MPI_MINLOC have gaps, but are predefined, and so
 * the same everywhere. */
static struct operation operation_of(MPI_Op op, MPI_Datatype type) {
  struct operation own = {.op = op, .type = type};
  MPI_Aint extent, true_lb;
  size_t size;
  int contiguous;
  MPIR_Datatype_get_extent_macro(type, extent);
  MPIDI_Datatype_check_contig_size_lb(type, 1, contiguous, size, true_lb);
  if (MPIR_DATATYPE_IS_PREDEFINED(type) || (contiguous && 0 == true_lb && (MPI_Aint)size == extent))
    own.element = extent;
  return own;
}

bool netmod_torii_reduce(const void* in, void* out, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                         int root, MPIR_Comm* comm, int* mpi_errno) {
  struct operation own = operation_of(op, type);
  const torii_reduction_t how = {
      .combine = combine, .context = &own, .element = (uint64_t)own.element};
  torii_flag_t flag = {.done = 0};
  int code;
  if (0 >= own.element || 0 == count || !serves(comm)) return false;
  code = torii_group_reduce(NETMOD_TORII_COMM(comm)->group, (uint32_t)root,
                            MPI_IN_PLACE == in ? NULL : in, out, how.element * (uint64_t)count,
                            &how, torii_flag, &flag);
  return ended(code, &flag, "a reduction", mpi_errno);
}

bool netmod_torii_allreduce(const void* in, void* out, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                            MPIR_Comm* comm, int* mpi_errno) {
  struct operation own = operation_of(op, type);
  const torii_reduction_t how = {
      .combine = combine, .context = &own, .element = (uint64_t)own.element};
  torii_flag_t flag = {.done = 0};
  int code;
  if (0 >= own.element || 0 == count || !serves(comm)) return false;
  code = torii_group_allreduce(NETMOD_TORII_COMM(comm)->group, MPI_IN_PLACE == in ? NULL : in, out,
                               how.element * (uint64_t)count, &how, torii_flag, &flag);
  return ended(code, &flag, "a reduction", mpi_errno);
}

/* --- exchanges ----------------------------------------------------------------------------- */

/* Elements of a buffer, side by side. */
struct row {
  void* base;
  void* packed; /* memory of its own, if they do not lie so in the buffer; else null */
};

/* `filled`: with what the buffer has. False: there is no memory. */
static bool lay_out(const struct netmod_torii_parts* parts, MPI_Aint count, bool filled,
                    struct row* row) {
  MPI_Aint true_lb, packed;
  size_t bytes;
  int contiguous;
  MPIDI_Datatype_check_contig_size_lb(parts->type, count, contiguous, bytes, true_lb);
  if (likely(contiguous)) {
    row->base = MPIR_get_contig_ptr(parts->buffer, true_lb);
    return true;
  }
  row->base = row->packed = MPL_malloc(bytes, MPL_MEM_BUFFER);
  if (NULL == row->packed) return false;
  if (filled) {
    MPIR_Typerep_pack(parts->buffer, count, parts->type, 0, row->packed, (MPI_Aint)bytes,
                      &packed NETMOD_TORII_TYPEREP_FLAGS);
  }
  return true;
}

static void unpack(const struct row* row, const struct netmod_torii_parts* parts, MPI_Aint count,
                   MPI_Aint bytes) {
  MPI_Aint unpacked;
  MPIR_Typerep_unpack(row->packed, bytes, parts->buffer, count, parts->type, 0,
                      &unpacked NETMOD_TORII_TYPEREP_FLAGS);
}

typedef int exchange_t(torii_group_t* group, const void* in, void* out, uint64_t bytes,
                       torii_done_t done, void* arg);

/* `count` elements of `in` and `all` of `out`; parts of `bytes` bytes. Where there is no memory to
 * pack, Torii gets none: so all members hear of it. */
static bool exchange(exchange_t* function, const struct netmod_torii_parts* in, MPI_Aint count,
                     const struct netmod_torii_parts* out, MPI_Aint all, MPI_Aint bytes,
                     MPIR_Comm* comm, const char* what, int* mpi_errno) {
  const bool in_place = MPI_IN_PLACE == in->buffer;
  struct row from = {NULL, NULL}, to = {NULL, NULL};
  const bool able =
      lay_out(out, all, in_place, &to) && (in_place || lay_out(in, count, true, &from));
  torii_flag_t flag = {.done = 0};
  const int code = function(NETMOD_TORII_COMM(comm)->group, from.base, able ? to.base : NULL,
                            (uint64_t)bytes, torii_flag, &flag);
  const bool served = ended(code, &flag, what, mpi_errno);
  if (NULL != to.packed && served && MPI_SUCCESS == *mpi_errno)
    unpack(&to, out, all, bytes * comm->local_size);
  MPL_free(from.packed);
  MPL_free(to.packed);
  return served;
}

bool netmod_torii_allgather(const struct netmod_torii_parts* in,
                            const struct netmod_torii_parts* out, MPIR_Comm* comm, int* mpi_errno) {
  MPI_Aint size;
  MPIR_Datatype_get_size_macro(out->type, size);
  if (0 == size * out->count || !serves(comm)) return false;
  return exchange(torii_group_allgather, in, in->count, out, out->count * comm->local_size,
                  size * out->count, comm, "an allgather", mpi_errno);
}

bool netmod_torii_alltoall(const struct netmod_torii_parts* in,
                           const struct netmod_torii_parts* out, MPIR_Comm* comm, int* mpi_errno) {
  const MPI_Aint members = comm->local_size;
  MPI_Aint size;
  MPIR_Datatype_get_size_macro(out->type, size);
  if (0 == size * out->count || TORII_ALLTOALL_MAX / (members * members) < size * out->count ||
      !serves(comm))
    return false;
  return exchange(torii_group_alltoall, in, in->count * members, out, out->count * members,
                  size * out->count, comm, "an alltoall", mpi_errno);
}
