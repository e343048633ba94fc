/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The common part of Open MPI's components for Torii: the identity that the launcher gave, and how
 * processes find each other's address.
 */
#ifndef OMPI_TORII_H
#define OMPI_TORII_H

/* clang-format off: Open MPI's configuration comes before everything else */
#include "mpi.h"
#include "ompi_config.h"
/* clang-format on */
#include "opal/mca/mca.h"
#include "opal/util/proc.h"
#include "torii.h"

#define OMPI_TORII_ADDRESS 1024 /* bytes; torii_address stays below */

/* Opens the process's interface, or joins in if another component has it open already. A Torii
 * code; torii_error() says why. */
int ompi_torii_open(bool threads, torii_ni_t** ni);
/* Does a framework's selection, such as the value of --mca mtl, name Torii? Null is none. */
bool ompi_torii_named(const char* selection);
/* Why the job is better left to Open MPI's own components: this node's RDMA device is not Torii's,
 * and the selection does not name Torii. Null: it is not. The sentence ends with the interface. */
const char* ompi_torii_leave(const char* selection, torii_ni_t* ni);

/* Lets the interface hear the processes that published an address under the component's name.
 * `hear` 0 ends that: before the interface is closed. */
void ompi_torii_hear(const mca_base_component_t* component, torii_ni_t* ni, bool hear);

/* Publishes the interface's address under the component's name; an Open MPI code, and *bytes of the
 * address. */
int ompi_torii_publish(const mca_base_component_t* component, torii_ni_t* ni, size_t* bytes);

/* Connects to a process that published its address under the component's name. OPAL_ERR_NOT_FOUND:
 * it did not; another error: torii_error() says why. May wait for the launcher. */
int ompi_torii_connect(const mca_base_component_t* component, torii_ni_t* ni,
                       const opal_process_name_t* name, torii_peer_t** peer);

#endif /* OMPI_TORII_H */
