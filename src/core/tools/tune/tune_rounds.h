// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Measures several configurations of the library against each other: each has an interface of its
// own between the same two processes, and they take turns every few hundred microseconds, so that
// what the machine does meanwhile happens to all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/perf/torii_perf_job.h"
#include "core/tools/perf/torii_perf_options.h"

namespace torii::tune {

// Values of parameters; their names must live as long as the program.
using Values = std::vector<std::pair<const char*, uint64_t>>;

struct Configuration {
  Values values;
  uint64_t least = 0;  // sizes outside are not measured
  uint64_t most = ~uint64_t{0};
};

struct Cell {
  perf::Test test;
  uint64_t bytes;
};

struct Measured {
  std::vector<Cell> cells;
  // ns of one message: by configuration, cell, and round that counts. No rounds: outside.
  std::vector<std::vector<std::vector<double>>> ns;
  size_t rounds = 0;     // that count
  size_t discarded = 0;  // others
  bool noisy = false;    // too many had to be discarded: all count

  bool has(size_t configuration, size_t cell) const { return !ns[configuration][cell].empty(); }
  // The median over the rounds of the logarithm of the ratio of two configurations' times.
  double log_ratio(size_t configuration, size_t reference, size_t cell) const;
  // The same, but at most a factor of 3: that decides, and what is more may be an accident.
  double bounded_log_ratio(size_t configuration, size_t reference, size_t cell) const;
  // The lower quartile of the times.
  double typical_ns(size_t configuration, size_t cell) const;
};

// Gives parameters values; those not named keep theirs. Values of 0 are automatic.
void set_values(const Values& values);

// Collective: both processes call it with equal arguments. For about that many seconds, and 7
// rounds at least. Leaves the parameters changed.
Measured measure(perf::Job& job, const std::vector<Configuration>& configurations,
                 const std::vector<Cell>& cells, double seconds);

}  // namespace torii::tune
