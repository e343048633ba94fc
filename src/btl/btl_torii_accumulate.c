/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The lock that osc/rdma takes for each accumulate, left to the target.
 *
 * Where the target has to be asked, MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op and
 * MPI_Compare_and_swap are three questions: a swap of 0 for the exclusive bit takes the target's
 * accumulate lock, then the update, then an addition that gives the lock back. The target can do
 * all of it at one (torii_atomic_locked). So the lock is put off: the swap is said to have
 * succeeded, each update that follows is asked for under the lock, and giving back is nothing. If a
 * get or a put follows instead, the lock is taken then.
 *
 * To say so of other locks would be wrong: their holder may do things that the target knows nothing
 * of. This one is known by what was done with it before, and with no other: swap, updates of the
 * same peer's memory and addition follow each other in one thread. Before it gives back the lock of
 * an epoch osc/rdma flushes, and locks of its own are followed by gets. What is known goes with the
 * import of the lock's handle, and so ends with the window.
 */
#include "btl_torii.h"

#include <string.h>

#include "opal/runtime/opal_progress.h"

#define EXCLUSIVE ((uint64_t)1 << 63) /* OMPI_OSC_RDMA_LOCK_EXCLUSIVE; its own negative */

enum stage {
  NONE,
  SWAPPED, /* really; if that failed osc/rdma swaps again */
  USED,    /* the same, and only updates followed */
  PUT_OFF
};

static _Thread_local struct {
  enum stage stage;
  btl_torii_endpoint_t* endpoint;
  uint64_t address;
  mca_btl_base_registration_handle_t handle; /* of the memory that the lock is in */
} lock;

static uint64_t lock_offset(void) { return lock.address - lock.handle.base; }

/* Takes a lock that was put off. An error is a Torii code. */
static int take(void) {
  uint64_t old;
  int code;
  if (PUT_OFF != lock.stage) return TORII_OK;
  lock.stage = NONE;
  for (;;) {
    torii_flag_t flag = {.done = 0};
    btl_torii_import_t* place;
    OPAL_THREAD_LOCK(&btl_torii.lock);
    place = btl_torii_import(lock.endpoint, &lock.handle);
    code = NULL == place ? TORII_ERR_INVALID
                         : torii_atomic(place->import, lock_offset(), TORII_ATOMIC_CSWAP, 8,
                                        EXCLUSIVE, 0, &old, torii_flag, &flag);
    OPAL_THREAD_UNLOCK(&btl_torii.lock);
    code = btl_torii_wait(code, &flag);
    if (TORII_OK != code || 0 == old) return code;
    opal_progress();
  }
}

/* Asks for the update under the lock until it is free. False: both handles have one place, so only
 * one of them can be imported. */
static bool ask(const btl_torii_update_t* update, int* code) {
  do {
    torii_flag_t flag = {.done = 0};
    btl_torii_import_t *of_lock, *of_integer;
    *code = TORII_ERR_INVALID;
    OPAL_THREAD_LOCK(&btl_torii.lock);
    of_lock = btl_torii_import(lock.endpoint, &lock.handle);
    of_integer = btl_torii_import(update->endpoint, update->handle);
    if (of_lock == of_integer && !btl_torii_same_handle(&lock.handle, update->handle)) {
      OPAL_THREAD_UNLOCK(&btl_torii.lock);
      return false;
    }
    if (NULL != of_lock && NULL != of_integer) {
      const torii_lock_word_t word = {of_lock->import, lock_offset(), EXCLUSIVE};
      *code = torii_atomic_locked(of_integer->import, update->address - update->handle->base,
                                  update->op, update->width, update->operand, update->compare,
                                  update->local, &word, torii_flag, &flag);
    }
    OPAL_THREAD_UNLOCK(&btl_torii.lock);
    *code = btl_torii_wait(*code, &flag);
    if (TORII_EMPTY == *code) opal_progress();
  } while (TORII_EMPTY == *code);
  return true;
}

/* A swap that may take a lock. True: that is put off. */
static bool put_off(const btl_torii_update_t* update) {
  btl_torii_import_t* place;
  OPAL_THREAD_LOCK(&btl_torii.lock);
  place = btl_torii_import(update->endpoint, update->handle);
  lock.stage = NULL != place && update->address == place->accumulate_lock ? PUT_OFF : SWAPPED;
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  lock.endpoint = update->endpoint;
  lock.address = update->address;
  lock.handle = *update->handle;
  if (PUT_OFF == lock.stage) memset(update->local, 0, sizeof(uint64_t));
  return PUT_OFF == lock.stage;
}

/* The lock is given back. True: it was never taken. */
static bool give_back(void) {
  const enum stage stage = lock.stage;
  lock.stage = NONE;
  if (USED == stage) {
    btl_torii_import_t* place;
    OPAL_THREAD_LOCK(&btl_torii.lock);
    place = btl_torii_import(lock.endpoint, &lock.handle);
    if (NULL != place) place->accumulate_lock = lock.address;
    OPAL_THREAD_UNLOCK(&btl_torii.lock);
  }
  return PUT_OFF == stage;
}

bool btl_torii_accumulate_update(const btl_torii_update_t* update, int* code) {
  const bool same_peer = NONE != lock.stage && update->endpoint == lock.endpoint;
  const bool of_lock = same_peer && update->address == lock.address;
  const bool exclusive = 8 == update->width && EXCLUSIVE == update->operand;
  const bool own = of_lock && PUT_OFF == lock.stage;
  *code = TORII_OK;
  if (of_lock && exclusive && TORII_ATOMIC_ADD == update->op && NULL == update->local)
    return give_back();
  if (same_peer && !of_lock && PUT_OFF == lock.stage && ask(update, code)) return true;
  *code = take();
  if (TORII_OK != *code) return true;
  if (exclusive && TORII_ATOMIC_CSWAP == update->op && 0 == update->compare && !own &&
      NULL != update->local)
    return put_off(update);
  if (same_peer && NONE != lock.stage) lock.stage = of_lock ? NONE : USED;
  return false;
}

int btl_torii_accumulate_other(const btl_torii_endpoint_t* endpoint) {
  if (OPAL_LIKELY(NONE == lock.stage)) return TORII_OK;
  if (PUT_OFF == lock.stage) return take();
  if (NULL == endpoint || endpoint == lock.endpoint) lock.stage = NONE;
  return TORII_OK;
}
