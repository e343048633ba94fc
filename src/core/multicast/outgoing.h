// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How a node's datagrams leave: to one node, or to all by the path that reaches them at present.
// False: the channel has no room for some of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/multicast/channel.h"
#include "core/multicast/header.h"
#include "core/multicast/node_set.h"

namespace torii::multicast {

inline constexpr uint32_t kForwardArity = 4;
inline constexpr uint64_t kRefusedNs = 5'000;  // until a full channel is tried again

enum class Path : uint8_t {
  multicast,  // one datagram for all
  degraded,   // one for all, and a copy for each deaf node
  tree,       // each node passes them on to four others
};

struct Identity {
  uint32_t self = 0;
  uint32_t nodes = 1;   // at most kNodesMax
  bool scarce = false;  // nodes share processors: few datagrams are better than few steps
  uint64_t seed = 0;    // of random choices
};

class Outgoing {
 public:
  Outgoing(Channel& channel, const Identity& identity);
  Outgoing(const Outgoing&) = delete;

  uint32_t self() const { return identity_.self; }
  uint32_t nodes() const { return identity_.nodes; }
  bool scarce() const { return identity_.scarce; }
  Channel& channel() { return channel_; }
  // Bytes of the stream in one datagram.
  uint64_t piece_bytes() const { return piece_bytes_; }

  // The path, and the nodes that multicast of this one does not reach.
  Path path() const { return path_; }
  const NodeSet& deaf() const { return deaf_; }
  void set_deaf(uint32_t node, bool deaf);
  void set_all_deaf();
  // This node sends to all; since the last call of take_use().
  void note_use() { used_ = true; }
  bool take_use() { return std::exchange(used_, false); }

  // Writes the header, with this node's number.
  void encode(Header header, HeaderBytes* out) const;
  bool to_one(uint32_t node, const Header& header, std::span<const std::byte> payload = {});
  bool to_all(Header header, std::span<const std::byte> payload = {});
  // Along the tree, whatever the path is.
  bool along_tree(Header header, std::span<const std::byte> payload = {});
  // A datagram that arrived goes on along the tree of the node that wrote it.
  void pass_on(uint32_t origin, std::span<const std::byte> datagram);
  // The nodes to which this one passes on what `origin` wrote.
  uint32_t forwards(uint32_t origin) const;
  uint32_t forward(uint32_t origin, uint32_t index) const;

 private:
  void choose_path();

  Channel& channel_;
  Identity identity_;
  uint64_t piece_bytes_;
  Path path_ = Path::multicast;
  NodeSet deaf_;
  bool used_ = false;
};

}  // namespace torii::multicast
