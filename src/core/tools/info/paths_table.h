// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How messages travel by a driver, by their length: what the protocol chooses, for torii-info.
#pragma once

#include <string>
#include <vector>

#include "core/protocol/choice.h"

namespace torii {

// The state of a message and its peer, as far as it bears on the path.
struct Situation {
  const char* name;
  bool contiguous = true;  // the memory of the message
  bool credit = true;      // the peer has granted enough
  bool others = false;     // other messages are under way to it
  bool both_ways = false;  // and messages come from it
};
inline constexpr Situation kSituations[] = {
    {.name = "alone"},
    {.name = "beside others", .others = true},
    {.name = "both ways at once", .others = true, .both_ways = true},
    {.name = "in pieces", .contiguous = false},
    {.name = "without credit", .credit = false}};

// A range of lengths in which nothing changes: its first length, and the path in each situation.
struct PathRange {
  uint64_t from = 0;
  std::vector<std::string> paths;
};
// The ranges up to `most` bytes, shortest first.
std::vector<PathRange> path_ranges(const choice::Plan& plan, uint64_t most);

}  // namespace torii
