/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The component, its modules, and the functions that were there before.
 */
#include "coll_torii.h"

#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"

/* Processes of a communicator on several nodes: each finds all others when it is set up. */
#define REMOTE_MOST 256

static int register_variables(void);
static int init_query(bool progress_threads, bool mpi_threads);
static mca_coll_base_module_t* comm_query(struct ompi_communicator_t* comm, int* priority);
static int enable(mca_coll_base_module_t* base, struct ompi_communicator_t* comm);

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_torii_component = {
    .collm_version =
        {
#ifdef MCA_COLL_BASE_VERSION_2_4_0
            MCA_COLL_BASE_VERSION_2_4_0,
#else
            MCA_COLL_BASE_VERSION_2_0_0,
#endif
            .mca_component_name = "torii",
            MCA_BASE_MAKE_VERSION(component, TORII_VERSION_MAJOR, TORII_VERSION_MINOR, 0),
            .mca_register_component_params = register_variables,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

/* Above all that serve host memory, below those that copy a device's memory to the host first. */
static int priority_wanted = 77;

static int register_variables(void) {
  mca_base_component_var_register(&mca_coll_torii_component.collm_version, "priority",
                                  "Priority of coll/torii; below 0: it is not used",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                  MCA_BASE_VAR_SCOPE_READONLY, &priority_wanted);
  return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads;
  (void)mpi_threads;
  return OMPI_SUCCESS;
}

static void construct(coll_torii_module_t* module) {
  const size_t head = sizeof module->super;
  memset((char*)module + head, 0, sizeof *module - head);
  module->bcast_refused = module->reduce_refused = SIZE_MAX;
}

#define RELEASE(name) \
  if (NULL != module->name.module) OBJ_RELEASE(module->name.module)

static void destruct(coll_torii_module_t* module) {
  coll_torii_close(module);
  RELEASE(barrier);
  RELEASE(bcast);
  RELEASE(reduce);
  RELEASE(allreduce);
  RELEASE(allgather);
  RELEASE(alltoall);
}

OBJ_CLASS_INSTANCE(coll_torii_module_t, mca_coll_base_module_t, construct, destruct);

/* Open MPI asks in each process by itself; whether all can is found out in an early call. */
static mca_coll_base_module_t* comm_query(struct ompi_communicator_t* comm, int* priority) {
  coll_torii_module_t* module;
  *priority = -1;
  if (0 > priority_wanted || OMPI_COMM_IS_INTER(comm) || 2 > ompi_comm_size(comm)) return NULL;
  if (NULL == torii_current()) return NULL;
  if (ompi_group_have_remote_peers(comm->c_local_group) && REMOTE_MOST < ompi_comm_size(comm))
    return NULL;
  module = OBJ_NEW(coll_torii_module_t);
  if (NULL == module) return NULL;
  *priority = priority_wanted;
  module->super.coll_module_enable = enable;
  coll_torii_use(module);
  return &module->super;
}

#define KEEP(name)                                                       \
  do {                                                                   \
    module->name.function = comm->c_coll->coll_##name;                   \
    module->name.module = comm->c_coll->coll_##name##_module;            \
    if (NULL == module->name.function) module->super.coll_##name = NULL; \
    if (NULL != module->name.module) OBJ_RETAIN(module->name.module);    \
  } while (0)

/* No communication here: it may run in the middle of another communicator's making. */
static int enable(mca_coll_base_module_t* base, struct ompi_communicator_t* comm) {
  coll_torii_module_t* const module = (coll_torii_module_t*)base;
  KEEP(barrier);
  KEEP(bcast);
  KEEP(reduce);
  KEEP(allreduce);
  KEEP(allgather);
  KEEP(alltoall);
  return NULL == module->allreduce.function ? OMPI_ERR_NOT_AVAILABLE : OMPI_SUCCESS;
}
