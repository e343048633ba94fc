// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/buffers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace torii {
namespace {

TEST(BuffersTest, EveryByteMayBeWritten) {
  Buffers buffers;
  for (size_t bytes : {0, 1, 15, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1}) {
    std::byte* const buffer = buffers.get(bytes);
    ASSERT_NE(buffer, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 16, 0u) << bytes;
    std::memset(buffer, 0x5a, bytes);
    buffers.put(buffer);
  }
}

TEST(BuffersTest, FreedMemoryServesTheNextOfItsSize) {
  Buffers buffers;
  std::byte* const first = buffers.get(50000);
  buffers.put(first);
  EXPECT_EQ(buffers.kept(), 65536u);
  EXPECT_EQ(buffers.get(65536), first);
  EXPECT_EQ(buffers.kept(), 0u);
  std::byte* const second = buffers.get(65536);
  EXPECT_NE(second, first);
  buffers.put(first);
  buffers.put(second);
  EXPECT_EQ(buffers.kept(), 2 * 65536u);
}

TEST(BuffersTest, WhatIsKeptIsBounded) {
  Buffers buffers;
  std::vector<std::byte*> all(100);
  for (std::byte*& buffer : all) buffer = buffers.get(1 << 20);
  for (std::byte* buffer : all) buffers.put(buffer);
  EXPECT_EQ(buffers.kept(), Buffers::kKeptMost);
}

TEST(BuffersTest, ShortAndVeryLongOnesAreNotKept) {
  Buffers buffers;
  for (size_t bytes : {64, 4095, 5 << 20}) buffers.put(buffers.get(bytes));
  buffers.put(nullptr);
  EXPECT_EQ(buffers.kept(), 0u);
}

TEST(BuffersTest, NoSumOverflows) {
  Buffers buffers;
  EXPECT_EQ(buffers.get(std::numeric_limits<size_t>::max()), nullptr);
}

}  // namespace
}  // namespace torii
