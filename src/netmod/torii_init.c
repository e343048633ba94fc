/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Start and end, addresses and errors.
 */
#include <mpidimpl.h>

#include "mpidu_bc.h"
#include "torii_impl.h"

MPIDI_TORII_global_t MPIDI_TORII_global;

/* --- errors -------------------------------------------------------------------------------- */

static int error_class(int code) {
  switch (code) {
    case TORII_ERR_TRUNCATED:
      return MPI_ERR_TRUNCATE;
    case TORII_ERR_INVALID:
      return MPI_ERR_ARG;
    case TORII_ERR_NO_MEMORY:
      return MPI_ERR_NO_MEM;
    case TORII_ERR_PEER_DEAD:
    case TORII_ERR_PEER_CLOSED:
      return MPIX_ERR_PROC_FAILED;
    case TORII_ERR_CORRUPT:
      return MPI_ERR_INTERN;
    default:
      return MPI_ERR_OTHER;
  }
}

/* A text that MPICH's table does not have is taken as it is. */
static int make_error(int code, const char* what, const char* reason) {
  return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                              error_class(code), "**fail", "ch4:torii: %s: %s", what, reason);
}

int netmod_torii_error(int code, const char* what) {
  return make_error(code, what, torii_code_text(code));
}

int netmod_torii_refused(int code, const char* what) {
  return make_error(code, what, torii_error());
}

/* --- start --------------------------------------------------------------------------------- */

/* Processes that one mpiexec started together, or that were spawned together, share the name of
 * their key-value space. */
static uint64_t job_number(void) {
  uint64_t number = 14695981039346656037ull;
  for (const char* c = MPIR_pmi_job_id(); '\0' != *c; ++c) {
    number = (number ^ (unsigned char)*c) * 1099511628211ull;
  }
  return 0 == number ? 1 : number;
}

/* Another libtorii may be found at run time than MPICH was built with. */
static int check_version(void) {
  char built[32], text[160];
  snprintf(built, sizeof built, "%d.%d", TORII_VERSION_MAJOR, TORII_VERSION_MINOR);
  if (0 == strcmp(built, torii_version())) return MPI_SUCCESS;
  snprintf(
      text, sizeof text,
      "libtorii is %s, but this MPICH was built with %s; let LD_LIBRARY_PATH name the folder of "
      "that one, or build MPICH anew",
      torii_version(), built);
  return make_error(TORII_ERR_UNSUPPORTED, "Torii cannot be opened", text);
}

/* The parents of a spawned process may be on other nodes, and have said only how those reach them.
 */
static void want_all_drivers(void) {
  for (size_t i = 0; i < torii_param_count(); ++i) {
    torii_param_t param;
    if (TORII_OK == torii_param_info(i, &param) && 0 == strcmp("drivers", param.name)) {
      torii_param_set(param.name, param.default_value, "MPI_Comm_spawn");
    }
  }
}

int MPIDI_TORII_init_local(int* tag_bits) {
  int mpi_errno = check_version();
  int code;
  torii_options_t options = {
      .struct_bytes = sizeof options,
      .job = job_number(),
      .rank = (uint32_t)MPIR_Process.rank,
      .size = (uint32_t)MPIR_Process.size,
      .node = (uint32_t)MPIR_Process.node_map[MPIR_Process.rank],
      .local_rank = (uint32_t)MPIR_Process.local_rank,
      .local_size = (uint32_t)MPIR_Process.local_size,
      .threads = MPI_THREAD_MULTIPLE == MPIR_ThreadInfo.thread_provided,
  };
  MPIR_ERR_CHECK(mpi_errno);
  MPIDI_TORII_global.job = options.job;
  *tag_bits = MPIR_TAG_BITS_DEFAULT;
  if (MPIR_Process.has_parent) want_all_drivers();
  code = torii_open(&options, &MPIDI_TORII_global.ni);
  if (TORII_OK != code) return netmod_torii_refused(code, "Torii cannot be opened");
  code = torii_port_open(MPIDI_TORII_global.ni, 0, &MPIDI_TORII_global.port);
  if (TORII_OK == code) {
    code = torii_port_open(MPIDI_TORII_global.ni, 1, &MPIDI_TORII_global.am_port);
  }
  if (TORII_OK != code) return netmod_torii_refused(code, "a port cannot be opened");
  mpi_errno = netmod_torii_am_open();
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

/* Which bits of a tag no receive looks at: MPICH's error bits, and for MPI_ANY_TAG those that a
 * program may use. Their places are known when all have said how many bits a tag has. */
static void set_ignored_bits(void) {
  uint32_t compared = ~0u;
  MPIR_TAG_CLEAR_ERROR_BITS(compared);
  MPIDI_TORII_global.ignore = (uint32_t)~compared;
  MPIDI_TORII_global.ignore_any = MPIDI_TORII_global.ignore | (uint32_t)NETMOD_TORII_TAG_MASK;
}

int MPIDI_TORII_init_world(void) {
  int mpi_errno = MPI_SUCCESS;
  struct netmod_torii_card own;
  void* table = NULL;
  int card_bytes = sizeof own;
  size_t bytes;
  memset(&own, 0, sizeof own);
  set_ignored_bits();
  bytes = torii_address(MPIDI_TORII_global.ni, own.address, sizeof own.address);
  if (bytes > sizeof own.address) {
    return netmod_torii_error(TORII_ERR_UNSUPPORTED, "the address of this process is too long");
  }
  own.bytes = (uint16_t)bytes;
  mpi_errno = MPIDU_bc_table_create(MPIR_Process.rank, MPIR_Process.size, MPIR_Process.node_map,
                                    &own, sizeof own, TRUE, FALSE, &table, &card_bytes);
  MPIR_ERR_CHECK(mpi_errno);
  MPIDI_TORII_global.cards = table;
  for (int i = 0; i < MPIR_Process.size; ++i) NETMOD_TORII_PEER(&MPIDIU_get_av(0, i)) = NULL;
  /* Processes with drivers that do not reach each other are told now: some of MPICH's collective
   * operations lose the error of a message. */
  netmod_torii_connect(&MPIDIU_get_av(0, (MPIR_Process.rank + 1) % MPIR_Process.size), &mpi_errno);
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

int MPIDI_TORII_post_init(void) { return MPI_SUCCESS; }

#if NETMOD_TORII_SINCE(4, 2)
int MPIDI_TORII_init_vcis(int num_vcis, int* num_vcis_actual) {
  (void)num_vcis;
  *num_vcis_actual = 1;
  return MPI_SUCCESS;
}
#endif

/* Only processes of MPI_COMM_WORLD have no peer from the beginning. */
torii_peer_t* netmod_torii_connect(MPIDI_av_entry_t* av, int* mpi_errno) {
  int rank = (int)(av - &MPIDIU_get_av(0, 0));
  const struct netmod_torii_card* card = &MPIDI_TORII_global.cards[rank];
  torii_peer_t* peer = NULL;
  int code;
  MPIR_Assert(0 <= rank && rank < MPIR_Process.size);
  code = torii_connect(MPIDI_TORII_global.ni, card->address,
                       MPL_MIN(card->bytes, sizeof card->address), &peer);
  if (TORII_OK != code) {
    char what[64];
    snprintf(what, sizeof what, "rank %d of MPI_COMM_WORLD cannot be reached", rank);
    *mpi_errno = netmod_torii_refused(code, what);
    return NULL;
  }
  NETMOD_TORII_PEER(av) = peer;
  return peer;
}

/* --- progress with threads ------------------------------------------------------------------ */

#ifdef MPICH_IS_THREADED
/* MPICH's lock, which is held when it calls for progress. */
#if MPICH_THREAD_GRANULARITY == MPICH_THREAD_GRANULARITY__VCI
#define MPICH_LOCK MPIDI_VCI(0).lock
#else
#define MPICH_LOCK MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX
#endif

static void rest_after(int events, int blocking) {
  if (blocking) {
    torii_rest(MPIDI_TORII_global.ni, events);
  } else {
    torii_test_rest(MPIDI_TORII_global.ni, events);
  }
}

/* Rests without MPICH's lock, as MPICH itself does when it yields. */
static void rest_unlocked(int blocking) {
  MPIDU_Thread_mutex_t* lock = &MPICH_LOCK;
  const int count = lock->count;
  const MPL_thread_id_t owner = lock->owner;
  int failed = 0;
  lock->count = 0;
  lock->owner = 0;
  MPIDU_Thread_mutex_unlock(lock, &failed);
  rest_after(0, blocking);
  MPIDU_Thread_mutex_lock(lock, &failed, MPL_THREAD_PRIO_LOW);
  lock->count = count;
  lock->owner = owner;
}

int netmod_torii_progress_among_threads(int blocking) {
  const int events = torii_progress(MPIDI_TORII_global.ni);
  if (events > 0) {
    rest_after(events, blocking);
  } else {
    rest_unlocked(blocking);
  }
  return events;
}
#endif

/* --- end ----------------------------------------------------------------------------------- */

/* What was sent must be received before this process may go: the others make progress until all
 * are here. */
int MPIDI_TORII_mpi_finalize_hook(void) {
  /* A process with sessions only may have no MPI_COMM_WORLD, and nobody waits for it. */
  const bool has_world = NULL != MPIDI_TORII_global.cards;
  int mpi_errno = MPI_SUCCESS;
  while (0 < MPIDI_TORII_global.pending) torii_wait_step(MPIDI_TORII_global.ni);
  if (has_world) mpi_errno = MPIR_pmi_barrier();
  MPIR_ERR_CHECK(mpi_errno);
  netmod_torii_am_close();
  torii_port_close(MPIDI_TORII_global.port);
  torii_close(MPIDI_TORII_global.ni);
  while (NULL != MPIDI_TORII_global.strangers) {
    struct netmod_torii_stranger* stranger = MPIDI_TORII_global.strangers;
    MPIDI_TORII_global.strangers = stranger->next;
    MPL_free(stranger);
  }
  if (has_world) mpi_errno = MPIDU_bc_table_destroy();
  memset(&MPIDI_TORII_global, 0, sizeof MPIDI_TORII_global);
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}
