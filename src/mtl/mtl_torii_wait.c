/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Waiting in programs with MPI_THREAD_MULTIPLE.
 *
 * In Open MPI one thread makes progress for all, the others sleep until it signals that their
 * requests are complete. A thread that wakes up spins until the signalling one has left the
 * signal behind; where they share a processor it has just taken that one's place, and both lose a
 * time slice. Here every thread polls for itself, and gives up the processor as Torii's waiting
 * does, and to the others where threads are more than processors. The functions of Open MPI then
 * find complete requests, and only collect them.
 */
#include "mtl_torii.h"
#include "ompi/runtime/mpiruntime.h"

#define ROUNDS 8 /* of progress that end no request of the thread's, before it gives way */

static ompi_request_fns_t next; /* req_wait is null: Open MPI's own are in place */

/* Nothing more will happen to it that its owner waits for. */
static inline bool over(struct ompi_request_t* request) {
  if (REQUEST_COMPLETE(request) || OMPI_REQUEST_INACTIVE == request->req_state) return true;
#if OPAL_ENABLE_FT_MPI
  return ompi_request_is_failed(request);
#else
  return false;
#endif
}

static inline bool failed(const struct ompi_request_t* request) {
  return REQUEST_COMPLETE(request) && OMPI_REQUEST_INACTIVE != request->req_state &&
         MPI_SUCCESS != request->req_status.MPI_ERROR;
}

/* An event may be another thread's, which cannot take it while this one has the processor. */
static inline void progress(unsigned* idle) {
  opal_progress();
  if (++*idle % ROUNDS == 0) torii_give_way(mtl_torii.ni);
}

/* True: all are over. False: not all are, and the first error has come. */
static bool await_all(size_t count, struct ompi_request_t** requests) {
  unsigned idle = 0;
  for (size_t done = 0;; progress(&idle)) {
    const size_t before = done;
    while (done < count && over(requests[done])) ++done;
    if (done == count) return true;
    if (done != before) idle = 0;
    for (size_t i = 0; i < count; ++i) {
      if (failed(requests[i])) return false;
    }
  }
}

/* The end of MPI_Waitall by an error. Open MPI's own spins for ever if a request has failed already
 * when it is called and another one is pending. A failed one is freed by the error handler. */
static int collect(size_t count, struct ompi_request_t** requests, ompi_status_public_t* statuses) {
  for (size_t i = 0; i < count; ++i) {
    ompi_status_public_t status = ompi_status_empty;
    int completed = 0, code = MPI_ERR_PENDING;
    if (over(requests[i])) {
      code = ompi_request_functions.req_test(&requests[i], &completed, &status);
    }
    status.MPI_ERROR = code;
    if (MPI_STATUSES_IGNORE != statuses) OMPI_COPY_STATUS(&statuses[i], status, true);
  }
  return MPI_ERR_IN_STATUS;
}

/* One is over, or all are inactive. */
static void await_one(size_t count, struct ompi_request_t** requests) {
  unsigned idle = 0;
  for (;; progress(&idle)) {
    bool active = false;
    for (size_t i = 0; i < count; ++i) {
      if (OMPI_REQUEST_INACTIVE == requests[i]->req_state) continue;
      if (over(requests[i])) return;
      active = true;
    }
    if (!active) return;
  }
}

static int wait_one(struct ompi_request_t** request, ompi_status_public_t* status) {
  (void)await_all(1, request);
  mtl_torii_await_callbacks();
  return next.req_wait(request, status);
}

static int wait_any(size_t count, struct ompi_request_t** requests, int* index,
                    ompi_status_public_t* status) {
  await_one(count, requests);
  mtl_torii_await_callbacks();
  return next.req_wait_any(count, requests, index, status);
}

static int wait_all(size_t count, struct ompi_request_t** requests,
                    ompi_status_public_t* statuses) {
  const bool all = await_all(count, requests);
  mtl_torii_await_callbacks();
  if (!all) return collect(count, requests, statuses);
  return next.req_wait_all(count, requests, statuses);
}

static int wait_some(size_t count, struct ompi_request_t** requests, int* done, int* indices,
                     ompi_status_public_t* statuses) {
  await_one(count, requests);
  mtl_torii_await_callbacks();
  return next.req_wait_some(count, requests, done, indices, statuses);
}

void mtl_torii_open_wait(void) {
  if (NULL != next.req_wait || !ompi_mpi_thread_multiple) return;
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
    next.req_wait = NULL;
  }
}
