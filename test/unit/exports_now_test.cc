// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Reads and writes of remote memory that are over when the call returns, or are not begun.
#include <algorithm>
#include <cstring>
#include <vector>

#include "unit/exports_kit.h"

namespace torii {
namespace {

using test::kBytes;
using test::kNetworks;
using test::Memory;
using test::Network;
using test::Pair;
using test::pattern;

// The short ways do all or nothing, at once.
TEST_P(Memory, WhatIsOverInTheCall) {
  const Network& n = GetParam();
  Pair p(n);
  const bool at_once = n.mapped || ((n.flags & kGuard) && !n.pending);
  for (const size_t bytes : {1ul, 4ul, 8ul, 100ul, 1024ul}) {
    const auto data = pattern(bytes, unsigned(bytes));
    std::memset(p.memory, '.', p.size);
    const bool written = at_once && (n.mapped || (n.flags & kPut));
    ASSERT_EQ(torii_write_now(p.import, 8, data.data(), bytes), written ? TORII_OK : TORII_EMPTY);
    EXPECT_EQ(std::equal(data.begin(), data.end() - 1, p.bytes() + 8), written);
    EXPECT_EQ(p.bytes()[7], '.');
    EXPECT_EQ(p.bytes()[8 + bytes], '.');
    std::memcpy(p.bytes() + 8, data.data(), bytes);
    std::vector<uint8_t> back(bytes + 1, 0xee);
    const bool read = at_once && (n.mapped || (n.flags & kGet));
    ASSERT_EQ(torii_read_now(p.import, 8, back.data(), bytes), read ? TORII_OK : TORII_EMPTY);
    EXPECT_EQ(std::equal(data.begin(), data.end() - 1, back.begin()), read);
    EXPECT_EQ(back[bytes], 0xee);
  }
  char word[8] = "1234567";
  std::memset(p.memory, '.', p.size);
  EXPECT_EQ(torii_write_now(p.import, kBytes - 4, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_write_now(p.import, ~uint64_t{0} - 3, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_read_now(p.import, kBytes - 4, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_write_now(nullptr, 0, word, 8), TORII_EMPTY);
  EXPECT_EQ(torii_read_now(p.import, 0, nullptr, 8), TORII_EMPTY);
  EXPECT_EQ(p.bytes()[kBytes - 1], '.');
  EXPECT_STREQ(word, "1234567");
  ASSERT_EQ(p.unexport(), TORII_OK);
  EXPECT_EQ(torii_write_now(p.import, 0, word, 8), TORII_EMPTY) << "the export has ended";
  EXPECT_EQ(p.bytes()[0], '.');
  EXPECT_EQ(p.counters(1).exports_refused, 0u) << "nobody was asked";
}

TEST_P(Memory, RightsHoldForWhatIsOverInTheCall) {
  char word[8] = "1234567";
  Pair reads(GetParam(), TORII_MAY_READ);
  EXPECT_EQ(torii_write_now(reads.import, 0, word, 8), TORII_EMPTY);
  EXPECT_EQ(reads.bytes()[0], '.');
  Pair writes(GetParam(), TORII_MAY_WRITE);
  EXPECT_EQ(torii_read_now(writes.import, 0, word, 8), TORII_EMPTY);
  EXPECT_STREQ(word, "1234567");
}
INSTANTIATE_TEST_SUITE_P(Networks, Memory, testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace torii
