/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Windows: whose memory is reached how. MPI_Win_create exports the program's memory, which others
 * map if it is from MPI_Alloc_mem. On one node MPI_Win_allocate takes memory from Torii that every
 * member maps, with the mutex of accumulates behind it; MPI_Win_allocate_shared has memory of MPICH
 * that is mapped already. Memory in a dynamic window is reached by MPICH's active
 * messages only.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

#define LINE 64 /* bytes of a cache line */
/* MPICH hands out what it is given at the next multiple of 16, never at the place itself. With this
 * that is the begin of a line: 16 bytes behind one, a copy by `rep movsb` takes twice the time on
 * some processors. */
#define SHIFT (LINE - 16)

/* --- memory of MPI_Alloc_mem ---------------------------------------------------------------- */

/* Processes of this node map it when they are told its key: a window of it is reached by load and
 * store, and a long message from or to it is copied by both ends at once. */
void* MPIDI_TORII_mpi_alloc_mem(MPI_Aint size, MPIR_Info* info) {
  void* memory = NULL;
  (void)info;
  torii_memory_alloc(NETMOD_TORII_NI, (size_t)size + SHIFT, 0, &memory);
  return NULL == memory ? NULL : (char*)memory + SHIFT;
}

int MPIDI_TORII_mpi_free_mem(void* ptr) {
  const int code = torii_memory_free(NETMOD_TORII_NI, (char*)ptr - SHIFT);
  return TORII_OK == code ? MPI_SUCCESS : netmod_torii_refused(code, "MPI_Free_mem");
}

/* --- reach ---------------------------------------------------------------------------------- */

/* The first access to a target. Memory that cannot be imported is reached by MPICH. */
static void import(MPIR_Win* win, int rank) {
  struct netmod_torii_window* window = NETMOD_TORII_WINDOW(win);
  struct netmod_torii_target* target = &window->targets[rank];
  const struct netmod_torii_key* key = &window->keys[rank];
  int mpi_errno = MPI_SUCCESS;
  torii_peer_t* peer;
  target->tried = 1;
  if (0 == key->key_bytes || TORII_KEY_MAX < key->key_bytes) return;
  peer = netmod_torii_peer(MPIDIU_comm_rank_to_av(win->comm_ptr, rank), 0, &mpi_errno);
  if (NULL == peer || TORII_OK != torii_import(NETMOD_TORII_NI, peer, key->key, key->key_bytes,
                                               window->tag, &target->import)) {
    target->import = NULL;
    return;
  }
  target->mapped = torii_import_address(target->import);
}

void netmod_torii_try(MPIR_Win* win, int rank) {
  MPID_THREAD_CS_ENTER(VCI, NETMOD_TORII_LOCK(0));
  if (!NETMOD_TORII_WINDOW(win)->targets[rank].tried) import(win, rank);
  MPID_THREAD_CS_EXIT(VCI, NETMOD_TORII_LOCK(0));
}

/* --- begin ---------------------------------------------------------------------------------- */

int netmod_torii_all_agree(MPIR_Comm* comm, bool mine, bool* all) {
  return MPIR_Allreduce(&mine, all, 1, NETMOD_TORII_BOOL, MPI_LAND, comm, NETMOD_TORII_NO_ERROR);
}

static struct netmod_torii_window* new_window(MPIR_Win* win) {
  const size_t members = (size_t)win->comm_ptr->local_size;
  struct netmod_torii_window* window =
      MPL_calloc(1, sizeof *window + members * sizeof *window->targets, MPL_MEM_RMA);
  struct netmod_torii_key* keys = MPL_calloc(members, sizeof *keys, MPL_MEM_RMA);
  if (NULL == window || NULL == keys) {
    MPL_free(window);
    MPL_free(keys);
    return NULL;
  }
  window->keys = keys;
  window->tag = MPIDIG_WIN(win, win_id);
  for (size_t i = 0; i < members; ++i) window->targets[i].window = window;
  return window;
}

/* Tells the others the key of `bytes` bytes at `base` and learns theirs. */
static int exchange_keys(MPIR_Win* win, struct netmod_torii_window* window, void* base,
                         uint64_t bytes) {
  const unsigned access = TORII_MAY_READ | TORII_MAY_WRITE;
  struct netmod_torii_key* own = &window->keys[win->comm_ptr->rank];
  own->bytes = (uint64_t)win->size;
  own->disp_unit = win->disp_unit;
  if (0 < bytes && TORII_OK == torii_export(NETMOD_TORII_NI, base, bytes, access, window->tag,
                                            &window->exported)) {
    own->key_bytes = (uint16_t)torii_export_key(window->exported, own->key, sizeof own->key);
  }
  return MPIR_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, window->keys, sizeof *window->keys,
                        NETMOD_TORII_BYTE, win->comm_ptr, NETMOD_TORII_NO_ERROR);
}

/* Access of a process to its own part needs nobody else. */
static void map_own(MPIR_Win* win, struct netmod_torii_window* window) {
  struct netmod_torii_target* own = &window->targets[win->comm_ptr->rank];
  own->tried = 1;
  own->mapped = win->base;
}

static int open_window(MPIR_Win* win, void* base, uint64_t bytes) {
  struct netmod_torii_window* window = new_window(win);
  int mpi_errno;
  if (NULL == window) return netmod_torii_error(TORII_ERR_NO_MEMORY, "a window");
  mpi_errno = exchange_keys(win, window, base, bytes);
  map_own(win, window);
  NETMOD_TORII_WINDOW(win) = window;
  return mpi_errno;
}

int MPIDI_TORII_mpi_win_create(void* base, MPI_Aint length, int disp_unit, MPIR_Info* info,
                               MPIR_Comm* comm_ptr, MPIR_Win** win_p) {
  const int mpi_errno = MPIDIG_mpi_win_create(base, length, disp_unit, info, comm_ptr, win_p);
  return MPI_SUCCESS == mpi_errno ? open_window(*win_p, base, (uint64_t)length) : mpi_errno;
}

int MPIDI_TORII_mpi_win_allocate_shared(MPI_Aint size, int disp_unit, MPIR_Info* info_ptr,
                                        MPIR_Comm* comm_ptr, void** base_ptr, MPIR_Win** win_ptr) {
  struct netmod_torii_window* window;
  const MPIDIG_win_shared_info_t* table;
  MPIR_Win* win;
  const int mpi_errno =
      MPIDIG_mpi_win_allocate_shared(size, disp_unit, info_ptr, comm_ptr, base_ptr, win_ptr);
  if (MPI_SUCCESS != mpi_errno) return mpi_errno;
  win = *win_ptr;
  table = MPIDIG_WIN(win, shared_table);
  if (NULL == table || !netmod_torii_on_one_node(win->comm_ptr)) return MPI_SUCCESS;
  window = new_window(win);
  if (NULL == window) return MPI_SUCCESS; /* this process then asks the others */
  for (int i = 0; i < win->comm_ptr->local_size; ++i) {
    window->keys[i].bytes = table[i].size;
    window->keys[i].disp_unit = (int)table[i].disp_unit;
    window->targets[i].tried = 1;
    window->targets[i].mapped = table[i].shm_base_addr;
  }
  NETMOD_TORII_WINDOW(win) = window;
  return MPI_SUCCESS;
}

/* --- MPI_Win_allocate on one node ------------------------------------------------------------ */

static uint64_t mutex_offset(uint64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static bool make_mutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  bool made;
  if (0 != pthread_mutexattr_init(&attributes)) return false;
  made = 0 == pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) &&
         0 == pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) &&
         0 == pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return made;
}

/* Memory of a window and its mutex, or null. */
static void* make_memory(MPI_Aint size) {
  void* memory = NULL;
  const uint64_t offset = mutex_offset((uint64_t)size);
  if (TORII_OK !=
      torii_memory_alloc(NETMOD_TORII_NI, offset + sizeof(pthread_mutex_t), LINE, &memory)) {
    return NULL;
  }
  if (make_mutex((pthread_mutex_t*)((char*)memory + offset))) return memory;
  torii_memory_free(NETMOD_TORII_NI, memory);
  return NULL;
}

/* Imports all, and if every member maps all others their mutexes are used. */
static int share_mutexes(MPIR_Win* win) {
  struct netmod_torii_window* window = NETMOD_TORII_WINDOW(win);
  const int members = win->comm_ptr->local_size;
  bool mine = true, all = false;
  int mpi_errno;
  for (int i = 0; i < members; ++i) {
    if (!window->targets[i].tried) import(win, i);
    mine = mine && NULL != window->targets[i].mapped;
  }
  mpi_errno = netmod_torii_all_agree(win->comm_ptr, mine, &all);
  for (int i = 0; i < members && MPI_SUCCESS == mpi_errno && all; ++i) {
    window->targets[i].mutex =
        (pthread_mutex_t*)(window->targets[i].mapped + mutex_offset(window->keys[i].bytes));
  }
  return mpi_errno;
}

/* Sets what MPICH does for windows of this flavor before it reads the program's hints. */
static void set_allocated(MPIR_Win* win, MPIR_Info* info) {
  char value[8] = "";
  int found = 0;
  win->create_flavor = MPI_WIN_FLAVOR_ALLOCATE;
  if (NULL != info) MPIR_Info_get_impl(info, "alloc_shm", sizeof value - 1, value, &found);
  if (!found || 0 != strcmp(value, "false")) MPIDIG_WIN(win, info_args).alloc_shm = 1;
}

int MPIDI_TORII_mpi_win_allocate(MPI_Aint size, int disp_unit, MPIR_Info* info, MPIR_Comm* comm,
                                 void* baseptr, MPIR_Win** win_p) {
  void* memory = NULL;
  void* base;
  bool all = false;
  int mpi_errno = MPI_SUCCESS;
  if (netmod_torii_on_one_node(comm)) {
    memory = make_memory(size);
    mpi_errno = netmod_torii_all_agree(comm, NULL != memory, &all);
    MPIR_ERR_CHECK(mpi_errno);
  }
  if (!all) {
    if (NULL != memory) torii_memory_free(NETMOD_TORII_NI, memory);
    mpi_errno = MPIDIG_mpi_win_allocate(size, disp_unit, info, comm, baseptr, win_p);
    return MPI_SUCCESS == mpi_errno ? open_window(*win_p, (*win_p)->base, (uint64_t)size)
                                    : mpi_errno;
  }
  base = 0 < size ? memory : NULL;
  mpi_errno = MPIDIG_mpi_win_create(base, size, disp_unit, info, comm, win_p);
  if (MPI_SUCCESS != mpi_errno) {
    torii_memory_free(NETMOD_TORII_NI, memory);
    goto fn_fail;
  }
  mpi_errno = open_window(*win_p, memory, mutex_offset((uint64_t)size) + sizeof(pthread_mutex_t));
  MPIR_ERR_CHECK(mpi_errno);
  set_allocated(*win_p, info);
  NETMOD_TORII_WINDOW(*win_p)->memory = memory;
  NETMOD_TORII_WINDOW(*win_p)->targets[(*win_p)->comm_ptr->rank].mapped = memory;
  mpi_errno = share_mutexes(*win_p);
  *(void**)baseptr = base;
fn_exit:
  return mpi_errno;
fn_fail:
  goto fn_exit;
}

int MPIDI_TORII_mpi_win_create_dynamic(MPIR_Info* info, MPIR_Comm* comm, MPIR_Win** win_p) {
  return MPIDIG_mpi_win_create_dynamic(info, comm, win_p);
}

/* MPICH calls these when it has made a window, before the functions above go on. */
static int no_window(MPIR_Win* win) {
  NETMOD_TORII_WINDOW(win) = NULL;
#if 1 < NETMOD_TORII_MAX_VCIS
  MPIDI_WIN(win, am_vci) = 0;
#endif
  return MPI_SUCCESS;
}

int MPIDI_TORII_mpi_win_create_hook(MPIR_Win* win) { return no_window(win); }
int MPIDI_TORII_mpi_win_allocate_hook(MPIR_Win* win) { return no_window(win); }
int MPIDI_TORII_mpi_win_allocate_shared_hook(MPIR_Win* win) { return no_window(win); }
int MPIDI_TORII_mpi_win_create_dynamic_hook(MPIR_Win* win) { return no_window(win); }

/* --- end ------------------------------------------------------------------------------------ */

int MPIDI_TORII_mpi_win_free(MPIR_Win** win_p) { return MPIDIG_mpi_win_free(win_p); }

static void unexported(void* arg, const torii_result_t* result) {
  (void)result;
  *(int*)arg = 1;
}

/* All members have come to MPI_Win_free, and nobody uses the memory any more. */
int MPIDI_TORII_mpi_win_free_hook(MPIR_Win* win) {
  struct netmod_torii_window* window = NETMOD_TORII_WINDOW(win);
  int mpi_errno, over = 0;
  if (NULL == window) return MPI_SUCCESS;
  mpi_errno = netmod_torii_complete_all(win);
  for (int i = 0; i < win->comm_ptr->local_size; ++i) {
    if (NULL != window->targets[i].import) torii_import_drop(window->targets[i].import);
  }
  if (NULL != window->exported &&
      TORII_PENDING == torii_unexport(window->exported, unexported, &over)) {
    while (!over) torii_wait_step(NETMOD_TORII_NI);
  }
  if (NULL != window->memory) {
    torii_memory_free(NETMOD_TORII_NI, window->memory);
    win->base = NULL; /* or MPICH frees it */
  }
  NETMOD_TORII_WINDOW(win) = NULL;
  MPL_free(window->keys);
  MPL_free(window);
  return mpi_errno;
}
