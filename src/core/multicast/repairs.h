// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Answers nodes that miss bytes, from the ring, whoever wrote them. The first node that asks for a
// piece gets it by itself. A second one soon after shows that several have lost it: one multicast
// serves all of them, and further requests are answered by it.
#pragma once

#include <array>
#include <cstdint>

#include "core/multicast/outgoing.h"
#include "core/multicast/releases.h"
#include "core/multicast/ring.h"

namespace torii::multicast {

class Repairs {
 public:
  static constexpr uint64_t kLingerNs = 200'000;  // requests within so long are about one loss
  // A request after a silence may be older than what has been sent since.
  static constexpr uint64_t kCrossingNs = 1'000'000;
  static constexpr size_t kMostFrames = 48;  // for one request

  Repairs(Outgoing& outgoing, const Ring& ring, const Releases& releases)
      : outgoing_(outgoing), ring_(ring), releases_(releases) {}

  // The node `from` misses the granules of the bitmap. `silence`: it has heard nothing, so
  // multicast may not reach it.
  void answer(uint32_t from, uint64_t pos, std::span<const std::byte> bitmap, bool silence,
              uint64_t now);

 private:
  struct Recent {
    uint64_t pos = 0;
    uint64_t at = 0;  // 0: never
    uint32_t node = 0;
    bool to_all = false;
  };
  static constexpr size_t kRecent = 256;

  bool repair(uint32_t from, uint64_t pos, uint64_t bytes, bool silence, uint64_t now);

  Outgoing& outgoing_;
  const Ring& ring_;
  const Releases& releases_;
  std::array<Recent, kRecent> recent_;  // by position
};

}  // namespace torii::multicast
