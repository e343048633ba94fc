/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * MPICH's active messages on a port of their own.
 *
 * A message has tag 0: our header, MPICH's header, and the payload if both fit in
 * NETMOD_TORII_AM_BYTES. Otherwise the payload is a message of its own with a tag that the header
 * tells: Torii moves it between the two memories without a copy on the way.
 *
 * Receives for tag 0 are posted in a ring. Torii matches in order of arrival, but a message that
 * had to be announced may complete behind its successors: the ring's order, not that of the
 * completions, is the order of handling.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

#define SLOTS 8
#define AM_TAG 0ull
#define PAYLOAD (1ull << 63)
#define STACK_BYTES 512 /* messages up to here are put together on the stack */

struct am_header {
  uint16_t handler;
  uint16_t header_bytes;
  uint32_t reserved;
  uint64_t payload_bytes;
  uint64_t payload_tag; /* 0: the payload follows */
};

struct slot {
  int done;
  torii_result_t result;
  unsigned char message[NETMOD_TORII_AM_BYTES] __attribute__((aligned(8)));
};

/* A message on its way: a header, a payload, or both. */
struct outgoing {
  MPIR_Request* request; /* whose payload this is, or null */
  int handler;
  struct netmod_torii_stream* stream;
  struct iovec pieces[2];
  unsigned char message[] __attribute__((aligned(8)));
};

static struct slot* slots;
static unsigned next_slot; /* in the order of posting */
static int handling;       /* a handler runs: nobody else takes messages out of the ring */
static int closing;        /* the port is about to close: nothing is posted again */
static uint64_t payloads;  /* sent by this process */

static size_t aligned(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* For errors that belong to no operation: progress reports the first. */
static void report(int mpi_errno) {
  if (MPI_SUCCESS == NETMOD_TORII_VCI(0)->error) NETMOD_TORII_VCI(0)->error = mpi_errno;
}

/* --- send ---------------------------------------------------------------------------------- */

static size_t write_header(unsigned char* message, int handler, const void* header,
                           size_t header_bytes, uint64_t payload_bytes, uint64_t payload_tag) {
  const struct am_header own = {
      .handler = (uint16_t)handler,
      .header_bytes = (uint16_t)header_bytes,
      .payload_bytes = payload_bytes,
      .payload_tag = payload_tag,
  };
  memcpy(message, &own, sizeof own);
  memcpy(message + sizeof own, header, header_bytes);
  memset(message + sizeof own + header_bytes, 0, aligned(header_bytes) - header_bytes);
  return sizeof own + aligned(header_bytes);
}

static struct outgoing* new_outgoing(size_t bytes, MPIR_Request* request, int handler) {
  struct outgoing* out = MPL_malloc(sizeof *out + bytes, MPL_MEM_BUFFER);
  if (NULL == out) return NULL;
  out->request = request;
  out->handler = handler;
  out->stream = NULL;
  return out;
}

static void finish_outgoing(struct outgoing* out, int code) {
  MPIR_Request* request = out->request;
  const int handler = out->handler;
  netmod_torii_stream_free(out->stream);
  MPL_free(out);
  if (unlikely(TORII_OK != code)) {
    int mpi_errno = netmod_torii_error(code, "an active message was not sent");
    report(mpi_errno);
    if (NULL != request) request->status.MPI_ERROR = mpi_errno;
  }
  if (NULL != request) MPIDIG_global.origin_cbs[handler](request);
}

static void outgoing_done(void* arg, const torii_result_t* result) {
  --NETMOD_TORII_VCI(0)->pending;
  finish_outgoing(arg, result->code);
}

static void send_outgoing(struct outgoing* out, torii_peer_t* peer, uint64_t tag,
                          const torii_data_t* data) {
  int code;
  ++NETMOD_TORII_VCI(0)->pending;
  code = torii_send(MPIDI_TORII_global.am_port, peer, TORII_STANDARD, tag, 0, data, outgoing_done,
                    out, NULL);
  if (TORII_PENDING == code) return;
  --NETMOD_TORII_VCI(0)->pending;
  finish_outgoing(out, code);
}

/* Sends MPICH's header with ours, and nothing else. */
static int send_header(torii_peer_t* peer, int handler, const void* header, size_t header_bytes,
                       uint64_t payload_bytes, uint64_t payload_tag) {
  unsigned char small[STACK_BYTES] __attribute__((aligned(8)));
  const size_t most = sizeof(struct am_header) + aligned(header_bytes);
  struct outgoing* out;
  torii_data_t data = {.layout = TORII_CONTIGUOUS};
  if (most <= sizeof small) {
    data.bytes = write_header(small, handler, header, header_bytes, payload_bytes, payload_tag);
    if (TORII_OK == torii_send_now(MPIDI_TORII_global.am_port, peer, AM_TAG, 0, small, data.bytes))
      return MPI_SUCCESS;
  }
  out = new_outgoing(most, NULL, handler);
  if (NULL == out) return netmod_torii_error(TORII_ERR_NO_MEMORY, "an active message");
  data.bytes =
      write_header(out->message, handler, header, header_bytes, payload_bytes, payload_tag);
  data.base = out->message;
  send_outgoing(out, peer, AM_TAG, &data);
  return MPI_SUCCESS;
}

static torii_peer_t* peer_at(int rank, MPIR_Comm* comm, int* mpi_errno) {
  return netmod_torii_peer(MPIDIU_comm_rank_to_av(comm, rank), 0, mpi_errno);
}

int netmod_torii_am_send_header(int rank, MPIR_Comm* comm, int handler, const void* header,
                                MPI_Aint header_bytes) {
  int mpi_errno = MPI_SUCCESS;
  torii_peer_t* peer = peer_at(rank, comm, &mpi_errno);
  if (NULL == peer) return mpi_errno;
  return send_header(peer, handler, header, (size_t)header_bytes, 0, 0);
}

/* Header and payload in one message. */
static int send_whole(torii_peer_t* peer, int handler, const void* header, size_t header_bytes,
                      const torii_data_t* payload, struct netmod_torii_stream* stream,
                      MPIR_Request* request) {
  unsigned char small[STACK_BYTES] __attribute__((aligned(8)));
  const size_t front = sizeof(struct am_header) + aligned(header_bytes);
  struct outgoing* out;
  torii_data_t data = {.bytes = front + payload->bytes};
  if (data.bytes <= sizeof small && NULL == stream) {
    write_header(small, handler, header, header_bytes, payload->bytes, 0);
    if (0 < payload->bytes) memcpy(small + front, payload->base, payload->bytes);
    if (TORII_OK ==
        torii_send_now(MPIDI_TORII_global.am_port, peer, AM_TAG, 0, small, data.bytes)) {
      MPIDIG_global.origin_cbs[handler](request);
      return MPI_SUCCESS;
    }
  }
  out = new_outgoing(NULL == stream ? front : data.bytes, request, handler);
  if (NULL == out) {
    netmod_torii_stream_free(stream);
    return netmod_torii_error(TORII_ERR_NO_MEMORY, "an active message");
  }
  write_header(out->message, handler, header, header_bytes, payload->bytes, 0);
  if (NULL == stream) {
    out->pieces[0] = (struct iovec){.iov_base = out->message, .iov_len = front};
    out->pieces[1] = (struct iovec){.iov_base = payload->base, .iov_len = payload->bytes};
    data.layout = TORII_PIECES;
    data.pieces = out->pieces;
    data.piece_count = 0 < payload->bytes ? 2 : 1;
  } else {
    payload->pack(payload->base, 0, out->message + front, payload->bytes);
    netmod_torii_stream_free(stream);
    data.layout = TORII_CONTIGUOUS;
    data.base = out->message;
  }
  send_outgoing(out, peer, AM_TAG, &data);
  return MPI_SUCCESS;
}

int netmod_torii_am_isend(int rank, MPIR_Comm* comm, int handler, const void* header,
                          MPI_Aint header_bytes, const void* buffer, MPI_Aint count,
                          MPI_Datatype datatype, MPIR_Request* request) {
  int mpi_errno = MPI_SUCCESS;
  torii_peer_t* peer = peer_at(rank, comm, &mpi_errno);
  struct netmod_torii_stream* stream = NULL;
  struct outgoing* out;
  torii_data_t payload;
  uint64_t tag;
  if (NULL == peer) return mpi_errno;
  mpi_errno = netmod_torii_describe(buffer, count, datatype, &payload, &stream);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  if (sizeof(struct am_header) + aligned((size_t)header_bytes) + payload.bytes <=
      NETMOD_TORII_AM_BYTES) {
    return send_whole(peer, handler, header, (size_t)header_bytes, &payload, stream, request);
  }
  out = new_outgoing(0, request, handler);
  if (NULL == out) {
    netmod_torii_stream_free(stream);
    return netmod_torii_error(TORII_ERR_NO_MEMORY, "an active message");
  }
  out->stream = stream;
  tag = PAYLOAD | ++payloads;
  mpi_errno = send_header(peer, handler, header, (size_t)header_bytes, payload.bytes, tag);
  if (MPI_SUCCESS != mpi_errno) {
    netmod_torii_stream_free(stream);
    MPL_free(out);
    return mpi_errno;
  }
  send_outgoing(out, peer, tag, &payload);
  return MPI_SUCCESS;
}

/* --- receive a payload that comes by itself ------------------------------------------------ */

/* Into MPICH's list of pieces. */
static void place(void* context, uint64_t offset, const void* buffer, size_t bytes) {
  (void)offset;
  MPIDIG_recv_copy_seg((void*)(uintptr_t)buffer, (MPI_Aint)bytes, context);
}

/* MPICH has told the status of what is not unpacked by a stream of ours, and of truncation. */
static void finish_fetch(MPIR_Request* request, int code, uint64_t bytes) {
  struct netmod_torii_stream* stream = NETMOD_TORII_AM(request).stream;
  const int wrong = netmod_torii_stream_free(stream);
  if (NULL != stream) MPIR_STATUS_SET_COUNT(request->status, bytes);
  if (unlikely(TORII_OK != code && TORII_ERR_TRUNCATED != code)) {
    request->status.MPI_ERROR =
        netmod_torii_error(code, "the payload of an active message was not received");
  } else if (unlikely(wrong && TORII_OK == code)) {
    request->status.MPI_ERROR = MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__,
                                                     __LINE__, MPI_ERR_TYPE, "**dtypemismatch", 0);
  }
  MPIDIG_REQUEST(request, req->target_cmpl_cb)(request);
}

static void fetch_done(void* arg, const torii_result_t* result) {
  finish_fetch(arg, result->code, result->bytes);
}

static bool in_one_piece(MPIR_Request* request) {
  int contiguous;
  const MPIDIG_rreq_async_t* async = &MPIDIG_REQUEST(request, req->recv_async);
  if (MPIDIG_RECV_CONTIG == async->recv_type) return true;
  if (MPIDIG_RECV_DATATYPE != async->recv_type) return false;
  MPIDI_Datatype_check_contig(MPIDIG_REQUEST(request, datatype), contiguous);
  return contiguous;
}

static void drop_done(void* arg, const torii_result_t* result) {
  (void)arg;
  (void)result;
}

/* MPICH does not want the payload: it must not stay with its sender. */
static void drop_payload(torii_peer_t* source, uint64_t tag) {
  const torii_data_t nothing = {.layout = TORII_CONTIGUOUS};
  torii_result_t result;
  torii_recv(MPIDI_TORII_global.am_port, source, tag, 0, &nothing, drop_done, NULL, NULL, &result);
}

/* Where the payload goes. Only a stream of ours takes pieces that end within an element. */
static int describe_place(MPIR_Request* request, torii_data_t* data,
                          struct netmod_torii_stream** stream) {
  const MPI_Aint coming = MPIDIG_recv_in_data_sz(request);
  *stream = NULL;
  if (in_one_piece(request)) {
    int contiguous, on_device;
    MPI_Aint room;
    MPIDIG_get_recv_data(&contiguous, &on_device, &data->base, &room, request);
    data->layout = TORII_CONTIGUOUS;
    data->bytes = (uint64_t)MPL_MIN(room, coming);
  } else if (MPIDIG_RECV_DATATYPE == MPIDIG_REQUEST(request, req->recv_async).recv_type) {
    return netmod_torii_describe(MPIDIG_REQUEST(request, buffer), MPIDIG_REQUEST(request, count),
                                 MPIDIG_REQUEST(request, datatype), data, stream);
  } else {
    data->layout = TORII_FUNCTIONS;
    data->base = request;
    data->unpack = place;
    data->bytes = (uint64_t)coming;
  }
  MPIDIG_recv_setup(request); /* status: the count, or truncation */
  return MPI_SUCCESS;
}

int netmod_torii_am_fetch(MPIR_Request* request) {
  torii_peer_t* source = NETMOD_TORII_AM(request).source;
  const uint64_t tag = NETMOD_TORII_AM(request).tag;
  torii_data_t data = {.layout = TORII_CONTIGUOUS};
  torii_result_t result = {.code = TORII_PENDING};
  struct netmod_torii_stream* stream;
  int code = TORII_ERR_NO_MEMORY;
  if (MPI_SUCCESS == describe_place(request, &data, &stream)) {
    NETMOD_TORII_AM(request).stream = stream;
    code = torii_recv(MPIDI_TORII_global.am_port, source, tag, 0, &data, fetch_done, request, NULL,
                      &result);
  } else {
    NETMOD_TORII_AM(request).stream = NULL;
    drop_payload(source, tag);
  }
  if (TORII_PENDING != code) finish_fetch(request, code, result.bytes);
  return MPI_SUCCESS;
}

/* --- handle what came ---------------------------------------------------------------------- */

static bool makes_sense(const struct am_header* own, uint64_t bytes) {
  uint64_t rest;
  if (bytes < sizeof *own) return false;
  rest = bytes - sizeof *own;
  if (own->handler >= MPIDI_AM_HANDLERS_MAX || NULL == MPIDIG_global.target_msg_cbs[own->handler])
    return false;
  if (rest < aligned(own->header_bytes)) return false;
  rest -= aligned(own->header_bytes);
  return 0 == own->payload_tag ? rest == own->payload_bytes
                               : 0 == rest && 0 != (own->payload_tag & PAYLOAD);
}

static void handle_announced(struct am_header* own, torii_peer_t* source) {
  MPIR_Request* request = NULL;
  MPIDIG_global.target_msg_cbs[own->handler](own + 1, NULL, (MPI_Aint)own->payload_bytes,
                                             MPIDIG_AM_ATTR__IS_ASYNC | MPIDIG_AM_ATTR__IS_RNDV,
                                             &request);
  if (NULL == request) {
    drop_payload(source, own->payload_tag);
    return;
  }
  NETMOD_TORII_AM(request).source = source;
  NETMOD_TORII_AM(request).tag = own->payload_tag;
  /* Otherwise MPICH asks for it when the memory is known. */
  if (MPIDIG_recv_initialized(request)) netmod_torii_am_fetch(request);
}

static void handle(struct slot* slot) {
  struct am_header* own = (struct am_header*)slot->message;
  unsigned char* payload;
  if (unlikely(TORII_OK != slot->result.code)) {
    report(netmod_torii_error(slot->result.code, "active messages"));
    return;
  }
  if (unlikely(!makes_sense(own, slot->result.bytes))) {
    report(netmod_torii_error(TORII_ERR_CORRUPT, "an active message"));
    return;
  }
  if (0 != own->payload_tag) {
    handle_announced(own, slot->result.source);
    return;
  }
  payload = (unsigned char*)(own + 1) + aligned(own->header_bytes);
  MPIDIG_global.target_msg_cbs[own->handler](own + 1, 0 == own->payload_bytes ? NULL : payload,
                                             (MPI_Aint)own->payload_bytes, 0, NULL);
}

static void arrived(void* arg, const torii_result_t* result);

static void post(struct slot* slot) {
  const torii_data_t data = {
      .layout = TORII_CONTIGUOUS, .base = slot->message, .bytes = sizeof slot->message};
  int code;
  slot->result.code = TORII_PENDING;
  code = torii_recv(MPIDI_TORII_global.am_port, NULL, AM_TAG, 0, &data, arrived, slot, NULL,
                    &slot->result);
  slot->done = slot->result.code == code && TORII_PENDING != code;
  if (!slot->done && TORII_PENDING != code) report(netmod_torii_error(code, "active messages"));
}

static void handle_all(void) {
  if (handling) return;
  handling = 1;
  while (slots[next_slot].done && !closing) {
    struct slot* slot = &slots[next_slot];
    handle(slot);
    next_slot = (next_slot + 1) % SLOTS;
    post(slot);
  }
  handling = 0;
}

static void arrived(void* arg, const torii_result_t* result) {
  struct slot* slot = arg;
  slot->result = *result;
  slot->done = 1;
  handle_all();
}

int netmod_torii_am_open(void) {
  MPIR_Assert(sizeof(struct am_header) + 8 <= NETMOD_TORII_AM_OWN_BYTES);
  slots = MPL_calloc(SLOTS, sizeof *slots, MPL_MEM_BUFFER);
  if (NULL == slots) return netmod_torii_error(TORII_ERR_NO_MEMORY, "active messages");
  next_slot = 0;
  closing = 0;
  for (int i = 0; i < SLOTS; ++i) post(&slots[i]);
  return MPI_SUCCESS;
}

/* The port's receives end without callbacks when it is closed. */
void netmod_torii_am_close(void) {
  closing = 1;
  torii_port_close(MPIDI_TORII_global.am_port);
  MPL_free(slots);
  slots = NULL;
}
