/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Processes of other jobs: spawn, connect and accept.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

/* --- their places in address vectors ------------------------------------------------------- */

static int remember(torii_peer_t* peer, uint64_t gpid, const char* address, size_t bytes) {
  struct netmod_torii_stranger* stranger = torii_peer_context(peer);
  if (NULL == stranger) {
    stranger = MPL_calloc(1, sizeof *stranger, MPL_MEM_ADDRESS);
    if (NULL == stranger) return netmod_torii_error(TORII_ERR_NO_MEMORY, "a process's address");
    stranger->next = MPIDI_TORII_global.strangers;
    MPIDI_TORII_global.strangers = stranger;
    stranger->card.bytes = (uint16_t)bytes;
    memcpy(stranger->card.address, address, bytes);
    torii_peer_set_context(peer, stranger);
  }
  stranger->gpid = gpid;
  return MPI_SUCCESS;
}

static int connect_stranger(const char* address, int bytes, torii_peer_t** peer) {
  int code = TORII_ERR_INVALID;
  if (0 < bytes && bytes <= NETMOD_TORII_ADDRESS_BYTES) {
    code = torii_connect(NETMOD_TORII_NI, address, (size_t)bytes, peer);
  }
  return TORII_OK == code ? MPI_SUCCESS
                          : netmod_torii_error(code, "a process of another job cannot be reached");
}

#if NETMOD_TORII_SINCE(5, 0)
typedef MPIR_Lpid netmod_torii_remote_t;

static MPIDI_av_entry_t* av_of(netmod_torii_remote_t remote) {
  return MPIDIU_lpid_to_av_slow(remote);
}

/* MPICH has given the process a place: one for the time of connecting, or in the list of its job.
 */
int MPIDI_TORII_insert_upid(MPIR_Lpid lpid, const char* upid, int upid_len) {
  MPIDI_av_entry_t* av = av_of(lpid);
  torii_peer_t* peer = NULL;
  int mpi_errno = connect_stranger(upid, upid_len, &peer);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  memset(&av->netmod.torii, 0, sizeof av->netmod.torii);
  NETMOD_TORII_PEER(av, 0) = peer;
  return remember(peer, (uint64_t)lpid, upid, (size_t)upid_len);
}

/* The address of a process; null: it is not known. */
static const struct netmod_torii_card* card_of(MPIR_Comm* comm, int rank) {
  const MPIR_Lpid lpid = MPIR_comm_rank_to_lpid(comm, rank);
  const struct netmod_torii_card* cards = NETMOD_TORII_VCI(0)->cards;
  const struct netmod_torii_stranger* stranger;
  torii_peer_t* peer = NETMOD_TORII_PEER(MPIDIU_lpid_to_av(lpid), 0);
  if (0 == MPIR_LPID_WORLD_INDEX(lpid) && NULL != cards && 0 < cards[lpid].bytes) {
    return &cards[lpid];
  }
  stranger = NULL == peer ? NULL : torii_peer_context(peer);
  return NULL == stranger ? NULL : &stranger->card;
}
#else
typedef uint64_t netmod_torii_remote_t;

static MPIDI_av_entry_t* av_of(netmod_torii_remote_t remote) {
  return NETMOD_TORII_AV(MPIDIU_GPID_GET_AVTID(remote), MPIDIU_GPID_GET_LPID(remote));
}

/* The place of a peer that this process has met before. */
static bool known_place(torii_peer_t* peer, uint64_t* gpid) {
  const struct netmod_torii_stranger* stranger = torii_peer_context(peer);
  uint64_t job = 0;
  uint32_t rank = 0;
  int table, index;
  torii_peer_identity(peer, &job, &rank);
  if (job == MPIDI_TORII_global.job) {
    *gpid = MPIDIU_GPID_CREATE(0, rank);
    return rank < (uint32_t)MPIR_Process.size;
  }
  if (NULL == stranger) return false;
  table = (int)MPIDIU_GPID_GET_AVTID(stranger->gpid);
  index = (int)MPIDIU_GPID_GET_LPID(stranger->gpid);
  if (table >= MPIDIU_get_n_avts() || NULL == MPIDIU_get_av_table(table) ||
      index >= MPIDIU_get_av_table(table)->size ||
      NETMOD_TORII_PEER(NETMOD_TORII_AV(table, index), 0) != peer) {
    return false; /* its communicators are gone */
  }
  *gpid = stranger->gpid;
  return true;
}

static int give_places(int count, torii_peer_t** strangers, const int* order, char** addresses,
                       const int* bytes, uint64_t* gpids) {
  int table = 0;
  int mpi_errno = MPIDIU_new_avt(count, &table);
  for (int i = 0; i < count && MPI_SUCCESS == mpi_errno; ++i) {
    const int which = order[i];
    NETMOD_TORII_PEER(NETMOD_TORII_AV(table, i), 0) = strangers[i];
    gpids[which] = MPIDIU_GPID_CREATE(table, i);
    mpi_errno = remember(strangers[i], gpids[which], addresses[i], (size_t)bytes[which]);
  }
  return mpi_errno;
}

int MPIDI_TORII_upids_to_gpids(int size, int* remote_upid_size, char* remote_upids,
                               uint64_t* remote_gpids) {
  int mpi_errno = MPI_SUCCESS;
  int new_ones = 0;
  char* address = remote_upids;
  int* order = MPL_malloc((size_t)size * sizeof *order, MPL_MEM_ADDRESS);
  char** addresses = MPL_malloc((size_t)size * sizeof *addresses, MPL_MEM_ADDRESS);
  torii_peer_t** strangers = MPL_malloc((size_t)size * sizeof(torii_peer_t*), MPL_MEM_ADDRESS);
  if (NULL == order || NULL == addresses || NULL == strangers) {
    mpi_errno = netmod_torii_error(TORII_ERR_NO_MEMORY, "processes of another job");
  }
  for (int i = 0; i < size && MPI_SUCCESS == mpi_errno; ++i) {
    torii_peer_t* peer = NULL;
    mpi_errno = connect_stranger(address, remote_upid_size[i], &peer);
    if (MPI_SUCCESS == mpi_errno && !known_place(peer, &remote_gpids[i])) {
      order[new_ones] = i;
      addresses[new_ones] = address;
      strangers[new_ones++] = peer;
    }
    address += remote_upid_size[i];
  }
  if (MPI_SUCCESS == mpi_errno && 0 < new_ones) {
    mpi_errno = give_places(new_ones, strangers, order, addresses, remote_upid_size, remote_gpids);
  }
  MPL_free(strangers);
  MPL_free(addresses);
  MPL_free(order);
  return mpi_errno;
}

/* The address of a process; null: it is not known. */
static const struct netmod_torii_card* card_of(MPIR_Comm* comm, int rank) {
  const struct netmod_torii_stranger* stranger;
  int table = 0, index = 0;
  MPIDIU_comm_rank_to_pid(comm, rank, &index, &table);
  if (0 == table) return &NETMOD_TORII_VCI(0)->cards[index];
  stranger = torii_peer_context(NETMOD_TORII_PEER(NETMOD_TORII_AV(table, index), 0));
  return NULL == stranger ? NULL : &stranger->card;
}
#endif

/* This process's address for a port's name, where there is little room. */
static int own_short_address(int** sizes, char** addresses) {
  const size_t bytes = torii_short_address(NETMOD_TORII_NI, NULL, 0);
  *sizes = MPL_malloc(sizeof **sizes, MPL_MEM_ADDRESS);
  *addresses = MPL_malloc(bytes, MPL_MEM_ADDRESS);
  if (NULL == *sizes || NULL == *addresses) return MPI_ERR_NO_MEM;
  **sizes = (int)torii_short_address(NETMOD_TORII_NI, *addresses, bytes);
  return MPI_SUCCESS;
}

static int addresses_of(MPIR_Comm* comm, int** sizes, char** addresses) {
  size_t bytes = 0;
  *addresses = NULL;
  *sizes = MPL_malloc((size_t)comm->local_size * sizeof **sizes, MPL_MEM_ADDRESS);
  if (NULL == *sizes) return MPI_ERR_NO_MEM;
  for (int i = 0; i < comm->local_size; ++i) {
    const struct netmod_torii_card* card = card_of(comm, i);
    if (NULL == card) return MPI_ERR_INTERN;
    (*sizes)[i] = MPL_MIN(card->bytes, NETMOD_TORII_ADDRESS_BYTES);
    bytes += (size_t)(*sizes)[i];
  }
  *addresses = MPL_malloc(bytes, MPL_MEM_ADDRESS);
  if (NULL == *addresses) return MPI_ERR_NO_MEM;
  bytes = 0;
  for (int i = 0; i < comm->local_size; ++i) {
    memcpy(*addresses + bytes, card_of(comm, i)->address, (size_t)(*sizes)[i]);
    bytes += (size_t)(*sizes)[i];
  }
  return MPI_SUCCESS;
}

int MPIDI_TORII_get_local_upids(MPIR_Comm* comm, int** local_upid_size, char** local_upids) {
  const int class = comm == MPIR_Process.comm_self
                        ? own_short_address(local_upid_size, local_upids)
                        : addresses_of(comm, local_upid_size, local_upids);
  if (MPI_SUCCESS == class) return MPI_SUCCESS;
  MPL_free(*local_upid_size);
  MPL_free(*local_upids);
  *local_upid_size = NULL;
  *local_upids = NULL;
  return netmod_torii_error(MPI_ERR_NO_MEM == class ? TORII_ERR_NO_MEMORY : TORII_ERR_CORRUPT,
                            "the addresses of a communicator's processes");
}

/* --- the first words of two jobs ----------------------------------------------------------- */

struct exchange {
  int done;
  int code;
};

static void exchange_done(void* arg, const torii_result_t* result) {
  struct exchange* exchange = arg;
  exchange->code = result->code;
  exchange->done = 1;
}

/* Waits for the end of an operation; after `timeout` seconds (0: no limit) it is withdrawn. */
static int wait_for(struct exchange* exchange, torii_request_t operation, int timeout,
                    const char* what) {
  MPID_Progress_state state;
  MPL_time_t start, now;
  double waited = 0;
  MPID_Progress_start(&state);
  MPL_wtime(&start);
  while (!exchange->done) {
    const int mpi_errno = MPID_Progress_test(&state);
    if (MPI_SUCCESS == mpi_errno && (0 == timeout || waited < (double)timeout)) {
      MPL_wtime(&now);
      MPL_wtime_diff(&start, &now, &waited);
      continue;
    }
    /* If it cannot be canceled it has matched: it will end, and needs this memory until then. */
    torii_cancel(NETMOD_TORII_NI, operation);
    while (!exchange->done) torii_wait_step(NETMOD_TORII_NI);
    if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  }
  if (TORII_ERR_CANCELED == exchange->code) return MPI_ERR_PORT;
  return TORII_OK == exchange->code ? MPI_SUCCESS : netmod_torii_error(exchange->code, what);
}

/* Nothing is to be waited for if *exchange is done. */
static int start_send(torii_peer_t* peer, uint64_t tag, const void* buf, int size,
                      struct exchange* exchange, torii_request_t* operation) {
  const torii_data_t data = {
      .layout = TORII_CONTIGUOUS, .base = (void*)(uintptr_t)buf, .bytes = (uint64_t)size};
  const int code = torii_send(MPIDI_TORII_global.am_port, peer, TORII_STANDARD, tag, 0, &data,
                              exchange_done, exchange, operation);
  if (TORII_OK == code) exchange->done = 1;
  if (TORII_OK == code || TORII_PENDING == code) return MPI_SUCCESS;
  return netmod_torii_error(code, "connecting to a port");
}

/* From any process if peer is null. */
static int start_recv(torii_peer_t* peer, uint64_t tag, void* buf, int size,
                      struct exchange* exchange, torii_request_t* operation) {
  const torii_data_t data = {.layout = TORII_CONTIGUOUS, .base = buf, .bytes = (uint64_t)size};
  torii_result_t result = {.code = TORII_PENDING};
  const int code = torii_recv(MPIDI_TORII_global.am_port, peer, tag, 0, &data, exchange_done,
                              exchange, operation, &result);
  if (TORII_OK == code) exchange->done = 1;
  if (TORII_OK == code || TORII_PENDING == code) return MPI_SUCCESS;
  return netmod_torii_error(code, "accepting at a port");
}

int MPIDI_TORII_dynamic_send(netmod_torii_remote_t remote, int tag, const void* buf, int size,
                             int timeout) {
  struct exchange exchange = {.done = 0};
  torii_request_t operation = 0;
  int mpi_errno = MPI_SUCCESS;
  torii_peer_t* peer = netmod_torii_peer(av_of(remote), 0, &mpi_errno);
  if (NULL == peer) return mpi_errno;
  mpi_errno =
      start_send(peer, NETMOD_TORII_CONNECT | (uint32_t)tag, buf, size, &exchange, &operation);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  return wait_for(&exchange, operation, timeout, "connecting to a port");
}

int MPIDI_TORII_dynamic_recv(int tag, void* buf, int size, int timeout) {
  struct exchange exchange = {.done = 0};
  torii_request_t operation = 0;
  int mpi_errno =
      start_recv(NULL, NETMOD_TORII_CONNECT | (uint32_t)tag, buf, size, &exchange, &operation);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  torii_welcome(NETMOD_TORII_NI, 1);
  mpi_errno = wait_for(&exchange, operation, timeout, "accepting at a port");
  torii_welcome(NETMOD_TORII_NI, 0);
  return mpi_errno;
}

#if NETMOD_TORII_SINCE(5, 0)
/* How the ends of a new intercommunicator tell each other of their processes. */
int MPIDI_TORII_dynamic_sendrecv(MPIR_Lpid remote_lpid, MPIR_Comm* peer_comm, int tag,
                                 const void* send_buf, int send_size, void* recv_buf, int recv_size,
                                 int timeout) {
  const char* what = "connecting to another job";
  const uint64_t sent = netmod_torii_tag(peer_comm->context_id, tag) | NETMOD_TORII_CONNECT;
  const uint64_t wanted = netmod_torii_tag(peer_comm->recvcontext_id, tag) | NETMOD_TORII_CONNECT;
  struct exchange out = {.done = 1}, in = {.done = 1};
  torii_request_t sending = 0, receiving = 0;
  int mpi_errno = MPI_SUCCESS, sent_errno = MPI_SUCCESS;
  torii_peer_t* peer = netmod_torii_peer(av_of(remote_lpid), 0, &mpi_errno);
  if (NULL == peer) return mpi_errno;
  if (0 < recv_size) {
    in.done = 0;
    mpi_errno = start_recv(peer, wanted, recv_buf, recv_size, &in, &receiving);
    if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  }
  if (0 < send_size) {
    out.done = 0;
    sent_errno = start_send(peer, sent, send_buf, send_size, &out, &sending);
    if (MPI_SUCCESS == sent_errno) sent_errno = wait_for(&out, sending, timeout, what);
  }
  if (MPI_SUCCESS != sent_errno) torii_cancel(NETMOD_TORII_NI, receiving);
  mpi_errno = wait_for(&in, receiving, timeout, what);
  return MPI_SUCCESS != sent_errno ? sent_errno : mpi_errno;
}
#endif
