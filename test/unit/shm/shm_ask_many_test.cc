// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Many puts and gets that their owner is asked for side by side.
#include <cstring>
#include <vector>

#include "unit/shm/shm_ask_kit.h"

namespace torii::test {
namespace {

// Their owner may rest between them until the asking process looks; beside few it does not.
TEST_F(ShmAsk, TheOwnerOfManyPutsIsToldThatTheirEndIsAwaited) {
  constexpr uint64_t kEach = 1 << 10;
  uint64_t cookie = 0;
  for (const uint64_t many : {8, 20}) {
    const uint64_t first = cookie;
    for (uint64_t i = 0; i < many; i++)
      ASSERT_EQ(put(i * kEach, i * kEach, kEach, ++cookie), Status::pending);
    EXPECT_EQ(claim().awaited.load(), 0u);
    user.driver->poll(1, 64);
    EXPECT_EQ(claim().awaited.load(), many > 8 ? first + many : 0);
    ASSERT_TRUE(together(cookie));
    EXPECT_TRUE(equal(0, 0, many * kEach));
  }
}

// Those to what has arrived already, in the order of the asks.
TEST_F(ShmAsk, AnswersToShortGetsShareAFrame) {
  constexpr uint64_t kMany = 24, kLong = 4000;
  for (uint64_t i = 0; i < kMany * 256; i++) memory[i] = std::byte(i % 249);
  uint64_t cookie = 0;
  for (const uint64_t each : {1, 8, 250, 256, 257}) {
    std::vector<std::byte> to(kMany * each), longer(kLong);
    user.sink.dones.clear();
    const uint64_t first = cookie + 1;
    for (uint64_t i = 0; i < kMany; i++) {
      ASSERT_EQ(get(i * each, to.data() + i * each, each, ++cookie), Status::pending);
      if (i == 10) {
        ASSERT_EQ(get(0, longer.data(), kLong, ++cookie), Status::pending);
      }
      if (i == 12) {
        ASSERT_EQ(put(kBytes / 2, 0, 8, ++cookie), Status::pending);
      }
    }
    unsigned frames = 0;
    for (unsigned i = 0; i < kLooks && user.sink.dones.size() < kMany + 2; i++) {
      owner.driver->poll(1, 3 + i % 30);
      const size_t before = user.sink.dones.size();
      user.driver->poll(1, 1);
      frames += user.sink.dones.size() > before;
    }
    ASSERT_EQ(user.sink.dones.size(), kMany + 2);
    for (uint64_t i = first; i <= cookie; i++) EXPECT_EQ(status_of(i), Status::ok) << i;
    EXPECT_EQ(std::memcmp(to.data(), memory.data(), to.size()), 0) << each;
    EXPECT_EQ(std::memcmp(longer.data(), memory.data(), kLong), 0);
    if (each <= 8) {
      EXPECT_LT(frames, kMany / 2);
    }
    if (each > shm::kAnswersEach) {
      EXPECT_GE(frames, kMany);
    }
  }
}

// An export that ends between them: what was answered is whole, the rest is refused.
TEST_F(ShmAsk, SomeOfManyGetsAreRefused) {
  constexpr uint64_t kMany = 24;
  std::vector<uint64_t> to(kMany);
  for (uint64_t i = 0; i < kMany; i++) {
    const uint64_t value = i + 1;
    std::memcpy(memory.data() + 8 * i, &value, sizeof(value));
    ASSERT_EQ(get(8 * i, reinterpret_cast<std::byte*>(&to[i]), 8, i + 1), Status::pending);
  }
  owner.driver->poll(1, 10);
  owner.driver->dereg(region);
  for (uint64_t i = 1; i <= kMany; i++) ASSERT_TRUE(together(i));
  for (uint64_t i = 0; i < kMany; i++) {
    EXPECT_EQ(status_of(i + 1), i < 10 ? Status::ok : Status::invalid) << i;
    EXPECT_EQ(to[i], i < 10 ? i + 1 : 0);
  }
}

}  // namespace
}  // namespace torii::test
