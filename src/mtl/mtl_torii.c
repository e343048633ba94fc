/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The module: processes, communicators, errors, progress and the end.
 */
#include "mtl_torii.h"

#include <limits.h>
#include <stdlib.h>

#include "ompi/runtime/mpiruntime.h"
#include "opal/util/output.h"

/* In MPI_Finalize. */
#define LOOKS_TO_A_LONGER_SLEEP 32
#define LONGEST_SLEEP_MS 5

struct mtl_torii_module mtl_torii = {
    .super =
        {
            .mtl_max_contextid = INT_MAX,
            .mtl_max_tag = INT_MAX,
            .mtl_request_size = sizeof(struct mtl_torii_request) - sizeof(struct mca_mtl_request_t),
            .mtl_flags = 0,
            .mtl_add_procs = mtl_torii_add_procs,
            .mtl_del_procs = mtl_torii_del_procs,
            .mtl_finalize = mtl_torii_finalize,
            .mtl_send = mtl_torii_send,
            .mtl_isend = mtl_torii_isend,
            .mtl_irecv = mtl_torii_irecv,
            .mtl_iprobe = mtl_torii_iprobe,
            .mtl_imrecv = mtl_torii_imrecv,
            .mtl_improbe = mtl_torii_improbe,
            .mtl_cancel = mtl_torii_cancel,
            .mtl_add_comm = mtl_torii_add_comm,
            .mtl_del_comm = mtl_torii_del_comm,
        },
};

#ifdef MPI_ERR_PROC_FAILED
#define PEER_LOST MPI_ERR_PROC_FAILED
#else
#define PEER_LOST MPI_ERR_OTHER
#endif

int mtl_torii_error(int code) {
  switch (code) {
    case TORII_OK:
      return MPI_SUCCESS;
    case TORII_ERR_TRUNCATED:
      return MPI_ERR_TRUNCATE;
    case TORII_ERR_INVALID:
      return MPI_ERR_ARG;
    case TORII_ERR_NO_MEMORY:
      return MPI_ERR_NO_MEM;
    case TORII_ERR_PEER_DEAD:
    case TORII_ERR_PEER_CLOSED:
      return PEER_LOST;
    case TORII_ERR_CORRUPT:
      return MPI_ERR_INTERN;
    default:
      return MPI_ERR_OTHER;
  }
}

/* Fetches the address that the process published and connects. */
static int connect_proc(struct ompi_proc_t* proc) {
  torii_peer_t* peer = NULL;
  int code = ompi_torii_connect(&mca_mtl_torii_component.mtl_version, mtl_torii.ni,
                                &proc->super.proc_name, &peer);
  if (OPAL_ERR_NOT_FOUND == code) {
    opal_output(0,
                "mtl/torii: process %s published no Torii address; run every process with the "
                "same version of this component, or choose another with --mca pml ob1",
                OPAL_NAME_PRINT(proc->super.proc_name));
    return OMPI_ERR_UNREACH;
  }
  if (OPAL_SUCCESS != code) {
    opal_output(0, "mtl/torii: process %s cannot be reached: %s",
                OPAL_NAME_PRINT(proc->super.proc_name), torii_error());
    return code;
  }
  proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL] = peer;
  return OMPI_SUCCESS;
}

int mtl_torii_add_procs(struct mca_mtl_base_module_t* mtl, size_t count,
                        struct ompi_proc_t** procs) {
  (void)mtl;
  for (size_t i = 0; i < count; ++i) {
    int code;
    if (NULL != procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL]) continue;
    code = connect_proc(procs[i]);
    if (OMPI_SUCCESS != code) return code;
  }
  return OMPI_SUCCESS;
}

torii_peer_t* mtl_torii_add_peer(struct ompi_proc_t* proc, int* error) {
  int code = MCA_PML_CALL(add_procs(&proc, 1));
  if (OMPI_SUCCESS != code) {
    *error = MPI_ERR_OTHER;
    return NULL;
  }
  return (torii_peer_t*)proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
}

/* Peers belong to the interface: a process that comes back gets the same one. */
int mtl_torii_del_procs(struct mca_mtl_base_module_t* mtl, size_t count,
                        struct ompi_proc_t** procs) {
  (void)mtl;
  for (size_t i = 0; i < count; ++i) {
    procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL] = NULL;
  }
  return OMPI_SUCCESS;
}

/* The context id in the match bits is all that a communicator needs. The first one comes when the
 * point-to-point layer has been chosen and nothing was sent yet. */
int mtl_torii_add_comm(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm) {
  (void)mtl;
  (void)comm;
  if (mtl_torii.direct) mtl_torii_open_direct();
  mtl_torii_open_wait();
  mtl_torii_open_tests();
  return OMPI_SUCCESS;
}

static void dropped(void* arg, const torii_result_t* result) {
  (void)arg;
  (void)result;
}

/* Messages that were never received: the next communicator with this context id must not get
 * them. */
int mtl_torii_del_comm(struct mca_mtl_base_module_t* mtl, struct ompi_communicator_t* comm) {
  const torii_data_t nothing = {.layout = TORII_CONTIGUOUS};
  torii_message_t* message;
  torii_result_t result;
  (void)mtl;
  while (TORII_OK == torii_mprobe(mtl_torii.port, NULL, mtl_torii_tag(comm, 0), UINT32_MAX,
                                  &message, &result)) {
    torii_mrecv(mtl_torii.port, message, &nothing, dropped, NULL, NULL, &result);
  }
  return OMPI_SUCCESS;
}

/* MPI_Finalize waits for the others in a loop of its own, which sleeps for 0.1 ms between two
 * looks: on 2 processors 17 % of one. It ends when the launcher says so, of which Torii knows
 * nothing, so the sleeps grow with the wait. */
static int progress_to_the_end(void) {
  static int idle; /* looks in a row that found nothing */
  const int events = torii_wait(mtl_torii.ni, idle / LOOKS_TO_A_LONGER_SLEEP);
  if (events > 0) {
    idle = 0;
  } else if (idle < LONGEST_SLEEP_MS * LOOKS_TO_A_LONGER_SLEEP) {
    ++idle;
  }
  return events;
}

__attribute__((hot)) int mtl_torii_progress(void) {
  if (OPAL_UNLIKELY(ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT))
    return progress_to_the_end();
  return OPAL_LIKELY(!mtl_torii_testing()) ? torii_wait_step(mtl_torii.ni)
                                           : torii_test_step(mtl_torii.ni);
}

int mtl_torii_finalize(struct mca_mtl_base_module_t* mtl) {
  (void)mtl;
  mtl_torii_close_wait();
  mtl_torii_close_direct();
  mtl_torii_close_tests();
  opal_progress_unregister(mtl_torii_progress);
  torii_set_others(mtl_torii.ni, NULL);
  ompi_torii_hear(&mca_mtl_torii_component.mtl_version, mtl_torii.ni, false);
  torii_port_close(mtl_torii.port);
  torii_close(mtl_torii.ni);
  mtl_torii.port = NULL;
  mtl_torii.ni = NULL;
  return OMPI_SUCCESS;
}
