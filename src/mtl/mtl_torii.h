/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * mtl_torii.h: what the files of the Open MPI matching layer share: the one module, the request
 * that follows each MPI request, and the way from a communicator rank to a Torii peer.
 *
 * Match bits of a message: the communicator's context id (upper 32), the MPI tag (lower 32).
 * The 32 user bits carry the sender's rank in the communicator.
 */
#ifndef MTL_TORII_H
#define MTL_TORII_H

/* clang-format off: Open MPI's configuration comes before everything else */
#include "mpi.h"
#include "ompi_config.h"
/* clang-format on */
#include "ompi/communicator/communicator.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi_torii.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/runtime/opal_progress.h"
#include "torii.h"

#if OPAL_ENABLE_HETEROGENEOUS_SUPPORT
#error \
    "mtl/torii moves memory as it is; Open MPI built with --enable-heterogeneous is not supported"
#endif

#define MTL_TORII_PORT 0                /* the port of MPI messages */
#define MTL_TORII_ANY_TAG 0x7fffffffull /* ignored for MPI_ANY_TAG: negative tags never match */
#define MTL_TORII_CARRY 64              /* not less than the largest basic datatype */

/* The Torii interface in use; `super` is what pml/cm calls. */
struct mtl_torii_module {
  struct mca_mtl_base_module_t super;
  torii_ni_t* ni;
  torii_port_t* port;
  bool direct; /* messages in one piece go past pml/cm */
};
extern struct mtl_torii_module mtl_torii;
extern mca_mtl_base_component_t mca_mtl_torii_component;

/* Data that Open MPI's convertor packs and unpacks. The convertor packs whole basic elements
 * only, Torii asks for any number of bytes: what an element has too much is carried over. */
struct mtl_torii_stream {
  struct opal_convertor_t* convertor;
  uint32_t carried; /* bytes in carry */
  uint8_t carry[MTL_TORII_CARRY];
};

/* Follows the pml's request in memory. Never constructed: isend and irecv set every field that
 * is read. */
struct mtl_torii_request {
  struct mca_mtl_request_t super;
  torii_request_t operation; /* a receive that cancel may withdraw; else 0 */
  uint32_t peers;            /* ranks in the remote group: a sender's rank is below */
  struct mtl_torii_stream stream;
};

/* The MPI error code of a Torii code; MPI_SUCCESS for TORII_OK. */
int mtl_torii_error(int code);
/* Peer of a process that has none yet, by way of the pml. Null: *error is an MPI code, and the
 * reason was printed. May wait for the launcher. */
torii_peer_t* mtl_torii_add_peer(struct ompi_proc_t* proc, int* error);

/* The peer at a rank of the communicator's remote group; null: *error is an MPI code. */
static inline torii_peer_t* mtl_torii_peer(struct ompi_communicator_t* comm, int rank, int* error) {
  struct ompi_proc_t* proc = ompi_comm_peer_lookup(comm, rank);
  torii_peer_t* peer = (torii_peer_t*)proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
  if (OPAL_LIKELY(NULL != peer)) return peer;
  return mtl_torii_add_peer(proc, error);
}

static inline uint32_t mtl_torii_context(struct ompi_communicator_t* comm) {
#if OMPI_MAJOR_VERSION >= 5
  return (uint32_t)ompi_comm_get_local_cid(comm);
#else
  return (uint32_t)comm->c_contextid;
#endif
}

static inline uint64_t mtl_torii_tag(struct ompi_communicator_t* comm, int tag) {
  return (uint64_t)mtl_torii_context(comm) << 32 | (uint32_t)tag;
}

/* The tags that a receive matches: ((message tag ^ bits) & ~ignore) == 0. */
struct mtl_torii_pattern {
  uint64_t bits;
  uint64_t ignore;
};

static inline struct mtl_torii_pattern mtl_torii_pattern(struct ompi_communicator_t* comm,
                                                         int tag) {
  const bool any = MPI_ANY_TAG == tag;
  return (struct mtl_torii_pattern){.bits = mtl_torii_tag(comm, any ? 0 : tag),
                                    .ignore = any ? MTL_TORII_ANY_TAG : 0};
}

/* Ranks that messages of the communicator can come from: both kinds of communicators have them in
 * the remote group. */
static inline uint32_t mtl_torii_peer_count(struct ompi_communicator_t* comm) {
  return (uint32_t)comm->c_remote_group->grp_proc_count;
}

/* Completes what torii_recv or torii_mrecv answered other than TORII_PENDING: where nothing was
 * matched, *result is not filled. */
static inline void mtl_torii_result(int code, torii_result_t* result) {
  if (OPAL_UNLIKELY(TORII_OK != code && result->code != code))
    *result = (torii_result_t){.code = code};
}

/* The status of a receive that is over, of a communicator with so many `peers`. */
static inline void mtl_torii_status(const torii_result_t* result, uint32_t peers,
                                    ompi_status_public_t* status) {
  int code = result->code;
  if (OPAL_LIKELY(TORII_OK == code || TORII_ERR_TRUNCATED == code)) {
    if (OPAL_UNLIKELY(result->user >= peers)) code = TORII_ERR_CORRUPT;
    status->MPI_SOURCE = (int)result->user;
    status->MPI_TAG = (int)(uint32_t)result->tag;
    status->_ucount = result->bytes;
    status->_cancelled = 0;
  } else {
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    status->_ucount = 0;
    status->_cancelled = TORII_ERR_CANCELED == code;
    if (TORII_ERR_CANCELED == code) code = TORII_OK;
  }
  status->MPI_ERROR = OPAL_LIKELY(TORII_OK == code) ? MPI_SUCCESS : mtl_torii_error(code);
}

/* Sends, and waits until the memory may be used again; returns an MPI code. */
int mtl_torii_send_data(torii_peer_t* peer, struct ompi_communicator_t* comm, int tag,
                        const torii_data_t* data, mca_pml_base_send_mode_t mode);
/* Makes progress, and waits as Torii does, until the flag is set. */
void mtl_torii_await(const torii_flag_t* flag);

/* Takes the messages in one piece past pml/cm, if that is the layer in use; see
 * mtl_torii_direct.c. Opening again does nothing. */
void mtl_torii_open_direct(void);
void mtl_torii_close_direct(void);

/* Waits until no other thread is about to tell pml/cm that a send is complete. */
void mtl_torii_await_callbacks(void);

/* Puts Torii's waiting for requests before Open MPI's with MPI_THREAD_MULTIPLE, and back. */
void mtl_torii_open_wait(void);
void mtl_torii_close_wait(void);

/* Calls of MPI_Test, MPI_Iprobe and their kin that are under way: nobody is put to sleep
 * meanwhile. Opening again does nothing. */
extern int mtl_torii_tests;
void mtl_torii_open_tests(void);
void mtl_torii_close_tests(void);

static inline bool mtl_torii_testing(void) {
  return 0 != __atomic_load_n(&mtl_torii_tests, __ATOMIC_RELAXED);
}
static inline void mtl_torii_begin_test(void) {
  if (OPAL_UNLIKELY(opal_using_threads())) {
    __atomic_add_fetch(&mtl_torii_tests, 1, __ATOMIC_RELAXED);
  } else {
    ++mtl_torii_tests;
  }
}
static inline void mtl_torii_end_test(void) {
  if (OPAL_UNLIKELY(opal_using_threads())) {
    __atomic_sub_fetch(&mtl_torii_tests, 1, __ATOMIC_RELAXED);
  } else {
    --mtl_torii_tests;
  }
}

/* Module functions; see ompi/mca/mtl/mtl.h. */
int mtl_torii_send(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int dest,
                   int tag, struct opal_convertor_t* convertor, mca_pml_base_send_mode_t mode);
int mtl_torii_isend(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int dest,
                    int tag, struct opal_convertor_t* convertor, mca_pml_base_send_mode_t mode,
                    bool blocking, struct mca_mtl_request_t* mtl_request);
int mtl_torii_irecv(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                    int tag, struct opal_convertor_t* convertor,
                    struct mca_mtl_request_t* mtl_request);
int mtl_torii_iprobe(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                     int tag, int* flag, struct ompi_status_public_t* status);
int mtl_torii_improbe(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm, int src,
                      int tag, int* matched, struct ompi_message_t** message,
                      struct ompi_status_public_t* status);
int mtl_torii_imrecv(struct mca_mtl_base_module_t* mtl, struct opal_convertor_t* convertor,
                     struct ompi_message_t** message, struct mca_mtl_request_t* mtl_request);
int mtl_torii_cancel(struct mca_mtl_base_module_t* mtl, struct mca_mtl_request_t* mtl_request,
                     int flag);
int mtl_torii_add_procs(struct mca_mtl_base_module_t* mtl, size_t count,
                        struct ompi_proc_t** procs);
int mtl_torii_del_procs(struct mca_mtl_base_module_t* mtl, size_t count,
                        struct ompi_proc_t** procs);
int mtl_torii_add_comm(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm);
int mtl_torii_del_comm(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm);
int mtl_torii_finalize(struct mca_mtl_base_module_t* mtl);

/* Registered with opal_progress while the module is open; returns the events handled. */
int mtl_torii_progress(void);

#endif /* MTL_TORII_H */
