/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Which of its compositions MPICH takes for an operation. Some ask the netmod for the whole
 * communicator: the last one of each operation here, and those called beta of barrier and
 * allreduce. The others ask it for the members of each node, and for one of each node. This is the
 * table of MPICH's maint/tuning/coll/ch4/generic.json, with two changes:
 *   - On one node the netmod is always asked for the whole communicator.
 *   - Reductions between nodes never take alpha: in 4.0.2 it loses the data of a rank that is the
 *     only one of the first node.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

#define WHEN(condition, then) "\"" condition "\":{" then "}"
#define TAKE(composition) WHEN("composition=MPIDI_" composition, "")
#define ALWAYS(operation, composition) \
  WHEN("collective=" operation, WHEN("comm_type=intra", TAKE(composition)))
/* On one node, on several, and if MPICH does not know the nodes of the communicator's members. */
#define BY_NODES(operation, one, several, unknown)          \
  WHEN("collective=" operation,                             \
       WHEN("comm_type=intra",                              \
            WHEN("comm_size=node_comm_size", one) "," WHEN( \
                "comm_size=any",                            \
                WHEN("comm_hierarchy=parent", several) "," WHEN("comm_hierarchy=any", unknown))))

#define BCAST(way) TAKE("Bcast_intra_composition_" way)
#define REDUCE(way) TAKE("Reduce_intra_composition_" way)
#define ALLREDUCE(way) TAKE("Allreduce_intra_composition_" way)
#define BARRIER(way) TAKE("Barrier_intra_composition_" way)

/* clang-format off */
const char netmod_torii_compositions[] = "{"
  BY_NODES("bcast", BCAST("gamma"),
    WHEN("comm_size<8", WHEN("avg_msg_size=any", BCAST("alpha"))) ","
    WHEN("comm_size=pow2",
      WHEN("avg_msg_size<12288", BCAST("alpha")) ","
      WHEN("avg_msg_size<524288", BCAST("beta")) ","
      WHEN("avg_msg_size=any", BCAST("gamma"))) ","
    WHEN("comm_size=any",
      WHEN("avg_msg_size<12288", BCAST("alpha")) ","
      WHEN("avg_msg_size=any", BCAST("gamma"))),
    BCAST("gamma")) ","
  BY_NODES("allreduce", ALLREDUCE("beta"),
    WHEN("is_commutative=yes", WHEN("avg_msg_size=any", ALLREDUCE("alpha"))) ","
    WHEN("is_commutative=no", ALLREDUCE("beta")),
    ALLREDUCE("beta")) ","
  BY_NODES("reduce", REDUCE("gamma"),
    WHEN("is_commutative=yes", REDUCE("beta")) ","
    WHEN("is_commutative=no", REDUCE("gamma")),
    REDUCE("gamma")) ","
  BY_NODES("barrier", BARRIER("beta"), BARRIER("alpha"), BARRIER("beta")) ","
  ALWAYS("gather", "Gather_intra_composition_alpha") ","
  ALWAYS("gatherv", "Gatherv_intra_composition_alpha") ","
  ALWAYS("scatter", "Scatter_intra_composition_alpha") ","
  ALWAYS("scatterv", "Scatterv_intra_composition_alpha") ","
  ALWAYS("alltoall", "Alltoall_intra_composition_" NETMOD_TORII_EXCHANGE_WHOLE) ","
  ALWAYS("alltoallv", "Alltoallv_intra_composition_alpha") ","
  ALWAYS("alltoallw", "Alltoallw_intra_composition_alpha") ","
  ALWAYS("allgather", "Allgather_intra_composition_" NETMOD_TORII_EXCHANGE_WHOLE) ","
  ALWAYS("allgatherv", "Allgatherv_intra_composition_alpha") ","
  ALWAYS("reduce_scatter", "Reduce_scatter_intra_composition_alpha") ","
  ALWAYS("reduce_scatter_block", "Reduce_scatter_block_intra_composition_alpha") ","
  WHEN("collective=scan",
    WHEN("is_node_consecutive=yes", TAKE("Scan_intra_composition_alpha")) ","
    WHEN("is_node_consecutive=no", TAKE("Scan_intra_composition_beta"))) ","
  WHEN("collective=exscan", TAKE("Exscan_intra_composition_alpha"))
  "}";
/* clang-format on */
