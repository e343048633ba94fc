// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Guarded keys of shm: a full table, and a fork of the owner.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/base/log.h"
#include "drivers/shm/arena.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using test::Child;
using test::connect_to;
using test::End;
using test::open_shm_end;

constexpr uint32_t kAll = kRemoteRead | kRemoteWrite | kRemoteUpdate | kGuarded;

class ShmGuard : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(owner.driver && user.driver);
    if (!(owner.driver->caps().flags & kGuard)) GTEST_SKIP() << "no cross-memory attach here";
    set_log_level(LogLevel::error);
    peer = connect_to(user, owner.address());
    ASSERT_NE(peer, kNoPeer);
  }
  Status reg(Region* region) { return owner.driver->reg(memory, sizeof(memory), kAll, region); }
  Status import(const Region& region, uint32_t* remote) {
    return user.driver->import(peer, std::span(region.key).first(owner.driver->caps().key_bytes),
                               remote);
  }

  End owner{open_shm_end};
  End user{open_shm_end};
  PeerId peer = kNoPeer;
  char memory[64] = {};
};

TEST_F(ShmGuard, ATableThatIsFullIsNoMemory) {
  std::vector<Region> all(1);
  while (reg(&all.back()) == Status::ok) {
    ASSERT_LE(all.size(), size_t{shm::kArenaSlots});
    all.emplace_back();
  }
  all.pop_back();
  EXPECT_GE(all.size(), size_t{shm::kArenaSlots} - 1);
  Region one;
  EXPECT_EQ(reg(&one), Status::no_memory);
  uint32_t remote = 0;
  Reach reach;
  ASSERT_EQ(import(all.back(), &remote), Status::ok);
  EXPECT_EQ(user.driver->mapped_memory()->reach(remote, &reach), Status::ok)
      << "the last one is one like others";
  user.driver->drop(remote);
  owner.driver->dereg(all.back());
  all.pop_back();
  one.label = 77;
  ASSERT_EQ(reg(&one), Status::ok) << "a place that was given back";
  ASSERT_EQ(import(one, &remote), Status::ok);
  ASSERT_EQ(user.driver->mapped_memory()->reach(remote, &reach), Status::ok);
  EXPECT_EQ(reach.label, 77u);
  user.driver->drop(remote);
  owner.driver->dereg(one);
  for (Region& region : all) owner.driver->dereg(region);
}

// The end of a registration in the child is not the parent's.
TEST_F(ShmGuard, AForkedChildEndsNothing) {
  Region region;
  ASSERT_EQ(reg(&region), Status::ok);
  uint32_t remote = 0;
  Reach reach;
  ASSERT_EQ(import(region, &remote), Status::ok);
  Child child([&](Child& self) {
    self.wait_gate();
    Region copy = region;
    owner.driver->dereg(copy);
    return 0;
  });
  child.open_gate();
  EXPECT_EQ(child.finish(), 0);
  EXPECT_EQ(user.driver->mapped_memory()->reach(remote, &reach), Status::ok);
  EXPECT_EQ(reach.bytes, sizeof(memory));
  uint32_t again = 0;
  ASSERT_EQ(import(region, &again), Status::ok) << "the child ended it";
  user.driver->drop(again);
  owner.driver->dereg(region);
  EXPECT_NE(import(region, &again), Status::ok);
  user.driver->drop(remote);
}

}  // namespace
}  // namespace torii
