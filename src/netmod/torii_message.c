/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * MPI's messages: what torii_message.h does not do inline. A callback may free its request: that
 * is the last thing done with it.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

/* --- send ---------------------------------------------------------------------------------- */

static void finish_send(MPIR_Request* request, int code) {
  netmod_torii_stream_free(NETMOD_TORII_REQUEST(request).stream);
  if (unlikely(TORII_ERR_CANCELED == code)) {
    MPIR_STATUS_SET_CANCEL_BIT(request->status, TRUE);
  } else if (unlikely(TORII_OK != code)) {
    request->status.MPI_ERROR = netmod_torii_error(code, "a message was not sent");
  }
  netmod_torii_complete(request);
}

static void send_done(void* arg, const torii_result_t* result) {
  --NETMOD_TORII_VCI(MPIDI_Request_get_vci((MPIR_Request*)arg))->pending;
  finish_send(arg, result->code);
}

int netmod_torii_isend(const void* buffer, MPI_Aint count, MPI_Datatype datatype, int tag,
                       MPIR_Comm* comm, int context_offset, MPIDI_av_entry_t* av, int vci,
                       torii_mode_t mode, MPIR_Request** request) {
  int mpi_errno = MPI_SUCCESS;
  MPIR_Request* req = *request;
  torii_peer_t* peer = netmod_torii_peer(av, vci, &mpi_errno);
  struct netmod_torii_stream* stream = NULL;
  torii_data_t data;
  int code;
  MPIR_ERR_CHECK(mpi_errno);
  mpi_errno = netmod_torii_describe(buffer, count, datatype, &data, &stream);
  MPIR_ERR_CHECK(mpi_errno);
  if (NULL == req) {
    req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, vci, 2);
    MPIR_ERR_CHKANDSTMT(NULL == req, mpi_errno, MPIX_ERR_NOREQ, goto fn_fail, "**nomemreq");
  } else {
    MPIR_Request_add_ref(req);
  }
  NETMOD_TORII_REQUEST(req).stream = stream;
  NETMOD_TORII_REQUEST(req).operation = 0;
  *request = req;
  ++NETMOD_TORII_VCI(MPIDI_Request_get_vci(req))->pending;
  code = torii_send(NETMOD_TORII_VCI(vci)->port, peer, mode,
                    netmod_torii_tag(comm->context_id + context_offset, tag), (uint32_t)comm->rank,
                    &data, send_done, req, &NETMOD_TORII_REQUEST(req).operation);
  if (TORII_PENDING != code) {
    --NETMOD_TORII_VCI(MPIDI_Request_get_vci(req))->pending;
    finish_send(req, code);
  }
fn_exit:
  return mpi_errno;
fn_fail:
  netmod_torii_stream_free(stream);
  goto fn_exit;
}

/* --- receive ------------------------------------------------------------------------------- */

/* Bits of the tag that are MPI's; the error bits are read by MPICH's collectives. */
static void fill_status(MPI_Status* status, const torii_result_t* result, uint64_t bytes) {
  status->MPI_SOURCE = (int)result->user;
  status->MPI_TAG = (int)(uint32_t)result->tag;
  MPIR_STATUS_SET_COUNT(*status, (MPI_Aint)bytes);
}

static int truncated(const torii_result_t* result) {
  return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                              MPI_ERR_TRUNCATE, "**truncate", "**truncate %d %d %d %d",
                              (int)result->user, (int)(uint32_t)result->tag, (int)result->bytes,
                              (int)result->sent_bytes);
}

static void fail_recv(MPIR_Request* request, const torii_result_t* result, int wrong_elements) {
  if (TORII_ERR_CANCELED == result->code) {
    MPIR_STATUS_SET_CANCEL_BIT(request->status, TRUE);
  } else if (TORII_ERR_TRUNCATED == result->code) {
    fill_status(&request->status, result, result->bytes);
    request->status.MPI_ERROR = truncated(result);
  } else if (TORII_OK != result->code) {
    request->status.MPI_ERROR = netmod_torii_error(result->code, "a message was not received");
  } else if (wrong_elements) {
    request->status.MPI_ERROR = MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__,
                                                     __LINE__, MPI_ERR_TYPE, "**dtypemismatch", 0);
  } else {
    request->status.MPI_ERROR = netmod_torii_error(TORII_ERR_CORRUPT, "a sender's rank");
  }
}

void netmod_torii_recv_done(void* arg, const torii_result_t* result) {
  MPIR_Request* request = arg;
  int wrong_elements = 0;
  if (unlikely(NULL != NETMOD_TORII_REQUEST(request).stream)) {
    wrong_elements = netmod_torii_stream_free(NETMOD_TORII_REQUEST(request).stream);
  }
  request->status.MPI_ERROR = MPI_SUCCESS;
  if (likely(TORII_OK == result->code && !wrong_elements &&
             result->user < (uint32_t)NETMOD_TORII_REQUEST(request).peers)) {
    fill_status(&request->status, result, result->bytes);
  } else {
    fail_recv(request, result, wrong_elements);
  }
  netmod_torii_complete(request);
}

/* To free the request must not lead to anything that calls Torii, as the end of a communicator may.
 */
int netmod_torii_recv_prompt(void* arg, const torii_result_t* result) {
  MPIR_Request* request = arg;
  if (unlikely(NULL != request->comm || NULL != NETMOD_TORII_REQUEST(request).stream)) return 0;
  netmod_torii_recv_done(request, result);
  return 1;
}

/* A receive that ended at once; code is what torii_recv or torii_mrecv returned. */
static void recv_ended(MPIR_Request* request, int code, torii_result_t* result) {
  if (unlikely(TORII_OK != code && result->code != code)) { /* nothing was matched */
    *result = (torii_result_t){.code = code};
  }
  netmod_torii_recv_done(request, result);
}

int netmod_torii_irecv(void* buffer, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                       MPIR_Comm* comm, int context_offset, MPIDI_av_entry_t* av, int vci,
                       MPIR_Request* request) {
  int mpi_errno = MPI_SUCCESS;
  torii_peer_t* source = NULL;
  torii_data_t data;
  torii_result_t result;
  int code;
  if (MPI_ANY_SOURCE != rank) {
    source = netmod_torii_peer(av, vci, &mpi_errno);
    if (unlikely(NULL == source)) return mpi_errno;
  }
  mpi_errno =
      netmod_torii_describe(buffer, count, datatype, &data, &NETMOD_TORII_REQUEST(request).stream);
  if (unlikely(MPI_SUCCESS != mpi_errno)) return mpi_errno;
  result.code = TORII_PENDING;
  code = torii_recv(
      NETMOD_TORII_VCI(vci)->port, source,
      netmod_torii_tag(comm->recvcontext_id + context_offset, MPI_ANY_TAG == tag ? 0 : tag),
      MPI_ANY_TAG == tag ? MPIDI_TORII_global.ignore_any : MPIDI_TORII_global.ignore, &data,
      netmod_torii_recv_done, request, &NETMOD_TORII_REQUEST(request).operation, &result);
  if (TORII_PENDING != code) recv_ended(request, code, &result);
  return MPI_SUCCESS;
}

int netmod_torii_imrecv(void* buffer, MPI_Aint count, MPI_Datatype datatype, int vci,
                        MPIR_Request* request) {
  torii_message_t* message = NETMOD_TORII_REQUEST(request).message;
  torii_data_t data;
  torii_result_t result;
  int mpi_errno =
      netmod_torii_describe(buffer, count, datatype, &data, &NETMOD_TORII_REQUEST(request).stream);
  int code;
  if (unlikely(MPI_SUCCESS != mpi_errno)) return mpi_errno;
  result.code = TORII_PENDING;
  code = torii_mrecv(NETMOD_TORII_VCI(vci)->port, message, &data, netmod_torii_recv_done, request,
                     NULL, &result);
  if (TORII_PENDING != code) recv_ended(request, code, &result);
  return MPI_SUCCESS;
}

/* --- probe --------------------------------------------------------------------------------- */

struct pattern {
  torii_peer_t* source;
  uint64_t tag;
  uint64_t ignore;
};

static int make_pattern(int source, int tag, MPIR_Comm* comm, int context_offset,
                        MPIDI_av_entry_t* av, int vci, struct pattern* pattern) {
  int mpi_errno = MPI_SUCCESS;
  pattern->source = MPI_ANY_SOURCE == source ? NULL : netmod_torii_peer(av, vci, &mpi_errno);
  pattern->tag =
      netmod_torii_tag(comm->recvcontext_id + context_offset, MPI_ANY_TAG == tag ? 0 : tag);
  pattern->ignore = MPI_ANY_TAG == tag ? MPIDI_TORII_global.ignore_any : MPIDI_TORII_global.ignore;
  return mpi_errno;
}

static int found(int code, const torii_result_t* result, const MPIR_Comm* comm, int* flag,
                 MPI_Status* status) {
  *flag = TORII_OK == code;
  if (TORII_EMPTY == code) return MPI_SUCCESS;
  if (TORII_OK != code) return netmod_torii_error(code, "a probe");
  if (result->user >= (uint32_t)comm->remote_size) {
    return netmod_torii_error(TORII_ERR_CORRUPT, "a sender's rank");
  }
  if (MPI_STATUS_IGNORE == status) return MPI_SUCCESS;
  fill_status(status, result, result->sent_bytes);
  return MPI_SUCCESS;
}

int netmod_torii_iprobe(int source, int tag, MPIR_Comm* comm, int context_offset,
                        MPIDI_av_entry_t* av, int vci, int* flag, MPI_Status* status) {
  struct pattern pattern;
  torii_result_t result;
  int mpi_errno = make_pattern(source, tag, comm, context_offset, av, vci, &pattern);
  int code;
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  code = torii_probe(NETMOD_TORII_VCI(vci)->port, pattern.source, pattern.tag, pattern.ignore,
                     &result);
  return found(code, &result, comm, flag, status);
}

int netmod_torii_improbe(int source, int tag, MPIR_Comm* comm, int context_offset,
                         MPIDI_av_entry_t* av, int vci, int* flag, MPIR_Request** message,
                         MPI_Status* status) {
  struct pattern pattern;
  torii_result_t result;
  torii_message_t* taken = NULL;
  MPIR_Request* request;
  int mpi_errno = make_pattern(source, tag, comm, context_offset, av, vci, &pattern);
  int code;
  *message = NULL;
  MPIR_ERR_CHECK(mpi_errno);
  request = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__MPROBE, vci, 2);
  MPIR_ERR_CHKANDSTMT(NULL == request, mpi_errno, MPIX_ERR_NOREQ, goto fn_fail, "**nomemreq");
  code = torii_mprobe(NETMOD_TORII_VCI(vci)->port, pattern.source, pattern.tag, pattern.ignore,
                      &taken, &result);
  mpi_errno = found(code, &result, comm, flag, status);
  if (TORII_OK != code) {
    MPIDI_CH4_REQUEST_FREE(request); /* both references: nobody has seen it */
    MPIDI_CH4_REQUEST_FREE(request);
    goto fn_exit;
  }
  NETMOD_TORII_REQUEST(request).message = taken;
  NETMOD_TORII_REQUEST(request).operation = 0;
  NETMOD_TORII_REQUEST(request).stream = NULL;
  NETMOD_TORII_REQUEST(request).peers = comm->remote_size;
  request->comm = comm;
  MPIR_Comm_add_ref(comm);
  *message = request;
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}
