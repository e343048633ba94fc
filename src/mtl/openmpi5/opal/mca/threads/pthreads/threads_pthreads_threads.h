/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Stand-in for a header that Open MPI 5.0 includes but does not install. */
#ifndef MTL_TORII_OPENMPI5_THREADS_H
#define MTL_TORII_OPENMPI5_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

static inline void opal_thread_yield(void) { sched_yield(); }

#endif /* MTL_TORII_OPENMPI5_THREADS_H */
