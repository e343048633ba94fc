/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_coll.h: collective operations. Those that Torii does not serve are MPICH's, over messages.
 */
#ifndef TORII_COLL_H_INCLUDED
#define TORII_COLL_H_INCLUDED

#include "torii_impl.h"

/* MPICH's own functions get other names, so that ours can stand in front of them. */
#define MPIDI_NM_mpi_barrier netmod_torii_mpich_barrier
#define MPIDI_NM_mpi_bcast netmod_torii_mpich_bcast
#define MPIDI_NM_mpi_reduce netmod_torii_mpich_reduce
#define MPIDI_NM_mpi_allreduce netmod_torii_mpich_allreduce
#define MPIDI_NM_mpi_allgather netmod_torii_mpich_allgather
#define MPIDI_NM_mpi_alltoall netmod_torii_mpich_alltoall
#include "netmod_am_fallback_coll.h"
#undef MPIDI_NM_mpi_barrier
#undef MPIDI_NM_mpi_bcast
#undef MPIDI_NM_mpi_reduce
#undef MPIDI_NM_mpi_allreduce
#undef MPIDI_NM_mpi_allgather
#undef MPIDI_NM_mpi_alltoall

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_barrier(MPIR_Comm* comm, netmod_torii_errflag_t errflag) {
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_barrier(comm, &mpi_errno)) return mpi_errno;
  return netmod_torii_mpich_barrier(comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_bcast(void* buffer, MPI_Aint count, MPI_Datatype datatype,
                                                int root, MPIR_Comm* comm,
                                                netmod_torii_errflag_t errflag) {
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_bcast(buffer, count, datatype, root, comm, &mpi_errno)) return mpi_errno;
  return netmod_torii_mpich_bcast(buffer, count, datatype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_reduce(const void* sendbuf, void* recvbuf, MPI_Aint count,
                                                 MPI_Datatype datatype, MPI_Op op, int root,
                                                 MPIR_Comm* comm, netmod_torii_errflag_t errflag) {
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, &mpi_errno))
    return mpi_errno;
  return netmod_torii_mpich_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allreduce(const void* sendbuf, void* recvbuf,
                                                    MPI_Aint count, MPI_Datatype datatype,
                                                    MPI_Op op, MPIR_Comm* comm,
                                                    netmod_torii_errflag_t errflag) {
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_allreduce(sendbuf, recvbuf, count, datatype, op, comm, &mpi_errno))
    return mpi_errno;
  return netmod_torii_mpich_allreduce(sendbuf, recvbuf, count, datatype, op, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allgather(const void* sendbuf, MPI_Aint sendcount,
                                                    MPI_Datatype sendtype, void* recvbuf,
                                                    MPI_Aint recvcount, MPI_Datatype recvtype,
                                                    MPIR_Comm* comm,
                                                    netmod_torii_errflag_t errflag) {
  const struct netmod_torii_parts in = {(void*)(uintptr_t)sendbuf, sendcount, sendtype};
  const struct netmod_torii_parts out = {recvbuf, recvcount, recvtype};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_allgather(&in, &out, comm, &mpi_errno)) return mpi_errno;
  return netmod_torii_mpich_allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                      comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_alltoall(const void* sendbuf, MPI_Aint sendcount,
                                                   MPI_Datatype sendtype, void* recvbuf,
                                                   MPI_Aint recvcount, MPI_Datatype recvtype,
                                                   MPIR_Comm* comm,
                                                   netmod_torii_errflag_t errflag) {
  const struct netmod_torii_parts in = {(void*)(uintptr_t)sendbuf, sendcount, sendtype};
  const struct netmod_torii_parts out = {recvbuf, recvcount, recvtype};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_alltoall(&in, &out, comm, &mpi_errno)) return mpi_errno;
  return netmod_torii_mpich_alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                     comm, errflag);
}

#endif /* TORII_COLL_H_INCLUDED */
