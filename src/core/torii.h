/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii.h: what Torii offers beside the Portals 3.3 API (portals3.h): network interfaces, peers,
 * tagged message ports after QsNet's Tports, progress, parameters and counters. Both MPI faces
 * are written to this header alone.
 *
 * Threading: a network interface opened with `threads` nonzero may be used by any number of
 * threads at once; otherwise by one thread at a time. Completion callbacks run on the thread
 * that called torii_progress (or another Torii function), after that call has dropped every
 * lock: they may call any function of this header. With the parameter `progress_thread` Torii
 * has a thread of its own beside these; it runs no callbacks.
 *
 * Errors: functions return TORII_OK, TORII_PENDING or a negative code. For functions that set
 * something up, torii_error() has one sentence naming the thing, the value and the remedy.
 */
#ifndef TORII_H
#define TORII_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TORII_VERSION_MAJOR 0
#define TORII_VERSION_MINOR 1
#if defined(__GNUC__)
#define TORII_PUBLIC __attribute__((visibility("default")))
#else
#define TORII_PUBLIC
#endif

typedef enum torii_code {
  TORII_OK = 0,
  TORII_PENDING = 1,      /* begun; the callback follows */
  TORII_EMPTY = 2,        /* nothing there (probe), time over (wait), lock not free */
  TORII_ERR_INVALID = -1, /* an argument makes no sense */
  TORII_ERR_NO_MEMORY = -2,
  TORII_ERR_UNREACHABLE = -3, /* no driver reaches that process */
  TORII_ERR_PEER_DEAD = -4,   /* the process died, stopped answering, or sent malformed frames */
  TORII_ERR_PEER_CLOSED = -5, /* the process closed its interface */
  TORII_ERR_TRUNCATED = -6,   /* the receive was too small; the prefix was delivered */
  TORII_ERR_CANCELED = -7,
  TORII_ERR_UNSUPPORTED = -8,
  TORII_ERR_DENIED = -9,
  TORII_ERR_CORRUPT = -10,
  TORII_ERR_TIMED_OUT = -11,
  TORII_ERR_IO = -12
} torii_code_t;

typedef struct torii_ni torii_ni_t;           /* a network interface */
typedef struct torii_peer torii_peer_t;       /* a process one can talk to; owned by its NI */
typedef struct torii_port torii_port_t;       /* a tagged message port */
typedef struct torii_message torii_message_t; /* a message taken by torii_mprobe */
typedef struct torii_group torii_group_t;     /* several peers that are sent to at once */
typedef struct torii_export torii_export_t;   /* own memory that peers may reach */
typedef struct torii_import torii_import_t;   /* a peer's memory that this process may reach */
typedef uint64_t torii_request_t;             /* names an operation for torii_cancel; never 0 */

/* The sentence for the last error of this thread, never null. */
TORII_PUBLIC const char* torii_error(void);
/* A short text for a code, never null. */
TORII_PUBLIC const char* torii_code_text(int code);
/* "MAJOR.MINOR" of the library in use. */
TORII_PUBLIC const char* torii_version(void);

/* --- network interface --------------------------------------------------------------------- */

/* A lock of the caller's, which may be held when an interface is called. While a call yields or
 * sleeps the lock is given up, and now and then while a thread waits by torii_wait_step and the
 * like; it is taken again before the call goes on, in the thread that called. */
typedef struct torii_lock {
  void (*give_up)(void* arg);
  void (*take)(void* arg);
  void* arg;
} torii_lock_t;

typedef struct torii_options {
  size_t struct_bytes; /* sizeof(torii_options_t) */
  uint64_t job;        /* processes started together share it; nonzero */
  uint32_t rank;       /* this process in the job */
  uint32_t size;       /* processes in the job */
  uint32_t node;       /* index of this node; all processes of a node agree */
  uint32_t local_rank; /* index of this process on its node */
  uint32_t local_size; /* processes of the job on this node */
  int threads;         /* nonzero: called by several threads at once */
  /* Null, or kept until the interface is closed. With `threads` 0 several threads may call, each
   * under this lock, and Torii needs none of its own. */
  const torii_lock_t* lock;
} torii_options_t;

/* Opens the process's network interface with the identity a launcher gave. Faces that are
 * opened in one process with the same identity share one interface (it is counted). Fails with
 * INVALID, UNREACHABLE (no driver could be opened) or, if the parameter `enable` is off, DENIED. */
TORII_PUBLIC int torii_open(const torii_options_t* options, torii_ni_t** ni);
/* Gives the interface back; the last call closes it: what was accepted for sending is handed
 * to the drivers first, and, where frames may be lost, to the peers, for at most a second. Peers
 * see TORII_ERR_PEER_CLOSED afterwards. */
TORII_PUBLIC int torii_close(torii_ni_t* ni);

/* Writes the address other processes connect to; returns its length. With capacity too small
 * nothing is written. The bytes are opaque, the same on every machine, under 1024. */
TORII_PUBLIC size_t torii_address(torii_ni_t* ni, void* buffer, size_t capacity);
/* The same in fewer bytes, for a place with little room such as a port's name: without the host,
 * which peers learn by the first message, and where all drivers together need much room, only
 * with those that reach other nodes. Connects to the same peer. At most 118 bytes with the drivers
 * that are there. */
TORII_PUBLIC size_t torii_short_address(torii_ni_t* ni, void* buffer, size_t capacity);
/* Finds or makes the peer with this address. Cheap to repeat. Nothing is sent until the first
 * message. Fails with UNREACHABLE, or PEER_DEAD or PEER_CLOSED where a driver knows that the
 * process is gone, and the reasons of every driver in torii_error(). */
TORII_PUBLIC int torii_connect(torii_ni_t* ni, const void* address, size_t bytes,
                               torii_peer_t** peer);
/* The address that process `rank` of `job` has published, as torii_address gave it: writes it, if
 * there is room, and returns its length; 0: it is not known. */
typedef size_t (*torii_find_t)(void* arg, uint64_t job, uint32_t rank, void* address,
                               size_t capacity);
/* On networks on which others can send, a process hears only those that it has connected or that
 * such a function finds; messages of others wait at their sender. `find` is called with Torii's
 * locks held, about processes that send here first: it must not call Torii, and should not wait for
 * long. An interface may have several. */
TORII_PUBLIC int torii_add_directory(torii_ni_t* ni, torii_find_t find, void* arg);
TORII_PUBLIC int torii_remove_directory(torii_ni_t* ni, torii_find_t find, void* arg);
/* While this was said with nonzero more often than with 0, processes of other jobs are heard, too,
 * whoever they are: for an application that waits for them, as MPI_Comm_accept does. Those that
 * have been heard go on being heard. */
TORII_PUBLIC int torii_welcome(torii_ni_t* ni, int strangers);
/* Why Torii cannot use this node's RDMA device, which other libraries may: one sentence with the
 * reason and the remedy, which lives as long as the interface. Null: it can, there is none, the job
 * needs no network, or the user has asked for Torii by TORII_DRIVERS or TORII_LINK_CIPHER. */
TORII_PUBLIC const char* torii_missed_network(torii_ni_t* ni);
/* The peer's job and rank, as in its options; 0 and UINT32_MAX before they are known. */
TORII_PUBLIC void torii_peer_identity(const torii_peer_t* peer, uint64_t* job, uint32_t* rank);
/* A line for reports: "rank 3 on n1 (pid 77) by shm". Valid until the next call by
 * this thread. */
TORII_PUBLIC const char* torii_peer_text(torii_ni_t* ni, const torii_peer_t* peer);
/* For another process. 0: a group with it cannot be prepared for collective operations, because its
 * driver neither maps memory nor has multicast. 1: it may be possible. */
TORII_PUBLIC int torii_peer_may_join(torii_ni_t* ni, const torii_peer_t* peer);
/* Sizes that suit a peer's driver; guides for protocols above, not limits of what may be sent. */
typedef struct torii_limits {
  size_t struct_bytes; /* sizeof(torii_limits_t) */
  uint64_t frame;      /* largest message that leaves as one frame */
  uint64_t eager;      /* largest message that is sent before a receive has matched */
  uint64_t
      remote_bytes; /* larger reads and writes are done in parts of so many bytes; 0: by frames */
  uint32_t latency_ns;   /* 0: unknown */
  uint32_t mbytes_per_s; /* 0: unknown */
} torii_limits_t;
/* For this peer, or, if it is null, for processes by the interface's first driver that reaches
 * others. Fails with INVALID. */
TORII_PUBLIC int torii_limits(torii_ni_t* ni, const torii_peer_t* peer, torii_limits_t* out);
/* The user's pointer of a peer: stored, never used by Torii. Null at first. */
TORII_PUBLIC void torii_peer_set_context(torii_peer_t* peer, void* context);
TORII_PUBLIC void* torii_peer_context(const torii_peer_t* peer);

/* Moves everything that can be moved without waiting and runs callbacks. Returns the number of
 * events handled, 0 if there was nothing to do. */
TORII_PUBLIC int torii_progress(torii_ni_t* ni);
/* Progress for a caller that waits in a loop of its own and has nothing else to do. While
 * processors are scarce, or if the parameter `wait` asks for it, it yields after some calls in a
 * row that found nothing, and later sleeps: until something arrives, and for about as long as the
 * wait has lasted, at most 5 ms. A caller that computes for more than 20 us
 * between the calls, or sleeps by itself, is not put to sleep. Returns as torii_progress, and
 * nonzero also if it gave the processor away. */
TORII_PUBLIC int torii_wait_step(torii_ni_t* ni);
/* Names a function that says whether callers now wait for events that Torii does not see, too:
 * nonzero: waits yield, but do not sleep unless the parameter `wait` asks for it. It is called
 * before a wait yields or sleeps, by any thread, and must be quick and not call Torii. Null, as at
 * first: there are no such events. */
TORII_PUBLIC void torii_set_others(torii_ni_t* ni, int (*others)(void));
/* The same as torii_wait_step for a caller that waits for one message: ends with the first event,
 * so that the caller learns of it as soon as can be. One that goes on waiting then should call
 * torii_wait_step. */
TORII_PUBLIC int torii_wait_first(torii_ni_t* ni);
/* The same for a caller whose loop may hold further callers of this interface, as that of an MPI
 * with two components over it does: if another one has made progress since this caller's last
 * call, there is nothing left to do, and it returns 0 at once. *rounds is the caller's, 0 at first,
 * and kept between its calls; threads may share it. */
TORII_PUBLIC int torii_wait_step_beside(torii_ni_t* ni, uint32_t* rounds);
/* Progress for a caller that looks in and goes on with work of its own, as MPI_Test does. While
 * processors are scarce it yields after some calls in a row that found nothing; it sleeps, for
 * less than 0.1 ms, only where yields do not reach the others. Returns as torii_wait_step. */
TORII_PUBLIC int torii_test_step(torii_ni_t* ni);
/* Interfaces of this process, all opened with `threads`, for which threads wait in turn: one that
 * sleeps for one of them wakes for what arrives at another, too, unless a thread sleeps there, and
 * then has to make progress there. Said before the first wait; no thread waits while one of them is
 * closed. */
TORII_PUBLIC int torii_wait_together(torii_ni_t* const* nis, size_t count);
/* torii_wait_step for a thread that waits for something at any of them: what another thread's call
 * brings about at one of them ends its sleep as well. Makes progress at `ni` alone. */
TORII_PUBLIC int torii_wait_any(torii_ni_t* ni);
/* For a thread that waits beside others of its process, after some rounds of progress that did not
 * bring it what it waits for, though perhaps what others wait for. Gives the processor to another
 * thread if more threads of the process have called this than it can count on processors; not if
 * the parameter `wait` says spin, and not in an interface opened for one thread. */
TORII_PUBLIC void torii_give_way(torii_ni_t* ni);
/* Progress that may sleep: returns after the first event or after `milliseconds` (-1: no
 * limit), with the number of events or 0. */
TORII_PUBLIC int torii_wait(torii_ni_t* ni, int milliseconds);

/* Called (like a completion callback) once when a peer dies or closes. */
typedef void (*torii_peer_down_t)(void* arg, torii_peer_t* peer, int code);
TORII_PUBLIC void torii_on_peer_down(torii_ni_t* ni, torii_peer_down_t callback, void* arg);

/* --- data ---------------------------------------------------------------------------------- */

typedef enum torii_layout {
  TORII_CONTIGUOUS = 0, /* base, bytes */
  TORII_PIECES = 1,     /* pieces, piece_count; bytes is their sum */
  TORII_FUNCTIONS = 2   /* pack and unpack with context; bytes is the packed size */
} torii_layout_t;

/* Where a message is taken from or placed. The structure is read by the call and not kept; the
 * memory, the list of pieces and the context must stay until completion. Pack and unpack are
 * called with offsets in increasing order without gaps, must not call Torii, and run on any
 * thread that makes progress. */
typedef struct torii_data {
  torii_layout_t layout;
  uint32_t piece_count;
  uint64_t bytes;
  void* base; /* memory, or the functions' context */
  const struct iovec* pieces;
  void (*pack)(void* context, uint64_t offset, void* buffer, size_t bytes);
  void (*unpack)(void* context, uint64_t offset, const void* buffer, size_t bytes);
} torii_data_t;

/* --- memory -------------------------------------------------------------------------------- */

/* Allocates memory for messages. Where a driver can, peers on this node reach it by load and
 * store: a large message from or to it is copied once, by one of the two processes, without a
 * system call. Where none can it is ordinary memory. The content is undefined. `alignment` is a
 * power of two, or 0 for what suits; long memory is page-aligned. Pages are placed near the thread
 * that touches them first. In the child of a fork the memory is the child's own: what it writes
 * does not reach the parent. Fails with INVALID or NO_MEMORY. */
TORII_PUBLIC int torii_memory_alloc(torii_ni_t* ni, size_t bytes, size_t alignment, void** address);
/* Gives it back; no operation of this process may use it any more, and exports in it end. It is
 * kept until operations of peers that this process serves are over; for what a peer has begun by
 * itself torii_unexport's word holds. In the child of a fork it does nothing. Memory that is not
 * given back before torii_close stays usable as ordinary memory until the process ends. Anything
 * but an address that torii_memory_alloc gave and that was not given back yet is INVALID and
 * changes nothing. */
TORII_PUBLIC int torii_memory_free(torii_ni_t* ni, void* address);
/* The interface that torii_open has open in this process, the first one if there are several, or
 * null: for a face that allocates for another one. It is not counted as opened once more. */
TORII_PUBLIC torii_ni_t* torii_current(void);

/* --- tagged message ports ------------------------------------------------------------------ */

/* The outcome of an operation. For sends only `code` and `bytes` have meaning. */
typedef struct torii_result {
  int code;             /* TORII_OK or an error */
  uint32_t user;        /* the 32 bits the sender passed with the message */
  uint64_t tag;         /* the sender's tag */
  uint64_t bytes;       /* bytes delivered */
  uint64_t sent_bytes;  /* bytes the sender sent; more than `bytes` when truncated */
  torii_peer_t* source; /* the sender */
} torii_result_t;

/* Runs exactly once for an operation that returned TORII_PENDING; the operation is over and its
 * torii_request_t is void when it begins. */
typedef void (*torii_done_t)(void* arg, const torii_result_t* result);

/* For a caller that waits until `done` is set: torii_flag as the callback, and the address of one
 * of these, with `done` 0, as its argument. It may be set while Torii holds its locks, and so
 * earlier than other callbacks run. `done` is written last, by whichever thread makes progress:
 * read it with acquire order. */
typedef struct torii_flag {
  int done;
  torii_result_t result;
} torii_flag_t;
TORII_PUBLIC void torii_flag(void* flag, const torii_result_t* result);

typedef enum torii_mode {
  TORII_STANDARD = 0,    /* complete when the memory may be reused */
  TORII_SYNCHRONOUS = 1, /* complete when a receive has matched */
  TORII_READY = 2        /* the receive is posted already, says the caller */
} torii_mode_t;

#define TORII_PORT_MAX 15

/* Opens port `index` (0 to TORII_PORT_MAX) of the interface; equal indices talk to each other.
 * Messages may arrive before the port is opened: they wait. Opening twice counts. */
TORII_PUBLIC int torii_port_open(torii_ni_t* ni, unsigned index, torii_port_t** port);
/* Gives the port back; the last close cancels its receives without callbacks and discards its
 * unexpected messages. */
TORII_PUBLIC int torii_port_close(torii_port_t* port);

/* Sends. Returns TORII_OK: complete, no callback; TORII_PENDING: `done` will run, *request (may
 * be null) names the operation; or an error. Messages between two processes on one port match
 * in the order of the calls. */
TORII_PUBLIC int torii_send(torii_port_t* port, torii_peer_t* peer, torii_mode_t mode, uint64_t tag,
                            uint32_t user, const torii_data_t* data, torii_done_t done, void* arg,
                            torii_request_t* request);

/* The short way of torii_send, for a small contiguous message in standard mode. TORII_OK: complete.
 * TORII_EMPTY: nothing happened, because it is not small, cannot leave at once, or an argument
 * makes no sense; torii_send then does it, or says what is wrong. */
TORII_PUBLIC int torii_send_now(torii_port_t* port, torii_peer_t* peer, uint64_t tag, uint32_t user,
                                const void* base, uint64_t bytes);

/* Receives the first message from `source` (null: anyone) with
 * ((message tag ^ tag) & ~ignore) == 0. Posted receives match in the order of the calls.
 * Returns TORII_OK: complete, *result filled, no callback; TORII_PENDING; or an error, also
 * when the message that matched ended in one (result->code then has it too). A long message may be
 * complete later than a short one that follows it; but of receives from anyone none is put off so
 * that later messages can be read together with its own, because who has several of them often
 * takes what they bring as it comes. */
TORII_PUBLIC int torii_recv(torii_port_t* port, torii_peer_t* source, uint64_t tag, uint64_t ignore,
                            const torii_data_t* data, torii_done_t done, void* arg,
                            torii_request_t* request, torii_result_t* result);

/* The short way of torii_recv, for contiguous memory when no message that came unexpected waits at
 * the port. Returns the operation, of which `done` will tell. 0: nothing happened; torii_recv then
 * does it, or says what is wrong. */
TORII_PUBLIC torii_request_t torii_post(torii_port_t* port, torii_peer_t* source, uint64_t tag,
                                        uint64_t ignore, void* base, uint64_t bytes,
                                        torii_done_t done, void* arg);

/* Ends receives at once. A receive of `port` whose callback is `done` may, when its message is
 * complete, be offered to `prompt` instead, with the same arguments, before Torii gives its locks
 * up and in a thread of the application's. `prompt` must not call Torii. Not 0: that was its end,
 * `done` does not run. 0: `done` follows as usual. One pair a port; the last call counts, null ends
 * it, and the port's last close does too. */
typedef int (*torii_prompt_t)(void* arg, const torii_result_t* result);
TORII_PUBLIC int torii_port_prompt(torii_port_t* port, torii_done_t done, torii_prompt_t prompt);

/* From now on the port's receives from one peer end in the order in which they matched, although a
 * later message may be here first, and none completes in the call that posts it: callbacks run in
 * that order. For users who unpack parts of a message as they come. Until the port's last close. */
TORII_PUBLIC int torii_port_in_order(torii_port_t* port);

/* Is there an unexpected message that this receive would match? TORII_OK with source, tag, user
 * and sent_bytes in *result, or TORII_EMPTY. Makes no progress by itself. */
TORII_PUBLIC int torii_probe(torii_port_t* port, torii_peer_t* source, uint64_t tag,
                             uint64_t ignore, torii_result_t* result);
/* As torii_probe, and takes the message out of matching; torii_mrecv must follow. */
TORII_PUBLIC int torii_mprobe(torii_port_t* port, torii_peer_t* source, uint64_t tag,
                              uint64_t ignore, torii_message_t** message, torii_result_t* result);
/* Receives a taken message; returns as torii_recv. The message is void afterwards. */
TORII_PUBLIC int torii_mrecv(torii_port_t* port, torii_message_t* message, const torii_data_t* data,
                             torii_done_t done, void* arg, torii_request_t* request,
                             torii_result_t* result);

/* Withdraws an operation that has not begun to move data: a receive that is still unmatched, or
 * a send that is still waiting here. TORII_OK: withdrawn, and its callback runs, before this
 * returns, with TORII_ERR_CANCELED. TORII_EMPTY: too late or unknown; nothing changes. */
TORII_PUBLIC int torii_cancel(torii_ni_t* ni, torii_request_t request);

/* --- remote memory ------------------------------------------------------------------------- */

/* The accesses that peers may make to an export. */
typedef enum torii_access {
  TORII_MAY_READ = 1,
  TORII_MAY_WRITE = 2,
  TORII_MAY_UPDATE = 4 /* by atomic operations */
} torii_access_t;

#define TORII_KEY_MAX 256 /* bytes of a key at most */
#define TORII_KEY_NAME 32 /* its first bytes: no other export's key begins with the same */

/* Makes `bytes` bytes at `base` reachable by peers that have the key and know the protection tag;
 * `access` is a sum of torii_access_t. The memory must stay until torii_unexport. The same memory
 * may be exported any number of times. Costs little: there is no need to keep exports for reuse.
 * Where peers on this node map the memory (torii_memory_alloc) they reach it without this process;
 * where they cannot, or are elsewhere, it must make progress to serve them. In the child of a fork
 * exports stay the parent's. Fails with INVALID, NO_MEMORY or IO. */
TORII_PUBLIC int torii_export(torii_ni_t* ni, void* base, size_t bytes, unsigned access,
                              uint64_t tag, torii_export_t** out);
/* Writes the key that peers import and returns its length, under TORII_KEY_MAX; with capacity too
 * small nothing is written. It does not contain the tag, and may be sent to anybody. */
TORII_PUBLIC size_t torii_export_key(const torii_export_t* exported, void* key, size_t capacity);
/* Ends the export: from now on accesses are refused, also by those that have imported it. An access
 * that another process has begun by itself, between the check and the last byte, is not waited for:
 * who shares memory agrees on the end first. TORII_OK: over. TORII_PENDING: operations that this
 * process serves still use the memory, and `done` runs after the last. torii_memory_free ends the
 * exports in what it is given; they still have to be given to torii_unexport. */
TORII_PUBLIC int torii_unexport(torii_export_t* exported, torii_done_t done, void* arg);

/* Makes a peer's export usable here, with the key it gave and the tag that it was exported with.
 * Local. A key in bad form is INVALID; one that is stale, invented, another process's or of another
 * tag is found out by the first access, which the target refuses with DENIED. */
TORII_PUBLIC int torii_import(torii_ni_t* ni, torii_peer_t* peer, const void* key, size_t bytes,
                              uint64_t tag, torii_import_t** out);
/* Gives the import back; operations that are pending go on. */
TORII_PUBLIC int torii_import_drop(torii_import_t* import);
/* Where the memory is mapped in this process, for loads and stores of one's own while the export
 * and the import last; null if it is not, or not for reading and writing. */
TORII_PUBLIC void* torii_import_address(const torii_import_t* import);

/* When a write is complete. */
typedef enum torii_completion {
  TORII_COMPLETE_REMOTE = 0, /* the bytes are in the target's memory */
  TORII_COMPLETE_LOCAL = 1   /* the local memory may be reused; what fails later, the flush says */
} torii_completion_t;

/* Reads from and writes to `offset` of the peer's memory. TORII_OK: complete, no callback;
 * TORII_PENDING: `done` will run, and the local memory must stay until then; or an error. An access
 * that the target refuses ends with DENIED (key, tag or right) or INVALID (bounds), nothing moved.
 * Operations are carried out in any order, a flush apart; 4 and 8 bytes at an aligned address in
 * one piece. Where the target has to be asked, short writes with TORII_COMPLETE_LOCAL share frames:
 * they leave with the next other operation or flush, when a frame is full, or with the next round
 * of progress.
 *
 * `done` may be null, which costs less where many are under way: then the local memory must stay
 * until torii_import_test does not say TORII_PENDING any more, or a flush is over. Both mean the
 * end at the target, and both tell of a failure. Short writes without `done` share frames, too. */
TORII_PUBLIC int torii_read(torii_import_t* import, uint64_t offset, void* base, uint64_t bytes,
                            torii_done_t done, void* arg);
TORII_PUBLIC int torii_write(torii_import_t* import, uint64_t offset, const void* base,
                             uint64_t bytes, torii_completion_t when, torii_done_t done, void* arg);

/* TORII_PENDING: something that was begun through this import is under way. Otherwise TORII_OK, or
 * the code of a failure that no `done` has told, since this was last asked. For who waits: looks
 * for the end itself for about a microsecond, where that helps, but makes no other progress. */
TORII_PUBLIC int torii_import_test(torii_import_t* import);

/* The short way of torii_read and torii_write. TORII_OK: complete, at the target too. TORII_EMPTY:
 * nothing happened, because it would rather go on after the call, or an argument makes no sense;
 * torii_read or torii_write then does it, or says what is wrong. */
TORII_PUBLIC int torii_read_now(torii_import_t* import, uint64_t offset, void* base,
                                uint64_t bytes);
TORII_PUBLIC int torii_write_now(torii_import_t* import, uint64_t offset, const void* base,
                                 uint64_t bytes);

typedef enum torii_atomic_op {
  TORII_ATOMIC_ADD = 0,
  TORII_ATOMIC_AND = 1,
  TORII_ATOMIC_OR = 2,
  TORII_ATOMIC_XOR = 3,
  TORII_ATOMIC_SWAP = 4,
  TORII_ATOMIC_CSWAP = 5 /* writes the operand if the old value is `compare` */
} torii_atomic_op_t;

/* Changes an integer of `width` bytes, 4 or 8, at an aligned address, and stores the old value at
 * `old` (null: it is not wanted). Returns as torii_read. Atomic towards every other one, of
 * whatever process, and towards atomic instructions of the program that owns the memory. */
TORII_PUBLIC int torii_atomic(torii_import_t* import, uint64_t offset, torii_atomic_op_t op,
                              unsigned width, uint64_t operand, uint64_t compare, void* old,
                              torii_done_t done, void* arg);

/* A lock that processes keep in 8 bytes of exported memory, at an aligned address. */
typedef struct torii_lock_word {
  torii_import_t* import;
  uint64_t offset;
  uint64_t held; /* what it is while the holder has it, not 0; 0 when nobody has */
} torii_lock_word_t;

/* torii_atomic under such a lock of the same peer: takes it, changes the integer and gives the lock
 * back, all at the target, so where that has to be asked it costs one question and not three. The
 * memory of both must be exported with TORII_MAY_UPDATE. If the lock is not free neither it nor the
 * integer nor `*old` is changed: TORII_EMPTY, returned or told by `done`; whether and when to ask
 * again is the caller's business. `lock` is read in the call only. */
TORII_PUBLIC int torii_atomic_locked(torii_import_t* import, uint64_t offset, torii_atomic_op_t op,
                                     unsigned width, uint64_t operand, uint64_t compare, void* old,
                                     const torii_lock_word_t* lock, torii_done_t done, void* arg);

/* TORII_OK: everything begun before on this peer's memory (null: on all peers') is complete at the
 * target, and seen by every process from now on. TORII_PENDING: `done` runs when it is, with
 * TORII_OK or the error of an operation that could not tell it by a callback of its own. */
TORII_PUBLIC int torii_flush(torii_ni_t* ni, torii_peer_t* peer, torii_done_t done, void* arg);

/* --- groups -------------------------------------------------------------------------------- */

/* Opens a group of this process and `count` peers; this process itself may be among them. Every
 * member opens it, with the same name (1 to 16 bytes) and the same members, in any order (but for
 * collective operations) and at any time: messages may be sent and arrive before the others have
 * opened it. The same name and members again make another group, the same one for all members if
 * they keep to one order. Local, but says hello to each member. Fails with INVALID, and the reason
 * in torii_error(). */
TORII_PUBLIC int torii_group_open(torii_ni_t* ni, const void* name, size_t name_bytes,
                                  torii_peer_t* const* members, size_t count,
                                  torii_group_t** group);
/* Gives the group back; sends that are pending go on. Messages that others send to the group from
 * now on may not arrive here: before the first member closes it, all must have received what they
 * expect (a barrier does it). */
TORII_PUBLIC int torii_group_close(torii_group_t* group);

/* Sends the message to every member but this process, where it is received as if torii_send had
 * sent it: matched by itself, in order with the other messages of this process on that port.
 * Returns TORII_OK: complete, no callback; TORII_PENDING: `done` will run once, when all members'
 * sends have ended and the memory is free; or an error, and nobody gets the message. With the
 * callback, result->code is TORII_OK or the first error and result->source then the member it
 * concerns; a member that is dead or closed does not keep the message from the others. Pack
 * functions run during the call, once. */
TORII_PUBLIC int torii_group_send(torii_group_t* group, torii_port_t* port, uint64_t tag,
                                  uint32_t user, const torii_data_t* data, torii_done_t done,
                                  void* arg);

typedef enum torii_path {
  TORII_UNICAST = 0,  /* a message for each member */
  TORII_MULTICAST = 1 /* a small message is one frame, if every member has room for it */
} torii_path_t;

/* How messages of the group travel now; MULTICAST if the driver can do it and all members have
 * joined. The counters multicast_frames and group_unicasts say how often. */
TORII_PUBLIC torii_path_t torii_group_path(const torii_group_t* group);
/* A line for reports: "group g of 4: one frame by NAME". Valid until the next call by this
 * thread. */
TORII_PUBLIC const char* torii_group_text(const torii_group_t* group);

/* Collective operations of a group: barrier, bcast, reduce, allreduce, allgather, alltoall, as MPI
 * defines them. For members that run on one node and share memory; and for members on several
 * nodes, where those of each node share memory, or are alone, and a driver with multicast reaches
 * the others. Between nodes broadcasts of at least `multicast_min` bytes (a parameter) are served.
 *
 * A member's rank is its place in the list that torii_group_open was given. This process must be in
 * the list, and all members must have given it in the same order. All members call the same
 * operations in the same order, with the same root and sizes. Only then they meet: what differs is
 * found out where that is possible, and ends with INVALID.
 *
 * Each returns TORII_OK: complete, no callback; TORII_PENDING: `done` will run once; or an error,
 * and `done` does not run. Memory belongs to the operation until then. Several may be under way in
 * a group: they are carried out one after the other. A member may go on when it has done its part
 * (bcast: the root, reduce: the others), before the rest have theirs. An operation of 0 bytes is
 * complete at once and synchronizes nobody.
 *
 * A null pointer for memory of some bytes says that this member has none: the operation, and all
 * after it, end with NO_MEMORY here, and at the other members as soon as they need this one. So it
 * is no error of this member alone, for which the others would wait.
 *
 * TORII_ERR_UNSUPPORTED is told to all members alike, and by none of them is anything done: by
 * messages it is quicker, or only possible. When a member is dead, operations end with
 * PEER_DEAD, also those that do not need it; when one has closed, those that need it end with
 * PEER_CLOSED. torii_error() has its name if that is returned, result->source if `done` is told. No
 * operation of the group works after an error other than UNSUPPORTED. */

/* Finds out whether the members can share memory or multicast, and makes them. Every member calls
 * it once, before the first operation. TORII_OK: operations are served. UNSUPPORTED: none will be;
 * a member has `collectives` off, they run on different nodes without multicast between them or
 * with `multicast_min` at its most, it is in 16 multicast groups already, or has no memory. */
TORII_PUBLIC int torii_group_prepare(torii_group_t* group, torii_done_t done, void* arg);
/* Names what serves the group's operations, or why nothing does; for reports. Valid until the next
 * call by this thread. */
TORII_PUBLIC const char* torii_group_collectives(const torii_group_t* group);

/* How elements are combined. */
typedef struct torii_reduction {
  /* inout[i] = in[i] (operation) inout[i] for `bytes` bytes, a multiple of `element`. Elements of
   * `in` are of lower ranks. Called as pack functions are, by any member, in any thread that makes
   * progress; must not call Torii. Parts are combined in the order of ranks, so the operation need
   * not be commutative, and all members get the same bits. */
  void (*combine)(void* context, const void* in, void* inout, uint64_t bytes);
  void* context;
  uint64_t element; /* bytes, not 0 */
} torii_reduction_t;

TORII_PUBLIC int torii_group_barrier(torii_group_t* group, torii_done_t done, void* arg);
/* From `data` at `root` to `data` at the others; the layout may differ, the bytes may not. */
TORII_PUBLIC int torii_group_bcast(torii_group_t* group, uint32_t root, const torii_data_t* data,
                                   torii_done_t done, void* arg);
/* `bytes` bytes of each member; the result is at `out` of the root, which others need not give.
 * In place: `in` is null, at the root alone, and its part is at `out`. */
TORII_PUBLIC int torii_group_reduce(torii_group_t* group, uint32_t root, const void* in, void* out,
                                    uint64_t bytes, const torii_reduction_t* reduction,
                                    torii_done_t done, void* arg);
/* The result is at `out` of all. In place: `in` is null, at any member. */
TORII_PUBLIC int torii_group_allreduce(torii_group_t* group, const void* in, void* out,
                                       uint64_t bytes, const torii_reduction_t* reduction,
                                       torii_done_t done, void* arg);
/* `bytes` bytes of each member, at `out` of all in the order of ranks. In place: `in` is null, and
 * the own part is where it belongs in `out`. */
TORII_PUBLIC int torii_group_allgather(torii_group_t* group, const void* in, void* out,
                                       uint64_t bytes, torii_done_t done, void* arg);
/* Bytes that all pairs of members exchange at most; more are UNSUPPORTED. */
#define TORII_ALLTOALL_MAX (256u << 10)
/* `bytes` bytes from each member to each, in the order of ranks. In place: `in` is null. */
TORII_PUBLIC int torii_group_alltoall(torii_group_t* group, const void* in, void* out,
                                      uint64_t bytes, torii_done_t done, void* arg);

/* --- parameters and counters --------------------------------------------------------------- */

typedef struct torii_param {
  const char* name;          /* "eager_limit" */
  const char* variable;      /* "TORII_EAGER_LIMIT" */
  const char* default_value; /* as text */
  const char* doc;           /* one sentence */
} torii_param_t;

TORII_PUBLIC size_t torii_param_count(void);
TORII_PUBLIC int torii_param_info(size_t index, torii_param_t* out);
/* Value and origin now in force. Strings valid until the next call by this thread. */
TORII_PUBLIC const char* torii_param_value(size_t index);
TORII_PUBLIC const char* torii_param_origin(size_t index);
/* Sets a parameter before the first torii_open; `origin` names who says so. A user's
 * environment variable wins over it silently. */
TORII_PUBLIC int torii_param_set(const char* name, const char* value, const char* origin);

TORII_PUBLIC size_t torii_counter_count(void);
TORII_PUBLIC const char* torii_counter_name(size_t index);
TORII_PUBLIC const char* torii_counter_doc(size_t index);
TORII_PUBLIC uint64_t torii_counter_value(torii_ni_t* ni, size_t index);

#ifdef __cplusplus
}
#endif
#endif /* TORII_H */
