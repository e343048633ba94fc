/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * From an MPI datatype to Torii's description of data. MPICH packs and unpacks whole basic elements
 * only, Torii asks for any number of bytes: the part of an element is carried over.
 */
#include <mpidimpl.h>

#include "torii_impl.h"

#define CARRY 64 /* not less than the largest basic element */

struct netmod_torii_stream {
  void* buffer;
  MPI_Aint count;
  MPI_Datatype datatype;
  MPI_Aint position; /* packed bytes that MPICH has seen */
  uint32_t carried;  /* bytes in carry */
  int wrong;         /* what came does not consist of the datatype's elements */
  unsigned char carry[CARRY];
};

/* MPICH finds an offset by walking there: from the instance of the datatype that it lies in, not
 * from the first one. */
struct place {
  char* buffer;
  MPI_Aint count;
  MPI_Aint offset;
};

static struct place place_of(const struct netmod_torii_stream* stream) {
  MPI_Aint size, extent, skipped;
  MPIR_Datatype_get_size_macro(stream->datatype, size);
  MPIR_Datatype_get_extent_macro(stream->datatype, extent);
  skipped = stream->position / size;
  return (struct place){.buffer = (char*)stream->buffer + skipped * extent,
                        .count = stream->count - skipped,
                        .offset = stream->position - skipped * size};
}

static MPI_Aint pack_elements(struct netmod_torii_stream* stream, void* to, size_t bytes) {
  const struct place place = place_of(stream);
  MPI_Aint packed = 0;
  MPIR_Typerep_pack(place.buffer, place.count, stream->datatype, place.offset, to, (MPI_Aint)bytes,
                    &packed NETMOD_TORII_TYPEREP_FLAGS);
  stream->position += packed;
  return packed;
}

static MPI_Aint unpack_elements(struct netmod_torii_stream* stream, const void* from,
                                size_t bytes) {
  const struct place place = place_of(stream);
  MPI_Aint unpacked = 0;
  MPIR_Typerep_unpack(from, (MPI_Aint)bytes, place.buffer, place.count, stream->datatype,
                      place.offset, &unpacked NETMOD_TORII_TYPEREP_FLAGS);
  stream->position += unpacked;
  return unpacked;
}

static void pack(void* context, uint64_t offset, void* buffer, size_t bytes) {
  struct netmod_torii_stream* stream = context;
  unsigned char* to = buffer;
  (void)offset; /* the stream knows its place */
  while (bytes > 0) {
    size_t part;
    if (0 == stream->carried) {
      part = (size_t)pack_elements(stream, to, bytes);
      to += part;
      bytes -= part;
      if (0 == bytes) return;
      stream->carried = (uint32_t)pack_elements(stream, stream->carry, CARRY);
      if (0 == stream->carried) { /* MPICH has less than it said */
        memset(to, 0, bytes);
        return;
      }
    }
    part = MPL_MIN(bytes, stream->carried);
    memcpy(to, stream->carry, part);
    memmove(stream->carry, stream->carry + part, stream->carried - part);
    stream->carried -= (uint32_t)part;
    to += part;
    bytes -= part;
  }
}

/* Completes the element whose beginning was carried over; returns the bytes taken. */
static size_t complete_carried(struct netmod_torii_stream* stream, const unsigned char* from,
                               size_t bytes) {
  const size_t carried = stream->carried;
  const size_t added = MPL_MIN(bytes, CARRY - carried);
  size_t unpacked;
  memcpy(stream->carry + carried, from, added);
  unpacked = (size_t)unpack_elements(stream, stream->carry, carried + added);
  if (unpacked > carried) {
    stream->carried = 0;
    return unpacked - carried;
  }
  stream->carried = (uint32_t)(carried + added);
  if (CARRY == stream->carried) stream->wrong = 1;
  return added;
}

static void unpack(void* context, uint64_t offset, const void* buffer, size_t bytes) {
  struct netmod_torii_stream* stream = context;
  const unsigned char* from = buffer;
  (void)offset;
  while (bytes > 0 && !stream->wrong) {
    size_t part;
    if (0 != stream->carried) {
      part = complete_carried(stream, from, bytes);
    } else {
      part = (size_t)unpack_elements(stream, from, bytes);
      if (part < bytes) {
        const size_t rest = bytes - part;
        if (rest >= CARRY) {
          stream->wrong = 1;
          return;
        }
        memcpy(stream->carry, from + part, rest);
        stream->carried = (uint32_t)rest;
        return;
      }
    }
    from += part;
    bytes -= part;
  }
}

int netmod_torii_describe(const void* buffer, MPI_Aint count, MPI_Datatype datatype,
                          torii_data_t* data, struct netmod_torii_stream** stream) {
  int contiguous;
  size_t bytes;
  MPI_Aint true_lb;
  MPIDI_Datatype_check_contig_size_lb(datatype, count, contiguous, bytes, true_lb);
  *stream = NULL;
  data->piece_count = 0;
  data->pieces = NULL;
  data->bytes = bytes;
  if (likely(contiguous || 0 == bytes)) {
    data->layout = TORII_CONTIGUOUS;
    data->base = MPIR_get_contig_ptr(buffer, true_lb);
    return MPI_SUCCESS;
  }
  *stream = MPL_malloc(sizeof **stream, MPL_MEM_DATATYPE);
  if (NULL == *stream) return netmod_torii_error(TORII_ERR_NO_MEMORY, "a datatype");
  (*stream)->buffer = (void*)(uintptr_t)buffer;
  (*stream)->count = count;
  (*stream)->datatype = datatype;
  (*stream)->position = 0;
  (*stream)->carried = 0;
  (*stream)->wrong = 0;
  MPIR_Datatype_add_ref_if_not_builtin(datatype);
  data->layout = TORII_FUNCTIONS;
  data->base = *stream;
  data->pack = pack;
  data->unpack = unpack;
  return MPI_SUCCESS;
}

int netmod_torii_stream_free(struct netmod_torii_stream* stream) {
  int wrong;
  if (NULL == stream) return 0;
  wrong = stream->wrong || 0 != stream->carried;
  MPIR_Datatype_release_if_not_builtin(stream->datatype);
  MPL_free(stream);
  return wrong;
}
