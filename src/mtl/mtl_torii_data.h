/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * mtl_torii_data.h: from Open MPI's convertor to Torii's description of data.
 */
#ifndef MTL_TORII_DATA_H
#define MTL_TORII_DATA_H

#include "mtl_torii.h"

/* torii_data_t.pack and .unpack; the context is a struct mtl_torii_stream. */
void mtl_torii_pack(void* context, uint64_t offset, void* buffer, size_t bytes);
void mtl_torii_unpack(void* context, uint64_t offset, const void* buffer, size_t bytes);

/* Starts the convertor over (a persistent request starts more than once). */
void mtl_torii_rewind(struct opal_convertor_t* convertor, struct mtl_torii_stream* stream);

/* The convertor stands for memory in one piece, which begins at mtl_torii_base.
 *
 * Before 4.1.6 pml/cm hands over some contiguous sends without preparing the convertor; then its
 * base address has the type's true lower bound already, and it must not be used for more than
 * its address and size. A prepared one says for which direction. */
static inline bool mtl_torii_contiguous(const struct opal_convertor_t* convertor) {
  return opal_datatype_is_contiguous_memory_layout(convertor->pDesc, convertor->count) ||
         0 == convertor->local_size;
}

static inline void* mtl_torii_base(const struct opal_convertor_t* convertor) {
  if (0 == (convertor->flags & (CONVERTOR_SEND | CONVERTOR_RECV))) return convertor->pBaseBuf;
  return convertor->pBaseBuf + convertor->pDesc->true_lb;
}

/* Describes what the convertor stands for. `stream` and the convertor must live until the
 * operation completes. */
static inline void mtl_torii_describe(struct opal_convertor_t* convertor,
                                      struct mtl_torii_stream* stream, torii_data_t* data) {
  data->piece_count = 0;
  data->pieces = NULL;
  data->bytes = convertor->local_size;
  if (OPAL_LIKELY(mtl_torii_contiguous(convertor))) {
    data->layout = TORII_CONTIGUOUS;
    data->base = mtl_torii_base(convertor);
    return;
  }
  data->layout = TORII_FUNCTIONS;
  data->base = stream;
  data->pack = mtl_torii_pack;
  data->unpack = mtl_torii_unpack;
  mtl_torii_rewind(convertor, stream);
}

#endif /* MTL_TORII_DATA_H */
