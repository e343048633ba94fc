// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// From what was measured to values of the switch points. Nothing here measures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace torii::tune {

// How a message between two processes of a node goes.
enum class Way : uint8_t {
  eager,   // with its header, through the ring
  ring,    // announced, then through the ring
  attach,  // announced, then read by cross-memory attach
  both,    // the same, by both processes
};
inline constexpr size_t kWays = 4;
inline constexpr uint64_t kNever = 1ull << 40;  // as a least size

struct Switches {
  uint64_t eager_limit = 0;
  uint64_t remote_min = 0;
  uint64_t split_min = 0;
  bool operator==(const Switches&) const = default;
};
Way way_of(const Switches& switches, uint64_t bytes);

// The cost of a size by each path: the mean over all figures of the logarithm of the time, up to a
// constant of the size. Infinite: not possible, or not measured.
struct SizeCost {
  uint64_t bytes = 0;
  std::array<double, kWays> cost{};
};

double mean_cost(const Switches& switches, const std::vector<SizeCost>& costs);

// The best switches at the sizes measured; those in force if they are as good but for
// `indifference`. A message of `remote_most` or more goes by cross-memory attach in any case, if
// that was measured: copies through the ring would use both processes' caches and time.
Switches choose_switches(const std::vector<SizeCost>& costs, const Switches& now,
                         uint64_t remote_most, double indifference);

// The cheapest of several sizes of a ring (ascending; the same kind of cost); of those that are
// as good as the cheapest but for `indifference` the one in force, or else the smallest.
size_t choose_size(const std::vector<double>& costs, size_t now, double indifference);

// A round of measurements, and what is known of the machine during it.
struct Round {
  uint64_t stolen_ticks = 0;  // that the hypervisor took
  double floor_ns = 0;        // of the shortest message
};
// Which rounds count: those without stolen time whose floor is not more than 1.5 times off the
// median. All of them if fewer than a third would; then *noisy is set.
std::vector<bool> rounds_that_count(const std::vector<Round>& rounds, bool* noisy);

// The quantile q (0.5: the median) of values, of which there is one at least.
double quantile(std::vector<double> values, double q);

}  // namespace torii::tune
