// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/tune/tune_rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "core/base/hardware.h"
#include "core/base/param.h"
#include "core/base/small_file.h"
#include "core/tools/perf/torii_perf_run.h"
#include "core/tools/tune/tune_choice.h"

namespace torii::tune {

using perf::Test;

namespace {

constexpr size_t kRoundsMin = 7;
constexpr size_t kRoundsMax = 2000;
constexpr double kSampleNs = 400e3;  // one measurement of one cell lasts about so long
// Messages of a window lie side by side, as a program's do, so that long ones come from memory.
constexpr uint64_t kWindowBytes = 4 << 20;
constexpr uint32_t kWindowMin = 2, kWindowMax = 64;
constexpr uint64_t kWarmBytes = 8 << 10;  // of a message, before all else
constexpr uint64_t kWarmTotal = 32 << 20;
constexpr uint64_t kFloorBytes = 8;

// Ticks that the hypervisor has taken from all processors since the machine started.
uint64_t stolen_ticks() {
  std::string text;
  if (!read_beginning("/proc/stat", 512, &text)) return 0;
  std::istringstream line(text);
  std::string word;
  uint64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  line >> word >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return line ? steal : 0;
}

// A guess that decides how often a message is sent, not what it is said to cost.
double guess_ns(uint64_t bytes) { return 400 + double(bytes) / 8; }

perf::Options options_for(const Cell& cell) {
  perf::Options options;
  options.window = uint32_t(std::clamp<uint64_t>(kWindowBytes / std::max<uint64_t>(cell.bytes, 1),
                                                 kWindowMin, kWindowMax));
  const double each = guess_ns(cell.bytes) * (perf::windowed(cell.test) ? options.window : 2);
  options.iterations = std::max(2u, uint32_t(kSampleNs / each));
  return options;
}

// One configuration, ready to be measured.
class Contender {
 public:
  Contender(perf::Job& first, const Configuration& configuration, uint64_t most_bytes)
      : job_((set_values(configuration.values), first)) {
    perf::ChannelOptions options;
    options.bytes = std::max(kWarmBytes, most_bytes);
    options.window = kWindowMax;
    options.spread = kWindowBytes;
    channel_ = perf::Channel::open(perf::Level::tagged, job_, options);
    job_.barrier();
    // Every line of the largest ring has been used, and is where it will be later.
    perf::Options warm;
    warm.window = kWindowMax;
    warm.iterations = uint32_t(kWarmTotal / kWarmBytes / kWindowMax);
    perf::Run(job_, warm, Test::bidirectional, kWarmBytes, *channel_).repetition();
  }
  ~Contender() {
    job_.barrier();
    channel_.reset();
    job_.barrier();
  }

  double sample(const Cell& cell) {
    return perf::Run(job_, options_for(cell), cell.test, cell.bytes, *channel_).repetition();
  }

 private:
  perf::Job job_;
  std::unique_ptr<perf::Channel> channel_;
};

}  // namespace

double Measured::log_ratio(size_t configuration, size_t reference, size_t cell) const {
  std::vector<double> logs;
  for (size_t r = 0; r < rounds; ++r)
    logs.push_back(std::log(ns[configuration][cell][r] / ns[reference][cell][r]));
  return quantile(std::move(logs), 0.5);
}

double Measured::bounded_log_ratio(size_t configuration, size_t reference, size_t cell) const {
  const double most = std::log(3);
  return std::clamp(log_ratio(configuration, reference, cell), -most, most);
}

double Measured::typical_ns(size_t configuration, size_t cell) const {
  return quantile(ns[configuration][cell], 0.25);
}

void set_values(const Values& values) {
  for (const auto& [name, value] : values) {
    std::string why;
    if (param_set(name, size_text(value), "torii-tune", &why) != Status::ok)
      perf::die("%s", why.c_str());
  }
}

Measured measure(perf::Job& job, const std::vector<Configuration>& configurations,
                 const std::vector<Cell>& cells, double seconds) {
  const uint64_t begin = perf::now_ns();
  uint64_t most = 0;
  for (const Cell& cell : cells) most = std::max(most, cell.bytes);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const Configuration& c : configurations)
    contenders.push_back(std::make_unique<Contender>(job, c, std::min(most, c.most)));

  Measured all;
  all.cells = cells;
  all.ns.assign(configurations.size(), std::vector<std::vector<double>>(cells.size()));
  std::vector<Round> rounds;
  for (bool more = true; more;) {
    Round round;
    const uint64_t stolen = stolen_ticks();
    round.floor_ns = contenders[0]->sample({Test::latency, kFloorBytes});
    for (size_t k = 0; k < cells.size(); ++k)
      for (size_t i = 0; i < configurations.size(); ++i) {
        const size_t c = (i + rounds.size()) % configurations.size();  // each is first in turn
        if (cells[k].bytes >= configurations[c].least && cells[k].bytes <= configurations[c].most)
          all.ns[c][k].push_back(contenders[c]->sample(cells[k]));
      }
    round.stolen_ticks = stolen_ticks() - stolen;
    rounds.push_back(round);
    const bool time_left = double(perf::now_ns() - begin) < seconds * 1e9;
    more = rounds.size() < kRoundsMin || (rounds.size() < kRoundsMax && time_left);
    // The clocks of two processes may disagree about that.
    more = job.slowest(job.rank() == 0 && more ? 1 : 0) > 0;
  }

  const std::vector<bool> good = rounds_that_count(rounds, &all.noisy);
  for (auto& configuration : all.ns)
    for (std::vector<double>& values : configuration) {
      if (values.empty()) continue;
      std::vector<double> kept;
      for (size_t r = 0; r < rounds.size(); ++r)
        if (good[r]) kept.push_back(values[r]);
      values = std::move(kept);
    }
  all.rounds = size_t(std::count(good.begin(), good.end(), true));
  all.discarded = rounds.size() - all.rounds;
  return all;
}

}  // namespace torii::tune
