/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * coll_torii.h: what the files of Open MPI's component for collective operations share.
 *
 * Operations that Torii does not serve go to the functions that would be used without this
 * component. All decisions are made of what all members have alike, or told to all by one of them.
 */
#ifndef COLL_TORII_H
#define COLL_TORII_H

/* clang-format off: Open MPI's configuration comes before everything else */
#include "mpi.h"
#include "ompi_config.h"
/* clang-format on */
#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/coll.h"
#include "ompi_torii.h"
#include "torii.h"

extern mca_coll_base_component_t mca_coll_torii_component;

enum coll_torii_state {
  COLL_TORII_NEW,        /* calls are counted */
  COLL_TORII_SETTING_UP, /* what is called meanwhile goes to the functions before */
  COLL_TORII_READY,
  COLL_TORII_REFUSED
};

/* A function that was there before, and its module. */
#define COLL_TORII_BEFORE(name)                  \
  struct {                                       \
    mca_coll_base_module_##name##_fn_t function; \
    mca_coll_base_module_t* module;              \
  } name

/* One for each communicator. */
struct coll_torii_module {
  mca_coll_base_module_t super;
  enum coll_torii_state state;
  unsigned calls; /* before set-up */
  /* Of two members: the shortest that Torii refused. Longer ones go to the functions before at
   * once, which is alike at both, as the refusal was. */
  size_t bcast_refused, reduce_refused;
  torii_ni_t* ni;
  torii_group_t* group;
  COLL_TORII_BEFORE(barrier);
  COLL_TORII_BEFORE(bcast);
  COLL_TORII_BEFORE(reduce);
  COLL_TORII_BEFORE(allreduce);
  COLL_TORII_BEFORE(allgather);
  COLL_TORII_BEFORE(alltoall);
};
typedef struct coll_torii_module coll_torii_module_t;
OBJ_CLASS_DECLARATION(coll_torii_module_t);

/* Puts Torii's functions into the module, where there are others that they can fall back to. */
void coll_torii_use(struct coll_torii_module* module);

/* May this call be served? The first calls are not; a later one finds out, with all members,
 * whether the communicator can be. */
bool coll_torii_set_up(struct coll_torii_module* module, struct ompi_communicator_t* comm);
static inline bool coll_torii_serves(struct coll_torii_module* module,
                                     struct ompi_communicator_t* comm) {
  return OPAL_LIKELY(COLL_TORII_READY == module->state) || coll_torii_set_up(module, comm);
}
/* Gives the group back; its members may go on with what they have begun. */
void coll_torii_close(struct coll_torii_module* module);

/* Waits for the end of what a function of Torii has begun; a Torii code. */
int coll_torii_wait(struct coll_torii_module* module, int code, torii_flag_t* flag);

#endif /* COLL_TORII_H */
