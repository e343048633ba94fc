// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For drivers that copy what they send.
#pragma once

#include <cstring>
#include <span>

#include "drivers/driver.h"

namespace torii {

// Copies the head of a frame; returns the end.
inline std::byte* copy_head(const Tx& tx, std::byte* to) {
  if (tx.head_bytes) std::memcpy(to, tx.head, tx.head_bytes);
  return to + tx.head_bytes;
}

// Copies head and body; returns the end.
inline std::byte* copy_frame(const Tx& tx, std::byte* to) {
  to = copy_head(tx, to);
  for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
    if (piece.iov_len) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
  return to;
}

}  // namespace torii
