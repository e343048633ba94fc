/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_rma.h: one-sided communication. Where a window's memory can be reached directly Torii is
 * asked; everything else is MPICH's, over its active messages.
 */
#ifndef TORII_RMA_H_INCLUDED
#define TORII_RMA_H_INCLUDED

#include "torii_impl.h"

/* MPICH's own functions get other names, so that ours can stand in front of them. */
#define MPIDI_NM_mpi_put netmod_torii_am_put
#define MPIDI_NM_mpi_get netmod_torii_am_get
#define MPIDI_NM_mpi_rput netmod_torii_am_rput
#define MPIDI_NM_mpi_rget netmod_torii_am_rget
#define MPIDI_NM_mpi_accumulate netmod_torii_am_accumulate
#define MPIDI_NM_mpi_raccumulate netmod_torii_am_raccumulate
#define MPIDI_NM_mpi_get_accumulate netmod_torii_am_get_accumulate
#define MPIDI_NM_mpi_rget_accumulate netmod_torii_am_rget_accumulate
#define MPIDI_NM_mpi_fetch_and_op netmod_torii_am_fetch_and_op
#define MPIDI_NM_mpi_compare_and_swap netmod_torii_am_compare_and_swap
#define MPIDI_NM_rma_win_cmpl_hook netmod_torii_am_win_cmpl_hook
#define MPIDI_NM_rma_win_local_cmpl_hook netmod_torii_am_win_local_cmpl_hook
#define MPIDI_NM_rma_target_cmpl_hook netmod_torii_am_target_cmpl_hook
#define MPIDI_NM_rma_target_local_cmpl_hook netmod_torii_am_target_local_cmpl_hook
#include "netmod_am_fallback_rma.h"
#undef MPIDI_NM_mpi_put
#undef MPIDI_NM_mpi_get
#undef MPIDI_NM_mpi_rput
#undef MPIDI_NM_mpi_rget
#undef MPIDI_NM_mpi_accumulate
#undef MPIDI_NM_mpi_raccumulate
#undef MPIDI_NM_mpi_get_accumulate
#undef MPIDI_NM_mpi_rget_accumulate
#undef MPIDI_NM_mpi_fetch_and_op
#undef MPIDI_NM_mpi_compare_and_swap
#undef MPIDI_NM_rma_win_cmpl_hook
#undef MPIDI_NM_rma_win_local_cmpl_hook
#undef MPIDI_NM_rma_target_cmpl_hook
#undef MPIDI_NM_rma_target_local_cmpl_hook

/* The operation that the arguments of these functions describe. */
#define NETMOD_TORII_ACCESS                                                                 \
  {                                                                                         \
    (void*)(uintptr_t)origin_addr, origin_count, origin_datatype, target_rank, target_disp, \
        target_count, target_datatype, win                                                  \
  }

/* --- put and get --------------------------------------------------------------------------- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_put(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPIR_Win* win, MPIDI_av_entry_t* addr, MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_put(&access, NULL, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_put(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                             target_count, target_datatype, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get(void* origin_addr, netmod_torii_count_t origin_count,
                                              MPI_Datatype origin_datatype, int target_rank,
                                              MPI_Aint target_disp,
                                              netmod_torii_count_t target_count,
                                              MPI_Datatype target_datatype, MPIR_Win* win,
                                              MPIDI_av_entry_t* addr, MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_get(&access, NULL, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                             target_count, target_datatype, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rput(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPIR_Win* win, MPIDI_av_entry_t* addr, MPIDI_winattr_t winattr,
    MPIR_Request** request) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_put(&access, request, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                              target_count, target_datatype, win, addr, winattr, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget(void* origin_addr, netmod_torii_count_t origin_count,
                                               MPI_Datatype origin_datatype, int target_rank,
                                               MPI_Aint target_disp,
                                               netmod_torii_count_t target_count,
                                               MPI_Datatype target_datatype, MPIR_Win* win,
                                               MPIDI_av_entry_t* addr, MPIDI_winattr_t winattr,
                                               MPIR_Request** request) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_get(&access, request, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                              target_count, target_datatype, win, addr, winattr, request);
}

/* --- accumulate ---------------------------------------------------------------------------- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_accumulate(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPI_Op op, MPIR_Win* win, MPIDI_av_entry_t* addr,
    MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_accumulate(&access, op, NULL, NULL, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_accumulate(origin_addr, origin_count, origin_datatype, target_rank,
                                    target_disp, target_count, target_datatype, op, win, addr,
                                    winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_raccumulate(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPI_Op op, MPIR_Win* win, MPIDI_av_entry_t* addr,
    MPIDI_winattr_t winattr, MPIR_Request** request) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_accumulate(&access, op, NULL, request, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_raccumulate(origin_addr, origin_count, origin_datatype, target_rank,
                                     target_disp, target_count, target_datatype, op, win, addr,
                                     winattr, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get_accumulate(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    void* result_addr, netmod_torii_count_t result_count, MPI_Datatype result_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPI_Op op, MPIR_Win* win, MPIDI_av_entry_t* addr,
    MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  const struct netmod_torii_old old = {result_addr, result_count, result_datatype};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_accumulate(&access, op, &old, NULL, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_get_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                                        result_count, result_datatype, target_rank, target_disp,
                                        target_count, target_datatype, op, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget_accumulate(
    const void* origin_addr, netmod_torii_count_t origin_count, MPI_Datatype origin_datatype,
    void* result_addr, netmod_torii_count_t result_count, MPI_Datatype result_datatype,
    int target_rank, MPI_Aint target_disp, netmod_torii_count_t target_count,
    MPI_Datatype target_datatype, MPI_Op op, MPIR_Win* win, MPIDI_av_entry_t* addr,
    MPIDI_winattr_t winattr, MPIR_Request** request) {
  const struct netmod_torii_access access = NETMOD_TORII_ACCESS;
  const struct netmod_torii_old old = {result_addr, result_count, result_datatype};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_accumulate(&access, op, &old, request, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_rget_accumulate(
      origin_addr, origin_count, origin_datatype, result_addr, result_count, result_datatype,
      target_rank, target_disp, target_count, target_datatype, op, win, addr, winattr, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_fetch_and_op(const void* origin_addr, void* result_addr,
                                                       MPI_Datatype datatype, int target_rank,
                                                       MPI_Aint target_disp, MPI_Op op,
                                                       MPIR_Win* win, MPIDI_av_entry_t* addr,
                                                       MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = {
      (void*)(uintptr_t)origin_addr, 1, datatype, target_rank, target_disp, 1, datatype, win};
  const struct netmod_torii_old old = {result_addr, 1, datatype};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_accumulate(&access, op, &old, NULL, &mpi_errno)) return mpi_errno;
  return netmod_torii_am_fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp,
                                      op, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_compare_and_swap(const void* origin_addr,
                                                           const void* compare_addr,
                                                           void* result_addr, MPI_Datatype datatype,
                                                           int target_rank, MPI_Aint target_disp,
                                                           MPIR_Win* win, MPIDI_av_entry_t* addr,
                                                           MPIDI_winattr_t winattr) {
  const struct netmod_torii_access access = {
      (void*)(uintptr_t)origin_addr, 1, datatype, target_rank, target_disp, 1, datatype, win};
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_compare_and_swap(&access, compare_addr, result_addr, &mpi_errno))
    return mpi_errno;
  return netmod_torii_am_compare_and_swap(origin_addr, compare_addr, result_addr, datatype,
                                          target_rank, target_disp, win, addr, winattr);
}

/* --- completion ---------------------------------------------------------------------------- */

/* An operation of ours is complete at the target when it is complete here. */
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_cmpl_hook(MPIR_Win* win) {
  return netmod_torii_complete_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_local_cmpl_hook(MPIR_Win* win) {
  return netmod_torii_complete_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_cmpl_hook(int rank, MPIR_Win* win) {
  return netmod_torii_complete_to(rank, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_local_cmpl_hook(int rank, MPIR_Win* win) {
  return netmod_torii_complete_to(rank, win);
}

#endif /* TORII_RMA_H_INCLUDED */
