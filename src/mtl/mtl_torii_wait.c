/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Waiting in programs with several threads.
 *
 * In Open MPI one thread makes progress for all, the others sleep until it signals that their
 * requests are complete. A thread that wakes up spins until the signalling one has left the
 * signal behind; where they share a processor it has just taken that one's place, and both lose a
 * time slice. Here every thread polls for itself, and gives up the processor as Torii's waiting
 * does. The functions of Open MPI then find complete requests, and only collect them.
 */
#include "mtl_torii.h"

static ompi_request_fns_t next; /* req_wait is null: Open MPI's own are in place */

static inline bool over(const struct ompi_request_t* request) {
  return REQUEST_COMPLETE(request) || OMPI_REQUEST_INACTIVE == request->req_state;
}

static void await(const struct ompi_request_t* request) {
  while (!over(request)) opal_progress();
}

/* Of one request at least, unless all are inactive. */
static void await_one(size_t count, struct ompi_request_t** requests) {
  for (;;) {
    bool active = false;
    for (size_t i = 0; i < count; ++i) {
      if (OMPI_REQUEST_INACTIVE == requests[i]->req_state) continue;
      if (REQUEST_COMPLETE(requests[i])) return;
      active = true;
    }
    if (!active) return;
    opal_progress();
  }
}

static int wait_one(struct ompi_request_t** request, ompi_status_public_t* status) {
  await(*request);
  return next.req_wait(request, status);
}

static int wait_any(size_t count, struct ompi_request_t** requests, int* index,
                    ompi_status_public_t* status) {
  await_one(count, requests);
  return next.req_wait_any(count, requests, index, status);
}

static int wait_all(size_t count, struct ompi_request_t** requests,
                    ompi_status_public_t* statuses) {
  for (size_t i = 0; i < count; ++i) await(requests[i]);
  return next.req_wait_all(count, requests, statuses);
}

static int wait_some(size_t count, struct ompi_request_t** requests, int* done, int* indices,
                     ompi_status_public_t* statuses) {
  await_one(count, requests);
  return next.req_wait_some(count, requests, done, indices, statuses);
}

void mtl_torii_open_wait(void) {
  if (NULL != next.req_wait || !opal_using_threads()) return;
  next = ompi_request_functions;
  ompi_request_functions.req_wait = wait_one;
  ompi_request_functions.req_wait_any = wait_any;
  ompi_request_functions.req_wait_all = wait_all;
  ompi_request_functions.req_wait_some = wait_some;
}

void mtl_torii_close_wait(void) {
  if (NULL == next.req_wait) return;
  if (wait_all == ompi_request_functions.req_wait_all) {
    ompi_request_functions.req_wait = next.req_wait;
    ompi_request_functions.req_wait_any = next.req_wait_any;
    ompi_request_functions.req_wait_all = next.req_wait_all;
    ompi_request_functions.req_wait_some = next.req_wait_some;
  }
  next.req_wait = NULL;
}
