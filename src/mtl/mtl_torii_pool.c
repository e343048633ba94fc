/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 */
#include "mtl_torii_pool.h"

#include <stdlib.h>

#define AT_ONCE 64 /* requests that the shared list grows by */

opal_free_list_t mtl_torii_shared;
struct mtl_torii_pool mtl_torii_single;
pthread_key_t mtl_torii_pool_key;

/* The thread ends. */
static void give_back(void* arg) {
  struct mtl_torii_pool* own = arg;
  while (NULL != own->first) {
    opal_free_list_item_t* item = (opal_free_list_item_t*)own->first;
    own->first = (opal_list_item_t*)item->super.opal_list_next;
    opal_free_list_return(&mtl_torii_shared, item);
  }
  free(own);
}

bool mtl_torii_open_pool(size_t bytes, opal_class_t* type) {
  if (0 != pthread_key_create(&mtl_torii_pool_key, give_back)) return false;
  OBJ_CONSTRUCT(&mtl_torii_shared, opal_free_list_t);
  if (OPAL_SUCCESS == opal_free_list_init(&mtl_torii_shared, bytes, opal_cache_line_size, type, 0,
                                          0, 0, -1, AT_ONCE, NULL, 0, NULL, NULL, NULL))
    return true;
  mtl_torii_close_pool();
  return false;
}

/* Requests live in the shared list's memory, also those that threads keep. */
void mtl_torii_close_pool(void) {
  free(pthread_getspecific(mtl_torii_pool_key));
  pthread_key_delete(mtl_torii_pool_key);
  mtl_torii_single = (struct mtl_torii_pool){0};
  OBJ_DESTRUCT(&mtl_torii_shared);
}

struct mtl_torii_pool* mtl_torii_new_pool(void) {
  struct mtl_torii_pool* own = calloc(1, sizeof(*own));
  if (NULL != own && 0 != pthread_setspecific(mtl_torii_pool_key, own)) {
    free(own);
    own = NULL;
  }
  return own;
}
