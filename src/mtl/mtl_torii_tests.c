/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * MPI_Test and its kin: a process that looks in between pieces of its own work is not to sleep as
 * one that waits. Open MPI's progress functions are not told which it is, so the replaceable
 * functions of requests say it, as pml/v replaces them for its log.
 */
#include "mtl_torii.h"

#include "ompi/request/request.h"

int mtl_torii_tests = 0;
static ompi_request_fns_t next; /* Open MPI's own; empty while not in use */

static int test(ompi_request_t** request, int* completed, ompi_status_public_t* status) {
  mtl_torii_begin_test();
  const int code = next.req_test(request, completed, status);
  mtl_torii_end_test();
  return code;
}

static int test_any(size_t count, ompi_request_t** requests, int* index, int* completed,
                    ompi_status_public_t* status) {
  mtl_torii_begin_test();
  const int code = next.req_test_any(count, requests, index, completed, status);
  mtl_torii_end_test();
  return code;
}

static int test_all(size_t count, ompi_request_t** requests, int* completed,
                    ompi_status_public_t* statuses) {
  mtl_torii_begin_test();
  const int code = next.req_test_all(count, requests, completed, statuses);
  mtl_torii_end_test();
  return code;
}

static int test_some(size_t count, ompi_request_t** requests, int* outcount, int* indices,
                     ompi_status_public_t* statuses) {
  mtl_torii_begin_test();
  const int code = next.req_test_some(count, requests, outcount, indices, statuses);
  mtl_torii_end_test();
  return code;
}

void mtl_torii_open_tests(void) {
  if (NULL != next.req_test) return;
  next = ompi_request_functions;
  ompi_request_functions.req_test = test;
  ompi_request_functions.req_test_any = test_any;
  ompi_request_functions.req_test_all = test_all;
  ompi_request_functions.req_test_some = test_some;
}

void mtl_torii_close_tests(void) {
  if (NULL == next.req_test) return;
  if (test == ompi_request_functions.req_test) {
    ompi_request_functions.req_test = next.req_test;
    ompi_request_functions.req_test_any = next.req_test_any;
    ompi_request_functions.req_test_all = next.req_test_all;
    ompi_request_functions.req_test_some = next.req_test_some;
  }
  next.req_test = NULL;
}
