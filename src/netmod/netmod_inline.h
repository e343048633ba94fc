/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * netmod_inline.h: the functions that MPICH compiles into its own. Only what a small contiguous
 * message needs is here; the rest calls the files beside.
 */
#ifndef NETMOD_INLINE_H_INCLUDED
#define NETMOD_INLINE_H_INCLUDED

#include "torii_coll.h"
#include "torii_impl.h"

#ifdef MPIDI_ENABLE_AM_ONLY
#include "netmod_am_fallback.h"
#else
#include "torii_message.h"
#include "torii_rma.h"

#include "netmod_am_fallback_part.h"
#endif

/* --- progress ------------------------------------------------------------------------------ */

/* When processors are scarce a process that waits gives way and sleeps. The first event may be the
 * one that it waits for, and it comes back if it was not. One that looks in has work of its own.
 * Returns the number of events, or nonzero if it rested. */
MPL_STATIC_INLINE_PREFIX int netmod_torii_progress(int vci, int blocking) {
  struct netmod_torii_vci* own = NETMOD_TORII_VCI(vci);
  int came_back;
  if (0 == vci && NETMOD_TORII_WAITS != MPIDI_TORII_global.next) {
    const int passes = NETMOD_TORII_PASSES == MPIDI_TORII_global.next;
    MPIDI_TORII_global.next = NETMOD_TORII_WAITS;
    if (passes) return 0;
    blocking = 0;
  }
#if 1 < NETMOD_TORII_MAX_VCIS
  if (1 < MPIDI_TORII_global.vcis) return netmod_torii_progress_among(vci, blocking);
#endif
  if (!blocking) return torii_test_step(own->ni);
  came_back = own->came_back ? torii_wait_step(own->ni) : torii_wait_first(own->ni);
  own->came_back = 0 < came_back;
  return came_back;
}

#if NETMOD_TORII_SINCE(4, 2)
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int* made_progress) {
  const int blocking = 1; /* unknown */
#else
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking) {
#endif
  int mpi_errno = MPI_SUCCESS;
  int events;
  if (unlikely(vci >= MPIDI_TORII_global.vcis)) return MPI_SUCCESS;
  events = netmod_torii_progress(vci, blocking);
#if NETMOD_TORII_SINCE(4, 2)
  *made_progress = 0 < events;
#else
  (void)events;
#endif
  if (unlikely(MPI_SUCCESS != NETMOD_TORII_VCI(vci)->error)) {
    mpi_errno = NETMOD_TORII_VCI(vci)->error;
    NETMOD_TORII_VCI(vci)->error = MPI_SUCCESS;
  }
  return mpi_errno;
}

/* --- processes ----------------------------------------------------------------------------- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rank_is_local(int rank, MPIR_Comm* comm) {
#if NETMOD_TORII_SINCE(4, 2)
  return MPIDIU_av_is_local(MPIDIU_comm_rank_to_av(comm, rank));
#else
  return MPIDIU_rank_is_local(rank, comm);
#endif
}

#if !NETMOD_TORII_SINCE(5, 0)
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_comm_get_gpid(MPIR_Comm* comm, int rank, uint64_t* gpid,
                                                    bool is_remote) {
  int table = 0, index = 0;
  if (MPIR_COMM_KIND__INTRACOMM == comm->comm_kind || is_remote) {
    MPIDIU_comm_rank_to_pid(comm, rank, &index, &table);
  } else {
    MPIDIU_comm_rank_to_pid_local(comm, rank, &index, &table);
  }
  *gpid = MPIDIU_GPID_CREATE(table, index);
  return MPI_SUCCESS;
}
#endif

/* --- active messages ----------------------------------------------------------------------- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr(int rank, MPIR_Comm* comm, int handler_id,
                                                  const void* am_hdr, MPI_Aint am_hdr_sz,
                                                  int src_vci, int dst_vci) {
  (void)src_vci;
  (void)dst_vci;
  return netmod_torii_am_send_header(rank, comm, handler_id, am_hdr, am_hdr_sz);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr_reply(MPIR_Comm* comm, int rank, int handler_id,
                                                        const void* am_hdr, MPI_Aint am_hdr_sz,
                                                        int src_vci, int dst_vci) {
  (void)src_vci;
  (void)dst_vci;
  return netmod_torii_am_send_header(rank, comm, handler_id, am_hdr, am_hdr_sz);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend(int rank, MPIR_Comm* comm, int handler_id,
                                               const void* am_hdr, MPI_Aint am_hdr_sz,
                                               const void* data, MPI_Aint count,
                                               MPI_Datatype datatype, int src_vci, int dst_vci,
                                               MPIR_Request* sreq) {
  (void)src_vci;
  (void)dst_vci;
  return netmod_torii_am_isend(rank, comm, handler_id, am_hdr, am_hdr_sz, data, count, datatype,
                               sreq);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend_reply(MPIR_Comm* comm, int src_rank, int handler_id,
                                                     const void* am_hdr, MPI_Aint am_hdr_sz,
                                                     const void* data, MPI_Aint count,
                                                     MPI_Datatype datatype, int src_vci,
                                                     int dst_vci, MPIR_Request* sreq) {
  (void)src_vci;
  (void)dst_vci;
  return netmod_torii_am_isend(src_rank, comm, handler_id, am_hdr, am_hdr_sz, data, count, datatype,
                               sreq);
}

MPL_STATIC_INLINE_PREFIX MPIDIG_recv_data_copy_cb MPIDI_NM_am_get_data_copy_cb(uint32_t attr) {
  (void)attr;
  return netmod_torii_am_fetch;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_hdr_max_sz(void) {
  return NETMOD_TORII_AM_HEADER_BYTES;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_limit(void) {
  return NETMOD_TORII_AM_BYTES - NETMOD_TORII_AM_OWN_BYTES;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_buf_limit(void) {
  return NETMOD_TORII_AM_BYTES;
}

/* Any size is eager: Torii announces what is long, and MPICH's own handshake is not needed. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_check_eager(MPI_Aint am_hdr_sz, MPI_Aint data_sz,
                                                      const void* data, MPI_Aint count,
                                                      MPI_Datatype datatype, MPIR_Request* sreq) {
  (void)am_hdr_sz;
  (void)data_sz;
  (void)data;
  (void)count;
  (void)datatype;
  (void)sreq;
  return true;
}

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_init(MPIR_Request* req) {
  NETMOD_TORII_AM(req).source = NULL;
}

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_finalize(MPIR_Request* req) { (void)req; }

#if NETMOD_TORII_SINCE(4, 3)
/* Payloads already come as messages of their own. */
#if NETMOD_TORII_SINCE(5, 0)
MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_can_do_tag(MPIR_Request* rreq) { return false; }
#else
MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_can_do_tag(void) { return false; }
#endif

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_tag_send(int rank, MPIR_Comm* comm, int handler_id,
                                                  int tag, const void* buf, MPI_Aint count,
                                                  MPI_Datatype datatype, int src_vci, int dst_vci,
                                                  MPIR_Request* sreq) {
  MPIR_Assert(0);
  return MPI_ERR_INTERN;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_tag_recv(int rank, MPIR_Comm* comm, int handler_id,
                                                  int tag, void* buf, MPI_Aint count,
                                                  MPI_Datatype datatype, int src_vci, int dst_vci,
                                                  MPIR_Request* rreq) {
  MPIR_Assert(0);
  return MPI_ERR_INTERN;
}
#endif

#endif /* NETMOD_INLINE_H_INCLUDED */
