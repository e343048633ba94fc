// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_tests.h"

#include <algorithm>

#include "core/tools/perf/torii_perf_channel.h"
#include "core/tools/perf/torii_perf_collective.h"
#include "core/tools/perf/torii_perf_memory.h"
#include "core/tools/perf/torii_perf_run.h"

namespace torii::perf {

namespace {

constexpr uint64_t kRateBytesMax = 8192;  // beyond, bandwidth tells more

void measure(Job& job, const Options& options, Figure figure, Channel& channel, Report& report) {
  Run run(job, options, figure.test, figure.bytes, channel);
  run.repetition();  // to warm up
  for (uint32_t i = 0; i < options.repetitions; ++i) figure.ns.push_back(run.repetition());
  std::sort(figure.ns.begin(), figure.ns.end());
  figure.pairs = job.pairs();
  report.add(figure);
}

void measure_sizes(Job& job, const Options& options, Figure figure, Report& report) {
  ChannelOptions o;
  o.bytes = options.max_bytes;
  o.window = options.window;
  o.unexpected = figure.test == Test::late;
  {
    const auto channel = Channel::open(figure.level, job, o);
    job.barrier();
    for (uint64_t bytes : options.sizes()) {
      if (figure.test == Test::rate && bytes > std::max(kRateBytesMax, options.min_bytes)) break;
      figure.bytes = bytes;
      measure(job, options, figure, *channel, report);
    }
    job.barrier();
  }
  job.barrier();
}

void measure_queue(Job& job, const Options& options, Figure figure, Kind kind, Report& report) {
  ChannelOptions o;
  o.bytes = figure.bytes = options.min_bytes;
  o.kind = kind;
  o.unexpected = figure.test == Test::unexpected;
  figure.kind = kind_name(kind);
  for (uint32_t depth : options.depths()) {
    (o.unexpected ? o.strangers : o.posted) = depth - 1;
    {
      const auto channel = Channel::open(figure.level, job, o);
      job.barrier();
      if (o.unexpected) {
        channel->expect(Lane::answer, 1, 0);
        channel->send_strangers(o.strangers);
        channel->send(Lane::answer, 1, 0);
        channel->await(Lane::answer, 1);  // behind the other end's strangers
      }
      figure.depth = depth;
      measure(job, options, figure, *channel, report);
      job.barrier();
    }
    job.barrier();
  }
}

}  // namespace

void run_test(Job& job, const Options& options, Level level, Test test, Report& report) {
  Figure figure;
  figure.level = level;
  figure.test = test;
  figure.directions = test == Test::bidirectional ? 2 : 1;
  if (level == Level::memory) return run_memory_test(job, options, figure, report);
  if (level == Level::collective) return run_collective_test(job, options, figure, report);
  if (test != Test::posted && test != Test::unexpected)
    return measure_sizes(job, options, figure, report);
  for (unsigned kind = 0; kind < kKinds; ++kind)
    measure_queue(job, options, figure, Kind(kind), report);
}

}  // namespace torii::perf
