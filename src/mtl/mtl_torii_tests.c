/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * MPI_Test, MPI_Iprobe and their kin: a process that looks in between pieces of its own work is not
 * to sleep as one that waits. Open MPI's progress functions are not told which it is, and pml/cm's
 * MPI_Probe asks its MTL as MPI_Iprobe does. So the replaceable functions of requests and of the
 * pml say it, as pml/v and pml/monitoring replace them for their records.
 */
#include "mtl_torii.h"

#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

int mtl_torii_tests = 0;
static ompi_request_fns_t next; /* Open MPI's own; empty while not in use */
static mca_pml_base_module_iprobe_fn_t next_iprobe;
static mca_pml_base_module_improbe_fn_t next_improbe;

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

static int iprobe(int source, int tag, struct ompi_communicator_t* comm, int* matched,
                  ompi_status_public_t* status) {
  mtl_torii_begin_test();
  const int code = next_iprobe(source, tag, comm, matched, status);
  mtl_torii_end_test();
  return code;
}

static int improbe(int source, int tag, struct ompi_communicator_t* comm, int* matched,
                   struct ompi_message_t** message, ompi_status_public_t* status) {
  mtl_torii_begin_test();
  const int code = next_improbe(source, tag, comm, matched, message, status);
  mtl_torii_end_test();
  return code;
}

void mtl_torii_open_tests(void) {
  if (NULL != next.req_test) return;
  next_iprobe = mca_pml.pml_iprobe;
  next_improbe = mca_pml.pml_improbe;
  mca_pml.pml_iprobe = iprobe;
  mca_pml.pml_improbe = improbe;
  next = ompi_request_functions;
  ompi_request_functions.req_test = test;
  ompi_request_functions.req_test_any = test_any;
  ompi_request_functions.req_test_all = test_all;
  ompi_request_functions.req_test_some = test_some;
}

void mtl_torii_close_tests(void) {
  if (NULL == next.req_test) return;
  if (iprobe == mca_pml.pml_iprobe) {
    mca_pml.pml_iprobe = next_iprobe;
    mca_pml.pml_improbe = next_improbe;
  }
  if (test == ompi_request_functions.req_test) {
    ompi_request_functions.req_test = next.req_test;
    ompi_request_functions.req_test_any = next.req_test_any;
    ompi_request_functions.req_test_all = next.req_test_all;
    ompi_request_functions.req_test_some = next.req_test_some;
  }
  next.req_test = NULL;
}
