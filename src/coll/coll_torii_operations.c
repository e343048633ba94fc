/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * The operations: types are packed where they are not plain memory, and what Torii does not serve
 * goes to the functions before. Whether a type is plain is each member's own business, and decides
 * nothing that others see; but for reductions, in which all have the same type.
 */
#include <stdlib.h>

#include "coll_torii.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"
#include "opal/datatype/opal_convertor.h"

#ifdef MPI_ERR_PROC_FAILED
#define MEMBER_LOST MPI_ERR_PROC_FAILED
#else
#define MEMBER_LOST MPI_ERR_OTHER
#endif

static int mpi_code(int code) {
  switch (code) {
    case TORII_OK:
      return MPI_SUCCESS;
    case TORII_ERR_INVALID:
      return MPI_ERR_ARG;
    case TORII_ERR_NO_MEMORY:
      return MPI_ERR_NO_MEM;
    case TORII_ERR_PEER_DEAD:
    case TORII_ERR_PEER_CLOSED:
      return MEMBER_LOST;
    default:
      return MPI_ERR_OTHER;
  }
}

static size_t bytes_of(struct ompi_datatype_t* type, size_t count) {
  size_t size = 0;
  ompi_datatype_type_size(type, &size);
  return size * count;
}

/* Elements lie side by side without gaps. */
static bool is_plain(struct ompi_datatype_t* type) {
  ptrdiff_t lb, extent, true_lb, true_extent;
  ompi_datatype_get_extent(type, &lb, &extent);
  ompi_datatype_get_true_extent(type, &true_lb, &true_extent);
  return 0 == lb && 0 == true_lb && (size_t)extent == bytes_of(type, 1) &&
         ompi_datatype_is_contiguous_memory_layout(type, 2);
}

/* Memory for packed elements that are not plain; with those of a buffer, if `filled`. Or null,
 * which Torii is given: so all members hear of it. */
static void* pack(bool filled, const void* from, size_t count, struct ompi_datatype_t* type) {
  size_t bytes = bytes_of(type, count);
  char* const out = malloc(bytes);
  struct iovec piece = {.iov_base = out, .iov_len = bytes};
  uint32_t pieces = 1;
  opal_convertor_t convertor;
  if (NULL == out || !filled) return out;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, from, 0,
                                           &convertor);
  opal_convertor_pack(&convertor, &piece, &pieces, &bytes);
  OBJ_DESTRUCT(&convertor);
  return out;
}

static void unpack(void* from, void* to, size_t count, struct ompi_datatype_t* type) {
  size_t bytes = bytes_of(type, count);
  struct iovec piece = {.iov_base = from, .iov_len = bytes};
  uint32_t pieces = 1;
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, to, 0,
                                           &convertor);
  opal_convertor_unpack(&convertor, &piece, &pieces, &bytes);
  OBJ_DESTRUCT(&convertor);
}

static void note_refusal(size_t* refused, size_t bytes, struct ompi_communicator_t* comm) {
  if (2 == ompi_comm_size(comm) && bytes < *refused) *refused = bytes;
}

static int barrier(struct ompi_communicator_t* comm, mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  torii_flag_t flag = {.done = 0};
  int code = TORII_ERR_UNSUPPORTED;
  if (coll_torii_serves(module, comm))
    code = coll_torii_wait(module, torii_group_barrier(module->group, torii_flag, &flag), &flag);
  if (TORII_ERR_UNSUPPORTED == code) return module->barrier.function(comm, module->barrier.module);
  return mpi_code(code);
}

static int bcast(void* buffer, int count, struct ompi_datatype_t* type, int root,
                 struct ompi_communicator_t* comm, mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  torii_data_t data = {.bytes = bytes_of(type, (size_t)count), .base = buffer};
  bool plain, roots;
  torii_flag_t flag;
  int code;
  if (0 == data.bytes) return MPI_SUCCESS;
  if (data.bytes >= module->bcast_refused || !coll_torii_serves(module, comm))
    return module->bcast.function(buffer, count, type, root, comm, module->bcast.module);
  plain = is_plain(type);
  roots = ompi_comm_rank(comm) == root;
  if (!plain) data.base = pack(roots, buffer, (size_t)count, type);
  flag.done = 0;
  code = torii_group_bcast(module->group, (uint32_t)root, &data, torii_flag, &flag);
  code = coll_torii_wait(module, code, &flag);
  if (!plain && !roots && TORII_OK == code) unpack(data.base, buffer, (size_t)count, type);
  if (!plain) free(data.base);
  if (TORII_ERR_UNSUPPORTED == code) {
    note_refusal(&module->bcast_refused, data.bytes, comm);
    return module->bcast.function(buffer, count, type, root, comm, module->bcast.module);
  }
  return mpi_code(code);
}

struct operation {
  struct ompi_op_t* op;
  struct ompi_datatype_t* type;
  size_t element;
};

static void combine(void* context, const void* in, void* inout, uint64_t bytes) {
  const struct operation* const o = context;
  ompi_op_reduce(o->op, (void*)(uintptr_t)in, inout, (int)(bytes / o->element), o->type);
}

/* Pairs as of MPI_MINLOC have gaps, but are predefined, and so the same everywhere. 0: not ours. */
static size_t element_of(struct ompi_datatype_t* type) {
  ptrdiff_t lb, extent;
  ompi_datatype_get_extent(type, &lb, &extent);
  if (0 != lb || 0 >= extent) return 0;
  return is_plain(type) || ompi_datatype_is_predefined(type) ? (size_t)extent : 0;
}

static int reduce(const void* in, void* out, int count, struct ompi_datatype_t* type,
                  struct ompi_op_t* op, int root, struct ompi_communicator_t* comm,
                  mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  const size_t bytes = bytes_of(type, (size_t)count);
  struct operation o = {.op = op, .type = type};
  torii_reduction_t how = {.combine = combine, .context = &o};
  torii_flag_t flag;
  int code = TORII_ERR_UNSUPPORTED;
  if (0 != count && bytes < module->reduce_refused && coll_torii_serves(module, comm) &&
      0 != (how.element = o.element = element_of(type))) {
    flag.done = 0;
    code = torii_group_reduce(module->group, (uint32_t)root, MPI_IN_PLACE == in ? NULL : in, out,
                              o.element * (size_t)count, &how, torii_flag, &flag);
    code = coll_torii_wait(module, code, &flag);
    if (TORII_ERR_UNSUPPORTED == code) note_refusal(&module->reduce_refused, bytes, comm);
  }
  if (TORII_ERR_UNSUPPORTED == code)
    return module->reduce.function(in, out, count, type, op, root, comm, module->reduce.module);
  return mpi_code(code);
}

static int allreduce(const void* in, void* out, int count, struct ompi_datatype_t* type,
                     struct ompi_op_t* op, struct ompi_communicator_t* comm,
                     mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  struct operation o = {.op = op, .type = type, .element = element_of(type)};
  const torii_reduction_t how = {.combine = combine, .context = &o, .element = o.element};
  torii_flag_t flag;
  int code = TORII_ERR_UNSUPPORTED;
  if (0 != o.element && 0 != count && coll_torii_serves(module, comm)) {
    flag.done = 0;
    code = torii_group_allreduce(module->group, MPI_IN_PLACE == in ? NULL : in, out,
                                 o.element * (size_t)count, &how, torii_flag, &flag);
    code = coll_torii_wait(module, code, &flag);
  }
  if (TORII_ERR_UNSUPPORTED == code)
    return module->allreduce.function(in, out, count, type, op, comm, module->allreduce.module);
  return mpi_code(code);
}

/* An operation in which each member has a part for all, or for each. */
typedef int exchange_t(torii_group_t* group, const void* in, void* out, uint64_t bytes,
                       torii_done_t done, void* arg);

/* Carries one out: `bytes` bytes a part, `count` elements in `out`. `in` null: in place. `packed`
 * is memory for the results if they are not plain. `able`: there was memory for all of it. A Torii
 * code. */
static int exchange(struct coll_torii_module* module, exchange_t* function, const void* in,
                    void* packed, void* out, size_t count, struct ompi_datatype_t* type,
                    size_t bytes, bool able) {
  const bool plain = is_plain(type);
  torii_flag_t flag = {.done = 0};
  int code = function(module->group, in,
                      !able   ? NULL
                      : plain ? out
                              : packed,
                      bytes, torii_flag, &flag);
  code = coll_torii_wait(module, code, &flag);
  if (!plain && TORII_OK == code) unpack(packed, out, count, type);
  return code;
}

static int allgather(const void* in, int in_count, struct ompi_datatype_t* in_type, void* out,
                     int count, struct ompi_datatype_t* type, struct ompi_communicator_t* comm,
                     mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  const size_t size = (size_t)ompi_comm_size(comm);
  const size_t bytes = bytes_of(type, (size_t)count);
  const bool in_place = MPI_IN_PLACE == in, plain = is_plain(type);
  void *packed_in = NULL, *packed_out = NULL;
  bool packs_in, able;
  int code;
  if (0 == bytes) return MPI_SUCCESS;
  if (!coll_torii_serves(module, comm))
    return module->allgather.function(in, in_count, in_type, out, count, type, comm,
                                      module->allgather.module);
  packs_in = in_place ? !plain : !is_plain(in_type);
  if (packs_in && in_place) {
    ptrdiff_t lb, extent;
    ompi_datatype_get_extent(type, &lb, &extent);
    packed_in = pack(true, (char*)out + extent * count * ompi_comm_rank(comm), (size_t)count, type);
  } else if (packs_in) {
    packed_in = pack(true, in, (size_t)in_count, in_type);
  }
  if (!plain) packed_out = pack(false, NULL, (size_t)count * size, type);
  able = (!packs_in || NULL != packed_in) && (plain || NULL != packed_out);
  code = exchange(module, torii_group_allgather,
                  packs_in   ? packed_in
                  : in_place ? NULL
                             : in,
                  packed_out, out, (size_t)count * size, type, bytes, able);
  free(packed_in);
  free(packed_out);
  if (TORII_ERR_UNSUPPORTED == code)
    return module->allgather.function(in, in_count, in_type, out, count, type, comm,
                                      module->allgather.module);
  return mpi_code(code);
}

static int alltoall(const void* in, int in_count, struct ompi_datatype_t* in_type, void* out,
                    int count, struct ompi_datatype_t* type, struct ompi_communicator_t* comm,
                    mca_coll_base_module_t* base) {
  struct coll_torii_module* const module = (struct coll_torii_module*)base;
  const size_t size = (size_t)ompi_comm_size(comm);
  const size_t bytes = bytes_of(type, (size_t)count), all = bytes * size;
  const bool in_place = MPI_IN_PLACE == in, plain = is_plain(type);
  void *packed_in = NULL, *packed_out = NULL;
  bool packs_in, able;
  int code;
  if (0 == bytes) return MPI_SUCCESS;
  if (all * size > TORII_ALLTOALL_MAX || !coll_torii_serves(module, comm)) /* before packing */
    return module->alltoall.function(in, in_count, in_type, out, count, type, comm,
                                     module->alltoall.module);
  packs_in = !in_place && !is_plain(in_type);
  if (packs_in) packed_in = pack(true, in, (size_t)in_count * size, in_type);
  if (!plain) packed_out = pack(in_place, out, (size_t)count * size, type);
  able = (!packs_in || NULL != packed_in) && (plain || NULL != packed_out);
  code = exchange(module, torii_group_alltoall,
                  packs_in   ? packed_in
                  : in_place ? NULL
                             : in,
                  packed_out, out, (size_t)count * size, type, bytes, able);
  free(packed_in);
  free(packed_out);
  if (TORII_ERR_UNSUPPORTED == code)
    return module->alltoall.function(in, in_count, in_type, out, count, type, comm,
                                     module->alltoall.module);
  return mpi_code(code);
}

void coll_torii_use(struct coll_torii_module* module) {
  module->super.coll_barrier = barrier;
  module->super.coll_bcast = bcast;
  module->super.coll_reduce = reduce;
  module->super.coll_allreduce = allreduce;
  module->super.coll_allgather = allgather;
  module->super.coll_alltoall = alltoall;
}
