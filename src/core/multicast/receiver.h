// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Places what arrives in the ring and asks for what is missing: after a gap, or when nothing comes
// although this node waits. It asks the node that wrote the bytes and others in turn, one at a
// time, because any node may have them and the writer may be computing.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/multicast/outgoing.h"
#include "core/multicast/ring.h"
#include "core/multicast/silence.h"

namespace torii::multicast {

// A part of the stream and its writers: `root`, or each node in turn `stride` bytes.
struct Interval {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t stride = 0;  // 0: root
  uint32_t root = 0;
};

class Receiver {
 public:
  static constexpr uint64_t kGapNs = 10'000;           // a datagram may have been overtaken
  static constexpr uint64_t kGapStepNs = 2'000;        // more for the next node, so that few ask
  static constexpr uint64_t kOtherWriterNs = 200'000;  // the gap is before what another one wrote
  static constexpr uint64_t kRepeatNs = 500'000;       // then doubled
  static constexpr uint64_t kRepeatMostNs = 32'000'000;
  static constexpr uint64_t kWaitNs = 2'000'000;  // without a gap; then doubled
  static constexpr uint64_t kWaitMostNs = 128'000'000;
  // From so many nodes on others are asked first, so that the writer's load does not grow.
  static constexpr uint32_t kPeersFirst = 17;

  Receiver(Outgoing& outgoing, Ring& ring, Silence& silence, uint64_t seed);

  // True: the bytes were missing. `done`: what this node needs no more.
  bool on_bytes(const Header& header, std::span<const std::byte> payload, uint64_t done,
                uint64_t now);
  // A node has written up to `end`.
  void on_written(uint32_t node, uint64_t end, uint64_t now);
  // The call of this node needs this part; an empty one: it needs nothing.
  void expect(const Interval& interval, uint64_t now);

  void poll(uint64_t now);
  uint64_t deadline() const { return ask_at_; }

  // Granules that had to be asked for, since the last call.
  uint32_t take_lost();
  uint64_t outside() const { return outside_; }
  uint64_t requests() const { return requests_; }

 private:
  uint32_t writer_of(uint64_t pos) const;
  uint32_t other_than(uint32_t node);
  bool lossy() const { return !outgoing_.channel().reliable(); }
  // What is missing is not on its way.
  bool gap() const { return lossy() && ring_.placed() < known_end_; }
  uint64_t first_wait() const { return lossy() ? kWaitNs : kWaitMostNs; }
  bool waits() const { return ring_.placed() < expected_.end; }
  void learn_end(uint32_t node, uint64_t end);
  void schedule(bool repaired, uint64_t now);
  void ask(uint64_t now);

  Outgoing& outgoing_;
  Ring& ring_;
  Silence& silence_;
  Random random_;
  Interval expected_;
  uint64_t known_end_ = 0;  // somebody has written up to here
  uint32_t revealer_ = 0;   // who
  uint64_t asked_end_ = 0;  // what was missing before it has been asked for
  uint64_t ask_at_ = UINT64_MAX;
  unsigned attempts_ = 0;
  uint32_t lost_ = 0;
  uint64_t outside_ = 0;
  uint64_t requests_ = 0;
};

}  // namespace torii::multicast
