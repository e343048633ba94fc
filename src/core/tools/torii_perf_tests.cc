// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/torii_perf_tests.h"

#include <time.h>

#include <algorithm>

#include "core/tools/torii_perf_channel.h"

namespace torii::perf {

namespace {

constexpr uint64_t kRateBytesMax = 8192;  // beyond, bandwidth tells more
constexpr uint32_t kMessages = 1000;      // round trips of a repetition, for short messages
constexpr uint32_t kMessagesMin = 10;
constexpr uint32_t kWindows = 20;
constexpr uint32_t kWindowsMin = 2;
constexpr uint64_t kRoundBytes = 8 << 20;  // bytes of a repetition, for long messages
constexpr uint64_t kWindowedBytes = 64 << 20;

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

uint32_t scaled(uint64_t budget, uint64_t bytes, uint32_t least, uint32_t most) {
  return uint32_t(std::clamp<uint64_t>(budget / std::max<uint64_t>(bytes, 1), least, most));
}

bool windowed(Test test) {
  return test == Test::bandwidth || test == Test::bidirectional || test == Test::rate ||
         test == Test::get_bandwidth;
}

// One figure on one channel.
class Run {
 public:
  Run(Job& job, const Options& options, Test test, uint64_t bytes, Channel& channel)
      : job_(job), channel_(channel), test_(test), bytes_(bytes) {
    window_ = windowed(test) ? options.window : 1;
    rounds_ = options.iterations;
    if (rounds_ == 0)
      rounds_ = windowed(test) ? scaled(kWindowedBytes, bytes * window_, kWindowsMin, kWindows)
                               : scaled(kRoundBytes, bytes, kMessagesMin, kMessages);
  }

  // ns of one message, of the slowest pair.
  double repetition() {
    prepare();
    job_.barrier();
    const uint64_t start = now_ns();
    switch (test_) {
      case Test::bandwidth:
      case Test::rate:
        stream();
        break;
      case Test::bidirectional:
        exchange();
        break;
      case Test::get_latency:
      case Test::get_bandwidth:
        fetch();
        break;
      default:
        bounce();
    }
    const double ns = double(now_ns() - start);
    settle();
    const double each = ns / rounds_ / window_ / (bounces() ? 2 : 1);
    return job_.slowest(job_.leads() ? each : 0);
  }

 private:
  bool bounces() const { return !windowed(test_) && test_ != Test::get_latency; }
  bool gets() const { return test_ == Test::get_latency || test_ == Test::get_bandwidth; }
  bool two_way() const { return bounces() || test_ == Test::bidirectional; }
  // Windows that arrive at the other end are answered to this one.
  bool answered() const {
    return test_ == Test::bidirectional || (windowed(test_) && !gets() && job_.leads());
  }

  // What the first messages of the other end will find.
  void prepare() {
    if (two_way() || (!gets() && !job_.leads())) channel_.expect(Lane::data, window_, bytes_);
    channel_.expect(Lane::answer, answered() ? 2 : 1, 0);
  }

  void bounce() {
    for (uint32_t i = 0; i < rounds_; ++i) {
      const bool more = i + 1 < rounds_;
      if (job_.leads()) channel_.send(Lane::data, 1, bytes_);
      channel_.await(Lane::data, 1);
      if (more) channel_.expect(Lane::data, 1, bytes_);
      if (!job_.leads()) channel_.send(Lane::data, 1, bytes_);
      channel_.finish_sends();
    }
  }

  void stream() {
    for (uint32_t i = 0; i < rounds_; ++i) {
      const bool more = i + 1 < rounds_;
      if (job_.leads()) {
        channel_.send(Lane::data, window_, bytes_);
        channel_.finish_sends();
        channel_.await(Lane::answer, 1);
        if (more) channel_.expect(Lane::answer, 1, 0);
      } else {
        channel_.await(Lane::data, window_);
        if (more) channel_.expect(Lane::data, window_, bytes_);
        channel_.send(Lane::answer, 1, 0);
        channel_.finish_sends();
      }
    }
  }

  void exchange() {
    for (uint32_t i = 0; i < rounds_; ++i) {
      const bool more = i + 1 < rounds_;
      channel_.send(Lane::data, window_, bytes_);
      channel_.finish_sends();
      channel_.await(Lane::data, window_);
      if (more) channel_.expect(Lane::data, window_, bytes_);
      channel_.send(Lane::answer, 1, 0);
      channel_.await(Lane::answer, 1);
      if (more) channel_.expect(Lane::answer, 1, 0);
      channel_.finish_sends();
    }
  }

  void fetch() {
    if (!job_.leads()) return;
    for (uint32_t i = 0; i < rounds_; ++i) channel_.get(window_, bytes_);
  }

  // After the clock was read: both ends are through with this repetition.
  void settle() {
    channel_.send(Lane::answer, 1, 0);
    channel_.await(Lane::answer, 1);
    channel_.finish_sends();
  }

  Job& job_;
  Channel& channel_;
  Test test_;
  uint64_t bytes_;
  uint32_t window_ = 1;
  uint32_t rounds_ = 1;
};

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
  if (test != Test::posted && test != Test::unexpected)
    return measure_sizes(job, options, figure, report);
  for (unsigned kind = 0; kind < kKinds; ++kind)
    measure_queue(job, options, figure, Kind(kind), report);
}

}  // namespace torii::perf
