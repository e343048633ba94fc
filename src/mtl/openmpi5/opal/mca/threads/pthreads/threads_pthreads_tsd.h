/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Stand-in for a header that Open MPI 5.0 includes but does not install. */
#ifndef MTL_TORII_OPENMPI5_TSD_H
#define MTL_TORII_OPENMPI5_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_key_delete(opal_tsd_key_t key) {
  return 0 == pthread_key_delete(key) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}
static inline int opal_tsd_set(opal_tsd_key_t key, void* value) {
  return 0 == pthread_setspecific(key, value) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}
static inline int opal_tsd_get(opal_tsd_key_t key, void** value) {
  *value = pthread_getspecific(key);
  return OPAL_SUCCESS;
}

#endif /* MTL_TORII_OPENMPI5_TSD_H */
