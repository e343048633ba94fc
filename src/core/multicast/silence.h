// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Finds nodes whose multicast does not arrive here: they answer what they are asked for, and what
// they multicast beside the answers (Sender::show) is not heard. They are told, and use another
// path.
#pragma once

#include <cstdint>
#include <vector>

#include "core/multicast/outgoing.h"

namespace torii::multicast {

class Silence {
 public:
  static constexpr uint8_t kStrikes = 2;  // requests answered, and nothing heard by multicast ...
  static constexpr uint64_t kSilentNs = 1'500'000;  // ... for so long

  explicit Silence(Outgoing& outgoing) : outgoing_(outgoing), nodes_(outgoing.nodes()) {}

  void on_multicast(uint32_t node, uint64_t now) { nodes_[node] = {now, false, 0}; }
  // Something that the node wrote was asked for ...
  void on_request(uint32_t node) { nodes_[node].asked = !outgoing_.channel().reliable(); }
  // ... and came from node `from`. True: the writer is heard otherwise, so it was a loss.
  bool on_repair(uint32_t node, uint32_t from, uint64_t now) {
    Node& writer = nodes_[node];
    const bool heard = writer.strikes == 0;
    if (!writer.asked || from != node || now - writer.heard_at < kSilentNs) return heard;
    writer.asked = false;
    if (writer.strikes < kStrikes) writer.strikes++;
    if (writer.strikes < kStrikes) return heard;
    Header header;
    header.kind = Kind::hello;
    header.flags = kDeaf;
    outgoing_.to_one(node, header);
    return heard;
  }

 private:
  struct Node {
    uint64_t heard_at = 0;
    bool asked = false;
    uint8_t strikes = 0;
  };

  Outgoing& outgoing_;
  std::vector<Node> nodes_;
};

}  // namespace torii::multicast
