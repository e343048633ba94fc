// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A process whose memory others put to and get from by asking it, and one that asks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/random.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "unit/shm/shm_kit.h"

namespace torii::test {

inline constexpr uint32_t kAll = kRemoteRead | kRemoteWrite | kRemoteUpdate | kGuarded;
inline constexpr size_t kBytes = 3 << 20;
inline constexpr unsigned kLooks = 1000;  // more than anybody's patience

// Holds for drivers that are opened from now on; 0: as fits the machine.
inline void set_points(const char* ask_alone_most) {
  std::string why;
  ASSERT_EQ(param_set("shm_ask_alone_most", ask_alone_most, "test", &why), Status::ok) << why;
}

class ShmAsk : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { set_points("1g"); }
  static void TearDownTestSuite() { set_points("0"); }
  void SetUp() override {
    ASSERT_TRUE(owner.driver && user.driver);
    if (!(owner.driver->caps().flags & kGuard)) GTEST_SKIP() << "no cross-memory attach here";
    std::string why;
    ASSERT_EQ(shm::open_segment(parse(owner.address()), parse(user.address()), &segment, &why),
              Status::ok);
    if (segment.header().needs_fence) GTEST_SKIP() << "no membarrier here: nobody is asked";
    set_log_level(LogLevel::error);
    for (size_t i = 0; i < kBytes; i++) local[i] = std::byte(i * 7 % 251);
    peer = connect_to(user, owner.address());
    ASSERT_NE(peer, kNoPeer);
    ASSERT_EQ(owner.driver->reg(memory.data(), kBytes, kAll, &region), Status::ok);
    ASSERT_EQ(user.driver->import(peer, std::span(region.key).first(owner.driver->caps().key_bytes),
                                  &remote),
              Status::ok);
    user.driver->poll(1, 64);
    owner.driver->poll(1, 64);
  }
  void TearDown() override { set_log_level(LogLevel::warning); }

  // From another owner, which sends its key.
  void import_what_comes() {
    ASSERT_TRUE(test::poll_until(user, [&] { return !user.sink.packets.empty(); }));
    const auto packet = user.sink.packets.front();
    peer = packet.from;
    std::vector<std::byte> key(packet.bytes.size());
    std::memcpy(key.data(), packet.bytes.data(), key.size());
    ASSERT_EQ(user.driver->import(peer, key, &remote), Status::ok);
    test::send_surely(user, peer, "hello");
  }

  Status put(uint64_t offset, uint64_t from, uint64_t bytes, uint64_t cookie) {
    const iovec piece{local.data() + from, bytes};
    return user.driver->put({peer, remote, offset, &piece, 1, bytes, cookie, false});
  }
  Status get(uint64_t offset, std::byte* to, uint64_t bytes, uint64_t cookie) {
    const iovec piece{to, bytes};
    return user.driver->get({peer, remote, offset, &piece, 1, bytes, cookie, false});
  }
  Status add(uint64_t offset, uint8_t width, uint64_t operand, uint64_t* old, uint64_t cookie) {
    return user.driver->atomic(
        {peer, remote, offset, AtomicOp::add, width, operand, 0, old, cookie});
  }
  // `pending`: not done yet.
  Status status_of(uint64_t cookie) const {
    for (const auto& one : user.sink.dones)
      if (one.cookie == cookie) return one.status;
    return Status::pending;
  }
  bool done(uint64_t cookie) const { return status_of(cookie) != Status::pending; }
  // Both look, for as long as that takes.
  bool together(uint64_t cookie) {
    for (unsigned i = 0; i < kLooks && !done(cookie); i++) {
      owner.driver->poll(1, 64);
      user.driver->poll(1, 64);
    }
    return done(cookie);
  }
  bool alone(uint64_t cookie) {
    for (unsigned i = 0; i < kLooks && !done(cookie); i++) user.driver->poll(1, 64);
    return done(cookie);
  }
  bool equal(uint64_t offset, uint64_t from, uint64_t bytes) const {
    return std::memcmp(memory.data() + offset, local.data() + from, bytes) == 0;
  }
  shm::Claim& claim() { return segment.claim(0); }

  // More operations than there are places, of all sizes, some while the owner is away.
  void many_at_a_time() {
    for (uint64_t seed = 1; seed <= 20; seed++) {
      Random random(seed);
      struct Get {
        std::vector<std::byte> to;
        uint64_t offset;
      };
      std::map<uint64_t, Get> gets;
      std::vector<std::byte> expected(kBytes);
      std::fill(memory.begin(), memory.end(), std::byte{});
      user.sink.dones.clear();
      uint64_t offset = 0, pending = 0;
      for (uint64_t cookie = 1; cookie <= 300; cookie++) {
        const uint64_t bytes = random.between(1, random.chance(200000) ? 80000 : 300);
        if (offset + bytes > kBytes / 2) break;
        Status status;
        if (random.chance(500000)) {  // the first half is put to, the second got from
          while ((status = put(offset, bytes, bytes, cookie)) == Status::again) {
            user.driver->poll(1, 64);
            if (random.chance(300000)) owner.driver->poll(1, 3);
          }
          std::memcpy(expected.data() + offset, local.data() + bytes, bytes);
          offset += bytes;
        } else {
          Get& g = gets[cookie];
          g.to.resize(bytes);
          g.offset = kBytes / 2 + offset;
          std::memset(memory.data() + g.offset, int(cookie % 200) + 1, 1);
          std::memset(expected.data() + g.offset, int(cookie % 200) + 1, 1);
          offset += bytes;
          while ((status = get(g.offset, g.to.data(), bytes, cookie)) == Status::again) {
            user.driver->poll(1, 64);
            if (random.chance(300000)) owner.driver->poll(1, 3);
          }
        }
        ASSERT_TRUE(status == Status::ok || status == Status::pending) << status_text(status);
        pending += status == Status::pending;
        if (random.chance(100000)) user.driver->poll(1, 64);
        if (random.chance(50000)) owner.driver->poll(1, 64);
        if (random.chance(10000))
          for (unsigned i = 0; i < kLooks; i++) user.driver->poll(1, 64);
      }
      for (unsigned i = 0; i < 100 * kLooks && user.sink.dones.size() < pending; i++) {
        user.driver->poll(1, 64);
        if (seed % 2) owner.driver->poll(1, 64);
      }
      ASSERT_EQ(user.sink.dones.size(), pending) << "seed " << seed;
      for (int i = 0; i < 200; i++) owner.driver->poll(1, 64);
      for (const auto& [cookie, status] : user.sink.dones) EXPECT_EQ(status, Status::ok) << cookie;
      EXPECT_TRUE(memory == expected) << "seed " << seed;
      for (const auto& [cookie, g] : gets)
        EXPECT_EQ(g.to[0], expected[g.offset]) << "seed " << seed << " get " << cookie;
    }
  }

  End owner{open_shm_end};
  End user{open_shm_end};
  shm::Segment segment;  // the owner's
  PeerId peer = kNoPeer;
  Region region;
  uint32_t remote = 0;
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  std::vector<std::byte> local = std::vector<std::byte>(kBytes);
};

}  // namespace torii::test
