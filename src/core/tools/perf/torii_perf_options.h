// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The options that the user of torii-perf gave.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace torii::perf {

enum class Level : uint8_t { tagged, portals, memory, collective };
enum class Test : uint8_t {
  latency,
  bandwidth,
  bidirectional,
  rate,
  posted,
  unexpected,
  late,
  get_latency,
  get_bandwidth,
  exporting,
  importing,
  read_latency,
  read_bandwidth,
  write_latency,
  write_bandwidth,
  atomic_latency,
  atomic_rate,
  barrier,
  bcast,
  reduce,
  allreduce,
  allgather,
  alltoall,
};
enum class Format : uint8_t { table, csv, json };

const char* level_name(Level level);
const char* test_name(Test test);
// Gets are Portals operations, remote memory and groups have tests of their own; the others exist
// at two levels.
bool test_exists(Test test, Level level);

struct Options {
  std::vector<Level> levels;
  std::vector<Test> tests;
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 4 << 20;
  uint32_t depth_max = 100000;  // entries, posted and unexpected
  uint32_t window = 64;         // messages under way at once, bandwidth and rate
  uint32_t iterations = 0;      // 0: by message size
  uint32_t repetitions = 11;
  uint32_t fork = 0;  // processes to start; 0: not asked for
  Format format = Format::table;
  bool help = false;
  bool version = false;

  // A process that is its own partner can do all of it.
  bool alone() const {
    return std::all_of(levels.begin(), levels.end(), [](Level l) { return l == Level::memory; });
  }
  // 0 and the powers of two between min_bytes and max_bytes, and these two.
  std::vector<uint64_t> sizes() const;
  // 1, 10, 100 ... up to depth_max, which is the last.
  std::vector<uint32_t> depths() const;
};

extern const char kUsage[];

// False with one sentence in *why.
bool parse_options(int argc, const char* const* argv, Options* out, std::string* why);

}  // namespace torii::perf
