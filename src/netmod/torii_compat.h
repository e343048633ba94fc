/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_compat.h: what differs between the versions of MPICH that the netmod knows.
 */
#ifndef TORII_COMPAT_H_INCLUDED
#define TORII_COMPAT_H_INCLUDED

/* True for final releases from major.minor on. */
#define NETMOD_TORII_SINCE(major, minor) (MPICH_NUMVERSION >= (major)*10000000 + (minor)*100000)

/* Virtual communication interfaces (VCIs) that the netmod may use. Active messages have one. */
#if NETMOD_TORII_SINCE(4, 1) || defined(MPIDI_ENABLE_AM_ONLY)
#define NETMOD_TORII_MAX_VCIS 1
#define NETMOD_TORII_WANTED_VCIS 1
#else
#define NETMOD_TORII_MAX_VCIS MPIDI_CH4_MAX_VCIS
#define NETMOD_TORII_WANTED_VCIS MPIDI_global.n_vcis
#endif

/* `attr` is what sends, receives and probes are told beside the message: since 4.1 more than the
 * place of the context. */
#if NETMOD_TORII_SINCE(4, 1)
#define NETMOD_TORII_CONTEXT_OFFSET(attr) MPIR_PT2PT_ATTR_CONTEXT_OFFSET(attr)
#define netmod_torii_complete MPIDI_Request_complete_fast
#define NETMOD_TORII_TYPEREP_FLAGS , MPIR_TYPEREP_FLAG_NONE
typedef MPI_Aint netmod_torii_count_t; /* of one-sided communication */
#else
#define NETMOD_TORII_CONTEXT_OFFSET(attr) (attr)
#define netmod_torii_complete MPIDIU_request_complete
#define NETMOD_TORII_TYPEREP_FLAGS
typedef int netmod_torii_count_t;
#endif

/* The argument beside the message for collectives inside MPICH: nothing has failed. */
#if NETMOD_TORII_SINCE(5, 0)
#define NETMOD_TORII_NO_ERROR MPIR_COLL_ATTR_SYNC
#define netmod_torii_errflag_t int
#elif NETMOD_TORII_SINCE(4, 2)
#define NETMOD_TORII_NO_ERROR MPIR_ERR_NONE
#define netmod_torii_errflag_t MPIR_Errflag_t
#else
#define NETMOD_TORII_NO_ERROR (&(MPIR_Errflag_t){MPIR_ERR_NONE})
#define netmod_torii_errflag_t MPIR_Errflag_t*
#endif

/* The composition of allgather and alltoall that asks the netmod for the whole communicator: since
 * 4.1 another one stands before it. */
#if NETMOD_TORII_SINCE(4, 1)
#define NETMOD_TORII_EXCHANGE_WHOLE "beta"
#else
#define NETMOD_TORII_EXCHANGE_WHOLE "alpha"
#endif

#if NETMOD_TORII_SINCE(4, 3)
#define NETMOD_TORII_TAG_MASK MPIR_TAG_USABLE_MASK
#else
#define NETMOD_TORII_TAG_MASK MPIR_TAG_USABLE_BITS
#endif

/* Processes are named by their place in a list of lists, and since 5.0 MPICH assigns the places. */
#if NETMOD_TORII_SINCE(5, 0)
#define NETMOD_TORII_AV(table, index) MPIDIU_lpid_to_av(MPIR_LPID_FROM(table, index))
#define NETMOD_TORII_LOCK(vci) MPIDI_VCI_LOCK(vci)
#define NETMOD_TORII_BYTE MPIR_BYTE_INTERNAL
#define NETMOD_TORII_BOOL MPIR_C_BOOL_INTERNAL
#define NETMOD_TORII_IS_NODE(comm) \
  (0 != ((comm)->attr & MPIR_COMM_ATTR__HIERARCHY) && 1 == (comm)->num_external)
typedef int netmod_torii_context_t;
#else
#define NETMOD_TORII_AV(table, index) (&MPIDIU_get_av(table, index))
#define NETMOD_TORII_LOCK(vci) MPIDI_VCI(vci).lock
#define NETMOD_TORII_BYTE MPI_BYTE
#define NETMOD_TORII_BOOL MPI_C_BOOL
#define NETMOD_TORII_IS_NODE(comm)                             \
  (MPIR_COMM_HIERARCHY_KIND__NODE == (comm)->hierarchy_kind || \
   (NULL != (comm)->node_comm && (comm)->node_comm->local_size == (comm)->local_size))
#define netmod_torii_context_t MPIR_Context_id_t
#endif

#endif /* TORII_COMPAT_H_INCLUDED */
