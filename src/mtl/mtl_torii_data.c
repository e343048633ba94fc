/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors */
#include "mtl_torii_data.h"

#include <string.h>

void mtl_torii_rewind(struct opal_convertor_t* convertor, struct mtl_torii_stream* stream) {
  size_t start = 0;
  stream->convertor = convertor;
  stream->carried = 0;
  opal_convertor_set_position(convertor, &start);
}

/* Packs the next elements that fit whole; returns their bytes. */
static size_t pack_elements(struct opal_convertor_t* convertor, void* buffer, size_t bytes) {
  struct iovec iov = {.iov_base = buffer, .iov_len = bytes};
  uint32_t count = 1;
  size_t packed = bytes;
  opal_convertor_pack(convertor, &iov, &count, &packed);
  return packed;
}

void mtl_torii_pack(void* context, uint64_t offset, void* buffer, size_t bytes) {
  struct mtl_torii_stream* stream = context;
  uint8_t* to = buffer;
  (void)offset; /* the convertor knows its place */
  while (bytes > 0) {
    size_t part;
    if (0 == stream->carried) {
      part = pack_elements(stream->convertor, to, bytes);
      to += part;
      bytes -= part;
      if (0 == bytes) return;
      stream->carried = (uint32_t)pack_elements(stream->convertor, stream->carry, MTL_TORII_CARRY);
      if (0 == stream->carried) { /* the convertor has less than it said */
        memset(to, 0, bytes);
        return;
      }
    }
    part = bytes < stream->carried ? bytes : stream->carried;
    memcpy(to, stream->carry, part);
    stream->carried -= (uint32_t)part;
    memmove(stream->carry, stream->carry + part, stream->carried);
    to += part;
    bytes -= part;
  }
}

void mtl_torii_unpack(void* context, uint64_t offset, const void* buffer, size_t bytes) {
  struct mtl_torii_stream* stream = context;
  struct iovec iov = {.iov_base = (void*)(uintptr_t)buffer, .iov_len = bytes};
  uint32_t count = 1;
  size_t unpacked = bytes;
  (void)offset;
  opal_convertor_unpack(stream->convertor, &iov, &count, &unpacked);
}
