/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * A lock that osc/rdma waits for although it holds it. Before Open MPI 4.1.5, what is addressed in
 * a dynamic window of another node is looked up under an exclusive lock at the target. When the
 * target has attached memory since the last time, the list of it is read under a share of the same
 * lock, which is not to be had before the exclusive one is given back: the process waits for itself
 * for ever.
 *
 * Here that looks as follows, all by one thread: a swap of 0 for the exclusive bit, which succeeds,
 * for otherwise it comes again; a get of the number of regions, beside the lock; then an addition
 * of 1 that finds the exclusive bit, is taken back, and comes again. From then on the bit is left
 * out of the answer, because it is the asking thread's own: the share is granted, and the lock word
 * counts it correctly. Versions without the defect never do the first three of these in a row.
 */
#include "btl_torii.h"

#define REGIONS 16 /* from ompi_osc_rdma_state_t's regions_lock to its region_count */

enum stage { FREE, HELD, READ, ASKED, TAKEN_BACK };

static _Thread_local struct {
  enum stage stage;
  const btl_torii_endpoint_t* endpoint;
  uint64_t address; /* of the lock that was taken last */
} lock;

void btl_torii_relock_swap(const btl_torii_endpoint_t* endpoint, uint64_t address, uint64_t compare,
                           uint64_t value) {
  if (0 != compare || BTL_TORII_LOCK_EXCLUSIVE != value) return;
  lock.stage = HELD;
  lock.endpoint = endpoint;
  lock.address = address;
}

void btl_torii_relock_get(const btl_torii_endpoint_t* endpoint, uint64_t address) {
  if (HELD == lock.stage && endpoint == lock.endpoint && address == lock.address + REGIONS)
    lock.stage = READ;
}

bool btl_torii_relock_add(const btl_torii_endpoint_t* endpoint, uint64_t address, uint64_t operand,
                          bool fetching) {
  if (FREE == lock.stage || endpoint != lock.endpoint || address != lock.address) return false;
  if (fetching && 1 == operand && TAKEN_BACK == lock.stage) return true;
  if (fetching && 1 == operand && (READ == lock.stage || ASKED == lock.stage)) {
    lock.stage = ASKED;
  } else if (!fetching && (uint64_t)-1 == operand &&
             (ASKED == lock.stage || TAKEN_BACK == lock.stage)) {
    lock.stage = TAKEN_BACK;
  } else {
    lock.stage = FREE;
  }
  return false;
}

void btl_torii_relock_grant(void* answer) { *(uint64_t*)answer &= ~BTL_TORII_LOCK_EXCLUSIVE; }
