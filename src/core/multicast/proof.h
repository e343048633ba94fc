// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Whether multicast arrives. Node 0 proves it for the group: its hellos have a bitmap of the nodes
// that have not answered yet. When all have, or time is over, it tells the verdict, and every node
// begins with the path of node 0. Later the others tell a node when its multicast does not arrive.
// It then sends each of them a copy, or to all along a tree. If it goes on sending, it says hello
// from time to time, for multicast may work again.
#pragma once

#include <cstdint>

#include "core/multicast/outgoing.h"

namespace torii::multicast {

class Proof {
 public:
  static constexpr uint64_t kHelloNs[] = {0, 1'000'000, 5'000'000, 15'000'000};
  static constexpr uint64_t kVerdictNs = 20'000'000;
  static constexpr uint64_t kAskNs = 25'000'000;  // no verdict has come; then doubled
  static constexpr uint64_t kAskMostNs = 1'000'000'000;
  static constexpr uint64_t kAgainNs = 1'000'000'000;  // multicast is tried again; then doubled
  static constexpr uint64_t kAgainMostNs = 64'000'000'000;

  Proof(Outgoing& outgoing, uint64_t now);

  // The verdict is known.
  bool over() const { return over_; }
  void on_hello(uint32_t from, const Header& header, std::span<const std::byte> payload,
                uint64_t now);
  void poll(uint64_t now);
  uint64_t deadline() const { return next_at_; }

 private:
  void say_hello();
  void tell(uint32_t node);
  void conclude(uint64_t now);
  void try_again_later(uint64_t now);

  Outgoing& outgoing_;
  NodeSet silent_;  // nodes that have not answered the present hello
  uint64_t began_at_;
  uint64_t next_at_;
  uint64_t wait_ns_ = kAskNs;  // the next one, after this one
  unsigned hellos_ = 0;
  uint32_t number_ = 0;
  bool over_ = false;
};

}  // namespace torii::multicast
