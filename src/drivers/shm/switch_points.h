// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// At which sizes one path gives way to another. Each process decides by its own: nothing has to be
// the same in two processes that talk to each other.
#pragma once

#include <cstdint>

#include "core/base/hardware.h"
#include "core/base/param.h"

namespace torii::shm {

// Puts or gets made together (remote.h): how many, how many bytes, and the longest of them.
inline constexpr unsigned kGatherMost = 32;
inline constexpr uint64_t kGatherBytes = 256 << 10;
inline constexpr uint64_t kGatherLongest = 128 << 10;
// The shortest and longest to be coalesced between two polls; no longer get is requested.
inline constexpr uint64_t kCoalescePutMin = 512;
inline constexpr uint64_t kCoalesceGetMin = 1 << 10;
inline constexpr uint64_t kCoalesceMost = 8 << 10;

struct SwitchPoints {
  uint32_t eager_limit;  // longest message to be sent eagerly
  uint32_t eager_least;  // the same if not even four of those fit a ring
  // The shortest announced message to go by cross-memory attach, and the shortest to do so if the
  // sender, which is asked to send it through the ring, does not poll.
  uint64_t remote_min;
  uint64_t offer_min;
  uint64_t split_min;  // shortest get that both processes work at
  uint64_t ring_most;  // bytes of a ring; where many processes send to one, each has less
  // Shortest messages that are read although they could be eager (DriverCaps); kNoSize: none.
  uint64_t read_alone_min;
  uint64_t read_crossing_min;
  uint64_t ask_alone_most;  // longest put or get that is requested (requests.h) if it is alone
  bool coalesce;            // several puts or gets between two polls are made together
  bool choose_stores;       // how long bodies are written is measured (stores.h)
};

// The values of the parameters, and for those that leave it open what fits the machine.
// `take_turns`: the node has more processes of the job than processors.
SwitchPoints switch_points(const Params& params, const Hardware& machine, bool take_turns);

// Longest message to be sent eagerly, with rings of that size.
uint32_t eager_limit_for(const SwitchPoints& points, uint64_t ring_bytes);

// Ring size for a job of that many processes on this node. `wanted` is the user's, or 0.
uint64_t ring_bytes_for(uint32_t local_peers, uint64_t wanted, uint64_t ring_most);

}  // namespace torii::shm
