// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/info/paths_table.h"

#include <algorithm>

namespace torii {

namespace {

using choice::Load;
using choice::Move;
using choice::Payload;
using choice::Plan;
using choice::Recent;
using choice::Way;

// By what an announced payload comes to a target that is not silent.
std::string rendezvous(const Plan& plan, const Recent& recent, const Payload& payload) {
  choice::Target target;
  target.bytes = payload.bytes;
  target.key = choice::exports(plan, recent, payload, false, kRemoteRead);
  target.sooner = !payload.near;
  switch (choice::move(plan, target)) {
    case Move::read:
      return "rendezvous: get";
    case Move::frames_first:
      return "rendezvous: both copy";
    case Move::write:
      if (choice::exports(plan, recent, payload, false, kRemoteWrite)) return "rendezvous: put";
      break;
    case Move::frames:
      break;
  }
  return "rendezvous: frames";
}

std::string path(const Plan& plan, const Situation& situation, uint64_t bytes) {
  Payload payload;
  payload.bytes = bytes;
  payload.contiguous = situation.contiguous;
  Load load;
  load.credit = situation.credit ? kNoSize : 0;
  load.long_max = plan.long_max;
  load.announced = load.copied = situation.others;
  Recent recent;
  if (situation.both_ways) recent.met();
  switch (choice::put(plan, &recent, payload, load).way) {
    case Way::announced:
      return rendezvous(plan, recent, payload);
    case Way::lent:
      return "eager, lent";
    case Way::copied:
      return "eager, copied once";
    default:
      return bytes <= plan.small_max ? "one frame" : "eager";
  }
}

std::vector<std::string> paths_of(const Plan& plan, uint64_t bytes) {
  std::vector<std::string> paths;
  for (const Situation& situation : kSituations) paths.push_back(path(plan, situation, bytes));
  return paths;
}

// The ranges that begin after `low`, where nothing has been seen yet, and not after `high`.
void divide(const Plan& plan, uint64_t low, uint64_t high, std::vector<PathRange>* out) {
  std::vector<std::string> paths = paths_of(plan, high);
  if (paths == out->back().paths) return;
  if (high - low == 1) {
    out->push_back({high, std::move(paths)});
    return;
  }
  const uint64_t middle = low + (high - low) / 2;
  divide(plan, low, middle, out);
  divide(plan, middle, high, out);
}

}  // namespace

// Between two powers of two a path may change, but does not change and change back.
std::vector<PathRange> path_ranges(const Plan& plan, uint64_t most) {
  std::vector<PathRange> ranges = {{0, paths_of(plan, 0)}};
  uint64_t low = 0;
  for (uint64_t high = 1; low < most; high = std::min(high * 2, most)) {
    divide(plan, low, high, &ranges);
    low = high;
  }
  return ranges;
}

}  // namespace torii
