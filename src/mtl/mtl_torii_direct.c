/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The direct way of messages in one piece, around pml/cm.
 *
 * For every message pml/cm prepares a convertor and, unless it is a blocking send, a request of
 * some 500 bytes, before this component sees it. Memory in one piece needs neither. So the
 * component puts itself in front of the four functions of the selected pml that carry most
 * messages, as Open MPI's own pml/monitoring does, and hands everything else on to pml/cm.
 */
#include <string.h>

#include "mtl_torii.h"
#include "mtl_torii_pool.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/base.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* A receive, from posting until Torii and the program have both done with it. */
typedef struct direct_recv {
  struct ompi_request_t super;
  torii_request_t operation; /* what cancel may withdraw, perhaps over already; 0: over */
} direct_recv_t;

/* The program gave the request back before it was complete: in place of REQUEST_PENDING. */
static char abandoned;
#define ABANDONED ((void*)&abandoned)

/* The PML that was in front before; pml_send is null while the direct way is closed. */
static mca_pml_base_module_t next;

static inline bool in_one_piece(struct ompi_datatype_t* type, size_t count) {
  return OPAL_LIKELY(opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)count));
}

static inline torii_peer_t* known_peer(struct ompi_communicator_t* comm, int rank) {
  struct ompi_proc_t* proc = ompi_comm_peer_lookup(comm, rank);
  return (torii_peer_t*)proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
}

/* --- send ---------------------------------------------------------------------------------- */

static inline bool sent_now(const void* buffer, size_t count, struct ompi_datatype_t* type,
                            int destination, int tag, mca_pml_base_send_mode_t mode,
                            struct ompi_communicator_t* comm) {
  torii_peer_t* peer;
  if (OPAL_UNLIKELY(MCA_PML_BASE_SEND_STANDARD != mode || !in_one_piece(type, count))) return false;
  peer = known_peer(comm, destination);
  return OPAL_LIKELY(NULL != peer) &&
         TORII_OK == torii_send_now(mtl_torii.port, peer, mtl_torii_tag(comm, tag),
                                    (uint32_t)ompi_comm_rank(comm),
                                    (const char*)buffer + type->super.true_lb,
                                    count * type->super.size);
}

/* For messages that do not leave at once: longer ones, mostly. */
static __opal_attribute_noinline__ int send_later(const void* buffer, size_t count,
                                                  struct ompi_datatype_t* type, int destination,
                                                  int tag, mca_pml_base_send_mode_t mode,
                                                  struct ompi_communicator_t* comm) {
  torii_peer_t* peer;
  torii_data_t data;
  if (MCA_PML_BASE_SEND_STANDARD != mode || !in_one_piece(type, count) ||
      NULL == (peer = known_peer(comm, destination))) {
    return next.pml_send(buffer, count, type, destination, tag, mode, comm);
  }
  data.layout = TORII_CONTIGUOUS;
  data.base = (char*)buffer + type->super.true_lb;
  data.bytes = count * type->super.size;
  return mtl_torii_send_data(peer, comm, tag, &data, mode);
}

__attribute__((hot)) static int direct_send(const void* buffer, size_t count,
                                            struct ompi_datatype_t* type, int destination, int tag,
                                            mca_pml_base_send_mode_t mode,
                                            struct ompi_communicator_t* comm) {
  if (sent_now(buffer, count, type, destination, tag, mode, comm)) return OMPI_SUCCESS;
  return send_later(buffer, count, type, destination, tag, mode, comm);
}

/* All that the status of a send says is that it was not cancelled. */
static int direct_isend(const void* buffer, size_t count, struct ompi_datatype_t* type,
                        int destination, int tag, mca_pml_base_send_mode_t mode,
                        struct ompi_communicator_t* comm, struct ompi_request_t** request) {
  if (sent_now(buffer, count, type, destination, tag, mode, comm)) {
    *request = &ompi_request_empty;
    return OMPI_SUCCESS;
  }
  return next.pml_isend(buffer, count, type, destination, tag, mode, comm, request);
}

/* --- receive ------------------------------------------------------------------------------- */

/* Where a receive goes, and what it is told to. */
typedef struct target {
  torii_peer_t* peer;
  struct mtl_torii_pattern pattern;
  void* base;
  size_t bytes;
} target_t;

/* False: it is one for pml/cm. */
static ALWAYS_INLINE bool find(void* buffer, size_t count, struct ompi_datatype_t* type, int source,
                               int tag, struct ompi_communicator_t* comm, target_t* target) {
  if (OPAL_UNLIKELY(!in_one_piece(type, count))) return false;
  target->peer = MPI_ANY_SOURCE == source ? NULL : known_peer(comm, source);
  target->pattern = mtl_torii_pattern(comm, tag);
  target->base = (char*)buffer + type->super.true_lb;
  target->bytes = count * type->super.size;
  return OPAL_LIKELY(NULL != target->peer || MPI_ANY_SOURCE == source);
}

/* 0: not with a message that is here already. */
static ALWAYS_INLINE torii_request_t post(const target_t* to, torii_done_t done, void* arg) {
  return torii_post(mtl_torii.port, to->peer, to->pattern.bits, to->pattern.ignore, to->base,
                    to->bytes, done, arg);
}

/* The other way, for any; returns as torii_recv. */
__attribute__((hot)) static __opal_attribute_noinline__ int post_any(target_t to, torii_done_t done,
                                                                     void* arg,
                                                                     torii_request_t* operation,
                                                                     torii_result_t* result) {
  const torii_data_t data = {.layout = TORII_CONTIGUOUS, .base = to.base, .bytes = to.bytes};
  return torii_recv(mtl_torii.port, to.peer, to.pattern.bits, to.pattern.ignore, &data, done, arg,
                    operation, result);
}

static int direct_recv(void* buffer, size_t count, struct ompi_datatype_t* type, int source,
                       int tag, struct ompi_communicator_t* comm, ompi_status_public_t* status) {
  torii_flag_t recv;
  target_t target;
  ompi_status_public_t found;
  int code = TORII_PENDING;
  if (OPAL_UNLIKELY(!find(buffer, count, type, source, tag, comm, &target)))
    return next.pml_recv(buffer, count, type, source, tag, comm, status);
  recv.done = 0;
  if (OPAL_UNLIKELY(0 == post(&target, torii_flag, &recv)))
    code = post_any(target, torii_flag, &recv, NULL, &recv.result);
  if (OPAL_LIKELY(TORII_PENDING == code)) {
    mtl_torii_await(&recv);
  } else {
    mtl_torii_result(code, &recv.result);
  }
  mtl_torii_status(&recv.result, mtl_torii_peer_count(comm), &found);
  if (MPI_STATUS_IGNORE != status) OMPI_COPY_STATUS(status, found, false);
  return found.MPI_ERROR;
}

/* The second end of a receive, of completion and the program's giving it back. */
static ALWAYS_INLINE void recycle(direct_recv_t* recv) {
  OMPI_REQUEST_FINI(&recv->super);
  OBJ_RELEASE(recv->super.req_mpi_object.comm);
  mtl_torii_pool_put(&recv->super.super);
}

/* Nobody waits for the request by a function. */
static inline bool unobserved(const struct ompi_request_t* request) {
  return NULL == request->req_complete_cb;
}

/* Where only one thread is there to see it, and no function waits for it. False: nothing happened,
 * because the program has given the request back. */
static ALWAYS_INLINE bool complete_alone(struct ompi_request_t* request) {
  void* const was = (void*)request->req_complete;
  if (OPAL_UNLIKELY(ABANDONED == was)) return false;
  request->req_complete = REQUEST_COMPLETED;
  if (OPAL_UNLIKELY(REQUEST_PENDING != was))
    wait_sync_update((ompi_wait_sync_t*)was, 1, request->req_status.MPI_ERROR);
  return true;
}

/* False: it was not pending any more, *was tells what it was. Afterwards it may be another
 * receive's already. */
static ALWAYS_INLINE bool move_on(struct ompi_request_t* request, void* to, void** was) {
  *was = REQUEST_PENDING;
  return __atomic_compare_exchange_n((void**)&request->req_complete, was, to, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* As ompi_request_complete. */
static void complete_any(struct ompi_request_t* request) {
  const ompi_request_complete_fn_t callback = request->req_complete_cb;
  void* was;
  if (NULL != callback) {
    request->req_complete_cb = NULL;
    (void)callback(request); /* not 0: it has given the request back */
  }
  if (move_on(request, REQUEST_COMPLETED, &was)) return;
  if (ABANDONED == was) {
    recycle((direct_recv_t*)request);
    return;
  }
  was = __atomic_exchange_n((void**)&request->req_complete, REQUEST_COMPLETED, __ATOMIC_ACQ_REL);
  if (REQUEST_PENDING != was)
    wait_sync_update((ompi_wait_sync_t*)was, 1, request->req_status.MPI_ERROR);
}

static ALWAYS_INLINE void fill_status(struct ompi_request_t* request,
                                      const torii_result_t* result) {
  mtl_torii_status(result, mtl_torii_peer_count(request->req_mpi_object.comm),
                   &request->req_status);
}

static void recv_done(void* arg, const torii_result_t* result) {
  struct ompi_request_t* request = arg;
  fill_status(request, result);
  if (opal_using_threads() || !unobserved(request) || !complete_alone(request))
    complete_any(request);
}

/* A function that waits for the request may call Torii, as may the end of a communicator that only
 * the request kept; and other threads may wait under locks of Open MPI. */
__attribute__((hot)) static int recv_prompt(void* arg, const torii_result_t* result) {
  struct ompi_request_t* request = arg;
  void* was;
  if (OPAL_UNLIKELY(!unobserved(request))) return 0;
  fill_status(request, result);
  return opal_using_threads() ? move_on(request, REQUEST_COMPLETED, &was) : complete_alone(request);
}

/* The message may be here already, and the receive over. */
__attribute__((hot)) static __opal_attribute_noinline__ void receive_any(target_t target,
                                                                         direct_recv_t* recv) {
  torii_result_t result;
  const int code = post_any(target, recv_done, recv, &recv->operation, &result);
  if (TORII_PENDING == code) return;
  mtl_torii_result(code, &result);
  recv_done(recv, &result);
}

__attribute__((hot)) static int direct_irecv(void* buffer, size_t count,
                                             struct ompi_datatype_t* type, int source, int tag,
                                             struct ompi_communicator_t* comm,
                                             struct ompi_request_t** request) {
  direct_recv_t* recv;
  target_t target;
  if (OPAL_UNLIKELY(!find(buffer, count, type, source, tag, comm, &target)))
    return next.pml_irecv(buffer, count, type, source, tag, comm, request);
  recv = (direct_recv_t*)mtl_torii_pool_get();
  if (OPAL_UNLIKELY(NULL == recv)) return OMPI_ERR_OUT_OF_RESOURCE;
  OMPI_REQUEST_INIT(&recv->super, false);
  recv->super.req_state = OMPI_REQUEST_ACTIVE;
  recv->super.req_mpi_object.comm = comm;
  /* Open MPI frees requests that have an error when another one fails, pending or not. */
  recv->super.req_status.MPI_ERROR = MPI_SUCCESS;
  recv->super.req_status._cancelled = 0;
  OBJ_RETAIN(comm);
  *request = &recv->super;
  recv->operation = post(&target, recv_done, recv);
  if (OPAL_UNLIKELY(0 == recv->operation)) receive_any(target, recv);
  return OMPI_SUCCESS;
}

__attribute__((hot)) static int free_recv(struct ompi_request_t** request) {
  direct_recv_t* recv = (direct_recv_t*)*request;
  void* was = __atomic_load_n((void**)&recv->super.req_complete, __ATOMIC_ACQUIRE);
  *request = MPI_REQUEST_NULL;
  if (REQUEST_COMPLETED != was && move_on(&recv->super, ABANDONED, &was)) return OMPI_SUCCESS;
  if (OPAL_LIKELY(REQUEST_COMPLETED == was)) recycle(recv);
  return OMPI_SUCCESS;
}

static int cancel_recv(struct ompi_request_t* request, int flag) {
  direct_recv_t* recv = (direct_recv_t*)request;
  (void)flag;
  if (0 != recv->operation) torii_cancel(mtl_torii.ni, recv->operation);
  return OMPI_SUCCESS;
}

static void construct_recv(direct_recv_t* recv) {
  recv->super.req_type = OMPI_REQUEST_PML;
  recv->super.req_start = NULL;
  recv->super.req_free = free_recv;
  recv->super.req_cancel = cancel_recv;
}

static OBJ_CLASS_INSTANCE(direct_recv_t, ompi_request_t, construct_recv, NULL);

/* --- opening and closing the way ----------------------------------------------------------- */

/* Only in front of pml/cm itself: a layer that counts or records messages must see them all. */
void mtl_torii_open_direct(void) {
  const char* selected = mca_pml_base_selected_component.pmlm_version.mca_component_name;
  if (NULL != next.pml_send || 0 != strcmp("cm", selected)) return;
  if (!mtl_torii_open_pool(sizeof(direct_recv_t), OBJ_CLASS(direct_recv_t))) return;
  torii_port_prompt(mtl_torii.port, recv_done, recv_prompt);
  next = mca_pml;
  mca_pml.pml_send = direct_send;
  mca_pml.pml_isend = direct_isend;
  mca_pml.pml_recv = direct_recv;
  mca_pml.pml_irecv = direct_irecv;
}

void mtl_torii_close_direct(void) {
  if (NULL == next.pml_send) return;
  if (direct_send == mca_pml.pml_send) {
    mca_pml.pml_send = next.pml_send;
    mca_pml.pml_isend = next.pml_isend;
    mca_pml.pml_recv = next.pml_recv;
    mca_pml.pml_irecv = next.pml_irecv;
  }
  next.pml_send = NULL;
  mtl_torii_close_pool();
}
