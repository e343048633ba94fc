/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The component: parameters, performance variables, and opening the interface with the identity
 * that Open MPI's launcher gave.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mtl_torii.h"
#include "ompi/win/win.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#if OMPI_MAJOR_VERSION >= 5
#include "ompi/mca/bml/base/base.h"
#endif

static int register_variables(void);
static int query(mca_base_module_t** module, int* priority);
#if OMPI_MAJOR_VERSION >= 5
static struct mca_mtl_base_module_t* init(bool progress_threads, bool mpi_threads,
                                          bool* accelerator_support);
#else
static struct mca_mtl_base_module_t* init(bool progress_threads, bool mpi_threads);
#endif

__attribute__((visibility("default"))) mca_mtl_base_component_t mca_mtl_torii_component = {
    .mtl_version =
        {
            MCA_MTL_BASE_VERSION_2_0_0,
            .mca_component_name = "torii",
            MCA_BASE_MAKE_VERSION(component, TORII_VERSION_MAJOR, TORII_VERSION_MINOR, 0),
            .mca_query_component = query,
            .mca_register_component_params = register_variables,
        },
    .mtl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .mtl_init = init,
};

static int priority_wanted = 60; /* ob1 has 20, ucx 51 */
static char** parameter_texts;   /* by parameter; the storage of the MCA variables */
static int* parameter_variables; /* by parameter: index of its MCA variable */

/* Tells why Torii is not used: aloud when the user named it, else only under verbosity. */
static void decline(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void decline(const char* format, ...) {
  char reason[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  if (ompi_torii_named(ompi_mtl_base_framework.framework_selection)) {
    opal_output(0, "mtl/torii cannot be used: %s", reason);
  } else {
    opal_output_verbose(1, ompi_mtl_base_framework.framework_output, "mtl/torii cannot be used: %s",
                        reason);
  }
}

/* --- parameters and counters --------------------------------------------------------------- */

static int read_counter(const struct mca_base_pvar_t* pvar, void* value, void* object) {
  (void)object;
  *(unsigned long long*)value =
      NULL == mtl_torii.ni ? 0 : torii_counter_value(mtl_torii.ni, (size_t)(uintptr_t)pvar->ctx);
  return OPAL_SUCCESS;
}

static void register_counters(void) {
  for (size_t i = 0; i < torii_counter_count(); ++i) {
    mca_base_component_pvar_register(
        &mca_mtl_torii_component.mtl_version, torii_counter_name(i), torii_counter_doc(i),
        OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        MCA_BASE_VAR_BIND_NO_OBJECT,
        (mca_base_pvar_flag_t)(MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS),
        read_counter, NULL, NULL, (void*)(uintptr_t)i);
  }
}

static int register_parameters(void) {
  size_t count = torii_param_count();
  free(parameter_texts);
  free(parameter_variables);
  parameter_texts = calloc(count, sizeof *parameter_texts);
  parameter_variables = calloc(count, sizeof *parameter_variables);
  if (NULL == parameter_texts || NULL == parameter_variables) return OMPI_ERR_OUT_OF_RESOURCE;
  for (size_t i = 0; i < count; ++i) {
    torii_param_t parameter;
    parameter_variables[i] = -1;
    if (TORII_OK != torii_param_info(i, &parameter)) continue;
    parameter_texts[i] = (char*)(uintptr_t)parameter.default_value; /* copied by the call */
    parameter_variables[i] = mca_base_component_var_register(
        &mca_mtl_torii_component.mtl_version, parameter.name, parameter.doc,
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY,
        &parameter_texts[i]);
  }
  return OMPI_SUCCESS;
}

static int register_variables(void) {
  mca_base_component_var_register(&mca_mtl_torii_component.mtl_version, "priority",
                                  "Priority of mtl/torii, and so of pml/cm over it",
                                  MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                  MCA_BASE_VAR_SCOPE_READONLY, &priority_wanted);
  mtl_torii.direct = true;
  mca_base_component_var_register(&mca_mtl_torii_component.mtl_version, "direct",
                                  "Messages in one piece take the short way past pml/cm",
                                  MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9,
                                  MCA_BASE_VAR_SCOPE_READONLY, &mtl_torii.direct);
  register_counters();
  return register_parameters();
}

/* Hands the parameters that the user set as MCA variables to Torii. */
static int forward_parameters(void) {
  for (size_t i = 0; i < torii_param_count(); ++i) {
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    torii_param_t parameter;
    char origin[128];
    if (0 > parameter_variables[i] || TORII_OK != torii_param_info(i, &parameter)) continue;
    if (OPAL_SUCCESS != mca_base_var_get_value(parameter_variables[i], NULL, &source, NULL) ||
        MCA_BASE_VAR_SOURCE_DEFAULT == source || NULL == parameter_texts[i]) {
      continue;
    }
    snprintf(origin, sizeof origin, "MCA parameter mtl_torii_%s", parameter.name);
    if (TORII_OK != torii_param_set(parameter.name, parameter_texts[i], origin)) {
      decline("%s (MCA parameter mtl_torii_%s)", torii_error(), parameter.name);
      return OMPI_ERR_BAD_PARAM;
    }
  }
  return OMPI_SUCCESS;
}

/* --- start --------------------------------------------------------------------------------- */

static bool enabled(void) {
  for (size_t i = 0; i < torii_param_count(); ++i) {
    torii_param_t parameter;
    if (TORII_OK == torii_param_info(i, &parameter) && 0 == strcmp(parameter.name, "enable"))
      return 0 != strcmp(torii_param_value(i), "0");
  }
  return true;
}

/* Says no here rather than in init: by then Open MPI has left the other components aside. */
static int query(mca_base_module_t** module, int* priority) {
  *module = NULL;
  if (OMPI_SUCCESS != forward_parameters()) return OMPI_ERR_NOT_AVAILABLE;
  if (!enabled()) {
    decline("the parameter enable is off; unset TORII_ENABLE");
    return OMPI_ERR_NOT_AVAILABLE;
  }
  *module = (mca_base_module_t*)&mtl_torii.super;
  *priority = priority_wanted;
  return OMPI_SUCCESS;
}

/* Windows may be over BTLs or memory of Open MPI's own, of which Torii sees nothing. */
static int others_wait(void) {
  mca_btl_base_selected_module_t* module;
  bool only_torii = !opal_list_is_empty(&mca_btl_base_modules_initialized);
  /* The first one is MPI_WIN_NULL. */
  if (ompi_mpi_windows.size - ompi_mpi_windows.number_free <= 1) return 0;
  OPAL_LIST_FOREACH(module, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
    const char* name = module->btl_component->btl_version.mca_component_name;
    only_torii &= 0 == strcmp(name, "torii") || 0 == strcmp(name, "self");
  }
  return !only_torii;
}

static int open_interface(bool threads) {
  const char* leave;
  if (TORII_OK != ompi_torii_open(threads, &mtl_torii.ni)) {
    decline("%s", torii_error());
    return OMPI_ERR_NOT_AVAILABLE;
  }
  leave = ompi_torii_leave(ompi_mtl_base_framework.framework_selection, mtl_torii.ni);
  if (NULL != leave) {
    if (0 == opal_process_info.my_local_rank)
      opal_output(0,
                  "mtl/torii leaves this job to Open MPI's own components, because it cannot use "
                  "the RDMA device of %s: %s; for Torii over Ethernet say --mca pml cm --mca mtl "
                  "torii",
                  opal_process_info.nodename, leave);
    torii_close(mtl_torii.ni);
    mtl_torii.ni = NULL;
    return OMPI_ERR_NOT_AVAILABLE;
  }
  if (TORII_OK != torii_port_open(mtl_torii.ni, MTL_TORII_PORT, &mtl_torii.port)) {
    decline("%s", torii_error());
    torii_close(mtl_torii.ni);
    mtl_torii.ni = NULL;
    return OMPI_ERR_NOT_AVAILABLE;
  }
  return OMPI_SUCCESS;
}

static int publish_address(void) {
  size_t bytes = 0;
  int code = ompi_torii_publish(&mca_mtl_torii_component.mtl_version, mtl_torii.ni, &bytes);
  if (OPAL_SUCCESS != code) {
    decline("its address of %zu bytes could not be published (%s)", bytes, opal_strerror(code));
    return code;
  }
  ompi_torii_hear(&mca_mtl_torii_component.mtl_version, mtl_torii.ni, true);
  return code;
}

static struct mca_mtl_base_module_t* start(bool progress_threads, bool mpi_threads) {
  if (OMPI_SUCCESS != open_interface(progress_threads || mpi_threads)) return NULL;
  torii_set_others(mtl_torii.ni, others_wait);
  opal_progress_register(mtl_torii_progress);
  if (OMPI_SUCCESS != publish_address()) {
    mtl_torii_finalize(&mtl_torii.super);
    return NULL;
  }
  return &mtl_torii.super;
}

#if OMPI_MAJOR_VERSION >= 5
/* A forced pml/cm leaves the byte transfer layers closed up to 5.0.8, and then one-sided
 * communication has nothing to run on; opening them twice is harmless. */
static struct mca_mtl_base_module_t* init(bool progress_threads, bool mpi_threads,
                                          bool* accelerator_support) {
  struct mca_mtl_base_module_t* module = start(progress_threads, mpi_threads);
  *accelerator_support = false;
  if (NULL != module) mca_bml_base_init(progress_threads, mpi_threads);
  return module;
}
#else
static struct mca_mtl_base_module_t* init(bool progress_threads, bool mpi_threads) {
  return start(progress_threads, mpi_threads);
}
#endif
