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
constexpr uint64_t kCheapAttachNs = 900;
constexpr uint64_t kCheapEager = 32 << 10;
constexpr uint64_t kCheapAlone = 8 << 10;
constexpr uint64_t kCheapSplit = 32 << 10;
constexpr uint64_t kCheapAsk = 64;
constexpr uint64_t kCheapTogetherPut = 512;
constexpr uint64_t kCheapTogetherGet = 1 << 10;
constexpr uint64_t kCheapTogetherMost = 8 << 10;
constexpr uint64_t kCheapAskGet = 8 << 10;

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

// Eager copies: up to an eighth of the second-level cache; the receiver need not be there yet.
// Processes that take turns share a cache.
//
// What is longer goes through the ring as well where a call of cross-memory attach costs much and
// each process has a processor: both copy at the same time, while the kernel looks up pages. It is
// read if the sender does not poll.
//
// Where such a call costs little, a message that is alone arrives sooner if it is read, and one put
// or get is done sooner by attach than by its target, unless it is short. A process that shares a
// processor with the reader should not have to wait for it. While long messages meet, each of two
// such processes copies in and out by turns and nothing overlaps: the one copy pays earlier.
//
// Rings hold twice the second-level cache: lines that the receiver has read have left its cache
// when their turn comes again, and the sender need not take them from there. Where the last level
// is spread over slices by a hash, it is slower than the other processor's cache, so that rings are
// to stay in that, and stores past the caches never pay. With shared processors a sender should not
// have to wait within a message or between a few of them, for each wait is a change of processes;
// larger rings would only use up the cache. Such a change costs more than a copy of 64 KiB that
// misses a small cache, so that no cache counts as smaller than the usual one then.
SwitchPoints switch_points(const Params& params, const Hardware& machine, bool take_turns) {
  const uint64_t own_cache = second_level(machine);
  const uint64_t cache = take_turns ? std::max(own_cache, kUsualCache) : own_cache;
  SwitchPoints points;
  const uint64_t eager = take_turns ? cache / 16 : std::min(cache / 8, kEagerMost);
  points.eager_limit = static_cast<uint32_t>(chosen(params.shm_eager_limit, eager));
  points.eager_least = static_cast<uint32_t>(chosen(params.shm_eager_limit, cache / 16));
  points.split_min = chosen(params.shm_split_min, cache / 16);
  points.ring_most =
      chosen(params.shm_ring_most, machine.hashed_cache && !take_turns ? cache / 8 : 2 * cache);
  if (take_turns) points.ring_most = std::min(points.ring_most, kRingEagers * eager);
  points.read_alone_min = kNoSize;
  points.ask_alone_most = chosen(params.shm_ask_alone_most, kNoSize);
  points.choose_stores = !machine.hashed_cache;
  const bool cheap = machine.attach_ns != 0 && machine.attach_ns <= kCheapAttachNs && !take_turns;
  points.remote_min = chosen(params.shm_remote_min, take_turns ? cache / 16 : kNever);
  points.offer_min = std::min(points.remote_min, cache / 16);
  points.read_crossing_min =
      take_turns ? std::max<uint64_t>(points.remote_min / 2, points.eager_limit / 2) + 1 : kNoSize;
  points.ask_get_most = kNoSize;
  points.together_put_min = points.together_get_min = kNoSize;
  points.together_most = 0;
  if (!cheap) return points;
  if (!params.shm_ask_alone_most) {
    points.ask_get_most = kCheapAskGet;
    points.together_put_min = kCheapTogetherPut;
    points.together_get_min = kCheapTogetherGet;
    points.together_most = kCheapTogetherMost;
  }
  points.ask_alone_most = chosen(params.shm_ask_alone_most, kCheapAsk);
  points.eager_limit = static_cast<uint32_t>(chosen(params.shm_eager_limit, kCheapEager));
  points.eager_least = points.eager_limit;
  points.remote_min = chosen(params.shm_remote_min, kCheapAlone);
  points.offer_min = std::min(points.remote_min, points.offer_min);
  points.split_min = chosen(params.shm_split_min, kCheapSplit);
  points.read_alone_min = std::max(points.remote_min, kCheapAlone);
  points.read_crossing_min = points.read_alone_min;
  return points;
}

// What does not fit waits until the sender looks again, and could be read if it were announced.
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
