/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * portals3.h: the Portals 3.3 message passing interface, with the names of the standard. Torii's
 * own additions are marked "Extension".
 *
 * Errors: every function (unless it says otherwise) returns PTL_OK or one of the codes named at
 * it, and PTL_NO_INIT before PtlInit. A null pointer where a result belongs gives PTL_SEGV.
 *
 * Threading: any thread may call any function at any time; each call is atomic against other
 * calls and against incoming operations. Only PtlEQWait, PtlEQPoll and PtlProgress block. An
 * event is given to exactly one of the threads that wait for it.
 *
 * Progress: incoming operations are handled inside calls of this interface (all of them but the
 * pure queries may make some progress). A process that waits without calling must let another
 * thread call, for example in PtlProgress.
 *
 * Memory: the bytes behind a memory descriptor stay the user's; Torii reads or writes them only
 * between the START and the END of an operation (for a get or getput of this process: from the
 * call until REPLY_END).
 */
#ifndef PORTALS3_H
#define PORTALS3_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PTL_PUBLIC __attribute__((visibility("default")))
#else
#define PTL_PUBLIC
#endif

/* --- return codes --------------------------------------------------------------------------- */

typedef enum {
  PTL_OK = 0,
  PTL_AC_INDEX_INVALID,
  PTL_EQ_DROPPED, /* success, but events were lost since the last time this was said */
  PTL_EQ_EMPTY,
  PTL_EQ_INVALID,
  PTL_FAIL,
  PTL_HANDLE_INVALID,
  PTL_IFACE_INVALID,
  PTL_MD_ILLEGAL,
  PTL_MD_INVALID, /* no such descriptor, or inactive where an active one is needed */
  PTL_MD_IN_USE,
  PTL_MD_NO_UPDATE,
  PTL_ME_INVALID,
  PTL_ME_IN_USE,
  PTL_ME_LIST_TOO_LONG,
  PTL_NI_INVALID,
  PTL_NO_INIT,
  PTL_NO_SPACE,
  PTL_PID_INVALID,
  PTL_PROCESS_INVALID,
  PTL_PT_FULL,
  PTL_PT_INDEX_INVALID,
  PTL_SEGV,
  PTL_SR_INDEX_INVALID,
  /* Torii returns none of these. Programs for other implementations compare with them. */
  PTL_IFACE_DUP, /* PTL_OK in Portals 3.3: a second PtlNIInit succeeds */
  PTL_EQ_IN_USE,
  PTL_VAL_FAILED,
  PTL_UNKNOWN_ERROR
} ptl_err_t;

/* --- base types ----------------------------------------------------------------------------- */

typedef uint64_t ptl_size_t;

/* Handles are opaque integers with a generation: one that outlived its object is recognised.
 * Equal handles name the same object. */
typedef uint64_t ptl_handle_any_t;
typedef ptl_handle_any_t ptl_handle_ni_t;
typedef ptl_handle_any_t ptl_handle_me_t;
typedef ptl_handle_any_t ptl_handle_md_t;
typedef ptl_handle_any_t ptl_handle_eq_t;
#define PTL_INVALID_HANDLE ((ptl_handle_any_t)0xffffffffffffffffULL) /* names nothing */
#define PTL_HANDLE_NONE ((ptl_handle_any_t)0xfffffffffffffffdULL)
#define PTL_EQ_NONE ((ptl_handle_eq_t)0xfffffffffffffffeULL) /* a descriptor without events */

typedef uint32_t ptl_pt_index_t;
typedef uint32_t ptl_ac_index_t;
#define PTL_PT_INDEX_ANY ((ptl_pt_index_t)0xffffffffU)
/* Extension, for PtlACEntry: matches no portal, so the entry admits nobody. */
#define PTL_PT_INDEX_NONE ((ptl_pt_index_t)0xfffffffeU)

typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;

typedef uint32_t ptl_interface_t;
#ifndef PTL_IFACE_DEFAULT /* a program may have named one of those below */
#define PTL_IFACE_DEFAULT ((ptl_interface_t)0)
#endif

typedef uint32_t ptl_nid_t;
typedef uint32_t ptl_pid_t;
typedef uint32_t ptl_uid_t;
typedef uint32_t ptl_jid_t;
#define PTL_NID_ANY ((ptl_nid_t)0xffffffffU)
#define PTL_PID_ANY ((ptl_pid_t)0xffffffffU)
#define PTL_UID_ANY ((ptl_uid_t)0xffffffffU)
#define PTL_JID_ANY ((ptl_jid_t)0xffffffffU)

typedef struct {
  ptl_nid_t nid;
  ptl_pid_t pid;
} ptl_process_id_t;

typedef uint32_t ptl_time_t; /* milliseconds */
#define PTL_TIME_FOREVER ((ptl_time_t)0xffffffffU)

/* --- status registers ----------------------------------------------------------------------- */

typedef uint32_t ptl_sr_index_t;
typedef uint64_t ptl_sr_value_t;
#define PTL_SR_DROP_COUNT ((ptl_sr_index_t)0) /* requests dropped, for whatever reason */
/* Extensions: */
#define PTL_SR_DROP_LENGTH ((ptl_sr_index_t)1)  /* bytes of the dropped requests */
#define PTL_SR_RECV_COUNT ((ptl_sr_index_t)2)   /* puts, gets and getputs accepted */
#define PTL_SR_RECV_LENGTH ((ptl_sr_index_t)3)  /* bytes accepted into descriptors */
#define PTL_SR_SEND_COUNT ((ptl_sr_index_t)4)   /* puts, gets and getputs begun */
#define PTL_SR_SEND_LENGTH ((ptl_sr_index_t)5)  /* bytes of puts and getputs begun */
#define PTL_SR_MES_CUR ((ptl_sr_index_t)6)      /* match entries now */
#define PTL_SR_MDS_CUR ((ptl_sr_index_t)7)      /* memory descriptors now */
#define PTL_SR_EQS_CUR ((ptl_sr_index_t)8)      /* event queues now */
#define PTL_SR_HELD_CUR ((ptl_sr_index_t)9)     /* puts held by flow control now */
#define PTL_SR_EVENTS_LOST ((ptl_sr_index_t)10) /* events that found their queue full */
#define PTL_SR_ACL_COUNT ((ptl_sr_index_t)11)   /* requests refused by access control */
/* The interface's counters (torii-info lists them) follow from here on, in their order. */
#define PTL_SR_COUNTERS ((ptl_sr_index_t)64)

/* --- network interfaces --------------------------------------------------------------------- */

/* The two max_*_index are the largest legal index, the others counts or bytes. */
typedef struct {
  int max_mes;
  int max_mds;
  int max_eqs;
  int max_ac_index;
  int max_pt_index;
  int max_md_iovecs;
  int max_me_list;
  int max_getput_md;
} ptl_ni_limits_t;

/* Starts the library; may be called often, each call wants a PtlFini. *max_interfaces is the
 * largest number of interfaces of a process, of which PtlNIInit opens one.
 * Errors: PTL_SEGV, PTL_FAIL. */
PTL_PUBLIC int PtlInit(int* max_interfaces);
/* The last PtlFini closes every interface and ends this process's part in its job. PtlInit may
 * follow, but Portals 3.3 promises nothing then: some launchers take each process once, and then
 * PtlNIInit fails. */
PTL_PUBLIC void PtlFini(void);

/* Opens an interface (PTL_IFACE_DEFAULT is the only one) as process `pid` of this node. All
 * processes of the job call it. With PTL_PID_ANY the pid is the one of PtlSetPIDMap, else the
 * process's number among those of its node, from 1 on, or the next free one. Node ids count from
 * 1, too. Two processes of a node that ask for one pid: the one of the lower rank has it. A value
 * of *desired that is not positive takes the default, one too large the largest possible. `desired`
 * and `actual` may be null. A further call gives the same handle, ignores `desired`, and wants a
 * PtlNIFini of its own.
 * Errors: PTL_IFACE_INVALID, PTL_PID_INVALID (another process has that pid, or this one another),
 * PTL_NO_SPACE, PTL_SEGV, PTL_FAIL (the log has the reason; or PtlSetNIDMap named another node). */
PTL_PUBLIC int PtlNIInit(ptl_interface_t iface, ptl_pid_t pid, ptl_ni_limits_t* desired,
                         ptl_ni_limits_t* actual, ptl_handle_ni_t* ni);
/* Releases the interface with its entries, descriptors and event queues. The outcome of pending
 * operations is undefined; their memory is no longer written after it is closed for good. PtlNIInit
 * may open it again; all processes of the job do that equally often, to learn the new addresses.
 * Errors: PTL_NI_INVALID. */
PTL_PUBLIC int PtlNIFini(ptl_handle_ni_t ni);
/* Reads a status register. Errors: PTL_NI_INVALID, PTL_SR_INDEX_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlNIStatus(ptl_handle_ni_t ni, ptl_sr_index_t status_register,
                           ptl_sr_value_t* status);
/* A distance: 0 this process, 1 the same node, 2 another node.
 * Errors: PTL_NI_INVALID, PTL_PROCESS_INVALID (cannot be reached), PTL_SEGV. */
PTL_PUBLIC int PtlNIDist(ptl_handle_ni_t ni, ptl_process_id_t process, unsigned long* distance);
/* The interface of any handle. Errors: PTL_HANDLE_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t* ni);

/* The ids of this process. Errors: PTL_NI_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlGetUid(ptl_handle_ni_t ni, ptl_uid_t* uid);
PTL_PUBLIC int PtlGetId(ptl_handle_ni_t ni, ptl_process_id_t* id);
PTL_PUBLIC int PtlGetJid(ptl_handle_ni_t ni, ptl_jid_t* jid);

/* --- match entries -------------------------------------------------------------------------- */

typedef enum { PTL_RETAIN, PTL_UNLINK } ptl_unlink_t;
typedef enum { PTL_INS_BEFORE, PTL_INS_AFTER } ptl_ins_pos_t;

/* Puts an entry at the head (PTL_INS_BEFORE) or tail (PTL_INS_AFTER) of a portal's list. It
 * matches requests of `match_id` (nid and pid may be ANY) whose bits equal match_bits outside
 * ignore_bits. With PTL_UNLINK it goes away together with its descriptor. Errors: PTL_NI_INVALID,
 * PTL_PT_INDEX_INVALID, PTL_PROCESS_INVALID, PTL_NO_SPACE, PTL_ME_LIST_TOO_LONG, PTL_SEGV. */
PTL_PUBLIC int PtlMEAttach(ptl_handle_ni_t ni, ptl_pt_index_t pt_index, ptl_process_id_t match_id,
                           ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits,
                           ptl_unlink_t unlink, ptl_ins_pos_t position, ptl_handle_me_t* me);
/* The same on a portal whose list is empty, chosen by Torii from the highest index down.
 * Errors: PTL_NI_INVALID, PTL_PROCESS_INVALID, PTL_NO_SPACE, PTL_PT_FULL, PTL_SEGV. */
PTL_PUBLIC int PtlMEAttachAny(ptl_handle_ni_t ni, ptl_pt_index_t* pt_index,
                              ptl_process_id_t match_id, ptl_match_bits_t match_bits,
                              ptl_match_bits_t ignore_bits, ptl_unlink_t unlink,
                              ptl_handle_me_t* me);
/* Puts an entry directly before or after another one.
 * Errors: PTL_ME_INVALID, PTL_PROCESS_INVALID, PTL_ME_LIST_TOO_LONG, PTL_NO_SPACE, PTL_SEGV. */
PTL_PUBLIC int PtlMEInsert(ptl_handle_me_t base, ptl_process_id_t match_id,
                           ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits,
                           ptl_unlink_t unlink, ptl_ins_pos_t position, ptl_handle_me_t* me);
/* Removes an entry and its descriptor, without an UNLINK event. Makes progress before it refuses,
 * so that a loop ends.
 * Errors: PTL_ME_INVALID, PTL_ME_IN_USE (an operation of the descriptor is under way). */
PTL_PUBLIC int PtlMEUnlink(ptl_handle_me_t me);

/* --- memory descriptors --------------------------------------------------------------------- */

typedef struct {
  void* start;          /* memory, or ptl_md_iovec_t[length] with PTL_MD_IOVEC */
  ptl_size_t length;    /* bytes, or pieces */
  int threshold;        /* operations left; PTL_MD_THRESH_INF; 0: inactive. Where a call begins, a
                           put takes one and its ACK one more; a get takes one, with its REPLY */
  ptl_size_t max_size;  /* with PTL_MD_MAX_SIZE: inactive when less room remains */
  unsigned int options; /* PTL_MD_* */
  void* user_ptr;       /* the user's, returned in events */
  ptl_handle_eq_t eq_handle;
} ptl_md_t;
#define PTL_MD_THRESH_INF (-1)

#define PTL_MD_OP_PUT 0x0001U        /* accepts put */
#define PTL_MD_OP_GET 0x0002U        /* accepts get; both: also getput */
#define PTL_MD_MANAGE_REMOTE 0x0004U /* offsets come with requests */
#define PTL_MD_TRUNCATE 0x0008U      /* accepts what fits of longer requests */
#define PTL_MD_ACK_DISABLE 0x0010U   /* sends no acknowledgements */
#define PTL_MD_IOVEC 0x0020U
#define PTL_MD_MAX_SIZE 0x0040U            /* max_size counts; not with MANAGE_REMOTE */
#define PTL_MD_EVENT_START_DISABLE 0x0080U /* no *_START events */
#define PTL_MD_EVENT_END_DISABLE 0x0100U   /* no *_END events; ACK and UNLINK come anyway */

typedef struct {
  void* iov_base;
  ptl_size_t iov_len;
} ptl_md_iovec_t;

/* Arms an entry with a descriptor, which goes away by itself when it becomes inactive through an
 * operation if `unlink_op` is PTL_UNLINK. The array of an IOVEC descriptor is copied. `md_handle`
 * may be null. Errors: PTL_ME_INVALID, PTL_ME_IN_USE (has one), PTL_MD_ILLEGAL, PTL_EQ_INVALID,
 * PTL_NO_SPACE. */
PTL_PUBLIC int PtlMDAttach(ptl_handle_me_t me, ptl_md_t md, ptl_unlink_t unlink_op,
                           ptl_handle_md_t* md_handle);
/* Makes a descriptor for operations that this process begins.
 * Errors: PTL_NI_INVALID, PTL_MD_ILLEGAL, PTL_EQ_INVALID, PTL_NO_SPACE, PTL_SEGV. */
PTL_PUBLIC int PtlMDBind(ptl_handle_ni_t ni, ptl_md_t md, ptl_unlink_t unlink_op,
                         ptl_handle_md_t* md_handle);
/* Removes a descriptor (and its entry, if that was made with PTL_UNLINK) without an UNLINK event.
 * In use is a descriptor whose bytes may be moving: between START and END of an operation, and
 * from PtlGet, PtlGetRegion or PtlGetPut (the get descriptor) until the reply or the refusal of
 * the target. Makes progress before it refuses, so that a loop ends.
 * Errors: PTL_MD_INVALID, PTL_MD_IN_USE. */
PTL_PUBLIC int PtlMDUnlink(ptl_handle_md_t md);
/* Returns the present values in *old_md (if not null), then replaces them by *new_md (if not
 * null), provided that test_eq is PTL_EQ_NONE, or is empty with no events still to come and the
 * descriptor is not in use. The local offset becomes 0 and an inactive descriptor with a nonzero
 * threshold active. For an IOVEC descriptor, old_md must come with PTL_MD_IOVEC in options and an
 * array of `length` pieces at `start` that is filled if it is large enough. A refusal makes
 * progress, so that a loop ends. Errors: PTL_MD_INVALID, PTL_MD_ILLEGAL, PTL_EQ_INVALID,
 * PTL_MD_NO_UPDATE, PTL_NO_SPACE. */
PTL_PUBLIC int PtlMDUpdate(ptl_handle_md_t md, ptl_md_t* old_md, ptl_md_t* new_md,
                           ptl_handle_eq_t test_eq);
/* Extension (as on the Cray XT): PtlMEInsert and PtlMDAttach at once, if test_eq is PTL_EQ_NONE
 * or empty in the sense of PtlMDUpdate; else PTL_MD_NO_UPDATE and nothing is changed. `md_handle`
 * may be null. Further errors as of the two functions. */
PTL_PUBLIC int PtlMEMDPost(ptl_handle_ni_t ni, ptl_handle_me_t base, ptl_process_id_t match_id,
                           ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits,
                           ptl_unlink_t unlink, ptl_ins_pos_t position, ptl_md_t md,
                           ptl_unlink_t unlink_op, ptl_handle_me_t* me, ptl_handle_md_t* md_handle,
                           ptl_handle_eq_t test_eq);
/* Extension: with `on` nonzero, puts to this portal that no entry accepts are held instead of
 * dropped, and are matched in the order of their arrival as soon as an entry is armed. Senders
 * are slowed down, so the memory for held puts is bounded. Switching it off drops what is held.
 * Errors: PTL_NI_INVALID, PTL_PT_INDEX_INVALID. */
PTL_PUBLIC int PtlPTFlowControl(ptl_handle_ni_t ni, ptl_pt_index_t pt_index, int on);

/* --- events --------------------------------------------------------------------------------- */

typedef enum {
  PTL_EVENT_GET_START,
  PTL_EVENT_GET_END,
  PTL_EVENT_PUT_START,
  PTL_EVENT_PUT_END,
  PTL_EVENT_GETPUT_START,
  PTL_EVENT_GETPUT_END,
  PTL_EVENT_REPLY_START,
  PTL_EVENT_REPLY_END,
  PTL_EVENT_SEND_START,
  PTL_EVENT_SEND_END,
  PTL_EVENT_ACK,
  PTL_EVENT_UNLINK
} ptl_event_kind_t;

typedef uint32_t ptl_seq_t;
typedef uint32_t ptl_ni_fail_t;
#define PTL_NI_OK ((ptl_ni_fail_t)0)
/* Extensions: why an operation failed. */
#define PTL_NI_FAIL ((ptl_ni_fail_t)1)
#define PTL_NI_PEER_DEAD ((ptl_ni_fail_t)2) /* the other process ended or cannot be reached */

/* START and END of an operation have the same fields:
 *
 *               PUT, GET, GETPUT      SEND           REPLY             ACK
 *   initiator   the requester         this process   who replied       who acknowledged
 *   pt_index    of the request        of the call    of the call       of the call
 *   match_bits  of the request        of the call    of the call       of the call
 *   rlength     bytes requested       bytes sent     bytes requested   the same as mlength
 *   mlength     bytes accepted        bytes sent     bytes received    bytes the target accepted
 *   offset      in `md`               in `md`        in `md`           in `md`
 *   hdr_data    of the call; GET: 0   of the call    0                 of the call
 *
 * `offset` is always where the bytes are in the descriptor of this event, never that at the other
 * process. SEND and ACK of PtlPutRegion and REPLY of PtlGetRegion have its local_offset; those of
 * calls on whole descriptors have 0.
 *
 * rlength of ACK: Portals 3.3 returns the length of the request. Implementations returned 0 or
 * mlength, and existing programs stop unless it equals mlength. To find a truncated put, compare
 * mlength with the length that was sent.
 *
 * UNLINK follows the operation that made a PTL_UNLINK descriptor inactive, and has the fields of
 * its event (PUT, GET, GETPUT, SEND, REPLY or ACK) with ni_fail_type PTL_NI_OK. PtlMDUnlink,
 * PtlMEUnlink and PtlNIFini cause no UNLINK.
 *
 * uid and jid are those of the initiator. `md` is the descriptor after the operation. `link` is
 * the same in START, END and ACK of one operation and the UNLINK it caused. `sequence` counts the
 * events of the queue. */
typedef struct {
  ptl_event_kind_t type;
  ptl_process_id_t initiator;
  ptl_uid_t uid;
  ptl_jid_t jid;
  ptl_pt_index_t pt_index;
  ptl_match_bits_t match_bits;
  ptl_size_t rlength;
  ptl_size_t mlength;
  ptl_size_t offset;
  ptl_handle_md_t md_handle;
  ptl_md_t md;
  ptl_hdr_data_t hdr_data;
  ptl_seq_t link;
  ptl_ni_fail_t ni_fail_type; /* END, and (extension) ACK of a process that died before it */
  volatile ptl_seq_t sequence;
} ptl_event_t;

/* Runs once for every event of a queue, in order, on a thread that is about to leave a function of
 * this interface, with no lock held. It may call any function but PtlNIFini and PtlFini, and must
 * not block. */
typedef void (*ptl_eq_handler_t)(ptl_event_t* event);
#define PTL_EQ_HANDLER_NONE NULL

/* Makes a queue for at least `count` events; with count 0 and no handler *eq is PTL_EQ_NONE. When
 * it is full the newest events are lost (their data is not), which the next PtlEQGet, PtlEQWait or
 * PtlEQPoll that returns an event says once by PTL_EQ_DROPPED. A queue with a handler grows
 * instead, and the handler takes its events.
 * Errors: PTL_NI_INVALID, PTL_NO_SPACE, PTL_SEGV. */
PTL_PUBLIC int PtlEQAlloc(ptl_handle_ni_t ni, ptl_size_t count, ptl_eq_handler_t handler,
                          ptl_handle_eq_t* eq);
/* Descriptors that still name the queue have no events any more. Errors: PTL_EQ_INVALID. */
PTL_PUBLIC int PtlEQFree(ptl_handle_eq_t eq);
/* Takes the next event. Errors: PTL_EQ_EMPTY, PTL_EQ_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlEQGet(ptl_handle_eq_t eq, ptl_event_t* event);
/* Waits for the next event and takes it. Errors: PTL_EQ_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlEQWait(ptl_handle_eq_t eq, ptl_event_t* event);
/* Takes the next event of any of `size` queues of one interface, waiting for at most `timeout`
 * (0: does not wait). Successive calls begin their search at different queues, so that no queue
 * starves. *which is the index of the queue; with PTL_EQ_INVALID that of the bad handle.
 * Errors: PTL_EQ_EMPTY (time is over), PTL_EQ_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlEQPoll(ptl_handle_eq_t* eqs, int size, ptl_time_t timeout, ptl_event_t* event,
                         int* which);
/* Extension: copies the next event and leaves it in the queue.
 * Errors: PTL_EQ_EMPTY, PTL_EQ_INVALID, PTL_SEGV. */
PTL_PUBLIC int PtlEQPeek(ptl_handle_eq_t eq, ptl_event_t* event);

/* --- access control ------------------------------------------------------------------------- */

/* Requests name an entry of the target's table; the entry must admit them in all five respects.
 * At first every entry admits all processes of this user (uid) to all portals.
 * Errors: PTL_NI_INVALID, PTL_AC_INDEX_INVALID, PTL_PROCESS_INVALID, PTL_PT_INDEX_INVALID. */
PTL_PUBLIC int PtlACEntry(ptl_handle_ni_t ni, ptl_ac_index_t ac_index, ptl_process_id_t match_id,
                          ptl_uid_t uid, ptl_jid_t jid, ptl_pt_index_t pt_index);

/* --- data movement -------------------------------------------------------------------------- */

typedef enum { PTL_ACK_REQ, PTL_NO_ACK_REQ } ptl_ack_req_t;

/* All of them: operations of this process on one target are matched there in the order of the
 * calls. To a process that died they succeed and end with ni_fail_type PTL_NI_PEER_DEAD.
 *
 * Sends the whole descriptor. With PTL_ACK_REQ, and if the descriptor has an event queue, ACK
 * tells that and how much the target accepted; nothing tells that it dropped the request.
 * Errors: PTL_MD_INVALID, PTL_PROCESS_INVALID. */
PTL_PUBLIC int PtlPut(ptl_handle_md_t md, ptl_ack_req_t ack_req, ptl_process_id_t target,
                      ptl_pt_index_t pt_index, ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
                      ptl_size_t remote_offset, ptl_hdr_data_t hdr_data);
/* Sends [local_offset, local_offset + length). Further error: PTL_MD_ILLEGAL (outside). */
PTL_PUBLIC int PtlPutRegion(ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
                            ptl_ack_req_t ack_req, ptl_process_id_t target, ptl_pt_index_t pt_index,
                            ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
                            ptl_size_t remote_offset, ptl_hdr_data_t hdr_data);
/* Fills the whole descriptor from the target. A dropped get ends without any event.
 * Errors: PTL_MD_INVALID, PTL_PROCESS_INVALID. */
PTL_PUBLIC int PtlGet(ptl_handle_md_t md, ptl_process_id_t target, ptl_pt_index_t pt_index,
                      ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
                      ptl_size_t remote_offset);
/* Fills [local_offset, local_offset + length). Further error: PTL_MD_ILLEGAL (outside). */
PTL_PUBLIC int PtlGetRegion(ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
                            ptl_process_id_t target, ptl_pt_index_t pt_index,
                            ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
                            ptl_size_t remote_offset);
/* Swaps: sends the whole put_md (at most max_getput_md bytes) and receives what it replaces in
 * get_md. Atomic against other getputs. Errors: PTL_MD_INVALID (also: descriptors of different
 * interfaces), PTL_MD_ILLEGAL (put_md too long), PTL_PROCESS_INVALID. */
PTL_PUBLIC int PtlGetPut(ptl_handle_md_t get_md, ptl_handle_md_t put_md, ptl_process_id_t target,
                         ptl_pt_index_t pt_index, ptl_ac_index_t ac_index,
                         ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                         ptl_hdr_data_t hdr_data);

/* --- helpers outside the standard ----------------------------------------------------------- */

/* Texts, never null. ptl_err_str is indexed by return code. There is an array ptl_event_str, too,
 * indexed by event kind; programs declare it themselves, as char* or const char*. */
PTL_PUBLIC const char* PtlErrorStr(unsigned int ptl_errno);
PTL_PUBLIC const char* PtlEventKindStr(ptl_event_kind_t kind);
PTL_PUBLIC const char* PtlNIFailStr(ptl_handle_ni_t ni, ptl_ni_fail_t fail_type);
PTL_PUBLIC extern const char* ptl_err_str[];

/* The job: rank, number of processes, and the ids of a rank. The launcher sets them; a program
 * that distributes ids itself may overrule rank and size with PtlSetRank, where ~0 for both asks
 * for the launcher's again. With PTL_INVALID_HANDLE, PtlSetRank is about the interface that
 * PtlNIInit opens next. Errors: PTL_NI_INVALID, PTL_SEGV, PTL_FAIL (no such rank). */
PTL_PUBLIC int PtlSetRank(ptl_handle_ni_t ni, unsigned int rank, unsigned int group_size);
PTL_PUBLIC int PtlGetRank(ptl_handle_ni_t ni, unsigned int* rank, unsigned int* group_size);
PTL_PUBLIC int PtlGetRankId(ptl_handle_ni_t ni, unsigned int rank, ptl_process_id_t* id);

/* Names the nodes or the pids of all ranks, in the order of ranks; afterwards PtlGetRankId goes by
 * them. group_size is that of PtlGetRank. The entry of this process must be its own id. With
 * PTL_INVALID_HANDLE they are for the interface that the next PtlNIInit opens, also if that fails.
 * Errors: PTL_NI_INVALID, PTL_SEGV, PTL_FAIL (another size or node), PTL_PID_INVALID. */
PTL_PUBLIC int PtlSetNIDMap(ptl_handle_ni_t ni, const ptl_nid_t* map, unsigned int group_size);
PTL_PUBLIC int PtlSetPIDMap(ptl_handle_ni_t ni, const ptl_pid_t* map, unsigned int group_size);
/* Fill map[0 .. group_size-1] with the ids of all ranks, those of the launcher or of the calls
 * above. Errors: PTL_NI_INVALID, PTL_SEGV, PTL_FAIL (not the size of PtlGetRank, or a rank without
 * ids). */
PTL_PUBLIC int PtlGetNIDMap(ptl_handle_ni_t ni, ptl_nid_t* map, unsigned int group_size);
PTL_PUBLIC int PtlGetPIDMap(ptl_handle_ni_t ni, ptl_pid_t* map, unsigned int group_size);

/* Moves what can be moved; if there is nothing, waits for at most `timeout` for something.
 * Takes any handle. Errors: PTL_HANDLE_INVALID. */
PTL_PUBLIC int PtlProgress(ptl_handle_any_t handle, ptl_time_t timeout);

/* Sets which kinds of requests are logged (PTL_DBG_*) and returns the former mask; for
 * PTL_INVALID_HANDLE the mask of interfaces opened from now on. */
PTL_PUBLIC unsigned int PtlNIDebug(ptl_handle_ni_t ni, unsigned int mask);
#define PTL_DBG_DROP 0x1U   /* requests dropped, with the reason */
#define PTL_DBG_ACCEPT 0x2U /* requests accepted */
#define PTL_DBG_HELD 0x4U   /* requests held by flow control */
#define PTL_DBG_ALL 0x0000ffffU
#define PTL_DBG_NI_ALL 0xffff0000U /* kinds of the network interface: none */
/* Write a portal's list, or one entry, to standard error.
 * Errors: PTL_NI_INVALID, PTL_PT_INDEX_INVALID; PTL_ME_INVALID. */
PTL_PUBLIC int PtlTblDump(ptl_handle_ni_t ni, int pt_index);
PTL_PUBLIC int PtlMEDump(ptl_handle_me_t me);

/* --- names that existing programs use ------------------------------------------------------- */

#define PTL_NOACK_REQ PTL_NO_ACK_REQ
#define PTL_DEBUG_ALL PTL_DBG_ALL
#define PTL_DEBUG_NI_ALL PTL_DBG_NI_ALL
/* Interfaces of other implementations, and bridges to them: all are the one that Torii has. */
#define PTL_IFACE_UTCP ((ptl_interface_t)0)
#define PTL_IFACE_SS ((ptl_interface_t)0)
#define CRAY_USER_NAL ((ptl_interface_t)0)
#define CRAY_KERN_NAL ((ptl_interface_t)0)
#define CRAY_QK_NAL ((ptl_interface_t)0)
#define PTL_BRIDGE_UK 0
#define PTL_BRIDGE_QK 1
#define IFACE_FROM_BRIDGE_AND_NALID(bridge, nalid) ((ptl_interface_t)((nalid) + 0 * (bridge)))
/* UNLINK events come for every descriptor that unlinks itself, and for no other; with the
 * parameter portals_unlink_events=no (TORII_PORTALS_UNLINK_EVENTS) for none. */
#define PTL_MD_EVENT_AUTO_UNLINK_ENABLE 0
#define PTL_MD_EVENT_MANUAL_UNLINK_ENABLE 0
#define PTL_MD_FLAG_AUTO_UNLINK 0
#define PTL_MD_LUSTRE_COMPLETION_SEMANTICS 0
#define PtlHandleIsEqual(a, b) ((a) == (b))

#ifdef __cplusplus
}
#endif

#endif /* PORTALS3_H */
