// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Freed memory is kept for the next call, within bounds. In the end it goes back to its driver.
#include "core/memory/allocations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

namespace torii {
namespace {

// Gives pages and counts them; carries no frames.
class Giver final : public Driver {
 public:
  ~Giver() override {
    for (void* base : given_) std::free(base);
  }
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte*) const override {}
  Status connect(std::span<const std::byte>, PeerId*, std::string*) override {
    return Status::unreachable;
  }
  void disconnect(PeerId) override {}
  size_t send(std::span<const Tx>) override { return 0; }
  unsigned poll(uint64_t, unsigned) override { return 0; }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    ++calls;
    alignment = std::max<uint64_t>(alignment, 4096);
    *base = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    given_.insert(*base);
    return Status::ok;
  }
  void dealloc(void* base) override {
    EXPECT_EQ(given_.erase(base), 1u) << "not a block of this driver";
    std::free(base);
  }
  size_t given() const { return given_.size(); }

  int calls = 0;

 private:
  DriverCaps caps_;
  std::set<void*> given_;
};

class AllocationsTest : public testing::Test {
 protected:
  AllocationsTest() {
    drivers_.push_back(std::make_unique<Giver>());
    allocations_ = std::make_unique<Allocations>(drivers_, registrations_, counters_);
  }
  Giver& giver() { return static_cast<Giver&>(*drivers_[0]); }
  void* take(uint64_t bytes, uint64_t alignment = 0) {
    void* base = nullptr;
    EXPECT_EQ(allocations_->alloc(bytes, alignment, &base), Status::ok);
    return base;
  }

  std::vector<std::unique_ptr<Driver>> drivers_;
  Counters counters_;
  Registrations registrations_{counters_};
  std::unique_ptr<Allocations> allocations_;
};

TEST_F(AllocationsTest, WhatWasFreedIsGivenAgain) {
  void* const first = take(20000);
  EXPECT_TRUE(allocations_->free(first));
  EXPECT_EQ(allocations_->bytes(first), 0u);
  EXPECT_EQ(take(20000), first);
  EXPECT_EQ(giver().calls, 1);
  EXPECT_EQ(allocations_->bytes(first), 20480u);
  EXPECT_TRUE(allocations_->free(first));
  EXPECT_FALSE(allocations_->free(first)) << "freed twice";
}

TEST_F(AllocationsTest, OnlyWhereItFits) {
  void* const first = take(64 << 10);
  allocations_->free(first);
  EXPECT_NE(take((64 << 10) + 1), first) << "it is too short";
  EXPECT_NE(take(32 << 10), first) << "half of it would be wasted";
  EXPECT_EQ(take(60 << 10), first);
  EXPECT_EQ(allocations_->bytes(first), uint64_t{64 << 10}) << "all of it belongs to the user";
}

TEST_F(AllocationsTest, OnlyWithTheAlignment) {
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(take(8192));
  for (void* at : all) allocations_->free(at);
  for (int i = 0; i < 8; ++i) {
    void* const at = take(8192, 1 << 16);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % (1 << 16), 0u);
  }
}

TEST_F(AllocationsTest, NoMoreIsKeptThanTheBounds) {
  std::vector<void*> all;
  for (int i = 0; i < 1000; ++i) all.push_back(take(8192));
  for (void* at : all) allocations_->free(at);
  EXPECT_LE(giver().given(), 64u) << "of short blocks";
  all.clear();
  for (int i = 0; i < 32; ++i) all.push_back(take(3 << 20));
  for (void* at : all) allocations_->free(at);
  EXPECT_LE(giver().given(), 5u) << "of 3 MiB each";
  void* const large = take(100 << 20);
  const size_t before = giver().given();
  allocations_->free(large);
  EXPECT_EQ(giver().given(), before - 1) << "a large one goes back at once";
}

TEST_F(AllocationsTest, AllIsGivenBackAtTheEnd) {
  allocations_->free(take(8192));
  EXPECT_EQ(giver().given(), 1u);
  allocations_.reset();
  EXPECT_EQ(giver().given(), 0u);
}

}  // namespace
}  // namespace torii
