/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Requests that wait for their next use. Open MPI's free list shares them among all threads, which
 * costs two locked instructions a message; here each thread keeps some of those it gave back.
 */
#ifndef MTL_TORII_POOL_H
#define MTL_TORII_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_free_list.h"
#if OMPI_MAJOR_VERSION >= 5
#include "opal/mca/threads/thread_usage.h"
#else
#include "opal/threads/thread_usage.h"
#endif

#define MTL_TORII_POOL_MOST 256 /* requests that a thread keeps */

struct mtl_torii_pool {
  opal_list_item_t* first;
  unsigned count;
};

/* There is one pool of requests in the process. False: no memory. */
bool mtl_torii_open_pool(size_t bytes, opal_class_t* type);
void mtl_torii_close_pool(void);

extern opal_free_list_t mtl_torii_shared;        /* what no thread keeps */
extern struct mtl_torii_pool mtl_torii_single;   /* a program's without MPI_THREAD_MULTIPLE */
extern pthread_key_t mtl_torii_pool_key;         /* the calling thread's, once it has one */
struct mtl_torii_pool* mtl_torii_new_pool(void); /* null: no memory */

static inline struct mtl_torii_pool* mtl_torii_pool(void) {
  struct mtl_torii_pool* own;
  if (OPAL_LIKELY(!opal_using_threads())) return &mtl_torii_single;
  own = pthread_getspecific(mtl_torii_pool_key);
  return OPAL_LIKELY(NULL != own) ? own : mtl_torii_new_pool();
}

/* Null: no memory. */
static inline opal_free_list_item_t* mtl_torii_pool_get(void) {
  struct mtl_torii_pool* own = mtl_torii_pool();
  opal_list_item_t* item;
  if (OPAL_UNLIKELY(NULL == own || NULL == own->first))
    return opal_free_list_get(&mtl_torii_shared);
  item = own->first;
  own->first = (opal_list_item_t*)item->opal_list_next;
  --own->count;
  return (opal_free_list_item_t*)item;
}

static inline void mtl_torii_pool_put(opal_free_list_item_t* item) {
  struct mtl_torii_pool* own = mtl_torii_pool();
  if (OPAL_UNLIKELY(NULL == own || own->count >= MTL_TORII_POOL_MOST)) {
    opal_free_list_return(&mtl_torii_shared, item);
    return;
  }
  item->super.opal_list_next = own->first;
  own->first = &item->super;
  ++own->count;
}

#endif /* MTL_TORII_POOL_H */
