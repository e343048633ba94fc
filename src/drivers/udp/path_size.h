// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How long a datagram may be on the way to an address. A length counts when a ping of it was
// answered, and until one is not any more: what drops long packets need not say so, and says
// nothing when it begins to. Short packets go on arriving then, so they are no proof.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace torii::udp {

inline constexpr uint32_t kIpBytes = 40 + 8;    // headers of IPv6 and UDP
inline constexpr uint32_t kPacketLeast = 1280;  // RFC 8200, section 5: every way carries it
inline constexpr uint32_t kPacketUsual = 1500;  // Ethernet

class PathSize {
 public:
  static constexpr uint64_t kProofNs = 250000000;
  static constexpr uint64_t kFirstRestNs = 100000000;  // between trials of longer ones
  static constexpr uint64_t kLongestRestNs = 30000000000;
  static constexpr uint8_t kTries = 2;
  using Sizes = std::array<uint32_t, 3>;  // longest first

  // No datagram is longer than `most`; the least size needs no proof.
  explicit PathSize(uint32_t most = 0) : most_(most), bytes_(least()) {}

  uint32_t bytes() const { return bytes_; }
  bool is_least() const { return bytes_ == least(); }
  static Sizes sizes(uint32_t most) {
    return {most, std::min(most, kPacketUsual - kIpBytes), std::min(most, kPacketLeast - kIpBytes)};
  }

  // More than the least size is to be sent: is it time to ask?
  bool is_due(uint64_t now_ns) const {
    if (most_ == least()) return false;
    return now_ns - asked_ns_ >= (is_least() ? rest_ns_ : kProofNs);
  }
  // Pings of at most the size that is returned leave now. `heard_ns`: when something came from
  // there for the last time; a peer that says nothing at all has not lost them.
  uint32_t ask(uint64_t now_ns, uint64_t heard_ns) {
    if (unanswered_ >= kTries && heard_ns > asked_ns_) shorten();
    if (!is_least()) unanswered_ = std::min<uint8_t>(unanswered_ + 1, kTries);
    asked_ns_ = now_ns;
    if (now_ns - tried_ns_ < rest_ns_) return bytes_;
    tried_ns_ = now_ns;
    rest_ns_ = std::clamp(2 * rest_ns_, kFirstRestNs, kLongestRestNs);
    return most_;
  }
  // One of that size was answered.
  void answered(uint32_t bytes) {
    if (bytes >= bytes_) unanswered_ = 0;
    bytes_ = std::clamp(bytes, bytes_, most_);
  }
  // Also if the system says that packets have to be shorter.
  void shorten() {
    bytes_ = least();
    unanswered_ = 0;
    rest_ns_ = 0;
  }

 private:
  uint32_t least() const { return sizes(most_).back(); }

  uint32_t most_;
  uint32_t bytes_;
  uint8_t unanswered_ = 0;  // questions in a row about bytes_
  uint64_t asked_ns_ = 0;
  uint64_t tried_ns_ = 0;  // longer ones
  uint64_t rest_ns_ = 0;   // from then to the next trial
};

}  // namespace torii::udp
