/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The component and its one module: parameters, opening, processes, errors and the end.
 */
#include "btl_torii.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#define MAX_SEND (32 << 10) /* largest message; each posted receive has room for one */

static int register_variables(void);
static mca_btl_base_module_t** init(int* count, bool progress_threads, bool mpi_threads);
static int progress(void);

__attribute__((visibility("default"))) mca_btl_base_component_t mca_btl_torii_component = {
    .btl_version =
        {
            MCA_BTL_DEFAULT_VERSION("torii"),
            .mca_register_component_params = register_variables,
        },
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .btl_init = init,
    .btl_progress = progress,
};

static int add_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
                     mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable);
static int del_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
                     mca_btl_base_endpoint_t** endpoints);
static int finalize(mca_btl_base_module_t* btl);
static int register_error(mca_btl_base_module_t* btl, mca_btl_base_module_error_cb_fn_t callback);
static void dump(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, int verbose);

btl_torii_module_t btl_torii = {
    .super =
        {
            .btl_component = &mca_btl_torii_component,
            .btl_add_procs = add_procs,
            .btl_del_procs = del_procs,
            .btl_finalize = finalize,
            .btl_alloc = btl_torii_alloc,
            .btl_free = btl_torii_free,
            .btl_prepare_src = btl_torii_prepare_src,
            .btl_send = btl_torii_send,
            .btl_sendi = btl_torii_sendi,
            .btl_put = btl_torii_put,
            .btl_get = btl_torii_get,
            .btl_atomic_op = btl_torii_atomic_op,
            .btl_atomic_fop = btl_torii_atomic_fop,
            .btl_atomic_cswap = btl_torii_atomic_cswap,
            .btl_register_mem = btl_torii_register_mem,
            .btl_deregister_mem = btl_torii_deregister_mem,
            .btl_register_error = register_error,
            .btl_dump = dump,
            .btl_flush = btl_torii_flush,
        },
};

static void construct_endpoint(btl_torii_endpoint_t* endpoint) {
  endpoint->dead = false;
  memset(endpoint->imports, 0, sizeof endpoint->imports);
  endpoint->recent = NULL;
}
OBJ_CLASS_INSTANCE(btl_torii_endpoint_t, opal_list_item_t, construct_endpoint, NULL);

int btl_torii_error(int code) {
  switch (code) {
    case TORII_ERR_NO_MEMORY:
      return OPAL_ERR_OUT_OF_RESOURCE;
    case TORII_ERR_UNREACHABLE:
    case TORII_ERR_PEER_DEAD:
    case TORII_ERR_PEER_CLOSED:
      return OPAL_ERR_UNREACH;
    case TORII_ERR_INVALID:
      return OPAL_ERR_BAD_PARAM;
    case TORII_ERR_DENIED:
      return OPAL_ERR_PERM;
    default:
      return OPAL_ERROR;
  }
}

/* Tells why Torii is not used: aloud when the user named it, else only under verbosity. */
static void decline(const char* reason) {
  if (ompi_torii_named(opal_btl_base_framework.framework_selection)) {
    opal_output(0, "btl/torii cannot be used: %s", reason);
  } else {
    opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl/torii cannot be used: %s",
                        reason);
  }
}

/* --- parameters ---------------------------------------------------------------------------- */

static int register_variables(void) {
  mca_btl_base_module_t* module = &btl_torii.super;
  module->btl_eager_limit = 8 << 10;
  module->btl_rndv_eager_limit = 8 << 10;
  module->btl_max_send_size = MAX_SEND;
  module->btl_rdma_pipeline_send_length = MAX_SEND;
  module->btl_rdma_pipeline_frag_size = 4 << 20;
  module->btl_min_rdma_pipeline_size = MAX_SEND;
  module->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
  module->btl_latency = 1;
  module->btl_bandwidth = 10000;
  module->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA |
                      MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS |
                      MCA_BTL_FLAGS_RDMA_FLUSH;
#ifdef MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION /* 5.0: without it osc/rdma sends messages instead */
  module->btl_flags |= MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;
#endif
  module->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
                             MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
                             MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
                             MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
  module->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
  module->btl_get_limit = SIZE_MAX;
  module->btl_put_limit = SIZE_MAX;
  module->btl_get_alignment = 0;
  module->btl_put_alignment = 0;
  module->btl_get_local_registration_threshold = SIZE_MAX;
  module->btl_put_local_registration_threshold = SIZE_MAX;
  return mca_btl_base_param_register(&mca_btl_torii_component.btl_version, module);
}

static bool is_default(const char* name) {
  mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
  const int index = mca_base_var_find("opal", "btl", "torii", name);
  return 0 > index || OPAL_SUCCESS != mca_base_var_get_value(index, NULL, &source, NULL) ||
         MCA_BASE_VAR_SOURCE_DEFAULT == source;
}

/* The driver sets the limits that the user left open. */
static void take_limits(void) {
  mca_btl_base_module_t* module = &btl_torii.super;
  torii_limits_t limits = {.struct_bytes = sizeof limits};
  if (TORII_OK != torii_limits(btl_torii.ni, NULL, &limits)) return;
  if (is_default("eager_limit")) module->btl_eager_limit = limits.frame;
  if (is_default("rndv_eager_limit")) module->btl_rndv_eager_limit = module->btl_eager_limit;
  if (module->btl_eager_limit > MAX_SEND) module->btl_eager_limit = MAX_SEND;
  if (module->btl_rndv_eager_limit > MAX_SEND) module->btl_rndv_eager_limit = MAX_SEND;
  if (module->btl_max_send_size < module->btl_eager_limit)
    module->btl_max_send_size = module->btl_eager_limit;
  if (is_default("rdma_pipeline_frag_size") && 0 != limits.remote_bytes)
    module->btl_rdma_pipeline_frag_size = limits.remote_bytes;
  if (is_default("bandwidth") && 0 != limits.mbytes_per_s)
    module->btl_bandwidth = limits.mbytes_per_s;
  if (is_default("latency") && 0 != limits.latency_ns)
    module->btl_latency = limits.latency_ns / 1000; /* us; osc/rdma takes the BTL with the least */
}

/* --- opening ------------------------------------------------------------------------------- */

static void on_peer_down(void* arg, torii_peer_t* peer, int code);

static int make_lists(void) {
  const struct {
    opal_free_list_t* list;
    size_t item;
    opal_class_t* class;
    size_t payload;
  } lists[] = {
      {&btl_torii.small, sizeof(btl_torii_frag_t), OBJ_CLASS(btl_torii_frag_t),
       btl_torii.super.btl_eager_limit},
      {&btl_torii.large, sizeof(btl_torii_frag_t), OBJ_CLASS(btl_torii_frag_t),
       btl_torii.super.btl_max_send_size},
      {&btl_torii.operations, sizeof(btl_torii_operation_t), OBJ_CLASS(btl_torii_operation_t), 0},
  };
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; ++i) {
    const int code =
        opal_free_list_init(lists[i].list, lists[i].item, 64, lists[i].class, lists[i].payload, 64,
                            0, -1, 16, NULL, 0, NULL, NULL, NULL);
    if (OPAL_SUCCESS != code) return code;
  }
  return OPAL_SUCCESS;
}

static int start(bool threads) {
  size_t bytes = 0;
  const char* leave;
  if (TORII_OK != ompi_torii_open(threads, &btl_torii.ni)) {
    btl_torii.ni = NULL;
    decline(torii_error());
    return OPAL_ERR_NOT_AVAILABLE;
  }
  leave = ompi_torii_leave(opal_btl_base_framework.framework_selection, btl_torii.ni);
  if (NULL != leave) {
    decline(leave);
    return OPAL_ERR_NOT_AVAILABLE;
  }
  take_limits();
  if (TORII_OK != torii_port_open(btl_torii.ni, BTL_TORII_PORT, &btl_torii.port) ||
      TORII_OK != torii_port_in_order(btl_torii.port)) {
    decline(torii_error());
    return OPAL_ERR_NOT_AVAILABLE;
  }
  if (OPAL_SUCCESS != make_lists() || OPAL_SUCCESS != btl_torii_start_receives()) {
    decline("out of memory for its messages");
    return OPAL_ERR_OUT_OF_RESOURCE;
  }
  torii_on_peer_down(btl_torii.ni, on_peer_down, NULL);
  if (OPAL_SUCCESS ==
      ompi_torii_publish(&mca_btl_torii_component.btl_version, btl_torii.ni, &bytes)) {
    ompi_torii_hear(&mca_btl_torii_component.btl_version, btl_torii.ni, true);
    return OPAL_SUCCESS;
  }
  decline("its address could not be published");
  return OPAL_ERROR;
}

/* Open MPI says that there are progress threads whether there are or not. */
static mca_btl_base_module_t** init(int* count, bool progress_threads, bool mpi_threads) {
  mca_btl_base_module_t** modules = malloc(sizeof *modules);
  (void)progress_threads;
  *count = 0;
  if (NULL == modules) return NULL;
  OBJ_CONSTRUCT(&btl_torii.small, opal_free_list_t);
  OBJ_CONSTRUCT(&btl_torii.large, opal_free_list_t);
  OBJ_CONSTRUCT(&btl_torii.operations, opal_free_list_t);
  OBJ_CONSTRUCT(&btl_torii.endpoints, opal_list_t);
  OBJ_CONSTRUCT(&btl_torii.lock, opal_mutex_t);
  if (OPAL_SUCCESS != start(mpi_threads)) {
    finalize(&btl_torii.super);
    free(modules);
    return NULL;
  }
  modules[0] = &btl_torii.super;
  *count = 1;
  return modules;
}

/* In a job with mtl/torii that component polls the same interface. */
static int progress(void) {
  static uint32_t rounds;
  return torii_wait_step_beside(btl_torii.ni, &rounds);
}

/* --- processes ----------------------------------------------------------------------------- */

static btl_torii_endpoint_t* find_endpoint(const torii_peer_t* peer) {
  btl_torii_endpoint_t* endpoint;
  OPAL_LIST_FOREACH(endpoint, &btl_torii.endpoints, btl_torii_endpoint_t) {
    if (endpoint->peer == peer) return endpoint;
  }
  return NULL;
}

btl_torii_endpoint_t* btl_torii_known_endpoint(const torii_peer_t* peer) {
  btl_torii_endpoint_t* endpoint;
  OPAL_THREAD_LOCK(&btl_torii.lock);
  endpoint = find_endpoint(peer);
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  return endpoint;
}

/* The endpoint of a process, made if need be; null: Torii does not reach it. */
static btl_torii_endpoint_t* endpoint_of(opal_proc_t* proc) {
  btl_torii_endpoint_t* endpoint;
  torii_peer_t* peer = NULL;
  const int code = ompi_torii_connect(&mca_btl_torii_component.btl_version, btl_torii.ni,
                                      &proc->proc_name, &peer);
  if (OPAL_SUCCESS != code) {
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/torii: process %s is not reached: %s",
                        OPAL_NAME_PRINT(proc->proc_name),
                        OPAL_ERR_NOT_FOUND == code ? "it published no address" : torii_error());
    return NULL;
  }
  OPAL_THREAD_LOCK(&btl_torii.lock);
  endpoint = find_endpoint(peer);
  if (NULL == endpoint) {
    endpoint = OBJ_NEW(btl_torii_endpoint_t);
    if (NULL != endpoint) {
      endpoint->proc = proc;
      endpoint->peer = peer;
      opal_list_append(&btl_torii.endpoints, &endpoint->super);
    }
  }
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  return endpoint;
}

btl_torii_endpoint_t* btl_torii_endpoint(btl_torii_endpoint_t* endpoint) {
  if (OPAL_LIKELY(NULL != endpoint)) return endpoint;
  if (NULL == btl_torii.self) btl_torii.self = endpoint_of(opal_proc_local_get());
  return btl_torii.self;
}

/* Up to 4.1 this process itself is btl/self's, as with other BTLs: osc/rdma of all processes would
 * not choose the same BTL if one of two reached it. Later osc/rdma wants one that reaches all,
 * itself included; messages to oneself are btl/self's by its exclusivity. */
static bool left_to_self(const opal_proc_t* proc) {
  return OMPI_MAJOR_VERSION < 5 && opal_proc_local_get() == proc;
}

/* `reachable` is null when processes are added one by one. */
static int add_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
                     mca_btl_base_endpoint_t** endpoints, opal_bitmap_t* reachable) {
  (void)btl;
  for (size_t i = 0; i < count; ++i) {
    endpoints[i] = left_to_self(procs[i]) ? NULL : endpoint_of(procs[i]);
    if (NULL != endpoints[i] && NULL != reachable) opal_bitmap_set_bit(reachable, (int)i);
  }
  return OPAL_SUCCESS;
}

/* May come again for what was deleted; the caller's place must stay as it is. */
static int del_procs(mca_btl_base_module_t* btl, size_t count, opal_proc_t** procs,
                     mca_btl_base_endpoint_t** endpoints) {
  btl_torii_endpoint_t* known;
  btl_torii_endpoint_t* next;
  (void)btl;
  (void)procs;
  OPAL_THREAD_LOCK(&btl_torii.lock);
  for (size_t i = 0; i < count; ++i) {
    OPAL_LIST_FOREACH_SAFE(known, next, &btl_torii.endpoints, btl_torii_endpoint_t) {
      if (known != endpoints[i]) continue;
      btl_torii_drop_imports(known);
      opal_list_remove_item(&btl_torii.endpoints, &known->super);
      OBJ_RELEASE(known);
    }
  }
  OPAL_THREAD_UNLOCK(&btl_torii.lock);
  return OPAL_SUCCESS;
}

/* --- errors -------------------------------------------------------------------------------- */

static int register_error(mca_btl_base_module_t* btl, mca_btl_base_module_error_cb_fn_t callback) {
  (void)btl;
  btl_torii.error = callback;
  return OPAL_SUCCESS;
}

/* Nobody but ob1 asks to be told of errors. Without it osc/rdma repeats for ever what was refused,
 * or waits for a lock that the dead process holds. */
static void end_if_windows(const char* text) {
  if (0 == __atomic_load_n(&btl_torii.exports, __ATOMIC_RELAXED)) return;
  opal_output(0,
              "btl/torii: %s; this process has windows and ends too, because osc/rdma would wait "
              "for ever",
              text);
  fflush(NULL);
  _exit(1);
}

/* A process that left in good order is no error. */
static void on_peer_down(void* arg, torii_peer_t* peer, int code) {
  btl_torii_endpoint_t* endpoint;
  char text[256];
  (void)arg;
  if (TORII_ERR_PEER_DEAD != code) return;
  endpoint = btl_torii_known_endpoint(peer);
  if (NULL == endpoint || endpoint->dead) return;
  endpoint->dead = true;
  snprintf(text, sizeof text, "%s died", torii_peer_text(btl_torii.ni, peer));
  if (NULL == btl_torii.error) return end_if_windows(text);
  btl_torii.error(&btl_torii.super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, text);
}

static void dump(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint, int verbose) {
  (void)btl;
  if (NULL != endpoint)
    opal_output(0, "btl/torii: %s", torii_peer_text(btl_torii.ni, endpoint->peer));
  for (size_t i = 0; verbose && i < torii_counter_count(); ++i) {
    const uint64_t value = torii_counter_value(btl_torii.ni, i);
    if (0 != value)
      opal_output(0, "btl/torii: %s %llu", torii_counter_name(i), (unsigned long long)value);
  }
}

/* --- the end ------------------------------------------------------------------------------- */

static int finalize(mca_btl_base_module_t* btl) {
  opal_list_item_t* item;
  (void)btl;
  if (NULL == btl_torii.ni && NULL == btl_torii.receives) return OPAL_SUCCESS;
  while (NULL != (item = opal_list_remove_first(&btl_torii.endpoints))) {
    btl_torii_drop_imports((btl_torii_endpoint_t*)item);
    OBJ_RELEASE(item);
  }
  btl_torii.self = NULL;
  if (NULL != btl_torii.ni) {
    torii_on_peer_down(btl_torii.ni, NULL, NULL);
    ompi_torii_hear(&mca_btl_torii_component.btl_version, btl_torii.ni, false);
  }
  if (NULL != btl_torii.port) torii_port_close(btl_torii.port);
  if (NULL != btl_torii.ni) torii_close(btl_torii.ni);
  btl_torii.port = NULL;
  btl_torii.ni = NULL;
  free(btl_torii.receives);
  btl_torii.receives = NULL;
  OBJ_DESTRUCT(&btl_torii.endpoints);
  OBJ_DESTRUCT(&btl_torii.small);
  OBJ_DESTRUCT(&btl_torii.large);
  OBJ_DESTRUCT(&btl_torii.operations);
  OBJ_DESTRUCT(&btl_torii.lock);
  return OPAL_SUCCESS;
}
