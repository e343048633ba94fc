// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How fast a rail is: the time that a frame takes of it while others are under way, and the
// shortest round trip.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torii::link {

class Speed {
 public:
  // A frame was acknowledged after `round_trip_ns`, in which `frames` arrived, it among them. Few
  // frames say little: perhaps there was nothing to send.
  void measured(uint64_t now_ns, uint64_t round_trip_ns, uint32_t frames) {
    least_ns_ =
        std::min(round_trip_ns, least_ns_ ? least_ns_ + (least_ns_ >> kAgeing) + 1 : ~uint64_t{0});
    const float each_ns = static_cast<float>(round_trip_ns) / static_cast<float>(frames);
    if (frames < kFew && !(each_ns < frame_ns_)) return;
    // A figure from long ago, or from the first bustle, says nothing of now.
    frame_ns_ = fresh(now_ns) ? frame_ns_ + (each_ns - frame_ns_) / kSmooth : each_ns;
    fresh_until_ns_ = now_ns + std::clamp(kFreshTimes * round_trip_ns, kFreshLeastNs, kFreshMostNs);
  }
  bool known() const { return frame_ns_ > 0; }
  // Known, and measured not long ago? Where a measurement takes long, it holds for longer.
  bool fresh(uint64_t now_ns) const { return now_ns < fresh_until_ns_; }
  uint64_t least_ns() const { return least_ns_; }
  // When the last of so many frames will have been acknowledged.
  float end_ns(size_t frames) const {
    return static_cast<float>(least_ns_) +
           static_cast<float>(frames) * (frame_ns_ > 0 ? frame_ns_ : kGuessNs);
  }

 private:
  static constexpr uint32_t kFew = 8;
  static constexpr unsigned kAgeing = 10;  // the shortest round trip is forgotten in so many bits
  static constexpr float kSmooth = 16;
  static constexpr float kGuessNs = 1000;
  static constexpr uint64_t kFreshTimes = 32;  // round trips
  static constexpr uint64_t kFreshLeastNs = 10000000;
  static constexpr uint64_t kFreshMostNs = 4000000000;

  uint64_t least_ns_ = 0;
  uint64_t fresh_until_ns_ = 0;
  float frame_ns_ = 0;
};

}  // namespace torii::link
