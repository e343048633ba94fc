// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Copies of every length around those where another way of copying begins, from and to places of
// every alignment: all bytes arrive, and none beside them is touched.
#include "core/base/copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace torii {
namespace {

constexpr size_t kMargin = 64;
constexpr uint8_t kUntouched = 0xee;

void check(size_t n, size_t from_at, size_t to_at) {
  std::vector<uint8_t> from(n + 2 * kMargin), to(n + 3 * kMargin, kUntouched);
  for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 7 + i / 251);
  copy_bytes(to.data() + kMargin + to_at, from.data() + from_at, n);
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t k = i - kMargin - to_at;
    const uint8_t expected = i >= kMargin + to_at && k < n ? from[from_at + k] : kUntouched;
    ASSERT_EQ(to[i], expected) << n << " bytes from " << from_at << " to " << to_at << ": byte "
                               << i;
  }
}

TEST(Copy, OfEveryShortLength) {
  for (size_t n = 0; n <= 300; ++n) check(n, n % 5, n % 7);
}

TEST(Copy, OfLengthsAroundALongOne) {
  for (size_t n = kLongCopy - 130; n <= kLongCopy + 260; ++n) check(n, n % 32, n % 37);
}

TEST(Copy, OfEveryAlignment) {
  for (size_t from = 0; from < 64; from += 3)
    for (size_t to = 0; to < 64; ++to) check(kLongCopy + from + to, from, to);
}

TEST(Copy, OfLengthsAroundTheLongest) {
  for (const size_t n : {size_t{1} << 20, (size_t{1} << 20) + 1, (size_t{3} << 20) + 5})
    check(n, 3, 40);
}

}  // namespace
}  // namespace torii
