/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The lock that osc/rdma takes for each accumulate, left to the target.
 *
 * Between nodes MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap are
 * three questions: a swap of 0 for the exclusive bit takes the target's accumulate lock, then the
 * update, then an addition that gives the lock back. The target can do all of it at once
 * (torii_atomic_locked). So the lock is put off: the swap is said to have succeeded, each update
 * that follows is asked for under the lock, and giving back is nothing. If a get or a put follows
 * instead, the lock is taken then.
 *
 * To say so of other locks would be wrong: their holder may do things that the target knows nothing
 * of. This one is known by what was done with it before: swap, updates of the same peer's memory
 * and addition follow each other in one thread. osc/rdma flushes before it gives back the lock of
 * an epoch, and under the lock of a dynamic window's regions it updates nothing. Another call
 * between, at whatever peer, ends the recognition: the integers may lie at another process than
 * their lock, and to that one nothing is put off. Nor on one node, where osc/rdma may go past this
 * component to what the lock guards.
 *
 * Each thread is in the middle of one accumulate at most. A call that it makes meanwhile is that
 * accumulate's, or that of a callback that ran while it waited: an earlier accumulate may give its
 * own lock back there, and ob1 may put and get.
 */
#include "btl_torii.h"

#include <string.h>

#include "opal/runtime/opal_progress.h"

#define KNOWN_BITS 6

enum stage {
  NONE,
  SWAPPED, /* really; if that failed osc/rdma swaps again */
  USED,    /* the same, and only updates followed */
  PUT_OFF
};

typedef struct lock {
  enum stage stage;
  int failed; /* PUT_OFF: a Torii code, of what osc/rdma takes for carried out */
  btl_torii_endpoint_t* endpoint;
  uint64_t address;
  mca_btl_base_registration_handle_t handle; /* of the memory that the lock is in */
} lock_t;

static _Thread_local lock_t current;

/* Locks for accumulates, each at a place of its own until another one takes it. A handle is never
 * made again, so those of windows that are freed are no harm. The module's lock guards them. */
static struct {
  const btl_torii_endpoint_t* endpoint;
  uint64_t address;
  mca_btl_base_registration_handle_t handle;
} known[1 << KNOWN_BITS];

static unsigned place_of(const lock_t* lock) {
  return (unsigned)((lock->address >> 3 ^ (uintptr_t)lock->endpoint >> 6) * 0x9e3779b97f4a7c15u >>
                    (64 - KNOWN_BITS));
}

static void learn(const lock_t* lock) {
  const unsigned place = place_of(lock);
  OPAL_THREAD_LOCK(&btl_torii.lock);
  known[place].endpoint = lock->endpoint;
  known[place].address = lock->address;
  known[place].handle = lock->handle;
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
}

static bool is_known(const lock_t* lock) {
  const unsigned place = place_of(lock);
  bool same;
  OPAL_THREAD_LOCK(&btl_torii.lock);
  same = known[place].endpoint == lock->endpoint && known[place].address == lock->address &&
         btl_torii_same_handle(&known[place].handle, &lock->handle);
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  return same;
}

/* After a wait. Calls of callbacks meanwhile are not this accumulate's, so they saw none. */
static void resume(const lock_t* lock, int code) {
  current = *lock;
  if (TORII_OK != code && TORII_ERR_NO_MEMORY != code) current.failed = code;
}

/* Takes a lock that was put off. A Torii code. */
static int take(void) {
  const lock_t lock = current;
  uint64_t old = 1;
  int code = TORII_OK;
  current.stage = NONE;
  while (TORII_OK == code && 0 != old) {
    torii_flag_t flag = {.done = 0};
    const btl_torii_import_t* place;
    OPAL_THREAD_LOCK(&btl_torii.lock);
    place = btl_torii_import(lock.endpoint, &lock.handle);
    code = NULL == place
               ? TORII_ERR_INVALID
               : torii_atomic(place->import, lock.address - lock.handle.base, TORII_ATOMIC_CSWAP, 8,
                              BTL_TORII_LOCK_EXCLUSIVE, 0, &old, torii_flag, &flag);
    OPAL_THREAD_UNLOCK(&btl_torii.lock);
    code = btl_torii_wait(code, &flag);
    if (TORII_OK == code && 0 != old) opal_progress();
  }
  resume(&lock, code);
  if (TORII_OK == code) current.stage = NONE;
  return code;
}

/* Asks for the update under the lock until it is free. A Torii code. */
static int ask(const btl_torii_update_t* update) {
  const lock_t lock = current;
  const uint64_t offset = update->address - update->handle->base;
  int code;
  current.stage = NONE;
  do {
    torii_flag_t flag = {.done = 0};
    torii_lock_word_t word = {NULL, lock.address - lock.handle.base, BTL_TORII_LOCK_EXCLUSIVE};
    const btl_torii_import_t *held, *integer;
    OPAL_THREAD_LOCK(&btl_torii.lock);
    held = btl_torii_import(lock.endpoint, &lock.handle);
    integer = btl_torii_import(update->endpoint, update->handle);
    if (NULL == held || NULL == integer) {
      code = TORII_ERR_INVALID;
    } else {
      word.import = held->import;
      code =
          torii_atomic_locked(integer->import, offset, update->op, update->width, update->operand,
                              update->compare, update->local, &word, torii_flag, &flag);
    }
    OPAL_THREAD_UNLOCK(&btl_torii.lock);
    code = btl_torii_wait(code, &flag);
    if (TORII_EMPTY == code) opal_progress();
  } while (TORII_EMPTY == code);
  resume(&lock, code);
  return code;
}

/* A swap that may take a lock. True: that is put off. */
static bool put_off(const btl_torii_update_t* update) {
  current.endpoint = update->endpoint;
  current.address = update->address;
  current.handle = *update->handle;
  current.failed = TORII_OK;
  current.stage = is_known(&current) ? PUT_OFF : SWAPPED;
  if (PUT_OFF == current.stage) memset(update->local, 0, sizeof(uint64_t));
  return PUT_OFF == current.stage;
}

/* True: the lock was never taken. *code: what failed meanwhile. */
static bool give_back(int* code) {
  const enum stage stage = current.stage;
  current.stage = NONE;
  if (USED == stage) learn(&current);
  if (PUT_OFF == stage) *code = current.failed;
  return PUT_OFF == stage;
}

bool btl_torii_accumulate_update(const btl_torii_update_t* update, int* code) {
  lock_t* lock = &current;
  /* Found once, for that is a call: the compiler would do it again at each use. */
  __asm__("" : "+r"(lock));
  const bool exclusive = 8 == update->width && BTL_TORII_LOCK_EXCLUSIVE == update->operand;
  const bool release = exclusive && TORII_ATOMIC_ADD == update->op && NULL == update->local;
  const bool swap = exclusive && TORII_ATOMIC_CSWAP == update->op && 0 == update->compare &&
                    NULL != update->local;
  const bool same_peer = NONE != lock->stage && update->endpoint == lock->endpoint;
  const bool of_lock = same_peer && update->address == lock->address;
  *code = TORII_OK;
  /* Or an earlier accumulate's. Never an integer's: what osc/rdma does to those fetches. */
  if (release) return of_lock && give_back(code);
  if (same_peer && PUT_OFF == lock->stage) {
    *code = of_lock ? take() : ask(update);
    return !of_lock || TORII_OK != *code;
  }
  if (swap && !OPAL_PROC_ON_LOCAL_NODE(update->endpoint->proc->proc_flags)) return put_off(update);
  if (PUT_OFF != lock->stage) lock->stage = same_peer && !of_lock ? USED : NONE;
  return false;
}

int btl_torii_accumulate_other(const btl_torii_endpoint_t* endpoint) {
  if (OPAL_LIKELY(NONE == current.stage)) return TORII_OK;
  if (PUT_OFF == current.stage)
    return NULL == endpoint || endpoint == current.endpoint ? take() : TORII_OK;
  current.stage = NONE;
  return TORII_OK;
}
