// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/info/paths_table.h"

#include <gtest/gtest.h>

namespace torii {
namespace {

class AdvisedTable : public Advice {};

choice::Plan plan_for_table(uint32_t flags) {
  AdvisedTable advice;
  advice.remote_min = 4000;
  advice.read_alone_min = 6000;
  advice.read_crossing_min = 5000;
  advice.sent_below = 20000;
  DriverCaps caps;
  caps.flags = flags;
  caps.mtu = caps.inline_max = 1024;
  caps.eager_advice = 10000;
  return choice::make_plan(caps, &advice, 0, 1 << 20);
}

// Each range begins where something changes.
TEST(PathsTable, SaysWhatIsChosen) {
  const auto ranges = path_ranges(plan_for_table(kGet), 1 << 20);
  ASSERT_GE(ranges.size(), 4u);
  EXPECT_EQ(ranges[0].from, 0u);
  EXPECT_EQ(ranges[0].paths.size(), std::size(kSituations));
  const auto alone = [&](uint64_t bytes) {
    const PathRange* of = nullptr;
    for (const PathRange& range : ranges)
      if (range.from <= bytes) of = &range;
    return of->paths[0];
  };
  EXPECT_EQ(alone(0), "one frame");
  EXPECT_EQ(alone(5999), "eager");
  EXPECT_EQ(alone(6000), "rendezvous: both copy");
  EXPECT_EQ(alone(19999), "rendezvous: both copy");
  EXPECT_EQ(alone(20000), "rendezvous: get");
  for (size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_GT(ranges[i].from, ranges[i - 1].from);
    EXPECT_NE(ranges[i].paths, ranges[i - 1].paths);
  }
  EXPECT_EQ(path_ranges(plan_for_table(kPut), 1 << 20).back().paths[0], "rendezvous: put");
  EXPECT_EQ(path_ranges(plan_for_table(0), 1 << 20).back().paths[0], "rendezvous: frames");
}

}  // namespace
}  // namespace torii
