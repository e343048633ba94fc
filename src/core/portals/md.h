// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory descriptors. The bytes are the user's; a descriptor owns only its copy of the iovec.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <utility>

#include "core/base/data.h"
#include "core/base/status.h"
#include "core/portals3.h"

namespace torii {

struct Me;

// A range of user memory, contiguous or in pieces. Copies share the list of pieces.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory& other) { *this = other; }
  Memory& operator=(const Memory& other);
  ~Memory() { release(); }

  // The memory of a descriptor from the user. `invalid`: it makes no sense (PTL_MD_ILLEGAL).
  static Status describe(const ptl_md_t& md, uint32_t pieces_max, Memory* out);
  uint64_t bytes() const { return bytes_; }
  // The part [offset, offset + bytes), which must lie inside. `no_memory` is the only error.
  Status slice(uint64_t offset, uint64_t bytes, Memory* out) const;
  // Valid as long as this object is.
  Data data() const;
  uint32_t piece_count() const { return pieces_ ? pieces_->count : 0; }
  const iovec& piece(uint32_t i) const { return pieces_->list[i]; }

 private:
  struct Pieces {
    uint32_t users;
    uint32_t count;
    iovec list[1];
  };
  static Pieces* make_pieces(uint64_t count);
  void release();

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  Pieces* pieces_ = nullptr;
};

struct Md {
  ptl_md_t user{};  // as the user gave it; `threshold` is what is left
  Memory memory;
  uint64_t local_offset = 0;  // not with MANAGE_REMOTE
  uint64_t eq = 0;            // pool handle of the event queue, 0: none
  Me* me = nullptr;           // null: bound, never a target
  uint32_t pending = 0;       // operations whose bytes may be moving
  uint64_t unlink_eq = 0;     // the queue with a place for UNLINK, 0: none
  bool active = false;
  bool auto_unlink = false;  // made with PTL_UNLINK
  bool unlink_due = false;   // goes when pending is 0
  bool orphan = false;       // its interface was closed: no events, goes when pending is 0
  ptl_event_t unlink_event;  // with unlink_eq: that of the operation that made it inactive

  bool option(unsigned bit) const { return user.options & bit; }
  // Portals 3.3: the place and the length at which a request is accepted, if it fits.
  bool fits(uint64_t request_offset, uint64_t length, uint64_t* offset, uint64_t* accepted) const;
  // Uses up one operation of the threshold. True if that, or the MAX_SIZE rule for `accepted`
  // bytes at a locally managed offset, made the descriptor inactive.
  bool consume(bool target, uint64_t accepted);
};

}  // namespace torii
