// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Results as they come: tables for people, CSV or JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tools/perf/torii_perf_options.h"

namespace torii::perf {

// One figure, measured several times. Times are of one message, of the slowest pair.
struct Figure {
  Level level = Level::tagged;
  Test test = Test::latency;
  const char* kind = "";    // of queue entries
  uint32_t depth = 0;       // queue entries, with those measured
  uint64_t bytes = 0;       // of a message
  uint32_t directions = 1;  // 2: messages flow both ways
  uint32_t pairs = 1;
  std::vector<double> ns;  // one for every repetition, sorted
};

class Report {
 public:
  // `show` is false in all processes but one: it says nothing there.
  Report(Format format, bool show) : format_(format), show_(show) {}

  // Says before all else who is measured and how; `path` leads to this process's partner.
  void begin(uint32_t processes, const std::string& launcher, const std::string& host,
             const std::string& path, uint32_t repetitions);
  void add(const Figure& figure);
  void end();

 private:
  void table_row(const Figure& f);

  Format format_;
  bool show_;
  bool first_ = true;
  Level last_level_ = Level::tagged;
  Test last_test_ = Test::latency;
  double shortest_queue_ns_ = 0;  // the median with one entry, of this kind
};

}  // namespace torii::perf
