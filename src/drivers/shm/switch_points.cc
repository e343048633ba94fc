// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/switch_points.h"

#include <algorithm>
#include <bit>

#include "drivers/shm/layout.h"

namespace torii::shm {
namespace {

constexpr uint64_t kUsualCache = 1 << 20;  // of the second level, if the machine does not tell

constexpr uint64_t kRingsOfProcess = 4 << 20;  // bytes, for all that send to it
constexpr uint64_t kRingTakeTurns = 64 << 10;  // processes that share a processor share its caches

uint64_t second_level(const Hardware& machine) {
  return std::clamp<uint64_t>(machine.caches[1] ? machine.caches[1] : kUsualCache, 256 << 10,
                              2 << 20);
}

uint64_t chosen(uint64_t parameter, uint64_t automatic) {
  return parameter ? parameter : automatic;
}

}  // namespace

// Up to a sixteenth of the second-level cache the copies of both processes stay in their caches
// and overlap; beyond, the kernel's one copy is at least as fast. A ring as large as that cache is
// better than one that fits into it with room to spare: most lines that the receiver has read have
// left its cache when their turn comes again, and the sender need not take them from there.
SwitchPoints switch_points(const Params& params, const Hardware& machine) {
  const uint64_t cache = second_level(machine);
  SwitchPoints points;
  points.eager_limit = static_cast<uint32_t>(chosen(params.shm_eager_limit, cache / 16));
  points.remote_min = chosen(params.shm_remote_min, cache / 16);
  points.split_min = chosen(params.shm_split_min, cache / 16);
  points.ring_most = chosen(params.shm_ring_most, cache);
  return points;
}

uint64_t ring_bytes_for(uint32_t local_peers, bool take_turns, uint64_t wanted,
                        uint64_t ring_most) {
  if (wanted) return std::clamp(std::bit_floor(wanted), kRingMin, kRingMax);
  uint64_t bytes = take_turns ? std::min(kRingTakeTurns, ring_most) : ring_most;
  if (local_peers > 2)
    bytes = std::min(bytes, std::max(kRingsOfProcess, bytes) / (local_peers - 1));
  return std::clamp(std::bit_floor(bytes), kRingMin, kRingMax);
}

}  // namespace torii::shm
