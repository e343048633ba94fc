// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_run.h"

#include <time.h>

#include <algorithm>

namespace torii::perf {

namespace {

constexpr uint32_t kMessages = 1000;  // round trips of a repetition, for short messages
constexpr uint32_t kMessagesMin = 10;
constexpr uint32_t kWindows = 20;
constexpr uint32_t kWindowsMin = 2;
constexpr uint64_t kRoundBytes = 8 << 20;  // bytes of a repetition, for long messages
constexpr uint64_t kWindowedBytes = 64 << 20;

uint32_t scaled(uint64_t budget, uint64_t bytes, uint32_t least, uint32_t most) {
  return uint32_t(std::clamp<uint64_t>(budget / std::max<uint64_t>(bytes, 1), least, most));
}

}  // namespace

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

bool windowed(Test test) {
  return test == Test::bandwidth || test == Test::bidirectional || test == Test::rate ||
         test == Test::get_bandwidth || test == Test::read_bandwidth ||
         test == Test::write_bandwidth || test == Test::atomic_rate;
}

Amount::Amount(const Options& options, Test test, uint64_t bytes)
    : window(windowed(test) ? options.window : 1), rounds(options.iterations) {
  if (rounds == 0)
    rounds = windowed(test) ? scaled(kWindowedBytes, bytes * window, kWindowsMin, kWindows)
                            : scaled(kRoundBytes, bytes, kMessagesMin, kMessages);
}

Run::Run(Job& job, const Options& options, Test test, uint64_t bytes, Channel& channel)
    : job_(job), channel_(channel), test_(test), bytes_(bytes) {
  const Amount amount(options, test, bytes);
  window_ = amount.window;
  rounds_ = amount.rounds;
}

double Run::repetition() {
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
    case Test::late:
      bounce_late();
      break;
    default:
      bounce();
  }
  const double ns = double(now_ns() - start);
  settle();
  const double each = ns / rounds_ / window_ / (bounces() ? 2 : 1);
  return job_.slowest(job_.leads() ? each : 0);
}

// Prepares for the first messages of the other end.
void Run::prepare() {
  if (!late() && (two_way() || (!gets() && !job_.leads())))
    channel_.expect(Lane::data, window_, bytes_);
  channel_.expect(Lane::answer, answered() ? 2 : 1, 0);
}

void Run::bounce() {
  for (uint32_t i = 0; i < rounds_; ++i) {
    const bool more = i + 1 < rounds_;
    if (job_.leads()) channel_.send(Lane::data, 1, bytes_);
    channel_.await(Lane::data, 1);
    if (more) channel_.expect(Lane::data, 1, bytes_);
    if (!job_.leads()) channel_.send(Lane::data, 1, bytes_);
    channel_.finish_sends();
  }
}

// A receive is posted when the answer behind the message has come.
void Run::bounce_late() {
  const auto send = [this] {
    channel_.send(Lane::data, 1, bytes_);
    channel_.send(Lane::answer, 1, 0);
  };
  for (uint32_t i = 0; i < rounds_; ++i) {
    if (job_.leads()) send();
    channel_.await(Lane::answer, 1);
    if (i + 1 < rounds_) channel_.expect(Lane::answer, 1, 0);
    channel_.expect(Lane::data, 1, bytes_);
    channel_.await(Lane::data, 1);
    if (!job_.leads()) send();
    channel_.finish_sends();
  }
}

void Run::stream() {
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

void Run::exchange() {
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

void Run::fetch() {
  if (!job_.leads()) return;
  for (uint32_t i = 0; i < rounds_; ++i) channel_.get(window_, bytes_);
}

// After the clock was read: both ends are through with this repetition.
void Run::settle() {
  channel_.send(Lane::answer, 1, 0);
  channel_.await(Lane::answer, 1);
  channel_.finish_sends();
}

}  // namespace torii::perf
