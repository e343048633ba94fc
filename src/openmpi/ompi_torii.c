/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 */
#include "ompi_torii.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/proc/proc.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"
#if OMPI_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#define MODEX_SCOPE PMIX_GLOBAL
#else
#include "opal/mca/pmix/pmix.h"
#define MODEX_SCOPE OPAL_PMIX_GLOBAL
#endif

#define JOB_OF(name) (1ull << 32 | (name).jobid)

/* The launcher's number of this node; without one, a number made of its name. */
static uint32_t node_index(void) {
  uint32_t node = 0;
  uint32_t* out = &node;
  int code;
#if OMPI_MAJOR_VERSION >= 5
  OPAL_MODEX_RECV_VALUE_OPTIONAL(code, PMIX_NODEID, &OPAL_PROC_MY_NAME, &out, PMIX_UINT32);
#else
  OPAL_MODEX_RECV_VALUE_OPTIONAL(code, OPAL_PMIX_NODEID, &OPAL_PROC_MY_NAME, &out, OPAL_UINT32);
#endif
  if (OPAL_SUCCESS == code) return node;
  node = 2166136261u;
  for (const char* c = opal_process_info.nodename; NULL != c && '\0' != *c; ++c) {
    node = (node ^ (uint8_t)*c) * 16777619u;
  }
  return node;
}

/* The launcher sets it on nodes with more processes than slots; a user may know of more that share
 * the processors. Open MPI 4.1 declares no variable for it. */
static bool asked_to_yield(void) {
  const int index = mca_base_var_find("ompi", "mpi", NULL, "yield_when_idle");
  const bool* value = NULL;
  return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) &&
         NULL != value && *value;
}

/* Gives a parameter a value, unless somebody has given it one. */
static void suggest(const char* name, const char* value, const char* origin) {
  for (size_t i = 0; i < torii_param_count(); ++i) {
    torii_param_t parameter;
    if (TORII_OK == torii_param_info(i, &parameter) && 0 == strcmp(parameter.name, name) &&
        0 == strcmp(torii_param_origin(i), "default"))
      torii_param_set(name, value, origin);
  }
}

int ompi_torii_open(bool threads, torii_ni_t** ni) {
  torii_options_t options = {
      .struct_bytes = sizeof options,
      .job = JOB_OF(OPAL_PROC_MY_NAME),
      .rank = OPAL_PROC_MY_NAME.vpid,
      .size = (uint32_t)ompi_proc_world_size(),
      .node = node_index(),
      .local_rank = (uint32_t)opal_process_info.my_local_rank,
      .local_size = (uint32_t)opal_process_info.num_local_peers + 1,
      .threads = threads,
  };
  if (asked_to_yield()) suggest("wait", "yield", "MCA parameter mpi_yield_when_idle");
  return torii_open(&options, ni);
}

bool ompi_torii_named(const char* selection) {
  return NULL != selection && '^' != selection[0] && NULL != strstr(selection, "torii");
}

const char* ompi_torii_leave(const char* selection, torii_ni_t* ni) {
  return ompi_torii_named(selection) ? NULL : torii_missed_network(ni);
}

/* The address that a process published; the caller frees it. Threads ask one after another: of
 * several that ask PMIx for the same value at once some may never get an answer (Open MPI 5.0.7,
 * PMIx of Debian 13). */
static int ask(const mca_base_component_t* component, const opal_process_name_t* name,
               void** address, size_t* bytes) {
  static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
  int code;
  pthread_mutex_lock(&asking);
  OPAL_MODEX_RECV(code, component, name, address, bytes);
  pthread_mutex_unlock(&asking);
  return code;
}

/* The first words of a process. Those of other jobs are known when a communicator joins them. */
static size_t find(void* component, uint64_t job, uint32_t rank, void* out, size_t capacity) {
  const opal_process_name_t name = {.jobid = (opal_jobid_t)job, .vpid = rank};
  void* address = NULL;
  size_t bytes = 0;
  if (JOB_OF(name) != job) return 0;
  if (name.jobid != OPAL_PROC_MY_NAME.jobid && NULL == ompi_proc_lookup(name)) return 0;
  if (OPAL_SUCCESS != ask((const mca_base_component_t*)component, &name, &address, &bytes))
    return 0;
  if (bytes <= capacity) memcpy(out, address, bytes);
  free(address);
  return bytes;
}

void ompi_torii_hear(const mca_base_component_t* component, torii_ni_t* ni, bool hear) {
  void* const arg = (void*)(uintptr_t)component;
  if (hear) {
    torii_add_directory(ni, find, arg);
  } else {
    torii_remove_directory(ni, find, arg);
  }
}

int ompi_torii_publish(const mca_base_component_t* component, torii_ni_t* ni, size_t* bytes) {
  char address[OMPI_TORII_ADDRESS];
  int code = OMPI_ERR_VALUE_OUT_OF_BOUNDS;
  *bytes = torii_address(ni, address, sizeof address);
  if (*bytes > 0 && *bytes <= sizeof address) {
    OPAL_MODEX_SEND(code, MODEX_SCOPE, component, address, *bytes);
  }
  return code;
}

int ompi_torii_connect(const mca_base_component_t* component, torii_ni_t* ni,
                       const opal_process_name_t* name, torii_peer_t** peer) {
  void* address = NULL;
  size_t bytes = 0;
  int code;
  if (OPAL_SUCCESS != ask(component, name, &address, &bytes)) return OPAL_ERR_NOT_FOUND;
  code = torii_connect(ni, address, bytes, peer);
  free(address);
  if (TORII_OK == code) return OPAL_SUCCESS;
  return TORII_ERR_NO_MEMORY == code ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_UNREACH;
}
