// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The state that Portals keeps of an operation that the protocol has under way.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "core/portals/md.h"
#include "core/portals3.h"

namespace torii {

class Portals;
struct Peer;

struct Transfer {
  enum class Kind : uint8_t {
    put,     // put of this process: waits for `sent`, then perhaps for `acked`
    get,     // get of this process: the descriptor is pinned until the reply
    getput,  // getput of this process, the get descriptor's part
    target,  // accepted put, get or getput of another process
  };
  Kind kind = Kind::put;
  bool sent_due = false;
  bool ack_due = false;
  bool end_promised = false;                      // a place for END in queue `eq`
  ptl_event_kind_t end_kind = PTL_EVENT_PUT_END;  // of a target
  Portals* portals = nullptr;
  const Peer* peer = nullptr;
  Md* md = nullptr;  // pinned (Md::pending) until END; then only md_slot counts
  uint64_t md_slot = 0;
  uint64_t eq = 0;               // the queue that got START, 0: none
  Memory memory;                 // what the protocol reads or writes
  std::byte* staging = nullptr;  // content on its way in a getput; owned
  ptl_event_t event{};           // the fields that all its events share

  Transfer() = default;
  Transfer(const Transfer&) = delete;
  ~Transfer() { std::free(staging); }
};

}  // namespace torii
