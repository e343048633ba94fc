// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Do frames that are longer than the MTU of the driver below arrive by a rail? What cuts them into
// packets may lose all of a frame with one of those, and on some ways they never arrive. So the
// first one is a trial, and where too many are lost there is a pause before the next trial.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torii::link {

class LongFrames {
 public:
  static constexpr uint64_t kFirstPauseNs = 10000000;
  static constexpr uint8_t kDoublingsMax = 12;

  // May the next one go?
  bool may_go(uint64_t now_ns) const { return now_ns >= not_before_ns_ && !on_trial_; }
  bool proven() const { return proven_; }

  void left() { on_trial_ = !proven_; }
  // The driver below did not take it.
  void refused() { on_trial_ = false; }
  // Also one that was taken for lost.
  void arrived() {
    on_trial_ = false;
    not_before_ns_ = 0;
    proven_ = true;
    lost_ -= lost_ / kSmooth;
    if (lost_ < kFew) doublings_ = 0;
  }
  void lost(uint64_t now_ns) {
    lost_ += (1 - lost_) / kSmooth;
    if (proven_ && lost_ < kTooMany) return;
    proven_ = on_trial_ = false;
    lost_ = 0;
    not_before_ns_ = now_ns + (kFirstPauseNs << doublings_);
    doublings_ = std::min<uint8_t>(doublings_ + 1, kDoublingsMax);
  }

 private:
  static constexpr float kSmooth = 16;
  static constexpr float kTooMany = 0.125f;  // as a part of all
  static constexpr float kFew = 0.02f;

  bool proven_ = false;
  bool on_trial_ = false;
  uint8_t doublings_ = 0;  // of the next pause
  float lost_ = 0;
  uint64_t not_before_ns_ = 0;
};

}  // namespace torii::link
