/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_message.h: MPI's messages by Torii's matching, the short ways.
 */
#ifndef TORII_MESSAGE_H_INCLUDED
#define TORII_MESSAGE_H_INCLUDED

#include "torii_impl.h"

/* --- send ---------------------------------------------------------------------------------- */

/* Most messages are small and contiguous and leave at once. */
MPL_STATIC_INLINE_PREFIX bool netmod_torii_sent_now(const void* buf, MPI_Aint count,
                                                    MPI_Datatype datatype, int tag, MPIR_Comm* comm,
                                                    int context_offset, MPIDI_av_entry_t* av,
                                                    int vci) {
  torii_peer_t* peer = NETMOD_TORII_PEER(av, vci);
  int contiguous;
  size_t bytes;
  MPI_Aint true_lb;
  MPIDI_Datatype_check_contig_size_lb(datatype, count, contiguous, bytes, true_lb);
  return likely(contiguous && NULL != peer) &&
         TORII_OK == torii_send_now(NETMOD_TORII_VCI(vci)->port, peer,
                                    netmod_torii_tag(comm->context_id + context_offset, tag),
                                    (uint32_t)comm->rank, MPIR_get_contig_ptr(buf, true_lb), bytes);
}

MPL_STATIC_INLINE_PREFIX int netmod_torii_start_send(const void* buf, MPI_Aint count,
                                                     MPI_Datatype datatype, int rank, int tag,
                                                     MPIR_Comm* comm, int context_offset,
                                                     MPIDI_av_entry_t* av, torii_mode_t mode,
                                                     MPIR_Request** request) {
  const int vci = netmod_torii_vci(DST_VCI_FROM_SENDER, comm, comm->rank, rank, tag);
  int mpi_errno = MPI_SUCCESS;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(vci));
  if (likely(TORII_STANDARD == mode && NULL == *request &&
             netmod_torii_sent_now(buf, count, datatype, tag, comm, context_offset, av, vci))) {
    *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
  } else {
    mpi_errno =
        netmod_torii_isend(buf, count, datatype, tag, comm, context_offset, av, vci, mode, request);
  }
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(vci));
  return mpi_errno;
}

/* Collectives tell the others of an error by two bits of the tag. */
MPL_STATIC_INLINE_PREFIX int netmod_torii_tag_with(int errflag, int tag) {
  if (unlikely(MPIX_ERR_PROC_FAILED == errflag)) {
    MPIR_TAG_SET_PROC_FAILURE_BIT(tag);
  } else if (unlikely(0 != errflag)) {
    MPIR_TAG_SET_ERROR_BIT(tag);
  }
  return tag;
}

#if NETMOD_TORII_SINCE(4, 1)
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void* buf, MPI_Aint count,
                                                MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm* comm, int attr, MPIDI_av_entry_t* addr,
                                                MPIR_Request** request) {
  return netmod_torii_start_send(
      buf, count, datatype, rank, netmod_torii_tag_with(MPIR_PT2PT_ATTR_GET_ERRFLAG(attr), tag),
      comm, MPIR_PT2PT_ATTR_CONTEXT_OFFSET(attr), addr,
      MPIR_PT2PT_ATTR_GET_SYNCFLAG(attr) ? TORII_SYNCHRONOUS : TORII_STANDARD, request);
}
#else
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void* buf, MPI_Aint count,
                                                MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm* comm, int context_offset,
                                                MPIDI_av_entry_t* addr, MPIR_Request** request) {
  return netmod_torii_start_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                 TORII_STANDARD, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_isend_coll(const void* buf, MPI_Aint count,
                                                 MPI_Datatype datatype, int rank, int tag,
                                                 MPIR_Comm* comm, int context_offset,
                                                 MPIDI_av_entry_t* addr, MPIR_Request** request,
                                                 MPIR_Errflag_t* errflag) {
  return netmod_torii_start_send(buf, count, datatype, rank, netmod_torii_tag_with(*errflag, tag),
                                 comm, context_offset, addr, TORII_STANDARD, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_issend(const void* buf, MPI_Aint count,
                                                 MPI_Datatype datatype, int rank, int tag,
                                                 MPIR_Comm* comm, int context_offset,
                                                 MPIDI_av_entry_t* addr, MPIR_Request** request) {
  return netmod_torii_start_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                 TORII_SYNCHRONOUS, request);
}
#endif

/* --- receive ------------------------------------------------------------------------------- */

/* Posts a receive into memory in one piece. False: it has gaps, the peer is not connected, or a
 * message is here already. */
MPL_STATIC_INLINE_PREFIX bool netmod_torii_posted(void* buf, MPI_Aint count, MPI_Datatype datatype,
                                                  int rank, int tag, MPIR_Comm* comm,
                                                  int context_offset, MPIDI_av_entry_t* av, int vci,
                                                  MPIR_Request* request) {
  torii_peer_t* source = MPI_ANY_SOURCE == rank ? NULL : NETMOD_TORII_PEER(av, vci);
  const bool any_tag = MPI_ANY_TAG == tag;
  int contiguous;
  size_t bytes;
  MPI_Aint true_lb;
  MPIDI_Datatype_check_contig_size_lb(datatype, count, contiguous, bytes, true_lb);
  if (unlikely(!contiguous || (NULL == source && MPI_ANY_SOURCE != rank))) return false;
  NETMOD_TORII_REQUEST(request).operation =
      torii_post(NETMOD_TORII_VCI(vci)->port, source,
                 netmod_torii_tag(comm->recvcontext_id + context_offset, any_tag ? 0 : tag),
                 any_tag ? MPIDI_TORII_global.ignore_any : MPIDI_TORII_global.ignore,
                 MPIR_get_contig_ptr(buf, true_lb), bytes, netmod_torii_recv_done, request);
  return 0 != NETMOD_TORII_REQUEST(request).operation;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_irecv(void* buf, MPI_Aint count, MPI_Datatype datatype,
                                                int rank, int tag, MPIR_Comm* comm, int attr,
                                                MPIDI_av_entry_t* addr, MPIR_Request** request,
                                                MPIR_Request* partner) {
  const int context_offset = NETMOD_TORII_CONTEXT_OFFSET(attr);
  const int vci = netmod_torii_vci(DST_VCI_FROM_RECVER, comm, rank, comm->rank, tag);
  int mpi_errno = MPI_SUCCESS;
  MPIR_Request* req = *request;
  (void)partner;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(vci));
  if (likely(NULL == req)) {
    req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RECV, vci, 2);
    MPIR_ERR_CHKANDSTMT(NULL == req, mpi_errno, MPIX_ERR_NOREQ, goto fn_fail, "**nomemreq");
  } else {
    MPIR_Request_add_ref(req);
  }
  NETMOD_TORII_REQUEST(req).peers = comm->remote_size;
  NETMOD_TORII_REQUEST(req).operation = 0;
  NETMOD_TORII_REQUEST(req).stream = NULL;
  if (unlikely(!netmod_torii_posted(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                    vci, req))) {
    mpi_errno =
        netmod_torii_irecv(buf, count, datatype, rank, tag, comm, context_offset, addr, vci, req);
  }
  if (likely(MPI_SUCCESS == mpi_errno)) {
    *request = req;
  } else {
    MPIDI_CH4_REQUEST_FREE(req); /* both references: nobody has seen it */
    MPIDI_CH4_REQUEST_FREE(req);
  }
fn_exit:
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(vci));
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_imrecv(void* buf, MPI_Aint count, MPI_Datatype datatype,
                                                 MPIR_Request* message) {
  const int vci = MPIDI_Request_get_vci(message);
  int mpi_errno;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(vci));
  mpi_errno = netmod_torii_imrecv(buf, count, datatype, vci, message);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(vci));
  return mpi_errno;
}

/* --- probe and cancel ---------------------------------------------------------------------- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_iprobe(int source, int tag, MPIR_Comm* comm, int attr,
                                                 MPIDI_av_entry_t* addr, int* flag,
                                                 MPI_Status* status) {
  const int vci = netmod_torii_vci(DST_VCI_FROM_RECVER, comm, source, comm->rank, tag);
  int mpi_errno;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(vci));
  mpi_errno = netmod_torii_iprobe(source, tag, comm, NETMOD_TORII_CONTEXT_OFFSET(attr), addr, vci,
                                  flag, status);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(vci));
  return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_improbe(int source, int tag, MPIR_Comm* comm, int attr,
                                                  MPIDI_av_entry_t* addr, int* flag,
                                                  MPIR_Request** message, MPI_Status* status) {
  const int vci = netmod_torii_vci(DST_VCI_FROM_RECVER, comm, source, comm->rank, tag);
  int mpi_errno;
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(vci));
  mpi_errno = netmod_torii_improbe(source, tag, comm, NETMOD_TORII_CONTEXT_OFFSET(attr), addr, vci,
                                   flag, message, status);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(vci));
  return mpi_errno;
}

/* An operation that is over is unknown to Torii, and nothing happens. */
MPL_STATIC_INLINE_PREFIX void netmod_torii_cancel(MPIR_Request* request) {
  if (!MPIR_Request_is_complete(request) && 0 != NETMOD_TORII_REQUEST(request).operation) {
    torii_cancel(NETMOD_TORII_VCI(MPIDI_Request_get_vci(request))->ni,
                 NETMOD_TORII_REQUEST(request).operation);
  }
}

/* MPICH has its lock. It is over when this returns, whether it is to be or not. */
#if NETMOD_TORII_SINCE(4, 1)
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request* rreq, bool is_blocking) {
  (void)is_blocking;
#else
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request* rreq) {
#endif
  netmod_torii_cancel(rreq);
  return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_send(MPIR_Request* sreq) {
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(MPIDI_Request_get_vci(sreq)));
  netmod_torii_cancel(sreq);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(MPIDI_Request_get_vci(sreq)));
  return MPI_SUCCESS;
}

#endif /* TORII_MESSAGE_H_INCLUDED */
