// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How messages travel by a driver, by their length: what the protocol chooses, for torii-info.
#pragma once

#include <string>
#include <vector>

#include "core/protocol/choice.h"

namespace torii {

// One situation, and what it means for a message of that length.
struct Situation {
  const char* name;
  std::string (*path)(const choice::Plan& plan, uint64_t bytes);
};
std::vector<Situation> situations();

// A range of lengths in which nothing changes: its first length, and the path in each situation.
struct PathRange {
  uint64_t from = 0;
  std::vector<std::string> paths;
};
// The ranges up to `most` bytes, shortest first.
std::vector<PathRange> path_ranges(const choice::Plan& plan, uint64_t most);

}  // namespace torii
