// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/tune/tune_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace torii::tune {

namespace {

constexpr double kOddFloor = 1.5;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Is that way possible at any size?
bool measured(const std::vector<SizeCost>& costs, Way way) {
  return std::any_of(costs.begin(), costs.end(),
                     [&](const SizeCost& c) { return std::isfinite(c.cost[size_t(way)]); });
}

}  // namespace

Way way_of(const Switches& switches, uint64_t bytes) {
  if (bytes <= switches.eager_limit) return Way::eager;
  if (bytes < switches.remote_min) return Way::ring;
  return bytes < switches.split_min ? Way::attach : Way::both;
}

double mean_cost(const Switches& switches, const std::vector<SizeCost>& costs) {
  double sum = 0;
  for (const SizeCost& c : costs) {
    double cost = c.cost[size_t(way_of(switches, c.bytes))];
    // Below the size from which it was measured, shared work is work of one.
    if (!std::isfinite(cost) && way_of(switches, c.bytes) == Way::both)
      cost = c.cost[size_t(Way::attach)];
    sum += cost;
  }
  return costs.empty() ? 0 : sum / double(costs.size());
}

Switches choose_switches(const std::vector<SizeCost>& costs, const Switches& now,
                         uint64_t remote_most, double indifference) {
  const bool attach = measured(costs, Way::attach);
  Switches best = now;
  double least = kImpossible;
  for (const SizeCost& eager : costs) {
    for (const SizeCost& remote : costs) {
      if (attach && remote.bytes > remote_most) continue;
      for (size_t i = 0; i <= costs.size(); ++i) {
        Switches one{eager.bytes, attach ? remote.bytes : now.remote_min, now.split_min};
        if (attach) one.split_min = i < costs.size() ? costs[i].bytes : kNever;
        if (!attach) one.remote_min = kNever;
        const double cost = mean_cost(one, costs);
        if (cost < least) {
          least = cost;
          best = one;
        }
      }
    }
  }
  if (!attach) {  // without it they make no difference
    best.remote_min = now.remote_min;
    best.split_min = now.split_min;
  }
  Switches judged = now;
  if (!attach) judged.remote_min = kNever;
  const double present = mean_cost(judged, costs);
  const bool allowed = !attach || now.remote_min <= remote_most;
  return allowed && present <= least + indifference ? now : best;
}

size_t choose_size(const std::vector<double>& costs, size_t now, double indifference) {
  const double least = *std::min_element(costs.begin(), costs.end());
  if (now < costs.size() && costs[now] <= least + indifference) return now;
  size_t i = 0;
  while (costs[i] > least + indifference) ++i;
  return i;
}

std::vector<bool> rounds_that_count(const std::vector<Round>& rounds, bool* noisy) {
  std::vector<double> floors;
  for (const Round& round : rounds) floors.push_back(round.floor_ns);
  const double typical = floors.empty() ? 0 : quantile(floors, 0.5);
  std::vector<bool> good;
  size_t count = 0;
  for (const Round& round : rounds) {
    good.push_back(round.stolen_ticks == 0 && round.floor_ns <= typical * kOddFloor &&
                   round.floor_ns * kOddFloor >= typical);
    count += good.back();
  }
  *noisy = count * 3 < rounds.size();
  if (*noisy) good.assign(rounds.size(), true);
  return good;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * double(values.size() - 1);
  const auto below = size_t(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - double(below)) * (values[above] - values[below]);
}

}  // namespace torii::tune
