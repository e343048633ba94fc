/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Registration, put, get, atomic operations and flush.
 */
#include "btl_torii.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"

OBJ_CLASS_INSTANCE(btl_torii_operation_t, opal_free_list_item_t, NULL, NULL);

/* --- memory of this process ---------------------------------------------------------------- */

static unsigned access_of(uint32_t flags) {
  unsigned access = 0;
  if (flags & MCA_BTL_REG_FLAG_REMOTE_READ) access |= TORII_MAY_READ;
  if (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) access |= TORII_MAY_WRITE;
  if (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) access |= TORII_MAY_UPDATE;
  return access;
}

mca_btl_base_registration_handle_t* btl_torii_register_mem(mca_btl_base_module_t* btl,
                                                           mca_btl_base_endpoint_t* endpoint,
                                                           void* base, size_t size,
                                                           uint32_t flags) {
  btl_torii_registration_t* registration = calloc(1, sizeof *registration);
  const unsigned access = access_of(flags);
  (void)btl;
  (void)endpoint;
  if (NULL == registration) return NULL;
  registration->handle.base = (uintptr_t)base;
  if (0 == access) return &registration->handle; /* for this process only: nobody needs a key */
  if (TORII_OK !=
      torii_export(btl_torii.ni, base, size, access, BTL_TORII_TAG, &registration->exported)) {
    free(registration);
    return NULL;
  }
  __atomic_add_fetch(&btl_torii.exports, 1, __ATOMIC_RELAXED);
  registration->handle.key_bytes =
      torii_export_key(registration->exported, registration->handle.key, BTL_TORII_KEY);
  if (registration->handle.key_bytes <= BTL_TORII_KEY) return &registration->handle;
  btl_torii_deregister_mem(btl, &registration->handle);
  return NULL;
}

int btl_torii_wait(int code, torii_flag_t* flag) {
  if (TORII_PENDING != code) return code;
  while (!__atomic_load_n(&flag->done, __ATOMIC_ACQUIRE)) torii_wait_step(btl_torii.ni);
  return flag->result.code;
}

int btl_torii_deregister_mem(mca_btl_base_module_t* btl,
                             mca_btl_base_registration_handle_t* handle) {
  btl_torii_registration_t* registration = (btl_torii_registration_t*)handle;
  torii_flag_t flag = {.done = 0};
  (void)btl;
  /* Memory that a get still reads here may be gone as soon as this has returned. */
  if (NULL != registration->exported) {
    btl_torii_wait(torii_unexport(registration->exported, torii_flag, &flag), &flag);
    __atomic_sub_fetch(&btl_torii.exports, 1, __ATOMIC_RELAXED);
  }
  free(registration);
  return OPAL_SUCCESS;
}

/* --- memory of peers ----------------------------------------------------------------------- */

bool btl_torii_same_handle(const mca_btl_base_registration_handle_t* a,
                           const mca_btl_base_registration_handle_t* b) {
  return a->base == b->base && 0 == memcmp(a->key, b->key, TORII_KEY_NAME);
}

static size_t hash_of(const mca_btl_base_registration_handle_t* handle) {
  uint64_t words[3];
  memcpy(words, handle->key + TORII_KEY_NAME - sizeof words, sizeof words);
  return (words[0] ^ words[1] >> 7) % BTL_TORII_IMPORTS;
}

/* The import that was used before the last one gives way. An import of memory that is registered
 * no more costs nothing but its place. */
static __opal_attribute_noinline__ btl_torii_import_t* find_import(
    btl_torii_endpoint_t* endpoint, const mca_btl_base_registration_handle_t* handle) {
  btl_torii_imports_t* imports;
  btl_torii_import_t* place;
  torii_import_t* import = NULL;
  if (OPAL_UNLIKELY(handle->key_bytes < TORII_KEY_NAME || handle->key_bytes > BTL_TORII_KEY))
    return NULL;
  imports = &endpoint->imports[hash_of(handle)];
  for (int n = 0; n < 2; ++n) {
    place = &imports->places[imports->last];
    if (OPAL_LIKELY(NULL != place->import && btl_torii_same_handle(&place->handle, handle)))
      return place;
    imports->last = !imports->last;
  }
  place = &imports->places[!imports->last];
  if (TORII_OK != torii_import(btl_torii.ni, endpoint->peer, handle->key, handle->key_bytes,
                               BTL_TORII_TAG, &import))
    return NULL;
  if (NULL != place->import) torii_import_drop(place->import);
  place->handle = *handle;
  place->import = import;
  place->later = false;
  imports->last = !imports->last;
  return place;
}

btl_torii_import_t* btl_torii_import(btl_torii_endpoint_t* endpoint,
                                     const mca_btl_base_registration_handle_t* handle) {
  btl_torii_import_t* place = endpoint->recent;
  if (OPAL_LIKELY(NULL != place && btl_torii_same_handle(&place->handle, handle))) return place;
  place = find_import(endpoint, handle);
  endpoint->recent = place;
  return place;
}

void btl_torii_drop_imports(btl_torii_endpoint_t* endpoint) {
  for (int i = 0; i < 2 * BTL_TORII_IMPORTS; ++i) {
    btl_torii_import_t* place = &endpoint->imports[i / 2].places[i % 2];
    if (NULL != place->import) torii_import_drop(place->import);
    place->import = NULL;
  }
  endpoint->recent = NULL;
}

static btl_torii_operation_t* take_operation(btl_torii_endpoint_t* endpoint, void* local,
                                             mca_btl_base_registration_handle_t* local_handle,
                                             mca_btl_base_rdma_completion_fn_t done, void* context,
                                             void* data) {
  btl_torii_operation_t* operation =
      (btl_torii_operation_t*)opal_free_list_get(&btl_torii.operations);
  if (OPAL_UNLIKELY(NULL == operation)) return NULL;
  operation->endpoint = endpoint;
  operation->local = local;
  operation->local_handle = local_handle;
  operation->done = done;
  operation->context = context;
  operation->data = data;
  operation->relock = false;
  return operation;
}

static void over(void* arg, const torii_result_t* result) {
  btl_torii_operation_t* operation = (btl_torii_operation_t*)arg;
  if (OPAL_UNLIKELY(operation->relock)) btl_torii_relock_grant(operation->local);
  if (OPAL_LIKELY(NULL != operation->done)) {
    operation->done(&btl_torii.super, operation->endpoint, operation->local,
                    operation->local_handle, operation->context, operation->data,
                    btl_torii_code(result->code));
  } else if (OPAL_UNLIKELY(TORII_OK != result->code)) {
    /* The caller flushes: nobody waits for this one by itself, so the flush tells what failed. */
    __atomic_store_n(&btl_torii.failed, result->code, __ATOMIC_RELAXED);
  }
  opal_free_list_return(&btl_torii.operations, &operation->super);
}

/* The upper layers know of no answer for a put or get that is complete; they do for atomic
 * operations, but osc/rdma then stores eight bytes where four were asked for, and does not count
 * the end of some. So the callback runs here. */
static int answer(int code, btl_torii_operation_t* operation) {
  if (TORII_PENDING == code) {
    __atomic_store_n(&btl_torii.waits, true, __ATOMIC_RELAXED);
    return OPAL_SUCCESS;
  }
  if (OPAL_LIKELY(TORII_OK == code)) {
    const torii_result_t result = {.code = TORII_OK};
    over(operation, &result);
    return OPAL_SUCCESS;
  }
  opal_free_list_return(&btl_torii.operations, &operation->super);
  return btl_torii_code(code);
}

/* A transfer that is complete inside the call takes no operation. */
static inline int transfer(btl_torii_endpoint_t* endpoint, void* local, uint64_t remote_address,
                           mca_btl_base_registration_handle_t* local_handle,
                           mca_btl_base_registration_handle_t* remote_handle, size_t size, bool put,
                           mca_btl_base_rdma_completion_fn_t done, void* context, void* data) {
  const uint64_t offset = remote_address - remote_handle->base;
  btl_torii_operation_t* operation = NULL;
  btl_torii_import_t* place;
  int code;
  endpoint = btl_torii_endpoint(endpoint);
  if (OPAL_UNLIKELY(NULL == endpoint)) return OPAL_ERR_UNREACH;
  code = btl_torii_accumulate_other(endpoint);
  if (OPAL_UNLIKELY(TORII_OK != code)) return btl_torii_code(code);
  if (!put && sizeof(uint64_t) == size) btl_torii_relock_get(endpoint, remote_address);
  OPAL_THREAD_LOCK(&btl_torii.lock);
  place = btl_torii_import(endpoint, remote_handle);
  code = NULL == place  ? TORII_ERR_INVALID
         : place->later ? TORII_EMPTY
         : put          ? torii_write_now(place->import, offset, local, size)
                        : torii_read_now(place->import, offset, local, size);
  if (TORII_EMPTY == code && NULL == done) {
    code = put ? torii_write(place->import, offset, local, size, TORII_COMPLETE_LOCAL, NULL, NULL)
               : torii_read(place->import, offset, local, size, NULL, NULL);
    place->later = TORII_PENDING == code;
    if (TORII_PENDING == code) code = TORII_OK; /* the flush tells */
  } else if (TORII_EMPTY == code) {
    operation = take_operation(endpoint, local, local_handle, done, context, data);
    if (OPAL_UNLIKELY(NULL == operation)) {
      code = TORII_ERR_NO_MEMORY;
    } else if (put) {
      code =
          torii_write(place->import, offset, local, size, TORII_COMPLETE_REMOTE, over, operation);
    } else {
      code = torii_read(place->import, offset, local, size, over, operation);
    }
    place->later = TORII_PENDING == code;
  }
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  if (NULL != operation) return answer(code, operation);
  if (size > BTL_TORII_SHORT)
    __atomic_store_n(&btl_torii.looks, BTL_TORII_LOOKS - 1, __ATOMIC_RELAXED);
  if (OPAL_LIKELY(TORII_OK == code) && NULL != done)
    done(&btl_torii.super, endpoint, local, local_handle, context, data, OPAL_SUCCESS);
  return btl_torii_code(code);
}

int btl_torii_put(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                  void* local_address, uint64_t remote_address,
                  mca_btl_base_registration_handle_t* local_handle,
                  mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags,
                  int order, mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext,
                  void* cbdata) {
  (void)btl;
  (void)flags;
  (void)order;
  return transfer(endpoint, local_address, remote_address, local_handle, remote_handle, size, true,
                  cbfunc, cbcontext, cbdata);
}

int btl_torii_get(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                  void* local_address, uint64_t remote_address,
                  mca_btl_base_registration_handle_t* local_handle,
                  mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags,
                  int order, mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext,
                  void* cbdata) {
  (void)btl;
  (void)flags;
  (void)order;
  return transfer(endpoint, local_address, remote_address, local_handle, remote_handle, size, false,
                  cbfunc, cbcontext, cbdata);
}

/* --- atomic operations --------------------------------------------------------------------- */

static int update(btl_torii_endpoint_t* endpoint, void* local_address, uint64_t remote_address,
                  mca_btl_base_registration_handle_t* local_handle,
                  mca_btl_base_registration_handle_t* remote_handle, torii_atomic_op_t op,
                  uint64_t operand, uint64_t compare, int flags,
                  mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata) {
  const unsigned width = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
  btl_torii_operation_t* operation;
  btl_torii_import_t* place;
  int code;
  /* Without a handle osc/rdma 4.1 means memory of its own that both processes map, and says where
   * it is here: refused, it swaps there by itself. */
  if (OPAL_UNLIKELY(NULL == remote_handle || flags & MCA_BTL_ATOMIC_FLAG_FLOAT ||
                    0 != remote_address % width))
    return OPAL_ERR_NOT_SUPPORTED;
  endpoint = btl_torii_endpoint(endpoint);
  if (OPAL_UNLIKELY(NULL == endpoint)) return OPAL_ERR_UNREACH;
  const btl_torii_update_t asked = {endpoint, local_address, remote_address, remote_handle,
                                    op,       width,         operand,        compare};
  if (btl_torii_accumulate_update(&asked, &code)) {
    if (OPAL_LIKELY(TORII_OK == code) && NULL != cbfunc)
      cbfunc(&btl_torii.super, endpoint, local_address, local_handle, cbcontext, cbdata,
             OPAL_SUCCESS);
    return btl_torii_code(code);
  }
  operation = take_operation(endpoint, local_address, local_handle, cbfunc, cbcontext, cbdata);
  if (OPAL_UNLIKELY(NULL == operation)) return OPAL_ERR_OUT_OF_RESOURCE;
  if (8 == width && TORII_ATOMIC_ADD == op)
    operation->relock =
        btl_torii_relock_add(endpoint, remote_address, operand, NULL != local_address);
  if (8 == width && TORII_ATOMIC_CSWAP == op)
    btl_torii_relock_swap(endpoint, remote_address, compare, operand);
  OPAL_THREAD_LOCK(&btl_torii.lock);
  place = btl_torii_import(endpoint, remote_handle);
  code = NULL == place ? TORII_ERR_INVALID
                       : torii_atomic(place->import, remote_address - remote_handle->base, op,
                                      width, operand, compare, local_address, over, operation);
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  return answer(code, operation);
}

/* False: Torii has no such operation. */
static bool find_operation(mca_btl_base_atomic_op_t op, torii_atomic_op_t* out) {
  switch (op) {
    case MCA_BTL_ATOMIC_ADD:
      *out = TORII_ATOMIC_ADD;
      return true;
    case MCA_BTL_ATOMIC_AND:
      *out = TORII_ATOMIC_AND;
      return true;
    case MCA_BTL_ATOMIC_OR:
      *out = TORII_ATOMIC_OR;
      return true;
    case MCA_BTL_ATOMIC_XOR:
      *out = TORII_ATOMIC_XOR;
      return true;
    case MCA_BTL_ATOMIC_SWAP:
      *out = TORII_ATOMIC_SWAP;
      return true;
    default:
      return false;
  }
}

int btl_torii_atomic_op(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                        uint64_t remote_address, mca_btl_base_registration_handle_t* remote_handle,
                        mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata) {
  return btl_torii_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, op, operand,
                              flags, order, cbfunc, cbcontext, cbdata);
}

int btl_torii_atomic_fop(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                         void* local_address, uint64_t remote_address,
                         mca_btl_base_registration_handle_t* local_handle,
                         mca_btl_base_registration_handle_t* remote_handle,
                         mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                         mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata) {
  torii_atomic_op_t operation;
  int code;
  (void)btl;
  (void)order;
  if (!find_operation(op, &operation)) return OPAL_ERR_NOT_SUPPORTED;
  code = update(endpoint, local_address, remote_address, local_handle, remote_handle, operation,
                operand, 0, flags, cbfunc, cbcontext, cbdata);
  /* After another error osc/rdma asks for such a one again for ever. After this one it tries by a
   * get, and returns the error of that. */
  if (OPAL_UNLIKELY(OPAL_SUCCESS != code && OPAL_ERR_OUT_OF_RESOURCE != code &&
                    NULL != local_address))
    return OPAL_ERR_NOT_SUPPORTED;
  return code;
}

int btl_torii_atomic_cswap(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                           void* local_address, uint64_t remote_address,
                           mca_btl_base_registration_handle_t* local_handle,
                           mca_btl_base_registration_handle_t* remote_handle, uint64_t compare,
                           uint64_t value, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext,
                           void* cbdata) {
  (void)btl;
  (void)order;
  return update(endpoint, local_address, remote_address, local_handle, remote_handle,
                TORII_ATOMIC_CSWAP, value, compare, flags, cbfunc, cbcontext, cbdata);
}

/* --- flush --------------------------------------------------------------------------------- */

/* A program that asks for a lock again and again takes the lock of osc/rdma for each try. On shared
 * processors a peer that wants that one, to give the program's lock back, finds it taken each time
 * that it runs: it has to run while nobody has it, as now. */
static void let_others_run(void) {
  if (!opal_progress_yield_when_idle || !__atomic_load_n(&btl_torii.waits, __ATOMIC_RELAXED))
    return;
  __atomic_store_n(&btl_torii.waits, false, __ATOMIC_RELAXED);
  sched_yield();
}

int btl_torii_flush(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint) {
  torii_flag_t flag = {.done = 0};
  int code;
  (void)btl;
  code = btl_torii_accumulate_other(endpoint);
  if (OPAL_UNLIKELY(TORII_OK != code)) return btl_torii_code(code);
  code = torii_flush(btl_torii.ni, NULL == endpoint ? NULL : endpoint->peer, torii_flag, &flag);
  if (TORII_PENDING == code) {
    code = btl_torii_wait(code, &flag);
  } else {
    /* A program may do nothing else for long, osc/rdma calls again and again, and who copies for
     * others is not there for peers. */
    const unsigned looks = __atomic_load_n(&btl_torii.looks, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&btl_torii.looks, looks % BTL_TORII_LOOKS, __ATOMIC_RELAXED);
    if (BTL_TORII_LOOKS == looks) torii_progress(btl_torii.ni);
    let_others_run();
  }
  if (OPAL_UNLIKELY(TORII_OK != btl_torii.failed)) {
    const int failed = __atomic_exchange_n(&btl_torii.failed, TORII_OK, __ATOMIC_RELAXED);
    if (TORII_OK == code) code = failed;
  }
  return btl_torii_code(code);
}
