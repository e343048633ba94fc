// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How long to wait for an acknowledgement: smoothed round-trip time and its variation as in
// RFC 6298, doubled after each timeout, back to the estimate at the first sign of life.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torii::link {

class RetransmitTimer {
 public:
  static constexpr uint64_t kMinNs = 500000;
  static constexpr uint64_t kFirstNs = 5000000;  // before anything was measured

  // The shortest timeout, and the longest one, however often it was doubled.
  RetransmitTimer(uint64_t min_ns, uint64_t max_ns)
      : min_us_(static_cast<uint32_t>(min_ns / 1000)),
        max_us_(static_cast<uint32_t>(max_ns / 1000)) {}

  void measured(uint64_t rtt_ns) {
    if (!smoothed_ns_) {
      smoothed_ns_ = rtt_ns;
      variation_ns_ = rtt_ns / 2;
    } else {
      const uint64_t difference =
          rtt_ns > smoothed_ns_ ? rtt_ns - smoothed_ns_ : smoothed_ns_ - rtt_ns;
      variation_ns_ += (difference >> 2) - (variation_ns_ >> 2);
      smoothed_ns_ += (rtt_ns >> 3) - (smoothed_ns_ >> 3);
    }
    smoothed_ns_ = std::max<uint64_t>(smoothed_ns_, 1);
  }
  // Returns how often in a row.
  unsigned timed_out() { return doublings_ += doublings_ < 20; }
  void answered() { doublings_ = 0; }
  bool late() const { return doublings_ > 0; }

  uint64_t timeout_ns() const {
    const uint64_t estimate = smoothed_ns_ ? smoothed_ns_ + 4 * variation_ns_ : kFirstNs;
    return std::min(std::max(estimate, min_us_ * uint64_t{1000}) << doublings_,
                    max_us_ * uint64_t{1000});
  }
  uint64_t smoothed_ns() const { return smoothed_ns_; }

 private:
  uint32_t min_us_, max_us_;
  uint64_t smoothed_ns_ = 0;
  uint64_t variation_ns_ = 0;
  unsigned doublings_ = 0;
};

}  // namespace torii::link
