// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/switch_points.h"

#include <algorithm>
#include <bit>

#include "drivers/driver.h"
#include "drivers/shm/layout.h"

namespace torii::shm {
namespace {

constexpr uint64_t kUsualCache = 1 << 20;  // of the second level, if the machine does not tell

constexpr uint64_t kEagerMost = 128 << 10;
constexpr uint64_t kRingEagers = 4;  // with shared processors, so many of the longest fit a ring

// Where a call of cross-memory attach costs no more than this.
constexpr uint64_t kFastAttachNs = 900;
constexpr uint64_t kFastEager = 32 << 10;
constexpr uint64_t kFastRemote = 8 << 10;
constexpr uint64_t kFastSplit = 32 << 10;
constexpr uint64_t kFastAsk = 64;

constexpr uint64_t kNever = uint64_t{1} << 40;  // no message is that long
constexpr uint64_t kRingsOfProcess = 4 << 20;   // bytes, for all that send to it

uint64_t second_level(const Hardware& machine) {
  return std::clamp<uint64_t>(machine.caches[1] ? machine.caches[1] : kUsualCache, 256 << 10,
                              2 << 20);
}

uint64_t chosen(uint64_t parameter, uint64_t automatic) {
  return parameter ? parameter : automatic;
}

}  // namespace

// Each choice has its reason in the line before it. Where a call of cross-memory attach is fast, a
// message that is alone arrives sooner if it is read, and one put or get is done sooner by attach
// than by its target, unless it is short. A process that shares a processor with the reader should
// not have to wait for it, so that this does not hold there.
SwitchPoints switch_points(const Params& params, const Hardware& machine, bool take_turns) {
  const bool fast = machine.attach_ns != 0 && machine.attach_ns <= kFastAttachNs && !take_turns;
  // With shared processors a change of processes costs more than a copy of 64 KiB that misses a
  // small cache.
  const uint64_t own_cache = second_level(machine);
  const uint64_t cache = take_turns ? std::max(own_cache, kUsualCache) : own_cache;
  SwitchPoints points;
  // The receiver need not be there yet. Processes that take turns share a cache.
  const uint64_t eager = fast         ? kFastEager
                         : take_turns ? cache / 16
                                      : std::min(cache / 8, kEagerMost);
  points.eager_limit = static_cast<uint32_t>(chosen(params.shm_eager_limit, eager));
  points.eager_least =
      static_cast<uint32_t>(chosen(params.shm_eager_limit, fast ? eager : cache / 16));
  // A longer message goes through the ring as well where attach is slow and each process has a
  // processor: both copy at the same time, while the kernel looks up pages.
  points.remote_min = chosen(params.shm_remote_min, fast         ? kFastRemote
                                                    : take_turns ? cache / 16
                                                                 : kNever);
  // It is read if the sender does not poll.
  points.offer_min = std::min(points.remote_min, cache / 16);
  points.read_alone_min = fast ? std::max(points.remote_min, kFastRemote) : kNoSize;
  // While long messages meet, each process copies in and out by turns and nothing overlaps: the one
  // copy pays earlier.
  points.read_crossing_min = points.read_alone_min;
  if (take_turns)
    points.read_crossing_min =
        std::max<uint64_t>(points.remote_min / 2, points.eager_limit / 2) + 1;
  points.split_min = chosen(params.shm_split_min, fast ? kFastSplit : cache / 16);
  points.ask_alone_most = chosen(params.shm_ask_alone_most, fast ? kFastAsk : kNoSize);
  points.coalesce = fast && !params.shm_ask_alone_most;
  // Lines that the receiver has read have left its cache when their turn comes again, and the
  // sender need not take them from there. Where the last level is spread over slices by a hash, it
  // is slower than the other processor's cache, so that rings are to stay in that.
  points.ring_most =
      chosen(params.shm_ring_most, machine.hashed_cache && !take_turns ? cache / 8 : 2 * cache);
  // A sender should not have to wait within a message or between a few of them, for each wait is a
  // change of processes. Larger rings would only use up the cache.
  if (take_turns) points.ring_most = std::min(points.ring_most, kRingEagers * eager);
  // Past such a cache stores never pay.
  points.choose_stores = !machine.hashed_cache;
  return points;
}

// A message that does not fit waits until the sender polls again; announced, it could be read.
uint32_t eager_limit_for(const SwitchPoints& points, uint64_t ring_bytes) {
  const uint64_t quarter = std::max<uint64_t>(ring_bytes / 4, points.eager_least);
  return static_cast<uint32_t>(std::min<uint64_t>(quarter, points.eager_limit));
}

uint64_t ring_bytes_for(uint32_t local_peers, uint64_t wanted, uint64_t ring_most) {
  if (wanted) return std::clamp(std::bit_floor(wanted), kRingMin, kRingMax);
  uint64_t bytes = ring_most;
  if (local_peers > 2)
    bytes = std::min(bytes, std::max(kRingsOfProcess, bytes) / (local_peers - 1));
  return std::clamp(std::bit_floor(bytes), kRingMin, kRingMax);
}

}  // namespace torii::shm
