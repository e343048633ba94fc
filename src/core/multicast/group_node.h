// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A node of a group as the process that acts for it, the node's leader, has it: the Member with its
// ring, and a channel to the leaders of the other nodes. Datagrams for one node are messages to
// kDatagramPort. Those for all are such messages to a group of the driver, if it has kMulticast;
// else they leave to a lossy group. The caller holds the interface's lock and calls poll() at
// deadline().
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/base/counters.h"
#include "core/multicast/member.h"
#include "core/protocol/protocol.h"

namespace torii::multicast {

class GroupNode final : private Channel {
 public:
  // The leaders have agreed on this; it is alike at all of them, but for `self` and `rail`.
  struct Shape {
    uint64_t number = 0;       // of the group; tag of messages to one node
    uint32_t self = 0;         // this node's number
    std::vector<Peer*> nodes;  // the leader of each node, this process, too
    uint8_t rail = 0;          // index of the driver that reaches all of them
    size_t frame = 0;          // bytes of a datagram: at most frame_of() at any leader
    SecretKey key{};           // drawn for this group
    bool scarce = false;       // as Identity::scarce
  };

  // Bytes of a datagram that this process can send by that driver to one leader and to all; 0:
  // too few, or the driver has no groups.
  static size_t frame_of(const Protocol& protocol, uint8_t rail);
  // As LossyGroups::network(), of the driver's groups.
  static uint64_t network_of(const Protocol& protocol, uint8_t rail);

  // Joins the driver's group. Null with the reason in *why.
  static std::unique_ptr<GroupNode> join(Protocol& protocol, Counters& counters, const Shape& shape,
                                         std::string* why);
  ~GroupNode() override;
  GroupNode(const GroupNode&) = delete;

  // All leaders have joined: operations may begin. Earlier datagrams of lossy groups are lost.
  void start(uint64_t now);
  Member& member() { return *member_; }

  uint64_t number() const { return shape_.number; }
  bool is(uint8_t rail, PeerId group) const { return rail == shape_.rail && group == route_; }
  // Datagrams from the group, and from one of the leaders.
  void on_lossy(uint32_t sender, std::span<const std::byte> datagram, uint64_t now);
  void on_datagram(const Peer& from, std::span<const std::byte> datagram, uint64_t now);

  void poll(uint64_t now);
  uint64_t deadline() const { return member_ ? member_->deadline() : UINT64_MAX; }
  // The path on which this node's datagrams for all leave has changed since the last call.
  bool path_changed();

 private:
  static constexpr size_t kBurst = 40;      // datagrams for the driver at a time
  static constexpr size_t kNameBytes = 16;  // of the driver's group

  GroupNode(Protocol& protocol, Counters& counters, const Shape& shape);

  Status join_reliable();
  Status join_lossy();
  void open(uint64_t now);
  void greet(Peer& peer);
  Protocol::Body body_of(const Datagram& datagram, std::array<iovec, 2>* pieces);
  size_t multicast_reliable(std::span<const Datagram> datagrams);
  size_t multicast_lossy(std::span<const Datagram> datagrams);
  bool reliable() const override { return reliable_; }
  size_t largest_frame() const override { return shape_.frame; }
  size_t largest_burst() const override;
  size_t multicast(std::span<const Datagram> datagrams) override;
  size_t send(uint32_t node, std::span<const Datagram> datagrams) override;
  void count(std::span<const Datagram> sent);
  void receive(uint32_t from, std::span<const std::byte> datagram, uint64_t now);

  Protocol& protocol_;
  Counters& counters_;
  Shape shape_;
  Driver& driver_;
  const bool reliable_;  // its group loses nothing
  std::vector<Peer*> others_;
  PeerId route_ = kNoPeer;               // the driver's group
  std::unique_ptr<std::byte[]> packed_;  // a datagram, for a driver that takes one piece only
  std::unique_ptr<std::byte[]> ring_;
  std::unique_ptr<Member> member_;
  Path path_ = Path::multicast;
  uint64_t requests_ = 0;  // as they were last counted
};

}  // namespace torii::multicast
