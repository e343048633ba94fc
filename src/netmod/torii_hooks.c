/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Functions that MPICH asks of every netmod and to which Torii has nothing to add: MPICH's own ways
 * are taken, over its active messages.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

/* --- communicators, datatypes, operations -------------------------------------------------- */

int MPIDI_TORII_comm_set_hints(MPIR_Comm* comm_ptr, MPIR_Info* info) {
  (void)comm_ptr;
  (void)info;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_comm_commit_pre_hook(MPIR_Comm* comm) {
  *NETMOD_TORII_COMM(comm) = (MPIDI_TORII_comm_t){.coll = NETMOD_TORII_COLL_NEW};
#if NETMOD_TORII_SINCE(5, 0)
  if (comm->attr & MPIR_COMM_ATTR__BOOTSTRAP) return netmod_torii_exchange(comm);
#endif
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_comm_commit_post_hook(MPIR_Comm* comm) {
  (void)comm;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_comm_free_hook(MPIR_Comm* comm) {
  netmod_torii_coll_close(comm);
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_type_commit_hook(MPIR_Datatype* datatype_p) {
  (void)datatype_p;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_type_free_hook(MPIR_Datatype* datatype_p) {
  (void)datatype_p;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_op_commit_hook(MPIR_Op* op_p) {
  (void)op_p;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_op_free_hook(MPIR_Op* op_p) {
  (void)op_p;
  return MPI_SUCCESS;
}

/* --- partitioned messages and memory ------------------------------------------------------- */

int MPIDI_TORII_mpi_psend_init(const void* buf, int partitions, MPI_Aint count,
                               MPI_Datatype datatype, int dest, int tag, MPIR_Comm* comm,
                               MPIR_Info* info, MPIDI_av_entry_t* av, MPIR_Request** request) {
  (void)av;
  return MPIDIG_mpi_psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request);
}

int MPIDI_TORII_mpi_precv_init(void* buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                               int source, int tag, MPIR_Comm* comm, MPIR_Info* info,
                               MPIDI_av_entry_t* av, MPIR_Request** request) {
  (void)av;
#if NETMOD_TORII_SINCE(4, 3)
  return MPIDIG_mpi_precv_init(buf, partitions, count, datatype, source, tag, comm, info, 0,
                               request);
#else
  return MPIDIG_mpi_precv_init(buf, partitions, count, datatype, source, tag, comm, info, request);
#endif
}

/* --- windows ------------------------------------------------------------------------------- */

int MPIDI_TORII_mpi_win_set_info(MPIR_Win* win, MPIR_Info* info) {
  return MPIDIG_mpi_win_set_info(win, info);
}

int MPIDI_TORII_mpi_win_get_info(MPIR_Win* win, MPIR_Info** info_p) {
  return MPIDIG_mpi_win_get_info(win, info_p);
}

int MPIDI_TORII_mpi_win_attach(MPIR_Win* win, void* base, MPI_Aint size) {
  return MPIDIG_mpi_win_attach(win, base, size);
}

int MPIDI_TORII_mpi_win_detach(MPIR_Win* win, const void* base) {
  return MPIDIG_mpi_win_detach(win, base);
}

int MPIDI_TORII_mpi_win_attach_hook(MPIR_Win* win, void* base, MPI_Aint size) {
  (void)win;
  (void)base;
  (void)size;
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_win_detach_hook(MPIR_Win* win, const void* base) {
  (void)win;
  (void)base;
  return MPI_SUCCESS;
}
