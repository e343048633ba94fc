/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * How a communicator comes to be served: not when it is made, but in one of its first calls, so
 * that one that is made and freed costs nothing, and all members are there.
 */
#include <stdlib.h>
#include <string.h>

#include "coll_torii.h"
#include "ompi/group/group.h"
#include "ompi/mca/bml/bml.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "opal/runtime/opal_progress.h"

#define CALLS_BEFORE 3
#define STEPS_ALONE 4 /* of progress, before Open MPI's other parts have theirs */

static const mca_base_component_t btl = {MCA_BTL_DEFAULT_VERSION("torii")};

static bool has_torii(const mca_bml_base_btl_array_t* ways) {
  for (size_t i = 0; i < ways->arr_size; ++i) {
    const mca_btl_base_module_t* const module = ways->bml_btls[i].btl;
    if (0 == strcmp("torii", module->btl_component->btl_version.mca_component_name)) return true;
  }
  return false;
}

static bool mtl_is_torii(void) {
  const mca_mtl_base_component_t* const selected = ompi_mtl_base_selected_component;
  return NULL != selected && 0 == strcmp("torii", selected->mtl_version.mca_component_name);
}

/* Null: Torii's other components do not talk to it. To ask the launcher for an address that nobody
 * has published takes many seconds. */
static torii_peer_t* find_peer(torii_ni_t* ni, struct ompi_proc_t* proc) {
  torii_peer_t* peer = NULL;
  char address[OMPI_TORII_ADDRESS];
  if (ompi_proc_local() == proc) { /* up to 4.1 btl/torii leaves it to btl/self */
    const size_t bytes = torii_address(ni, address, sizeof address);
    return TORII_OK == torii_connect(ni, address, bytes, &peer) ? peer : NULL;
  }
  if (mtl_is_torii()) {
    void* const* const known = &proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
    return NULL != *known || OMPI_SUCCESS == MCA_PML_CALL(add_procs(&proc, 1)) ? *known : NULL;
  }
  const mca_bml_base_endpoint_t* const ways = proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML];
  if (NULL == ways || !(has_torii(&ways->btl_send) || has_torii(&ways->btl_rdma)) ||
      OPAL_SUCCESS != ompi_torii_connect(&btl, ni, &proc->super.proc_name, &peer))
    return NULL;
  return peer;
}

/* The communicator's number, which its members have in common. */
static size_t name_of(struct ompi_communicator_t* comm, char name[16]) {
#if OMPI_MAJOR_VERSION >= 5
  if (!OMPI_COMM_IS_GLOBAL_INDEX(comm)) {
    const ompi_comm_extended_cid_t id = ompi_comm_get_extended_cid(comm);
    _Static_assert(sizeof id <= 16, "the name of a group");
    memcpy(name, &id, sizeof id);
    return sizeof id;
  }
  const uint32_t id = ompi_comm_get_local_cid(comm);
#else
  const uint32_t id = (uint32_t)comm->c_contextid;
#endif
  memcpy(name, &id, sizeof id);
  return sizeof id;
}

/* False: this process cannot. A program that makes thousands of communicators over a network
 * without multicast does not open a group for each to find that out. */
static bool open_group(struct coll_torii_module* module, struct ompi_communicator_t* comm) {
  const size_t size = (size_t)ompi_comm_size(comm);
  torii_peer_t** const peers = calloc(size, sizeof *peers);
  const bool reported = comm == &ompi_mpi_comm_world.comm; /* by the core, with the reason */
  char name[16];
  bool known = NULL != peers && NULL != (module->ni = torii_current());
  for (size_t i = 0; known && i < size; ++i) {
    peers[i] = find_peer(module->ni, ompi_group_peer_lookup(comm->c_local_group, (int)i));
    known = NULL != peers[i] && (reported || (int)i == ompi_comm_rank(comm) ||
                                 torii_peer_may_join(module->ni, peers[i]));
  }
  known = known && TORII_OK == torii_group_open(module->ni, name, name_of(comm, name), peers, size,
                                                &module->group);
  free(peers);
  return known;
}

int coll_torii_wait(struct coll_torii_module* module, int code, torii_flag_t* flag) {
  if (OPAL_LIKELY(TORII_PENDING != code)) return code;
  for (unsigned steps = 1; !__atomic_load_n(&flag->done, __ATOMIC_ACQUIRE); ++steps) {
    torii_wait_step(module->ni);
    if (steps % STEPS_ALONE == 0) opal_progress();
  }
  return flag->result.code;
}

static bool prepare(struct coll_torii_module* module, struct ompi_communicator_t* comm) {
  int mine = open_group(module, comm), all = 0;
  const int code = module->allreduce.function(&mine, &all, 1, &ompi_mpi_int.dt, &ompi_mpi_op_min.op,
                                              comm, module->allreduce.module);
  torii_flag_t flag = {.done = 0};
  if (MPI_SUCCESS != code || !all) return false;
  return TORII_OK ==
         coll_torii_wait(module, torii_group_prepare(module->group, torii_flag, &flag), &flag);
}

bool coll_torii_set_up(struct coll_torii_module* module, struct ompi_communicator_t* comm) {
  if (COLL_TORII_NEW != module->state) return false;
  if (module->calls++ < CALLS_BEFORE &&
      (comm != &ompi_mpi_comm_world.comm || ompi_group_have_remote_peers(comm->c_local_group)))
    return false;
  module->state = COLL_TORII_SETTING_UP;
  if (prepare(module, comm)) {
    module->state = COLL_TORII_READY;
    return true;
  }
  coll_torii_close(module);
  module->state = COLL_TORII_REFUSED;
  return false;
}

/* At the end of the program the interface may be closed already. */
void coll_torii_close(struct coll_torii_module* module) {
  if (NULL != module->group && torii_current() == module->ni) torii_group_close(module->group);
  module->group = NULL;
}
