// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One figure, measured on one channel as often as one likes.
#pragma once

#include <cstdint>

#include "core/tools/perf/torii_perf_channel.h"

namespace torii::perf {

uint64_t now_ns();  // monotonic

// Is the figure one of windows of messages that are under way at once?
bool windowed(Test test);

// How much one repetition of a test does.
struct Amount {
  Amount(const Options& options, Test test, uint64_t bytes);
  uint32_t window;  // messages, or operations, under way at once
  uint32_t rounds;  // of so many
};

class Run {
 public:
  // Options say the window, and how many messages or windows a repetition has.
  Run(Job& job, const Options& options, Test test, uint64_t bytes, Channel& channel);

  // ns of one message, of the slowest pair. Collective.
  double repetition();

 private:
  bool bounces() const { return !windowed(test_) && test_ != Test::get_latency; }
  bool gets() const { return test_ == Test::get_latency || test_ == Test::get_bandwidth; }
  bool two_way() const { return bounces() || test_ == Test::bidirectional; }
  bool late() const { return test_ == Test::late; }
  // Answers come to this end during a repetition, not only behind it.
  bool answered() const {
    return late() || test_ == Test::bidirectional || (windowed(test_) && !gets() && job_.leads());
  }
  void prepare();
  void bounce();
  void bounce_late();
  void stream();
  void exchange();
  void fetch();
  void settle();

  Job& job_;
  Channel& channel_;
  Test test_;
  uint64_t bytes_;
  uint32_t window_ = 1;
  uint32_t rounds_ = 1;
};

}  // namespace torii::perf
