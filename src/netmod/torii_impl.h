/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_impl.h: what the files of the netmod share.
 *
 * Ports: MPI messages have one of their own, whose tags are the context id (upper 32 bits) and the
 * MPI tag with MPICH's error bits (lower 32); the 32 user bits are the sender's rank. The other
 * port carries active messages; its tags are told in torii_am.c.
 *
 * Threads: MPICH calls the netmod under its lock, callbacks included; in programs with
 * MPI_THREAD_MULTIPLE Torii gives that lock up while a thread rests. An interface has a lock of its
 * own only where MPICH has one for each VCI, which calls that are no messages do without.
 *
 * VCIs: MPICH may be built with a lock for each virtual communication interface. Then each has an
 * interface of Torii, which it shares with nobody: a message travels between VCIs of the same
 * number, which both ends find by its communicator. Active messages, windows and processes of other
 * jobs know the first VCI only.
 */
#ifndef TORII_IMPL_H_INCLUDED
#define TORII_IMPL_H_INCLUDED

#include <mpidimpl.h> /* comes before everything else */

#include <pthread.h>
#include <stdatomic.h>

#include "ch4_impl.h"
#include "mpidch4r.h"

#define NETMOD_TORII_ADDRESS_BYTES 1020 /* torii_address stays below 1024 */

/* A process's address as MPICH's start-up exchange carries it. */
struct netmod_torii_card {
  uint16_t bytes;
  uint16_t vcis; /* that it could use */
  unsigned char address[NETMOD_TORII_ADDRESS_BYTES];
};

/* A process of another job; the context of its peer. */
struct netmod_torii_stranger {
  struct netmod_torii_stranger* next;
  uint64_t gpid; /* its last place in an address vector */
  struct netmod_torii_card card;
};

/* The state that each VCI has of its own. */
struct netmod_torii_vci {
  torii_ni_t* ni;
  torii_lock_t lock;  /* MPICH's */
  torii_port_t* port; /* MPI messages */
  int came_back;      /* the last call for progress found an event */
  int error;          /* MPI code of a failure that belongs to no operation; reported by progress */
  long pending;       /* sends that are not over, which MPI_Finalize waits for */
  const struct netmod_torii_card* cards; /* by rank in the job */
} __attribute__((aligned(64)));

/* The purpose of a call for progress: to wait, to look in, or nothing. */
enum netmod_torii_call { NETMOD_TORII_WAITS, NETMOD_TORII_LOOKS, NETMOD_TORII_PASSES };

typedef struct {
  struct netmod_torii_vci vci[NETMOD_TORII_MAX_VCIS];
  int vcis;              /* in use; the same in all processes of the job */
  torii_port_t* am_port; /* active messages and the first words of jobs that connect */
  uint64_t ignore;       /* bits of a tag that no receive looks at */
  uint64_t ignore_any;   /* the same for MPI_ANY_TAG */
  uint64_t job;
  enum netmod_torii_call next; /* call for progress */
  unsigned completions;        /* of windows */
  int world;                   /* all processes of the job are in touch */
  struct netmod_torii_stranger* strangers;
} MPIDI_TORII_global_t;
extern MPIDI_TORII_global_t MPIDI_TORII_global;

#define NETMOD_TORII_VCI(number) (&MPIDI_TORII_global.vci[number])
#define NETMOD_TORII_NI NETMOD_TORII_VCI(0)->ni /* of everything but messages */
#define NETMOD_TORII_PEER(av, vci) ((av)->netmod.torii.peer[vci])
#define NETMOD_TORII_REQUEST(request) ((request)->dev.ch4.netmod.torii)
#define NETMOD_TORII_AM(request) ((request)->dev.ch4.am.netmod_am.torii)
#define NETMOD_TORII_COMM(comm) (&(comm)->dev.ch4.netmod.torii)

/* --- torii_init.c -------------------------------------------------------------------------- */

/* An MPI error code for a Torii code: its class, and a text that says what failed and why. */
int netmod_torii_error(int code, const char* what);
/* The same for a call that set something up: the text has Torii's own sentence. */
int netmod_torii_refused(int code, const char* what);
/* The same for an operation that failed because of a process, whose name the text has. */
int netmod_torii_lost(int code, const char* what, const torii_peer_t* peer);
#if NETMOD_TORII_SINCE(5, 0)
/* Tells the processes of MPI_COMM_WORLD, or of a session's group, each other's addresses. */
int netmod_torii_exchange(MPIR_Comm* comm);
#endif
/* Finds the peer of a process of MPI_COMM_WORLD. Null: *mpi_errno has the reason. */
torii_peer_t* netmod_torii_connect(MPIDI_av_entry_t* av, int vci, int* mpi_errno);

static inline torii_peer_t* netmod_torii_peer(MPIDI_av_entry_t* av, int vci, int* mpi_errno) {
  torii_peer_t* peer = NETMOD_TORII_PEER(av, vci);
  return likely(NULL != peer) ? peer : netmod_torii_connect(av, vci, mpi_errno);
}

/* The VCI of a message on its way from one rank to another, the same for both ends: `flag` tells
 * MPICH which of them asks. */
static inline int netmod_torii_vci(int flag, MPIR_Comm* comm, int from, int to, int tag) {
#if 1 == NETMOD_TORII_MAX_VCIS
  (void)flag, (void)comm, (void)from, (void)to, (void)tag;
  return 0;
#else
  if (MPIR_COMM_KIND__INTRACOMM != comm->comm_kind || comm->tainted) return 0; /* other jobs */
  return MPIDI_get_vci(flag, comm, from, to, tag) % MPIDI_TORII_global.vcis;
#endif
}

#if 1 < NETMOD_TORII_MAX_VCIS
/* netmod_torii_progress where there are several VCIs. */
int netmod_torii_progress_among(int vci, int blocking);
#endif

/* --- torii_data.c -------------------------------------------------------------------------- */

/* Describes count elements at buffer. With gaps in memory *stream is what packs and unpacks them,
 * and belongs to the caller until netmod_torii_stream_free; else it is null. */
int netmod_torii_describe(const void* buffer, MPI_Aint count, MPI_Datatype datatype,
                          torii_data_t* data, struct netmod_torii_stream** stream);
/* Nonzero: what arrived does not consist of the datatype's elements. Null is allowed. */
int netmod_torii_stream_free(struct netmod_torii_stream* stream);

/* --- torii_am.c ---------------------------------------------------------------------------- */

#define NETMOD_TORII_AM_BYTES 16384       /* of a message that carries its payload */
#define NETMOD_TORII_AM_OWN_BYTES 32      /* of it for our own header and alignment */
#define NETMOD_TORII_AM_HEADER_BYTES 8192 /* the most of MPICH's header */

int netmod_torii_am_open(void);
void netmod_torii_am_close(void);
int netmod_torii_am_send_header(int rank, MPIR_Comm* comm, int handler, const void* header,
                                MPI_Aint header_bytes);
int netmod_torii_am_isend(int rank, MPIR_Comm* comm, int handler, const void* header,
                          MPI_Aint header_bytes, const void* buffer, MPI_Aint count,
                          MPI_Datatype datatype, MPIR_Request* request);
/* Receives the payload that waits for this request, whose memory is known now. */
int netmod_torii_am_fetch(MPIR_Request* request);
/* Tag, on the port of active messages, of what connect and accept say. */
#define NETMOD_TORII_CONNECT (1ull << 62)

/* --- torii_message.c ----------------------------------------------------------------------- */

int netmod_torii_isend(const void* buffer, MPI_Aint count, MPI_Datatype datatype, int tag,
                       MPIR_Comm* comm, int context_offset, MPIDI_av_entry_t* av, int vci,
                       torii_mode_t mode, MPIR_Request** request);
int netmod_torii_irecv(void* buffer, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                       MPIR_Comm* comm, int context_offset, MPIDI_av_entry_t* av, int vci,
                       MPIR_Request* request);
int netmod_torii_imrecv(void* buffer, MPI_Aint count, MPI_Datatype datatype, int vci,
                        MPIR_Request* request);
int netmod_torii_iprobe(int source, int tag, MPIR_Comm* comm, int context_offset,
                        MPIDI_av_entry_t* av, int vci, int* flag, MPI_Status* status);
int netmod_torii_improbe(int source, int tag, MPIR_Comm* comm, int context_offset,
                         MPIDI_av_entry_t* av, int vci, int* flag, MPIR_Request** message,
                         MPI_Status* status);
/* Torii calls these when a receive is over, and before that, under its locks, as
 * torii_port_prompt says. */
void netmod_torii_recv_done(void* arg, const torii_result_t* result);
int netmod_torii_recv_prompt(void* arg, const torii_result_t* result);

/* --- torii_rma.c --------------------------------------------------------------------------- */

/* The memory that a one-sided operation works on. */
struct netmod_torii_access {
  void* buffer; /* of this process */
  MPI_Aint count;
  MPI_Datatype type;
  int rank; /* of the target */
  MPI_Aint displacement;
  MPI_Aint target_count;
  MPI_Datatype target_type;
  MPIR_Win* win;
};

/* Where the target's old value goes. */
struct netmod_torii_old {
  void* buffer;
  MPI_Aint count;
  MPI_Datatype type;
};

/* False: nothing happened, and MPICH's way is to be taken. Otherwise it was begun, or *mpi_errno
 * says why not. With request (null is allowed) one that ends with the operation is made. */
bool netmod_torii_put(const struct netmod_torii_access* access, MPIR_Request** request,
                      int* mpi_errno);
bool netmod_torii_get(const struct netmod_torii_access* access, MPIR_Request** request,
                      int* mpi_errno);
bool netmod_torii_accumulate(const struct netmod_torii_access* access, MPI_Op op,
                             const struct netmod_torii_old* old, MPIR_Request** request,
                             int* mpi_errno);
bool netmod_torii_compare_and_swap(const struct netmod_torii_access* access, const void* compare,
                                   void* old, int* mpi_errno);
/* Waits for the operations on all targets of a window, or on one. */
int netmod_torii_complete_all(MPIR_Win* win);
int netmod_torii_complete_to(int rank, MPIR_Win* win);

/* --- torii_window.c ------------------------------------------------------------------------ */

/* The description of its part of a window that a process sends to the others. */
struct netmod_torii_key {
  uint64_t bytes;
  int disp_unit;
  uint16_t key_bytes; /* 0: there is no key */
  unsigned char key[TORII_KEY_MAX];
};

/* A member of a window, as this process sees it. */
struct netmod_torii_target {
  struct netmod_torii_window* window;
  char* mapped;           /* its memory, if it is mapped here */
  pthread_mutex_t* mutex; /* held during an accumulate there; null: those are MPICH's */
  torii_import_t* import;
  int tried; /* to import */
  int begun; /* operations there are to be waited for */
  struct netmod_torii_target* next;
};

struct netmod_torii_window {
  torii_export_t* exported;          /* this process's memory */
  void* memory;                      /* which MPI_Win_allocate took from Torii; else null */
  struct netmod_torii_target* begun; /* those with operations to be waited for */
  atomic_int stored;                 /* to mapped memory, since the last completion */
  uint64_t tag;                      /* protection tag of the exports */
  struct netmod_torii_key* keys;     /* by rank, as the targets */
  struct netmod_torii_target targets[];
};

#define NETMOD_TORII_WINDOW(win) ((win)->dev.netmod.torii.window)

/* Tells all members the same: whether it is so for every one of them. An MPI code. */
int netmod_torii_all_agree(MPIR_Comm* comm, bool mine, bool* all);
/* The first access to a target: imports its memory. */
void netmod_torii_try(MPIR_Win* win, int rank);

/* Null: nothing of it can be reached but by MPICH's active messages. */
static inline struct netmod_torii_target* netmod_torii_target(MPIR_Win* win, int rank) {
  struct netmod_torii_window* window = NETMOD_TORII_WINDOW(win);
  struct netmod_torii_target* target;
  if (NULL == window) return NULL;
  target = &window->targets[rank];
  if (unlikely(!target->tried)) netmod_torii_try(win, rank);
  return NULL != target->mapped || NULL != target->import ? target : NULL;
}

/* --- torii_coll.c -------------------------------------------------------------------------- */

/* Collective operations of communicators whose members share memory. False: nothing happened, at no
 * member, and MPICH's way is to be taken. Otherwise it is over, and *mpi_errno says how. */
bool netmod_torii_barrier(MPIR_Comm* comm, int* mpi_errno);
bool netmod_torii_bcast(void* buffer, MPI_Aint count, MPI_Datatype type, int root, MPIR_Comm* comm,
                        int* mpi_errno);
bool netmod_torii_reduce(const void* in, void* out, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                         int root, MPIR_Comm* comm, int* mpi_errno);
bool netmod_torii_allreduce(const void* in, void* out, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                            MPIR_Comm* comm, int* mpi_errno);
/* One side of an exchange: elements for each member. */
struct netmod_torii_parts {
  void* buffer; /* MPI_IN_PLACE: the parts are among the results */
  MPI_Aint count;
  MPI_Datatype type;
};
bool netmod_torii_allgather(const struct netmod_torii_parts* in,
                            const struct netmod_torii_parts* out, MPIR_Comm* comm, int* mpi_errno);
bool netmod_torii_alltoall(const struct netmod_torii_parts* in,
                           const struct netmod_torii_parts* out, MPIR_Comm* comm, int* mpi_errno);
/* The communicator ends at this process. */
void netmod_torii_coll_close(MPIR_Comm* comm);

/* --- torii_compositions.c ------------------------------------------------------------------ */

/* The steps in which operations go from a communicator to its parts on nodes. MPICH reads it
 * instead of its own table, which has the other name. */
extern const char netmod_torii_compositions[];
#define MPIDI_coll_generic_json netmod_torii_compositions

/* Do all members run on this node, as far as MPICH tells? */
static inline bool netmod_torii_on_one_node(MPIR_Comm* comm) {
  return 1 == comm->local_size || NETMOD_TORII_IS_NODE(comm);
}

static inline uint64_t netmod_torii_tag(netmod_torii_context_t context, int tag) {
  return (uint64_t)context << 32 | (uint32_t)tag;
}

#include "torii_noinline.h"

#endif /* TORII_IMPL_H_INCLUDED */
