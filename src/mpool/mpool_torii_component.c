/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Open MPI's memory pool over torii_memory_alloc: the memory of MPI_Alloc_mem, while the process
 * has a Torii interface open.
 */
/* clang-format off: Open MPI's configuration comes before everything else */
#include "mpi.h"
#include "ompi_config.h"
/* clang-format on */
#include <stdlib.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/mca/mpool/mpool.h"
#include "opal/util/argv.h"
#include "opal/util/output.h"
#include "torii.h"

#ifdef MCA_MPOOL_BASE_VERSION_3_1_0
#define MPOOL_VERSION MCA_MPOOL_BASE_VERSION_3_1_0
#else
#define MPOOL_VERSION MCA_MPOOL_BASE_VERSION_3_0_0
#endif

static int register_variables(void);
static int query(const char* hints, int* priority, mca_mpool_base_module_t** module);
static void* pool_alloc(mca_mpool_base_module_t* mpool, size_t bytes, size_t alignment,
                        uint32_t flags);
static void* pool_realloc(mca_mpool_base_module_t* mpool, void* address, size_t bytes);
static void pool_free(mca_mpool_base_module_t* mpool, void* address);

__attribute__((visibility("default"))) mca_mpool_base_component_t mca_mpool_torii_component = {
    .mpool_version =
        {
            MPOOL_VERSION,
            .mca_component_name = "torii",
            MCA_BASE_MAKE_VERSION(component, TORII_VERSION_MAJOR, TORII_VERSION_MINOR, 0),
            .mca_register_component_params = register_variables,
        },
    .mpool_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .mpool_query = query,
};

static mca_mpool_base_module_t pool = {
    .mpool_component = &mca_mpool_torii_component,
    .mpool_alloc = pool_alloc,
    .mpool_realloc = pool_realloc,
    .mpool_free = pool_free,
    .mpool_allocation_unit = 4096,
    .mpool_name = (char*)(uintptr_t) "torii",
};

static int priority_wanted = 60; /* Open MPI's malloc has 50, huge pages without a hint 20 */

static int register_variables(void) {
  mca_base_component_var_register(&mca_mpool_torii_component.mpool_version, "priority",
                                  "Priority of mpool/torii for the memory of MPI_Alloc_mem",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                  MCA_BASE_VAR_SCOPE_READONLY, &priority_wanted);
  return OPAL_SUCCESS;
}

/* The meaning of the hint "mpool=NAME" among the user's. 1: us, 0: nothing, -1: another pool. */
static int named(const char* hints) {
  char** list = NULL != hints ? opal_argv_split(hints, ',') : NULL;
  int answer = 0;
  for (char** hint = list; NULL != hint && NULL != *hint; ++hint) {
    if (0 == strncasecmp(*hint, "mpool=", 6)) answer = 0 == strcasecmp(*hint + 6, "torii") ? 1 : -1;
  }
  opal_argv_free(list);
  return answer;
}

static int query(const char* hints, int* priority, mca_mpool_base_module_t** module) {
  int wanted = named(hints);
  if (NULL == torii_current() || 0 > wanted) return OPAL_ERR_NOT_AVAILABLE;
  if (NULL != priority) *priority = wanted ? 100 : priority_wanted;
  if (NULL != module) *module = &pool;
  return OPAL_SUCCESS;
}

/* Null: Open MPI takes memory from malloc. */
static void* pool_alloc(mca_mpool_base_module_t* mpool, size_t bytes, size_t alignment,
                        uint32_t flags) {
  torii_ni_t* ni = torii_current();
  void* address = NULL;
  (void)mpool;
  (void)flags;
  if (NULL == ni || TORII_OK == torii_memory_alloc(ni, bytes, alignment, &address)) return address;
  opal_output_verbose(1, opal_mpool_base_framework.framework_output, "mpool/torii: %s",
                      torii_error());
  return NULL;
}

/* The size of what is at the address is known to nobody here, and Open MPI never asks. */
static void* pool_realloc(mca_mpool_base_module_t* mpool, void* address, size_t bytes) {
  return NULL == address ? pool_alloc(mpool, bytes, 0, 0) : NULL;
}

/* Behind MPI_Finalize the memory is ordinary memory that ends with the process. */
static void pool_free(mca_mpool_base_module_t* mpool, void* address) {
  torii_ni_t* ni = torii_current();
  (void)mpool;
  if (NULL != ni && TORII_OK != torii_memory_free(ni, address))
    opal_output(0, "mpool/torii: %s", torii_error());
}
