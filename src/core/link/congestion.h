// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How many frames of a peer may be under way, so that a link is shared fairly with other traffic:
// doubled in each round trip until the first loss, then a little more in each (RFC 5681), and 0.7
// of it after a loss. With that factor, 0.53 of a frame for a round trip takes as much as TCP does
// (RFC 9438, 4.3).
#pragma once

#include <algorithm>
#include <cstdint>

namespace torii::link {

class CongestionWindow {
 public:
  static constexpr uint32_t kFirst = 16;
  static constexpr uint32_t kLeast = 2;

  explicit CongestionWindow(uint32_t most, uint32_t first = kFirst)
      : most_(static_cast<float>(most)), window_(static_cast<float>(first)), threshold_(most_) {}

  uint32_t frames() const { return static_cast<uint32_t>(window_); }

  // So many frames have arrived, while the window was what held the sender back.
  void arrived(uint32_t frames) {
    const auto count = static_cast<float>(frames);
    before_ = 0;
    window_ += window_ < threshold_ ? count : kGrowth * count / window_;
    window_ = std::min(window_, most_);
  }

  // Frame `number` was lost, before `next` was sent for the first time. Losses in one window count
  // as one: they had one cause.
  void lost(uint64_t number, uint64_t next) {
    if (number < recovered_at_) return;
    recovered_at_ = next;
    threshold_ = window_ = std::max(window_ * kBeta, float{kLeast});
  }

  // Nothing arrives any more: begin anew.
  void stalled(uint64_t next) {
    before_ = std::max(before_, window_);
    recovered_at_ = next;
    threshold_ = std::max(window_ * kBeta, float{kLeast});
    window_ = kLeast;
  }
  // A frame that was taken for lost had arrived: the peer was late.
  void was_late() { threshold_ = window_ = std::max(window_, before_); }

 private:
  static constexpr float kBeta = 0.7f;
  static constexpr float kGrowth = 0.53f;

  float most_;
  float window_;
  float threshold_;            // above it, careful
  float before_ = 0;           // the window when everything stalled, until something arrives
  uint64_t recovered_at_ = 0;  // losses of frames before this one have been paid for
};

}  // namespace torii::link
