/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Start and end, addresses and errors.
 */
#include <mpidimpl.h>
#include <stdatomic.h>

#include "torii_impl.h"
#if !NETMOD_TORII_SINCE(5, 0)
#include "mpidu_bc.h"
#endif

MPIDI_TORII_global_t MPIDI_TORII_global;

/* --- errors -------------------------------------------------------------------------------- */

/* MPICH's autogen.sh collects the errors of the sources; to it, a class is a constant of MPI or
 * something whose name begins with errclass. */
static int errclass_of(int code) {
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
                              errclass_of(code), "**fail", "ch4:torii: %s: %s", what, reason);
}

int netmod_torii_error(int code, const char* what) {
  return make_error(code, what, torii_code_text(code));
}

int netmod_torii_refused(int code, const char* what) {
  return make_error(code, what, torii_error());
}

int netmod_torii_lost(int code, const char* what, const torii_peer_t* peer) {
  char text[256];
  snprintf(text, sizeof text, "%s: %s", torii_peer_text(NETMOD_TORII_NI, peer),
           torii_code_text(code));
  return make_error(code, what, text);
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

static int threads_may_call(void) { return MPI_THREAD_MULTIPLE == MPIR_ThreadInfo.thread_provided; }

#ifdef MPICH_IS_THREADED
#if MPICH_THREAD_GRANULARITY == MPICH_THREAD_GRANULARITY__VCI
#define MPICH_LOCK(vci) NETMOD_TORII_LOCK(vci)
#define MPICH_LOCKS 1 /* not one for all calls */
#else
#define MPICH_LOCK(vci) MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX
#define MPICH_LOCKS 0
#endif

/* How many times this thread had entered MPICH's lock when Torii gave it up. */
static _Thread_local int entered;
static _Thread_local int lent; /* Torii gave it up, and has taken it again */

static void give_up_lock(void* arg) {
  MPIDU_Thread_mutex_t* lock = arg;
  MPL_thread_id_t self;
  int failed = 0;
  MPL_thread_self(&self);
  lent = 1;
  entered = MPIR_ThreadInfo.isThreaded && lock->owner == self ? lock->count : 0;
  if (0 == entered) return;
  lock->count = 0;
  lock->owner = 0;
  MPIDU_Thread_mutex_unlock(lock, &failed);
}

static void take_lock(void* arg) {
  MPIDU_Thread_mutex_t* lock = arg;
  int failed = 0;
  if (0 == entered) return;
  MPIDU_Thread_mutex_lock(lock, &failed, MPL_THREAD_PRIO_LOW);
  MPL_thread_self(&lock->owner);
  lock->count = entered;
}

static void set_lock(int vci, torii_options_t* options) {
  struct netmod_torii_vci* own = NETMOD_TORII_VCI(vci);
  if (!threads_may_call()) return;
  own->lock = (torii_lock_t){.give_up = give_up_lock, .take = take_lock, .arg = &MPICH_LOCK(vci)};
  options->lock = &own->lock;
  options->threads = MPICH_LOCKS;
}
#else
static void set_lock(int vci, torii_options_t* options) {
  (void)vci;
  (void)options;
}
#endif

/* Each VCI's interfaces are a job for themselves. */
#define JOB_OF(vci) (MPIDI_TORII_global.job + ((uint64_t)(vci) << 32))

/* The first words of a process. Those of other jobs are heard when they are connected to, or while
 * this process accepts. */
static size_t find(void* arg, uint64_t job, uint32_t rank, void* address, size_t capacity) {
  const struct netmod_torii_vci* own = arg;
  const int vci = (int)(own - NETMOD_TORII_VCI(0));
  const struct netmod_torii_card* card;
  if (job != JOB_OF(vci) || NULL == own->cards || rank >= (uint32_t)MPIR_Process.size) return 0;
  card = &own->cards[rank];
  if (card->bytes > sizeof card->address) return 0;
  if (card->bytes <= capacity) memcpy(address, card->address, card->bytes);
  return card->bytes;
}

static int open_vci(int vci) {
  struct netmod_torii_vci* own = NETMOD_TORII_VCI(vci);
  int code;
  torii_options_t options = {
      .struct_bytes = sizeof options,
      .job = JOB_OF(vci),
      .rank = (uint32_t)MPIR_Process.rank,
      .size = (uint32_t)MPIR_Process.size,
      .node = (uint32_t)MPIR_Process.node_map[MPIR_Process.rank],
      .local_rank = (uint32_t)MPIR_Process.local_rank,
      .local_size = (uint32_t)MPIR_Process.local_size,
  };
  set_lock(vci, &options);
  code = torii_open(&options, &own->ni);
  if (TORII_OK != code) return netmod_torii_refused(code, "Torii cannot be opened");
  torii_add_directory(own->ni, find, own);
  code = torii_port_open(own->ni, 0, &own->port);
  if (TORII_OK == code) {
    code = torii_port_prompt(own->port, netmod_torii_recv_done, netmod_torii_recv_prompt);
  }
  return TORII_OK == code ? MPI_SUCCESS : netmod_torii_refused(code, "a port cannot be opened");
}

int MPIDI_TORII_init_local(int* tag_bits) {
  int mpi_errno = check_version();
  int code;
  MPIR_ERR_CHECK(mpi_errno);
#ifdef MPIDI_ENABLE_AM_ONLY
  MPIDI_global.n_vcis = 1; /* whatever MPIR_CVAR_CH4_NUM_VCIS wants */
#endif
  MPIDI_TORII_global.job = job_number();
  *tag_bits = MPIR_TAG_BITS_DEFAULT;
  if (MPIR_Process.has_parent) want_all_drivers();
  mpi_errno = open_vci(0);
  MPIR_ERR_CHECK(mpi_errno);
  MPIDI_TORII_global.vcis = 1;
  code = torii_port_open(NETMOD_TORII_NI, 1, &MPIDI_TORII_global.am_port);
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

static int fill_card(int vci, struct netmod_torii_card* card) {
  size_t bytes;
  memset(card, 0, sizeof *card);
  bytes = torii_address(NETMOD_TORII_VCI(vci)->ni, card->address, sizeof card->address);
  if (bytes > sizeof card->address) {
    return netmod_torii_error(TORII_ERR_UNSUPPORTED, "the address of this process is too long");
  }
  card->bytes = (uint16_t)bytes;
  card->vcis = (uint16_t)(threads_may_call() ? NETMOD_TORII_WANTED_VCIS : 1);
  return MPI_SUCCESS;
}

/* Processes with drivers that do not reach each other are told now: some of MPICH's collective
 * operations lose the error of a message. */
static int reach_next(void) {
  int mpi_errno = MPI_SUCCESS;
  netmod_torii_connect(NETMOD_TORII_AV(0, (MPIR_Process.rank + 1) % MPIR_Process.size), 0,
                       &mpi_errno);
  return mpi_errno;
}

#if NETMOD_TORII_SINCE(5, 0)
/* The addresses of some processes of the job, in cards by their rank in the job. */
static int exchange_among(MPIR_Comm* comm, struct netmod_torii_card* own,
                          struct netmod_torii_card* cards) {
  const int size = comm->local_size;
  int* ranks = MPL_malloc((size_t)size * sizeof *ranks, MPL_MEM_ADDRESS);
  struct netmod_torii_card* some = MPL_calloc((size_t)size, sizeof *some, MPL_MEM_ADDRESS);
  int mpi_errno = MPI_SUCCESS;
  if (NULL == ranks || NULL == some) {
    mpi_errno = netmod_torii_error(TORII_ERR_NO_MEMORY, "the addresses of a group");
  }
  for (int i = 0; i < size && MPI_SUCCESS == mpi_errno; ++i) {
    ranks[i] = (int)MPIR_LPID_WORLD_RANK(MPIR_comm_rank_to_lpid(comm, i));
  }
  if (MPI_SUCCESS == mpi_errno) {
    mpi_errno = MPIR_pmi_allgather_group("BC", own, sizeof *own, some, sizeof *some, ranks, size,
                                         comm->stringtag);
  }
  for (int i = 0; i < size && MPI_SUCCESS == mpi_errno; ++i) cards[ranks[i]] = some[i];
  MPL_free(some);
  MPL_free(ranks);
  return mpi_errno;
}

int netmod_torii_exchange(MPIR_Comm* comm) {
  const bool everybody = comm->local_size == MPIR_Process.size;
  struct netmod_torii_card* cards = (void*)(uintptr_t)NETMOD_TORII_VCI(0)->cards;
  struct netmod_torii_card own;
  int mpi_errno = fill_card(0, &own);
  MPIR_ERR_CHECK(mpi_errno);
  if (NULL == cards) {
    set_ignored_bits();
    cards = MPL_calloc((size_t)MPIR_Process.size, sizeof *cards, MPL_MEM_ADDRESS);
    if (NULL == cards) return netmod_torii_error(TORII_ERR_NO_MEMORY, "the addresses of the job");
    NETMOD_TORII_VCI(0)->cards = cards;
  }
  mpi_errno = everybody
                  ? MPIR_pmi_allgather(&own, sizeof own, cards, sizeof *cards, MPIR_PMI_DOMAIN_ALL)
                  : exchange_among(comm, &own, cards);
  MPIR_ERR_CHECK(mpi_errno);
  if (everybody) {
    MPIDI_TORII_global.world = 1;
    mpi_errno = reach_next();
  }
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

static int drop_cards(void) {
  MPL_free((void*)(uintptr_t)NETMOD_TORII_VCI(0)->cards);
  return MPI_SUCCESS;
}
#else
int MPIDI_TORII_init_world(void) {
  int mpi_errno = MPI_SUCCESS;
  struct netmod_torii_card own;
  void* table = NULL;
  int card_bytes = sizeof own;
  set_ignored_bits();
  mpi_errno = fill_card(0, &own);
  MPIR_ERR_CHECK(mpi_errno);
  mpi_errno = MPIDU_bc_table_create(MPIR_Process.rank, MPIR_Process.size, MPIR_Process.node_map,
                                    &own, sizeof own, TRUE, FALSE, &table, &card_bytes);
  MPIR_ERR_CHECK(mpi_errno);
  NETMOD_TORII_VCI(0)->cards = table; /* one copy for a node */
  MPIDI_TORII_global.world = 1;
  for (int i = 0; i < MPIR_Process.size; ++i) {
    memset(&NETMOD_TORII_AV(0, i)->netmod.torii, 0, sizeof NETMOD_TORII_AV(0, i)->netmod.torii);
  }
  mpi_errno = reach_next();
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

static int drop_cards(void) {
  return NULL == NETMOD_TORII_VCI(0)->cards ? MPI_SUCCESS : MPIDU_bc_table_destroy();
}
#endif

#if NETMOD_TORII_SINCE(5, 0)
int MPIDI_TORII_comm_set_vcis(MPIR_Comm* comm, int num_implicit, int num_reserved,
                              MPIDI_num_vci_t* all_num_vcis) {
  (void)num_implicit;
  (void)num_reserved;
  for (int i = 0; i < comm->local_size; ++i) {
    all_num_vcis[i] = (MPIDI_num_vci_t){.n_vcis = 1, .n_total_vcis = 1};
  }
  return MPI_SUCCESS;
}
#elif 1 == NETMOD_TORII_MAX_VCIS
int MPIDI_TORII_post_init(void) { return MPI_SUCCESS; }
#else
/* Opens another VCI and tells the others its address, over the first one. */
static int open_with_others(int vci) {
  struct netmod_torii_card* cards =
      MPL_calloc((size_t)MPIR_Process.size, sizeof *cards, MPL_MEM_ADDRESS);
  int mpi_errno;
  if (NULL == cards) return netmod_torii_error(TORII_ERR_NO_MEMORY, "addresses of a VCI");
  NETMOD_TORII_VCI(vci)->cards = cards;
  mpi_errno = open_vci(vci);
  if (MPI_SUCCESS == mpi_errno) mpi_errno = fill_card(vci, &cards[MPIR_Process.rank]);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  return MPIR_Allgather_allcomm_auto(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards, sizeof *cards,
                                     NETMOD_TORII_BYTE, MPIR_Process.comm_world,
                                     NETMOD_TORII_NO_ERROR);
}

static int wait_together(void) {
  torii_ni_t* nis[NETMOD_TORII_MAX_VCIS];
  int code;
  if (1 == MPIDI_TORII_global.vcis) return MPI_SUCCESS;
  for (int i = 0; i < MPIDI_TORII_global.vcis; ++i) nis[i] = NETMOD_TORII_VCI(i)->ni;
  code = torii_wait_together(nis, (size_t)MPIDI_TORII_global.vcis);
  return TORII_OK == code ? MPI_SUCCESS : netmod_torii_refused(code, "waits for several VCIs");
}

/* A process with one thread may be among those with several: the smallest number is everybody's. */
int MPIDI_TORII_post_init(void) {
  int vcis = NETMOD_TORII_MAX_VCIS;
  for (int i = 0; i < MPIR_Process.size; ++i) {
    vcis = MPL_MIN(vcis, MPL_MAX(1, NETMOD_TORII_VCI(0)->cards[i].vcis));
  }
  for (int vci = 1; vci < vcis; ++vci) {
    const int mpi_errno = open_with_others(vci);
    if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  }
  MPIDI_TORII_global.vcis = vcis;
  return wait_together();
}

/* MPICH asks for progress of the VCIs that the calling thread waits for in turn, and now and then
 * of all. A thread that waits for one sleeps there, and one that asks for another than before for
 * all; whatever woke it is found by having MPICH look at all of them next. */
int netmod_torii_progress_among(int vci, int blocking) {
  static _Thread_local int last;
  const int count = global_vci_poll_count & MPIDI_CH4_PROG_POLL_MASK;
  const bool all =
      MPIR_CVAR_CH4_GLOBAL_PROGRESS && (0 == count || MPIDI_CH4_PROG_POLL_MASK == count);
  const bool again = last == vci;
  struct netmod_torii_vci* own = NETMOD_TORII_VCI(vci);
  int came_back;
  if (all) return torii_progress(own->ni);
  last = vci;
  if (!blocking) return torii_test_step(own->ni);
  lent = 0;
  came_back = !again           ? torii_wait_any(own->ni)
              : own->came_back ? torii_wait_step(own->ni)
                               : torii_wait_first(own->ni);
  own->came_back = 0 < came_back;
  if (0 < came_back && lent) global_vci_poll_count |= MPIDI_CH4_PROG_POLL_MASK;
  return came_back;
}
#endif

#if NETMOD_TORII_SINCE(4, 2) && !NETMOD_TORII_SINCE(5, 0)
int MPIDI_TORII_init_vcis(int num_vcis, int* num_vcis_actual) {
  (void)num_vcis;
  *num_vcis_actual = 1;
  return MPI_SUCCESS;
}
#endif

/* Only processes of MPI_COMM_WORLD have no peer from the beginning. */
torii_peer_t* netmod_torii_connect(MPIDI_av_entry_t* av, int vci, int* mpi_errno) {
  int rank = (int)(av - NETMOD_TORII_AV(0, 0));
  const struct netmod_torii_card* card = &NETMOD_TORII_VCI(vci)->cards[rank];
  torii_peer_t* peer = NULL;
  int code;
  MPIR_Assert(0 <= rank && rank < MPIR_Process.size);
  code = torii_connect(NETMOD_TORII_VCI(vci)->ni, card->address,
                       MPL_MIN(card->bytes, sizeof card->address), &peer);
  if (TORII_OK != code) {
    char what[64];
    snprintf(what, sizeof what, "rank %d of MPI_COMM_WORLD cannot be reached", rank);
    *mpi_errno = netmod_torii_refused(code, what);
    return NULL;
  }
  NETMOD_TORII_PEER(av, vci) = peer;
  return peer;
}

/* --- end ----------------------------------------------------------------------------------- */

static long all_pending(void) {
  long sum = 0;
  for (int i = 0; i < MPIDI_TORII_global.vcis; ++i) sum += NETMOD_TORII_VCI(i)->pending;
  return sum;
}

static void close_vci(int vci) {
  struct netmod_torii_vci* own = NETMOD_TORII_VCI(vci);
  torii_remove_directory(own->ni, find, own);
  torii_port_close(own->port);
  torii_close(own->ni);
#if 1 < NETMOD_TORII_MAX_VCIS
  if (0 != vci) MPL_free((void*)(uintptr_t)own->cards);
#endif
}

static void progress_at_end(void) {
  if (1 == MPIDI_TORII_global.vcis) {
    torii_wait_step(NETMOD_TORII_NI);
    return;
  }
  for (int i = 0; i < MPIDI_TORII_global.vcis; ++i) torii_test_step(NETMOD_TORII_VCI(i)->ni);
}

struct barrier {
  int mpi_errno;
  atomic_int over;
};

static void* wait_for_all(void* arg) {
  struct barrier* barrier = arg;
  barrier->mpi_errno = MPIR_pmi_barrier();
  atomic_store(&barrier->over, 1);
  return NULL;
}

/* PMI's barrier blocks, but what this process has sent may still be on its way: a driver that loses
 * packets repeats them in progress only. So another thread stands at the barrier. Nobody is to wake
 * this one, for it may be gone by then: it sleeps, the longer the later the last process is. */
static int barrier_with_progress(void) {
  struct timespec moment = {.tv_nsec = 100000};
  struct barrier barrier = {.mpi_errno = MPI_SUCCESS};
  pthread_t thread;
  if (0 != pthread_create(&thread, NULL, wait_for_all, &barrier)) return MPIR_pmi_barrier();
  while (!atomic_load(&barrier.over)) {
    for (int i = 0; i < MPIDI_TORII_global.vcis; ++i) torii_progress(NETMOD_TORII_VCI(i)->ni);
    nanosleep(&moment, NULL);
    if (moment.tv_nsec < 1000000) moment.tv_nsec += moment.tv_nsec / 8;
  }
  pthread_join(thread, NULL);
  return barrier.mpi_errno;
}

/* All that was sent must be received before this process may go: the others make progress until
 * all are here. */
int MPIDI_TORII_mpi_finalize_hook(void) {
  int mpi_errno = MPI_SUCCESS;
  while (0 < all_pending()) progress_at_end();
  /* A process with sessions only may have no MPI_COMM_WORLD, and nobody waits for it. */
  if (MPIDI_TORII_global.world) mpi_errno = barrier_with_progress();
  MPIR_ERR_CHECK(mpi_errno);
  netmod_torii_am_close();
  for (int i = 0; i < MPIDI_TORII_global.vcis; ++i) close_vci(i);
  while (NULL != MPIDI_TORII_global.strangers) {
    struct netmod_torii_stranger* stranger = MPIDI_TORII_global.strangers;
    MPIDI_TORII_global.strangers = stranger->next;
    MPL_free(stranger);
  }
  mpi_errno = drop_cards();
  memset(&MPIDI_TORII_global, 0, sizeof MPIDI_TORII_global);
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}
