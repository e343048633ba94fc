// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/switch_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "drivers/driver.h"
#include "drivers/shm/layout.h"

using namespace torii;
using shm::ring_bytes_for;
using shm::switch_points;

namespace {

Hardware with_cache(uint64_t second_level) {
  Hardware machine;
  machine.caches[1] = second_level;
  return machine;
}

TEST(SwitchPoints, FollowTheSecondLevelCache) {
  for (const uint64_t cache : {256u << 10, 512u << 10, 1u << 20, 1280u << 10, 2u << 20}) {
    const auto points = switch_points(Params(), with_cache(cache), false);
    EXPECT_EQ(points.eager_limit, std::min<uint64_t>(cache / 8, 128 << 10));
    const auto turns = switch_points(Params(), with_cache(cache), true);
    EXPECT_EQ(turns.eager_limit, std::max<uint64_t>(cache, 1 << 20) / 16) << "whole, not announced";
    EXPECT_EQ(turns.ring_most, 4 * turns.eager_limit);
    EXPECT_EQ(points.offer_min, cache / 16);
    EXPECT_EQ(points.split_min, cache / 16);
    EXPECT_EQ(points.ring_most, 2 * cache);
  }
}

TEST(SwitchPoints, EagerMessagesFitShortRings) {
  using shm::eager_limit_for;
  Params params;
  const auto points = switch_points(params, with_cache(1 << 20), false);
  EXPECT_EQ(eager_limit_for(points, 2 << 20), 128u << 10);
  EXPECT_EQ(eager_limit_for(points, 512 << 10), 128u << 10);
  EXPECT_EQ(eager_limit_for(points, 256 << 10), 64u << 10);
  EXPECT_EQ(eager_limit_for(points, 32 << 10), 64u << 10) << "as where processes take turns";
  params.shm_eager_limit = 128 << 10;
  EXPECT_EQ(eager_limit_for(switch_points(params, with_cache(1 << 20), false), 32 << 10),
            128u << 10)
      << "the user's";
}

TEST(SwitchPoints, UnknownAndOddCachesAreBounded) {
  EXPECT_EQ(switch_points(Params(), with_cache(0), false).ring_most, 2u << 20);
  EXPECT_EQ(switch_points(Params(), with_cache(32 << 10), false).eager_limit, 32u << 10);
  EXPECT_EQ(switch_points(Params(), with_cache(64 << 20), false).eager_limit, 128u << 10);
}

TEST(SwitchPoints, ParametersWin) {
  Params params;
  params.shm_eager_limit = 5000;
  params.shm_remote_min = 6000;
  params.shm_split_min = 7000;
  params.shm_ring_most = 8000;
  const auto points = switch_points(params, with_cache(1 << 20), false);
  EXPECT_EQ(points.eager_limit, 5000u);
  EXPECT_EQ(points.remote_min, 6000u);
  EXPECT_EQ(points.offer_min, 6000u);
  EXPECT_EQ(points.split_min, 7000u);
  EXPECT_EQ(points.ring_most, 8000u);
  params.shm_remote_min = 1 << 30;
  EXPECT_EQ(switch_points(params, with_cache(1 << 20), false).offer_min, 64u << 10);
}

TEST(SwitchPoints, CheapAttachReadsWhatIsAlone) {
  Hardware machine = with_cache(2 << 20);
  for (const uint64_t dear : {0u, 901u, 2000u}) {
    machine.attach_ns = dear;
    const auto points = switch_points(Params(), machine, false);
    EXPECT_EQ(points.read_alone_min, torii::kNoSize) << dear;
    EXPECT_EQ(points.read_crossing_min, torii::kNoSize) << dear;
    EXPECT_GE(points.remote_min, uint64_t{1} << 40) << dear;
    EXPECT_EQ(points.offer_min, 128u << 10) << dear;
    const auto turns = switch_points(Params(), machine, true);
    EXPECT_EQ(turns.read_crossing_min, (64u << 10) + 1) << dear;
    EXPECT_EQ(turns.remote_min, 128u << 10) << "who has no processor does not look";
    EXPECT_EQ(turns.offer_min, 128u << 10);
    EXPECT_EQ(points.ask_alone_most, torii::kNoSize) << dear;
    EXPECT_FALSE(points.coalesce) << dear;
  }
  machine.attach_ns = 420;
  const auto points = switch_points(Params(), machine, false);
  EXPECT_EQ(points.eager_limit, 32u << 10);
  EXPECT_EQ(points.read_alone_min, 8u << 10);
  EXPECT_EQ(points.read_crossing_min, 8u << 10);
  EXPECT_EQ(points.split_min, 32u << 10);
  EXPECT_EQ(points.remote_min, 8u << 10);
  EXPECT_EQ(points.offer_min, 8u << 10);
  EXPECT_EQ(points.ask_alone_most, 64u);
  EXPECT_TRUE(points.coalesce);
  // A reader that shares a processor with the sender would keep it waiting.
  EXPECT_EQ(switch_points(Params(), machine, true).read_alone_min, torii::kNoSize);
  EXPECT_FALSE(switch_points(Params(), machine, true).coalesce);
  Params params;
  params.shm_eager_limit = 20 << 10;
  params.shm_remote_min = 1 << 20;  // as torii-tune does to see eager messages only
  const auto said = switch_points(params, machine, false);
  EXPECT_EQ(said.eager_limit, 20u << 10);
  EXPECT_GE(said.read_alone_min, 1u << 20);
  EXPECT_GE(said.read_crossing_min, 1u << 20);
  params.shm_ask_alone_most = 1 << 10;
  EXPECT_FALSE(switch_points(params, machine, false).coalesce) << "the user wants to ask";
}

TEST(SwitchPoints, RingAndStoresFollowTheLastLevelCache) {
  Hardware machine = with_cache(2 << 20);
  machine.hashed_cache = false;
  EXPECT_EQ(switch_points(Params(), machine, false).ring_most, 4u << 20);
  EXPECT_TRUE(switch_points(Params(), machine, false).choose_stores);
  machine.hashed_cache = true;
  EXPECT_EQ(switch_points(Params(), machine, false).ring_most, 256u << 10);
  EXPECT_FALSE(switch_points(Params(), machine, false).choose_stores);
}

TEST(SwitchPoints, RingsShareTheMemoryOfAProcess) {
  constexpr uint64_t kMost = 1 << 20;
  EXPECT_EQ(ring_bytes_for(0, 0, kMost), kMost);
  EXPECT_EQ(ring_bytes_for(1, 0, kMost), kMost);
  EXPECT_EQ(ring_bytes_for(2, 0, kMost), kMost);
  uint64_t before = kMost;
  for (uint32_t processes = 2; processes <= 100000; processes += processes < 300 ? 1 : 997) {
    const uint64_t bytes = ring_bytes_for(processes, 0, kMost);
    EXPECT_TRUE(std::has_single_bit(bytes));
    EXPECT_LE(bytes, before);
    EXPECT_GE(bytes, shm::kRingMin);
    if (bytes > shm::kRingMin) {
      EXPECT_LE(bytes * (processes - 1), 4u << 20);
    }
    before = bytes;
  }
  EXPECT_EQ(ring_bytes_for(5, 0, kMost), 1u << 20);
  EXPECT_EQ(ring_bytes_for(16, 0, kMost), 256u << 10);
  EXPECT_EQ(ring_bytes_for(129, 0, kMost), 32u << 10);
  // More than the usual total was asked for: two processes may have it, more share it.
  EXPECT_EQ(ring_bytes_for(2, 0, 16 << 20), 16u << 20);
  EXPECT_EQ(ring_bytes_for(5, 0, 16 << 20), 4u << 20);
}

TEST(SwitchPoints, TheUserDecides) {
  EXPECT_EQ(ring_bytes_for(100, 300 << 10, 1 << 20), 256u << 10);
  EXPECT_EQ(ring_bytes_for(2, 1, 1 << 20), shm::kRingMin);
  EXPECT_EQ(ring_bytes_for(2, 1ull << 40, 1 << 20), shm::kRingMax);
}

TEST(SwitchPoints, WithSharedProcessorsARingHoldsFourEagerMessages) {
  for (const bool hashed : {false, true}) {
    for (uint64_t cache : {256 << 10, 512 << 10, 1 << 20, 2 << 20}) {
      Hardware machine = with_cache(cache);
      machine.hashed_cache = hashed;
      const auto points = switch_points(Params(), machine, true);
      EXPECT_EQ(points.ring_most, 4 * points.eager_limit);
      EXPECT_EQ(eager_limit_for(points, ring_bytes_for(2, 0, points.ring_most)),
                points.eager_limit);
    }
  }
  Params params;
  params.shm_ring_most = 64 << 10;
  EXPECT_EQ(switch_points(params, with_cache(1 << 20), true).ring_most, 64u << 10);
}

}  // namespace
