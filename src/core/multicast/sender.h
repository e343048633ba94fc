// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Writes messages of this node into the stream: copies them to the ring, cuts them into pieces and
// hands them to the channel, as far as the ring has been released and the window allows. The last
// piece of each half window, and of each half of the ring, asks for a release. Silence is broken by
// heartbeats, from which the others see what they have missed.
#pragma once

#include <array>
#include <cstdint>

#include "core/link/congestion.h"
#include "core/multicast/outgoing.h"
#include "core/multicast/releases.h"
#include "core/multicast/ring.h"

namespace torii::multicast {

class Sender {
 public:
  static constexpr uint64_t kQuietNs = 500'000;  // until the first heartbeat; then doubled
  static constexpr uint64_t kQuietMostNs = 32'000'000;
  static constexpr uint64_t kShowNs = 200'000;  // between signs that it is heard
  static constexpr unsigned kIdleBeats = 5;     // after the last piece
  static constexpr unsigned kThoroughBeat = 3;  // from this one on along the tree, too
  static constexpr uint32_t kFirstWindow = 64;  // frames that a socket holds unread
  static constexpr uint32_t kLargestWindow = 1000;
  // More than so many pieces and one granule of 32 lost at one node is taken for congestion. Among
  // many nodes one always loses something.
  static constexpr uint64_t kBearablePieces = 4;
  static constexpr uint64_t kBearableShare = 32;

  Sender(Outgoing& outgoing, Ring& ring, Releases& releases)
      : outgoing_(outgoing),
        ring_(ring),
        releases_(releases),
        quiet_ns_(outgoing.channel().reliable() ? kQuietMostNs : kQuietNs) {}

  // Begins a message at a position that this node may write. The one before has been written; the
  // bytes stay until this one has.
  void begin(uint64_t pos, std::span<const std::byte> message);
  // All bytes of the message are in the ring and have been handed to the channel.
  bool written() const { return sent_ == end_; }
  uint64_t sent() const { return sent_; }

  // Goes on. `done`: what this node needs no more.
  void advance(uint64_t done, uint64_t now);
  // All nodes have what lies before `released`, for which one of them had to ask for `lost`
  // granules.
  void on_released(uint64_t released, uint32_t lost, uint64_t now);
  uint64_t released() const { return released_; }

  // This node has answered a request: a sign by multicast, so that who asked knows whether it hears
  // this node.
  void show(uint64_t now);

  // Nothing has been sent for the first time for so long.
  uint64_t silent_since() const { return sent_at_; }
  uint32_t window() const { return window_.frames(); }
  // Until all that was written has been released, also without a message that waits.
  void insist(uint64_t now) {
    insists_ = true;
    if (sent_ > released_) beat_at_ = now;
  }

  void poll(uint64_t done, uint64_t now);
  uint64_t deadline() const;

 private:
  static constexpr size_t kFrames = 1024;  // whose ends are known; a power of 2
  static constexpr size_t kBurst = 40;     // more gain little, and are on the stack
  static constexpr uint64_t kAsked = 1;    // in `ends_`, beside a position

  uint64_t piece_at(uint64_t pos) const;
  bool fill(uint64_t done);
  bool hand_over(uint64_t now);
  bool give();
  uint32_t next_target(uint32_t after) const;
  void beat(uint64_t now);
  void ask_for(uint64_t pos, uint64_t now);

  Outgoing& outgoing_;
  Ring& ring_;
  Releases& releases_;

  // The message.
  const std::byte* message_ = nullptr;
  uint64_t start_ = 0, bytes_ = 0;
  uint64_t end_ = 0;     // a whole number of granules
  uint64_t copied_ = 0;  // before it: in the ring
  uint64_t sent_ = 0;    // before it: with the channel

  // The frames that go to each of several nodes before the next ones do.
  uint64_t batch_end_ = 0;
  Path batch_path_ = Path::multicast;
  uint32_t target_ = 0;
  uint64_t cursor_ = 0;  // before it: given to `target_`
  uint64_t cursor_number_ = 0;

  // Frames are numbered as they are copied.
  link::CongestionWindow window_{kLargestWindow, kFirstWindow};
  std::array<uint64_t, kFrames> ends_;
  uint64_t number_ = 0;        // of the next one
  uint64_t sent_number_ = 0;   // the first one that is not with the channel
  uint64_t acked_ = 0;         // the first one that is not released
  uint64_t asked_number_ = 0;  // the last one that asks
  bool held_back_ = false;     // by the window, since the last release

  uint64_t released_ = 0;
  uint64_t asked_ = 0;  // a release up to here has been asked for
  uint64_t need_ = 0;   // a release up to here lets the message go on
  uint64_t sent_at_ = 0;
  uint64_t shown_at_ = 0;
  const uint64_t quiet_ns_;
  uint64_t retry_at_ = UINT64_MAX;
  uint64_t beat_at_ = UINT64_MAX;
  unsigned beats_ = 0;
  bool insists_ = false;
};

}  // namespace torii::multicast
