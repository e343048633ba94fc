/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * btl_torii.h: what the files of the byte transfer layer share.
 *
 * Active messages are messages of a tagged port of their own, whose tag is the BTL tag. Memory is
 * exported by btl_register_mem, and imported where a handle is first used.
 */
#ifndef BTL_TORII_H
#define BTL_TORII_H

#include "ompi_torii.h"
#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/util/proc.h"
#include "torii.h"

#if OPAL_ENABLE_HETEROGENEOUS_SUPPORT
#error \
    "btl/torii moves memory as it is; Open MPI built with --enable-heterogeneous is not supported"
#endif

#define BTL_TORII_PORT 1     /* 0 is that of MPI messages (mtl/torii) */
#define BTL_TORII_KEY 112    /* bytes of a key that fit a handle */
#define BTL_TORII_IMPORTS 32 /* pairs of places for those of one process, kept for reuse */
#define BTL_TORII_LOOKS 8    /* flushes that find nothing under way, for a round of progress */
#define BTL_TORII_SHORT 64   /* bytes of a put or get that owes none; as of shm, if it is alone */
#define BTL_TORII_TAG 0x4d50492d42544cull

/* The handle that ob1 and osc/rdma carry to the peer that puts and gets. */
struct mca_btl_base_registration_handle_t {
  uint64_t base; /* address of the memory in its process */
  uint64_t key_bytes;
  uint8_t key[BTL_TORII_KEY];
};

/* A registration, here. The handle is what the upper layers know of it. */
typedef struct btl_torii_registration {
  mca_btl_base_registration_handle_t handle;
  torii_export_t* exported;
} btl_torii_registration_t;

/* A handle of the peer that was used here. */
typedef struct btl_torii_import {
  mca_btl_base_registration_handle_t handle;
  torii_import_t* import; /* null: the place is free */
  bool later;             /* the last put or get was not over in its call */
} btl_torii_import_t;

/* Places for handles of one hash: two, for a lock and what it guards may have the same. */
typedef struct btl_torii_imports {
  btl_torii_import_t places[2];
  int last; /* used */
} btl_torii_imports_t;

/* A process that this one reaches. */
struct mca_btl_base_endpoint_t {
  opal_list_item_t super;
  opal_proc_t* proc;
  torii_peer_t* peer;
  bool dead; /* reported */
  btl_torii_imports_t imports[BTL_TORII_IMPORTS];
  btl_torii_import_t* recent; /* one of these, with an import; null: none */
};
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef mca_btl_base_endpoint_t btl_torii_endpoint_t;
OBJ_CLASS_DECLARATION(btl_torii_endpoint_t);

/* A descriptor: header and packed data in its own memory, or also a piece of the user's. */
typedef struct btl_torii_frag {
  mca_btl_base_descriptor_t base;
  mca_btl_base_segment_t segments[2];
  btl_torii_endpoint_t* endpoint;
  opal_free_list_t* list; /* that it came from */
  struct iovec pieces[2];
} btl_torii_frag_t;
OBJ_CLASS_DECLARATION(btl_torii_frag_t);

/* A put, get or atomic operation whose end is awaited. */
typedef struct btl_torii_operation {
  opal_free_list_item_t super;
  btl_torii_endpoint_t* endpoint;
  void* local;
  mca_btl_base_registration_handle_t* local_handle;
  mca_btl_base_rdma_completion_fn_t done;
  void* context;
  void* data;
  bool relock; /* btl_torii_relock_grant() its answer */
} btl_torii_operation_t;
OBJ_CLASS_DECLARATION(btl_torii_operation_t);

/* An atomic operation, as asked of btl_atomic_op, btl_atomic_fop or btl_atomic_cswap. */
typedef struct btl_torii_update {
  btl_torii_endpoint_t* endpoint;
  void* local; /* for the old value; null: not wanted */
  uint64_t address;
  const mca_btl_base_registration_handle_t* handle;
  torii_atomic_op_t op;
  unsigned width;
  uint64_t operand;
  uint64_t compare;
} btl_torii_update_t;

typedef struct btl_torii_module {
  mca_btl_base_module_t super;
  torii_ni_t* ni;
  torii_port_t* port;
  opal_free_list_t small; /* frags of btl_eager_limit bytes */
  opal_free_list_t large; /* frags of btl_max_send_size bytes */
  opal_free_list_t operations;
  opal_list_t endpoints;
  btl_torii_endpoint_t* self; /* made when it is first asked for */
  opal_mutex_t lock;          /* endpoints and their imports */
  unsigned looks;             /* flushes that found nothing under way, since the last such round */
  bool waits;                 /* an operation was not over at once, since the last flush */
  int failed;                 /* a Torii code, of what only a flush tells */
  int exports;                /* registrations that peers may use; atomic */
  char* receives;             /* memory in which messages arrive */
  mca_btl_base_module_error_cb_fn_t error;
} btl_torii_module_t;
extern btl_torii_module_t btl_torii;
extern mca_btl_base_component_t mca_btl_torii_component;

#define BTL_TORII_LOCK_EXCLUSIVE ((uint64_t)1 << 63) /* OMPI_OSC_RDMA_LOCK_EXCLUSIVE */

/* The Open MPI code of a Torii code; the second one of an error's. */
int btl_torii_error(int code);
static inline int btl_torii_code(int code) {
  return OPAL_LIKELY(TORII_OK == code) ? OPAL_SUCCESS : btl_torii_error(code);
}
/* The endpoint; for null, which osc/rdma gives for this process itself, that of this process. Null:
 * Torii does not reach it. */
btl_torii_endpoint_t* btl_torii_endpoint(btl_torii_endpoint_t* endpoint);
/* Null: the peer was not added. */
btl_torii_endpoint_t* btl_torii_known_endpoint(const torii_peer_t* peer);

/* btl_torii_message.c */
mca_btl_base_descriptor_t* btl_torii_alloc(mca_btl_base_module_t* btl,
                                           mca_btl_base_endpoint_t* endpoint, uint8_t order,
                                           size_t size, uint32_t flags);
int btl_torii_free(mca_btl_base_module_t* btl, mca_btl_base_descriptor_t* descriptor);
mca_btl_base_descriptor_t* btl_torii_prepare_src(mca_btl_base_module_t* btl,
                                                 mca_btl_base_endpoint_t* endpoint,
                                                 opal_convertor_t* convertor, uint8_t order,
                                                 size_t reserve, size_t* size, uint32_t flags);
int btl_torii_send(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                   mca_btl_base_descriptor_t* descriptor, mca_btl_base_tag_t tag);
int btl_torii_sendi(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                    opal_convertor_t* convertor, void* header, size_t header_size,
                    size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t** descriptor);
/* Posts the receives; an Open MPI code. */
int btl_torii_start_receives(void);

/* btl_torii_memory.c */
mca_btl_base_registration_handle_t* btl_torii_register_mem(mca_btl_base_module_t* btl,
                                                           mca_btl_base_endpoint_t* endpoint,
                                                           void* base, size_t size, uint32_t flags);
int btl_torii_deregister_mem(mca_btl_base_module_t* btl,
                             mca_btl_base_registration_handle_t* handle);
int btl_torii_put(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                  void* local_address, uint64_t remote_address,
                  mca_btl_base_registration_handle_t* local_handle,
                  mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags,
                  int order, mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext,
                  void* cbdata);
int btl_torii_get(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                  void* local_address, uint64_t remote_address,
                  mca_btl_base_registration_handle_t* local_handle,
                  mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags,
                  int order, mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext,
                  void* cbdata);
int btl_torii_atomic_op(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                        uint64_t remote_address, mca_btl_base_registration_handle_t* remote_handle,
                        mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata);
int btl_torii_atomic_fop(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                         void* local_address, uint64_t remote_address,
                         mca_btl_base_registration_handle_t* local_handle,
                         mca_btl_base_registration_handle_t* remote_handle,
                         mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                         mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata);
int btl_torii_atomic_cswap(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                           void* local_address, uint64_t remote_address,
                           mca_btl_base_registration_handle_t* local_handle,
                           mca_btl_base_registration_handle_t* remote_handle, uint64_t compare,
                           uint64_t value, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void* cbcontext, void* cbdata);
int btl_torii_flush(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint);
/* Null: the handle cannot be imported. The caller holds the module's lock until it has used the
 * import. */
btl_torii_import_t* btl_torii_import(btl_torii_endpoint_t* endpoint,
                                     const mca_btl_base_registration_handle_t* handle);
/* Gives the imports of the endpoint back. */
void btl_torii_drop_imports(btl_torii_endpoint_t* endpoint);
bool btl_torii_same_handle(const mca_btl_base_registration_handle_t* a,
                           const mca_btl_base_registration_handle_t* b);
/* The end of a call that was given torii_flag and `flag`, and has answered `code`. */
int btl_torii_wait(int code, torii_flag_t* flag);

/* btl_torii_accumulate.c: locks that are left to the target. Before each atomic operation; true: it
 * is over, with the Torii code in *code. */
bool btl_torii_accumulate_update(const btl_torii_update_t* update, int* code);
/* Before each put and get, and each flush (null: of all endpoints). A Torii code. */
int btl_torii_accumulate_other(const btl_torii_endpoint_t* endpoint);

/* btl_torii_relock.c: what an upper layer asks for that may wait for itself, before it is done. */
void btl_torii_relock_swap(const btl_torii_endpoint_t* endpoint, uint64_t address, uint64_t compare,
                           uint64_t value);
void btl_torii_relock_get(const btl_torii_endpoint_t* endpoint, uint64_t address); /* of a word */
/* True: the old value is to go through btl_torii_relock_grant(). */
bool btl_torii_relock_add(const btl_torii_endpoint_t* endpoint, uint64_t address, uint64_t operand,
                          bool fetching);
/* Leaves out of a lock's old value that this thread holds it. */
void btl_torii_relock_grant(void* answer);

#endif /* BTL_TORII_H */
