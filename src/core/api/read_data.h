// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Users' descriptions of data, checked.
#pragma once

#include "core/base/data.h"
#include "core/torii.h"

namespace torii {

// Reads what is not contiguous.
inline bool read_layout(const torii_data_t& in, Data* out) {
  switch (in.layout) {
    case TORII_CONTIGUOUS:
      break;
    case TORII_PIECES: {
      uint64_t sum = 0;
      for (uint32_t i = 0; i < in.piece_count && in.pieces; ++i) sum += in.pieces[i].iov_len;
      *out = Data(in.pieces, in.piece_count, in.bytes);
      return sum == in.bytes && (in.pieces || in.piece_count == 0);
    }
    case TORII_FUNCTIONS:
      *out = Data(in.pack, in.unpack, in.base, in.bytes);
      return true;
  }
  return false;
}

// Memory in one piece.
inline bool sound(const void* base, uint64_t bytes) { return base || bytes == 0; }

// False: it contradicts itself.
inline bool read_data(const torii_data_t& in, Data* out) {
  if (__builtin_expect(in.layout != TORII_CONTIGUOUS, 0)) return read_layout(in, out);
  *out = Data(in.base, in.bytes);
  return sound(in.base, in.bytes);
}

}  // namespace torii
