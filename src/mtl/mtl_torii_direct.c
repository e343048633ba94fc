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
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/base.h"
#include "opal/class/opal_free_list.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* A receive, from posting until Torii and the program have both done with it. */
typedef struct direct_recv {
  struct ompi_request_t super;
  torii_request_t operation; /* what cancel may withdraw, perhaps over already; 0: over */
  int ends;                  /* of two: it completed, the program gave it back */
} direct_recv_t;

/* What was in front before; pml_send is null while the direct way is closed. */
static mca_pml_base_module_t next;
static opal_free_list_t receives;

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

/* What does not leave at once: longer messages, mostly. */
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

/* Only one thread is there to see it, and no function waits for it. */
static inline bool seen_by_one(const struct ompi_request_t* request) {
  return !opal_using_threads() && NULL == request->req_complete_cb;
}

/* As ompi_request_complete, which is atomic even where there is only one thread. */
static inline void complete(struct ompi_request_t* request, bool by_one) {
  void* waiting = (void*)request->req_complete;
  if (!by_one) {
    ompi_request_complete(request, true);
    return;
  }
  request->req_complete = REQUEST_COMPLETED;
  if (REQUEST_PENDING != waiting) wait_sync_update(waiting, 1, request->req_status.MPI_ERROR);
}

/* The second end makes the request free for another receive. */
static inline void end(direct_recv_t* recv, bool by_one) {
  if (2 != (by_one ? ++recv->ends : __atomic_add_fetch(&recv->ends, 1, __ATOMIC_ACQ_REL))) return;
  OMPI_REQUEST_FINI(&recv->super);
  OBJ_RELEASE(recv->super.req_mpi_object.comm);
  opal_free_list_return(&receives, &recv->super.super);
}

static ALWAYS_INLINE void finish(direct_recv_t* recv, const torii_result_t* result, bool by_one) {
  struct ompi_request_t* request = &recv->super;
  mtl_torii_status(result, mtl_torii_peer_count(request->req_mpi_object.comm),
                   &request->req_status);
  complete(request, by_one);
  end(recv, by_one);
}

static void recv_done(void* arg, const torii_result_t* result) {
  finish(arg, result, seen_by_one(&((direct_recv_t*)arg)->super));
}

/* A function that waits for the request may call Torii, and other threads may wait under locks. */
__attribute__((hot)) static int recv_prompt(void* arg, const torii_result_t* result) {
  if (OPAL_UNLIKELY(!seen_by_one(&((direct_recv_t*)arg)->super))) return 0;
  finish(arg, result, true);
  return 1;
}

/* The message may be here already, and the receive over. */
__attribute__((hot)) static __opal_attribute_noinline__ void receive_any(target_t target,
                                                                         direct_recv_t* recv) {
  torii_result_t result;
  const int code = post_any(target, recv_done, recv, &recv->operation, &result);
  if (TORII_PENDING == code) return;
  mtl_torii_result(code, &result);
  finish(recv, &result, !opal_using_threads());
}

__attribute__((hot)) static int direct_irecv(void* buffer, size_t count,
                                             struct ompi_datatype_t* type, int source, int tag,
                                             struct ompi_communicator_t* comm,
                                             struct ompi_request_t** request) {
  direct_recv_t* recv;
  target_t target;
  if (OPAL_UNLIKELY(!find(buffer, count, type, source, tag, comm, &target)))
    return next.pml_irecv(buffer, count, type, source, tag, comm, request);
  recv = (direct_recv_t*)opal_free_list_get(&receives);
  if (OPAL_UNLIKELY(NULL == recv)) return OMPI_ERR_OUT_OF_RESOURCE;
  OMPI_REQUEST_INIT(&recv->super, false);
  recv->super.req_state = OMPI_REQUEST_ACTIVE;
  recv->super.req_mpi_object.comm = comm;
  recv->super.req_status._cancelled = 0;
  recv->ends = 0;
  OBJ_RETAIN(comm);
  *request = &recv->super;
  recv->operation = post(&target, recv_done, recv);
  if (OPAL_UNLIKELY(0 == recv->operation)) receive_any(target, recv);
  return OMPI_SUCCESS;
}

__attribute__((hot)) static int free_recv(struct ompi_request_t** request) {
  end((direct_recv_t*)*request, !opal_using_threads());
  *request = MPI_REQUEST_NULL;
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
  OBJ_CONSTRUCT(&receives, opal_free_list_t);
  if (OPAL_SUCCESS != opal_free_list_init(&receives, sizeof(direct_recv_t), opal_cache_line_size,
                                          OBJ_CLASS(direct_recv_t), 0, 0, 0, -1, 64, NULL, 0, NULL,
                                          NULL, NULL)) {
    OBJ_DESTRUCT(&receives);
    return;
  }
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
  OBJ_DESTRUCT(&receives);
}
