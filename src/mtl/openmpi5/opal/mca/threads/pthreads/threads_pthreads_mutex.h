/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Stand-in for a header that Open MPI 5.0 includes but does not install: its mutexes and
 * condition variables are those of POSIX threads. */
#ifndef MTL_TORII_OPENMPI5_MUTEX_H
#define MTL_TORII_OPENMPI5_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(pthread_mutex_t* mutex, bool recursive) {
  pthread_mutexattr_t kind;
  int code;
  if (0 != pthread_mutexattr_init(&kind)) return OPAL_ERR_IN_ERRNO;
  if (recursive) pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  code = pthread_mutex_init(mutex, &kind);
  pthread_mutexattr_destroy(&kind);
  return 0 == code ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}
static inline void opal_thread_internal_mutex_lock(pthread_mutex_t* mutex) {
  pthread_mutex_lock(mutex);
}
static inline int opal_thread_internal_mutex_trylock(pthread_mutex_t* mutex) {
  return 0 != pthread_mutex_trylock(mutex);
}
static inline void opal_thread_internal_mutex_unlock(pthread_mutex_t* mutex) {
  pthread_mutex_unlock(mutex);
}
static inline void opal_thread_internal_mutex_destroy(pthread_mutex_t* mutex) {
  pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(pthread_cond_t* condition) {
  return 0 == pthread_cond_init(condition, NULL) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}
static inline void opal_thread_internal_cond_wait(pthread_cond_t* condition,
                                                  pthread_mutex_t* mutex) {
  pthread_cond_wait(condition, mutex);
}
static inline void opal_thread_internal_cond_broadcast(pthread_cond_t* condition) {
  pthread_cond_broadcast(condition);
}
static inline void opal_thread_internal_cond_signal(pthread_cond_t* condition) {
  pthread_cond_signal(condition);
}
static inline void opal_thread_internal_cond_destroy(pthread_cond_t* condition) {
  pthread_cond_destroy(condition);
}

#endif /* MTL_TORII_OPENMPI5_MUTEX_H */
