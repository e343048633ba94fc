/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * One-sided operations on memory that Torii reaches.
 *
 * Memory that is mapped here is copied to and from by the processor, whatever the datatypes;
 * otherwise contiguous data goes by torii_write and torii_read.
 *
 * Accumulates are atomic towards each other if they all go the same way, for MPICH's handlers use
 * no atomic instructions. So it is decided for each window: where every member maps all the others'
 * memory each accumulate, of whatever type and operation, is done by the one who wants it, under
 * the target's mutex; in all other windows each goes to the target by active message.
 */
#include <errno.h>
#include <mpidimpl.h>

#include "torii_impl.h"

#define LOOKED_AT 8 /* completions between two looks at what arrives */

/* --- where ---------------------------------------------------------------------------------- */

/* May this process access the target now? */
static int check_epoch(const struct netmod_torii_access* access) {
  int mpi_errno = MPI_SUCCESS;
  MPIR_Win* win = access->win;
  MPIDIG_RMA_OP_CHECK_SYNC(access->rank, win);
fn_fail:
  return mpi_errno;
}

static int out_of_range(const struct netmod_torii_access* access, uint64_t bytes) {
  char text[128];
  snprintf(text, sizeof text, "ch4:torii: displacement %lld of a window of %llu bytes at rank %d",
           (long long)access->displacement, (unsigned long long)bytes, access->rank);
  return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                              MPI_ERR_RMA_RANGE, "**fail", "%s", text);
}

/* The offset of displacement in the target's memory, where bytes from low on are meant. */
static int check_range(const struct netmod_torii_access* access, const struct netmod_torii_key* key,
                       MPI_Aint low, MPI_Aint bytes, uint64_t* offset) {
  const MPI_Aint begin = access->displacement * key->disp_unit;
  *offset = (uint64_t)begin;
  if (access->displacement < 0 || begin + low < 0 || (MPI_Aint)key->bytes - (begin + low) < bytes) {
    return out_of_range(access, key->bytes);
  }
  return MPI_SUCCESS;
}

/* The same for elements of whatever type. */
static int find_offset(const struct netmod_torii_access* access, const struct netmod_torii_key* key,
                       uint64_t* offset) {
  MPI_Aint low, true_extent, extent;
  MPIR_Type_get_true_extent_impl(access->target_type, &low, &true_extent);
  MPIR_Datatype_get_extent_macro(access->target_type, extent);
  if (extent < 0) { /* types that run backwards are not looked at */
    *offset = (uint64_t)(access->displacement * key->disp_unit);
    return MPI_SUCCESS;
  }
  return check_range(access, key, low, true_extent + (access->target_count - 1) * extent, offset);
}

/* --- transfers that end later --------------------------------------------------------------- */

static int transfer_error(int code) { return netmod_torii_error(code, "a one-sided operation"); }

static void request_done(void* arg, const torii_result_t* result) {
  MPIR_Request* request = arg;
  if (TORII_OK != result->code) request->status.MPI_ERROR = transfer_error(result->code);
  netmod_torii_complete(request);
}

static int end_request(MPIR_Request** request) {
  if (NULL == request) return MPI_SUCCESS;
  *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__RMA);
  return MPI_SUCCESS;
}

/* Operations have begun there that are to be waited for. */
static void began(struct netmod_torii_target* target) {
  if (target->begun) return;
  target->begun = 1;
  target->next = target->window->begun;
  target->window->begun = target;
}

static int start(struct netmod_torii_target* target, uint64_t offset, void* base, uint64_t bytes,
                 bool write, torii_done_t done, void* arg) {
  const int code =
      write ? torii_write(target->import, offset, base, bytes, TORII_COMPLETE_REMOTE, done, arg)
            : torii_read(target->import, offset, base, bytes, done, arg);
  if (TORII_PENDING == code) began(target);
  return code;
}

/* Between contiguous memory and `offset` of the target's; `write` says in which direction. */
static int transfer(struct netmod_torii_target* target, uint64_t offset, void* base, uint64_t bytes,
                    bool write) {
  const int code = start(target, offset, base, bytes, write, NULL, NULL);
  return TORII_OK == code || TORII_PENDING == code ? MPI_SUCCESS : transfer_error(code);
}

/* The same, with a request that ends with it. */
static int transfer_with(MPIR_Request** request, struct netmod_torii_target* target,
                         uint64_t offset, void* base, uint64_t bytes, bool write) {
  MPIR_Request* made;
  int code = write ? torii_write_now(target->import, offset, base, bytes)
                   : torii_read_now(target->import, offset, base, bytes);
  if (TORII_OK == code) return end_request(request);
  made = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RMA, 0, 2);
  if (NULL == made) return netmod_torii_error(TORII_ERR_NO_MEMORY, "a request");
  made->status.MPI_ERROR = MPI_SUCCESS;
  *request = made;
  code = start(target, offset, base, bytes, write, request_done, made);
  if (TORII_PENDING != code) {
    const torii_result_t result = {.code = code};
    request_done(made, &result);
  }
  return MPI_SUCCESS;
}

/* --- put and get ---------------------------------------------------------------------------- */

/* Before this process stores there itself: the next completion is to wait for the stores. */
static void stored(struct netmod_torii_target* target, bool put) {
  if (put) atomic_store_explicit(&target->window->stored, 1, memory_order_relaxed);
}

static int copy(const struct netmod_torii_access* access, char* there, bool put) {
  return put ? MPIR_Localcopy(access->buffer, access->count, access->type, there,
                              access->target_count, access->target_type)
             : MPIR_Localcopy(there, access->target_count, access->target_type, access->buffer,
                              access->count, access->type);
}

/* Between contiguous memory and the target's, of as many bytes. */
static int move_straight(const struct netmod_torii_access* access,
                         struct netmod_torii_target* target, void* base, MPI_Aint low, size_t bytes,
                         bool put, MPIR_Request** request) {
  uint64_t offset;
  int mpi_errno =
      check_range(access, &target->window->keys[access->rank], low, (MPI_Aint)bytes, &offset);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  offset += (uint64_t)low;
  if (NULL != target->mapped) {
    char* const there = target->mapped + offset;
    stored(target, put);
    memcpy(put ? there : base, put ? base : there, bytes);
    return end_request(request);
  }
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
  mpi_errno = NULL == request ? transfer(target, offset, base, bytes, put)
                              : transfer_with(request, target, offset, base, bytes, put);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
  return mpi_errno;
}

static bool move(const struct netmod_torii_access* access, MPIR_Request** request, bool put,
                 int* mpi_errno) {
  struct netmod_torii_target* target = netmod_torii_target(access->win, access->rank);
  int contiguous, target_contiguous;
  size_t bytes, target_bytes;
  MPI_Aint low, target_low;
  uint64_t offset;
  if (NULL == target) return false;
  MPIDI_Datatype_check_contig_size_lb(access->type, access->count, contiguous, bytes, low);
  MPIDI_Datatype_check_contig_size_lb(access->target_type, access->target_count, target_contiguous,
                                      target_bytes, target_low);
  *mpi_errno = check_epoch(access);
  if (MPI_SUCCESS != *mpi_errno) return true;
  if (0 == bytes) {
    *mpi_errno = end_request(request);
    return true;
  }
  if (contiguous && target_contiguous && bytes == target_bytes) {
    *mpi_errno = move_straight(access, target, MPIR_get_contig_ptr(access->buffer, low), target_low,
                               bytes, put, request);
    return true;
  }
  *mpi_errno = find_offset(access, &target->window->keys[access->rank], &offset);
  if (MPI_SUCCESS != *mpi_errno) return true;
  if (NULL == target->mapped) return false;
  stored(target, put);
  *mpi_errno = copy(access, target->mapped + offset, put);
  if (MPI_SUCCESS == *mpi_errno) *mpi_errno = end_request(request);
  return true;
}

bool netmod_torii_put(const struct netmod_torii_access* access, MPIR_Request** request,
                      int* mpi_errno) {
  return move(access, request, true, mpi_errno);
}

bool netmod_torii_get(const struct netmod_torii_access* access, MPIR_Request** request,
                      int* mpi_errno) {
  return move(access, request, false, mpi_errno);
}

/* --- accumulate ----------------------------------------------------------------------------- */

/* One who died with it has left a value behind that is old or new, or in part both. */
static void enter(struct netmod_torii_target* target) {
  stored(target, true);
  if (EOWNERDEAD == pthread_mutex_lock(target->mutex)) pthread_mutex_consistent(target->mutex);
}

static void leave(struct netmod_torii_target* target) { pthread_mutex_unlock(target->mutex); }

/* Null: this operation is not for this file. Else the place, or *mpi_errno. */
static char* place_to_update(const struct netmod_torii_access* access,
                             struct netmod_torii_target* target, int* mpi_errno) {
  uint64_t offset = 0;
  *mpi_errno = check_epoch(access);
  if (MPI_SUCCESS != *mpi_errno) return NULL;
  *mpi_errno = find_offset(access, &target->window->keys[access->rank], &offset);
  return MPI_SUCCESS == *mpi_errno ? target->mapped + offset : NULL;
}

/* Elements of the origin's type; with gaps between them they are packed first. */
static int update(const struct netmod_torii_access* access, char* there, MPI_Op op) {
  MPIR_Datatype* type;
  MPI_Aint bytes, element;
  void* packed;
  int mpi_errno;
  if (MPIR_DATATYPE_IS_PREDEFINED(access->type)) {
    return MPIDIG_compute_acc_op(access->buffer, access->count, access->type, there,
                                 access->target_count, access->target_type, op,
                                 MPIDIG_ACC_SRCBUF_DEFAULT);
  }
  MPIR_Datatype_get_ptr(access->type, type);
  MPIR_Datatype_get_size_macro(type->basic_type, element);
  bytes = type->size * access->count;
  packed = MPL_malloc((size_t)bytes, MPL_MEM_BUFFER);
  if (NULL == packed) return netmod_torii_error(TORII_ERR_NO_MEMORY, "an accumulate");
  mpi_errno = MPIR_Localcopy(access->buffer, access->count, access->type, packed, bytes, MPI_BYTE);
  if (MPI_SUCCESS == mpi_errno) {
    mpi_errno = MPIDIG_compute_acc_op(packed, bytes / element, type->basic_type, there,
                                      access->target_count, access->target_type, op,
                                      MPIDIG_ACC_SRCBUF_PACKED);
  }
  MPL_free(packed);
  return mpi_errno;
}

bool netmod_torii_accumulate(const struct netmod_torii_access* access, MPI_Op op,
                             const struct netmod_torii_old* old, MPIR_Request** request,
                             int* mpi_errno) {
  struct netmod_torii_target* target = netmod_torii_target(access->win, access->rank);
  MPI_Aint size;
  char* there;
  if (NULL == target || NULL == target->mutex) return false;
  MPIR_Datatype_get_size_macro(access->target_type, size);
  if (0 == size * access->target_count) {
    *mpi_errno = check_epoch(access);
  } else if (NULL != (there = place_to_update(access, target, mpi_errno))) {
    enter(target);
    if (NULL != old) {
      *mpi_errno = MPIR_Localcopy(there, access->target_count, access->target_type, old->buffer,
                                  old->count, old->type);
    }
    if (MPI_SUCCESS == *mpi_errno && MPI_NO_OP != op) *mpi_errno = update(access, there, op);
    leave(target);
  }
  if (MPI_SUCCESS == *mpi_errno) *mpi_errno = end_request(request);
  return true;
}

bool netmod_torii_compare_and_swap(const struct netmod_torii_access* access, const void* compare,
                                   void* old, int* mpi_errno) {
  struct netmod_torii_target* target = netmod_torii_target(access->win, access->rank);
  MPI_Aint size;
  char* there;
  if (NULL == target || NULL == target->mutex) return false;
  there = place_to_update(access, target, mpi_errno);
  if (NULL == there) return true;
  MPIR_Datatype_get_size_macro(access->type, size);
  enter(target);
  memcpy(old, there, (size_t)size);
  if (0 == memcmp(old, compare, (size_t)size)) memcpy(there, access->buffer, (size_t)size);
  leave(target);
  return true;
}

/* --- completion ----------------------------------------------------------------------------- */

/* Waits for the operations there that had no request; the error is that of one that failed. If
 * progress fails, which another process may be the reason of, they go on. */
static int complete_target(struct netmod_torii_target* target, bool* over) {
  int mpi_errno = MPI_SUCCESS, code = TORII_OK;
  *over = false;
  MPIDIU_PROGRESS_WHILE(TORII_PENDING == (code = torii_import_test(target->import)), 0);
  *over = true;
  if (TORII_OK != code) mpi_errno = transfer_error(code);
fn_fail:
  return mpi_errno;
}

/* Progress lets other threads in, which may begin and complete others meanwhile. */
static int complete_targets(struct netmod_torii_window* window) {
  int all = MPI_SUCCESS;
  struct netmod_torii_target* target;
  bool over = true;
  while (over && NULL != (target = window->begun)) {
    const int mpi_errno = complete_target(target, &over);
    if (MPI_SUCCESS == all) all = mpi_errno;
    if (!over || target != window->begun) continue;
    window->begun = target->next;
    target->begun = 0;
  }
  return all;
}

/* Loads from mapped memory, and stores to it, were made before all that comes next. A thread that
 * still stores would find the flag cleared by another one. */
static void order_accesses(struct netmod_torii_window* window) {
  if (!atomic_load_explicit(&window->stored, memory_order_relaxed)) {
    atomic_thread_fence(memory_order_acq_rel);
    return;
  }
  if (!MPIR_IS_THREADED) atomic_store_explicit(&window->stored, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
}

/* MPICH asks for progress once more after this. A program that completes one operation after the
 * other spends much of the time of each on that: now and then is enough. */
static int complete_window(MPIR_Win* win, int rank) {
  struct netmod_torii_window* window = NETMOD_TORII_WINDOW(win);
  int mpi_errno = MPI_SUCCESS;
  bool over;
  if (NULL == window) {
    atomic_thread_fence(memory_order_seq_cst);
  } else {
    order_accesses(window);
    MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
    if (rank < 0) {
      mpi_errno = complete_targets(window);
    } else if (window->targets[rank].begun) {
      mpi_errno = complete_target(&window->targets[rank], &over);
    }
    MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
  }
  MPIDI_TORII_global.next =
      ++MPIDI_TORII_global.completions % LOOKED_AT ? NETMOD_TORII_PASSES : NETMOD_TORII_LOOKS;
  return mpi_errno;
}

int netmod_torii_complete_all(MPIR_Win* win) { return complete_window(win, -1); }

int netmod_torii_complete_to(int rank, MPIR_Win* win) { return complete_window(win, rank); }
