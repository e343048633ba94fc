/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * torii_pre.h: what MPICH's objects hold for the netmod. Included before MPICH's own types; MPICH
 * wants all eight structures.
 */
#ifndef TORII_PRE_H_INCLUDED
#define TORII_PRE_H_INCLUDED

#include <torii.h>

#include "torii_compat.h"

struct netmod_torii_stream; /* torii_data.c */
struct netmod_torii_window; /* torii_window.c */

/* A process of an address vector. */
typedef struct {
  /* By VCI; null until something is sent to or expected from it. */
  torii_peer_t* peer[NETMOD_TORII_MAX_VCIS];
} MPIDI_TORII_addr_t;

/* A send, a receive, or a message taken by a matched probe. */
typedef struct {
  torii_request_t operation;          /* what cancel may withdraw; else 0 */
  struct netmod_torii_stream* stream; /* of a datatype with gaps; else null */
  torii_message_t* message;
  int peers; /* ranks that may have sent it: a sender's rank is below */
} MPIDI_TORII_request_t;

/* A request of MPICH's active messages whose payload travels by itself. */
typedef struct {
  union {
    torii_peer_t* source;               /* until the payload's receive is posted */
    struct netmod_torii_stream* stream; /* from then on, as above */
  };
  uint64_t tag;
} MPIDI_TORII_am_request_t;

/* Whether Torii carries out the collective operations of a communicator; its members find that out
 * together, in one of their first calls. */
typedef enum {
  NETMOD_TORII_COLL_NEW,        /* calls are counted */
  NETMOD_TORII_COLL_SETTING_UP, /* what is called meanwhile is MPICH's */
  NETMOD_TORII_COLL_READY,
  NETMOD_TORII_COLL_REFUSED
} netmod_torii_coll_state_t;

typedef struct {
  netmod_torii_coll_state_t coll;
  unsigned calls;       /* before that is known */
  torii_group_t* group; /* of the members in their order; else null */
} MPIDI_TORII_comm_t;
typedef struct {
  int unused;
} MPIDI_TORII_dt_t;
typedef struct {
  int unused;
} MPIDI_TORII_op_t;
typedef struct {
  struct netmod_torii_window* window; /* null: MPICH's active messages only */
} MPIDI_TORII_win_t;
typedef struct {
  int unused;
} MPIDI_TORII_part_t;

#endif /* TORII_PRE_H_INCLUDED */
