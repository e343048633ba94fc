/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Messages: send, receive, probe, cancel. A completion callback may recycle its request and may
 * call back into this module: it is the last thing done with a request, here and in Torii.
 */
#include <sched.h>

#include "mtl_torii.h"
#include "mtl_torii_data.h"

#define POLLS 8 /* between two looks at the rest of Open MPI */

static inline torii_mode_t torii_mode(mca_pml_base_send_mode_t mode) {
  if (OPAL_LIKELY(MCA_PML_BASE_SEND_STANDARD == mode)) return TORII_STANDARD;
  if (MCA_PML_BASE_SEND_SYNCHRONOUS == mode) return TORII_SYNCHRONOUS;
  return MCA_PML_BASE_SEND_READY == mode ? TORII_READY : TORII_STANDARD;
}

/* --- send ---------------------------------------------------------------------------------- */

/* Most messages are small and contiguous and leave at once. */
static inline bool sent_now(torii_peer_t* peer, struct ompi_communicator_t* comm, int tag,
                            const struct opal_convertor_t* convertor,
                            mca_pml_base_send_mode_t mode) {
  return OPAL_LIKELY(MCA_PML_BASE_SEND_STANDARD == mode && mtl_torii_contiguous(convertor)) &&
         TORII_OK == torii_send_now(mtl_torii.port, peer, mtl_torii_tag(comm, tag),
                                    (uint32_t)ompi_comm_rank(comm), mtl_torii_base(convertor),
                                    convertor->local_size);
}

static inline bool is_set(const torii_flag_t* flag) {
  return 0 != __atomic_load_n(&flag->done, __ATOMIC_ACQUIRE);
}

void mtl_torii_await(const torii_flag_t* flag) {
  while (!is_set(flag)) {
    for (int i = 0; i < POLLS; ++i) {
      const int events = torii_wait_first(mtl_torii.ni);
      if (is_set(flag)) return;
      if (events > 0) torii_wait_step(mtl_torii.ni);
    }
    opal_progress();
    torii_give_way(mtl_torii.ni);
  }
}

int mtl_torii_send_data(torii_peer_t* peer, struct ompi_communicator_t* comm, int tag,
                        const torii_data_t* data, mca_pml_base_send_mode_t mode) {
  torii_flag_t send;
  int code;
  send.done = 0;
  code = torii_send(mtl_torii.port, peer, torii_mode(mode), mtl_torii_tag(comm, tag),
                    (uint32_t)ompi_comm_rank(comm), data, torii_flag, &send, NULL);
  if (OPAL_LIKELY(TORII_OK == code)) return OMPI_SUCCESS;
  if (TORII_PENDING == code) {
    mtl_torii_await(&send);
    code = send.result.code;
  }
  return TORII_OK == code ? OMPI_SUCCESS : mtl_torii_error(code);
}

__opal_attribute_noinline__ static int send_and_wait(torii_peer_t* peer,
                                                     struct ompi_communicator_t* comm, int tag,
                                                     struct opal_convertor_t* convertor,
                                                     mca_pml_base_send_mode_t mode) {
  struct mtl_torii_stream stream;
  torii_data_t data;
  mtl_torii_describe(convertor, &stream, &data);
  return mtl_torii_send_data(peer, comm, tag, &data, mode);
}

int mtl_torii_send(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int dest,
                   int tag, struct opal_convertor_t* convertor, mca_pml_base_send_mode_t mode) {
  int code = MPI_SUCCESS;
  torii_peer_t* peer = mtl_torii_peer(comm, dest, &code);
  (void)mtl;
  if (OPAL_UNLIKELY(NULL == peer)) return code;
  if (OPAL_LIKELY(sent_now(peer, comm, tag, convertor, mode))) return OMPI_SUCCESS;
  return send_and_wait(peer, comm, tag, convertor, mode);
}

/* pml/cm says that a send is complete before it has done with the request; who frees it in between,
 * in another thread, frees it twice or never. */
static int callbacks;                  /* of sends that run in any thread */
static __thread int callbacks_of_mine; /* in this one */

/* The pml's request may have been another message's: Open MPI frees those that have an error when
 * any fails, pending or not. */
static inline void begin(struct mtl_torii_request* request) {
  request->super.ompi_req->req_status.MPI_ERROR = MPI_SUCCESS;
  request->operation = 0;
}

static void finish_send(struct mtl_torii_request* request, int error) {
  request->super.ompi_req->req_status.MPI_ERROR = error;
  if (OPAL_LIKELY(!opal_using_threads())) {
    request->super.completion_callback(&request->super);
    return;
  }
  ++callbacks_of_mine;
  __atomic_add_fetch(&callbacks, 1, __ATOMIC_ACQ_REL);
  request->super.completion_callback(&request->super);
  __atomic_sub_fetch(&callbacks, 1, __ATOMIC_ACQ_REL);
  --callbacks_of_mine;
}

void mtl_torii_await_callbacks(void) {
  while (OPAL_UNLIKELY(__atomic_load_n(&callbacks, __ATOMIC_ACQUIRE) > callbacks_of_mine)) {
    sched_yield();
  }
}

static void isend_done(void* arg, const torii_result_t* result) {
  struct mtl_torii_request* request = arg;
  int error = MPI_SUCCESS;
  if (OPAL_UNLIKELY(TORII_OK != result->code)) error = mtl_torii_error(result->code);
  finish_send(request, error);
}

/* Errors complete the request: pml/cm keeps requests (and buffers of buffered sends) of an isend
 * that returns one. */
int mtl_torii_isend(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int dest,
                    int tag, struct opal_convertor_t* convertor, mca_pml_base_send_mode_t mode,
                    bool blocking, struct mca_mtl_request_t* mtl_request) {
  struct mtl_torii_request* request = (struct mtl_torii_request*)mtl_request;
  int code = MPI_SUCCESS;
  torii_peer_t* peer = mtl_torii_peer(comm, dest, &code);
  torii_data_t data;
  (void)mtl;
  (void)blocking;
  begin(request);
  if (OPAL_UNLIKELY(NULL == peer)) {
    finish_send(request, code);
    return OMPI_SUCCESS;
  }
  if (OPAL_LIKELY(sent_now(peer, comm, tag, convertor, mode))) {
    finish_send(request, MPI_SUCCESS);
    return OMPI_SUCCESS;
  }
  mtl_torii_describe(convertor, &request->stream, &data);
  code = torii_send(mtl_torii.port, peer, torii_mode(mode), mtl_torii_tag(comm, tag),
                    (uint32_t)ompi_comm_rank(comm), &data, isend_done, request, NULL);
  if (OPAL_LIKELY(TORII_OK == code)) {
    finish_send(request, MPI_SUCCESS);
  } else if (TORII_PENDING != code) {
    finish_send(request, mtl_torii_error(code));
  }
  return OMPI_SUCCESS;
}

/* --- receive ------------------------------------------------------------------------------- */

static void finish_recv(struct mtl_torii_request* request, const torii_result_t* result) {
  mtl_torii_status(result, request->peers, &request->super.ompi_req->req_status);
  request->super.completion_callback(&request->super);
}

static void recv_done(void* arg, const torii_result_t* result) { finish_recv(arg, result); }

static void finish_recv_now(struct mtl_torii_request* request, int code, torii_result_t* result) {
  mtl_torii_result(code, result);
  finish_recv(request, result);
}

int mtl_torii_irecv(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                    int tag, struct opal_convertor_t* convertor,
                    struct mca_mtl_request_t* mtl_request) {
  struct mtl_torii_request* request = (struct mtl_torii_request*)mtl_request;
  const struct mtl_torii_pattern pattern = mtl_torii_pattern(comm, tag);
  torii_peer_t* source = NULL;
  torii_result_t result;
  torii_data_t data;
  int code = MPI_SUCCESS;
  (void)mtl;
  if (MPI_ANY_SOURCE != src) {
    source = mtl_torii_peer(comm, src, &code);
    if (OPAL_UNLIKELY(NULL == source)) return code;
  }
  begin(request);
  request->peers = mtl_torii_peer_count(comm);
  mtl_torii_describe(convertor, &request->stream, &data);
  result.code = TORII_PENDING;
  code = torii_recv(mtl_torii.port, source, pattern.bits, pattern.ignore, &data, recv_done, request,
                    &request->operation, &result);
  if (TORII_PENDING != code) finish_recv_now(request, code, &result);
  return OMPI_SUCCESS;
}

/* --- probe --------------------------------------------------------------------------------- */

/* The source that a probe asks for; null: anyone, or an error. */
static torii_peer_t* wanted_source(struct ompi_communicator_t* comm, int src, int* code) {
  *code = OMPI_SUCCESS;
  return MPI_ANY_SOURCE == src ? NULL : mtl_torii_peer(comm, src, code);
}

static int fill_probe_status(struct ompi_communicator_t* comm, const torii_result_t* result,
                             struct ompi_status_public_t* status) {
  if (result->user >= mtl_torii_peer_count(comm)) return mtl_torii_error(TORII_ERR_CORRUPT);
  if (MPI_STATUS_IGNORE == status) return OMPI_SUCCESS;
  status->MPI_SOURCE = (int)result->user;
  status->MPI_TAG = (int)(uint32_t)result->tag;
  status->_ucount = result->sent_bytes;
  status->_cancelled = 0;
  return OMPI_SUCCESS;
}

int mtl_torii_iprobe(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                     int tag, int* flag, struct ompi_status_public_t* status) {
  const struct mtl_torii_pattern pattern = mtl_torii_pattern(comm, tag);
  torii_result_t result;
  int code;
  torii_peer_t* source = wanted_source(comm, src, &code);
  (void)mtl;
  if (OMPI_SUCCESS != code) return code;
  *flag = 0;
  code = torii_probe(mtl_torii.port, source, pattern.bits, pattern.ignore, &result);
  if (TORII_EMPTY == code) {
    opal_progress();
    code = torii_probe(mtl_torii.port, source, pattern.bits, pattern.ignore, &result);
  }
  if (TORII_EMPTY == code) return OMPI_SUCCESS;
  if (TORII_OK != code) return mtl_torii_error(code);
  *flag = 1;
  return fill_probe_status(comm, &result, status);
}

int mtl_torii_improbe(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                      int tag, int* matched, struct ompi_message_t** message,
                      struct ompi_status_public_t* status) {
  const struct mtl_torii_pattern pattern = mtl_torii_pattern(comm, tag);
  torii_result_t result;
  torii_message_t* taken = NULL;
  ompi_message_t* envelope;
  int code;
  torii_peer_t* source = wanted_source(comm, src, &code);
  (void)mtl;
  if (OMPI_SUCCESS != code) return code;
  *matched = 0;
  envelope = ompi_message_alloc();
  if (NULL == envelope) return OMPI_ERR_OUT_OF_RESOURCE;
  code = torii_mprobe(mtl_torii.port, source, pattern.bits, pattern.ignore, &taken, &result);
  if (TORII_EMPTY == code) {
    opal_progress();
    code = torii_mprobe(mtl_torii.port, source, pattern.bits, pattern.ignore, &taken, &result);
  }
  if (TORII_OK != code) {
    ompi_message_return(envelope);
    return TORII_EMPTY == code ? OMPI_SUCCESS : mtl_torii_error(code);
  }
  envelope->comm = comm;
  envelope->req_ptr = taken;
  envelope->peer = (int)result.user;
  envelope->count = result.sent_bytes;
  *message = envelope;
  *matched = 1;
  return fill_probe_status(comm, &result, status);
}

int mtl_torii_imrecv(struct mca_mtl_base_module_t* mtl, struct opal_convertor_t* convertor,
                     struct ompi_message_t** message, struct mca_mtl_request_t* mtl_request) {
  struct mtl_torii_request* request = (struct mtl_torii_request*)mtl_request;
  torii_message_t* taken = (*message)->req_ptr;
  torii_result_t result;
  torii_data_t data;
  int code;
  (void)mtl;
  request->peers = mtl_torii_peer_count((*message)->comm);
  ompi_message_return(*message);
  *message = MPI_MESSAGE_NULL;
  begin(request);
  mtl_torii_describe(convertor, &request->stream, &data);
  result.code = TORII_PENDING;
  code = torii_mrecv(mtl_torii.port, taken, &data, recv_done, request, NULL, &result);
  if (TORII_PENDING != code) finish_recv_now(request, code, &result);
  return OMPI_SUCCESS;
}

/* Withdraws a receive that is still unmatched. A send is never withdrawn: its operation is 0,
 * which Torii does not know. */
int mtl_torii_cancel(struct mca_mtl_base_module_t* mtl, struct mca_mtl_request_t* mtl_request,
                     int flag) {
  struct mtl_torii_request* request = (struct mtl_torii_request*)mtl_request;
  (void)mtl;
  (void)flag;
  if (0 != request->operation) torii_cancel(mtl_torii.ni, request->operation);
  return OMPI_SUCCESS;
}
