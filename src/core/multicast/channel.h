// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The needs of reliable multicast, of the layer below: datagrams to all other nodes of a group, and
// to one of them. Both may be lost, doubled or overtaken, if the channel is not reliable. Their
// bytes are as they were sent. The owner gives what arrives to Member::receive(), with the number
// of the node that sent it, which the layer below has checked. The owner makes all calls on one
// thread, or under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torii::multicast {

// The parts lie apart and leave as one. They are the caller's again when the call returns.
struct Datagram {
  std::span<const std::byte> head;
  std::span<const std::byte> body;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Datagrams that were taken arrive, once, and from each node in the order in which they were
  // sent: nobody asks for what is missing, and multicast needs no proof. Constant, and alike at all
  // nodes.
  virtual bool reliable() const { return false; }
  // Bytes of a datagram, at least kLeastFrame, and the same at all nodes of the group.
  virtual size_t largest_frame() const = 0;
  // Datagrams that are worth giving to one call, at least 1.
  virtual size_t largest_burst() const = 0;

  // Take as many of the first datagrams as there is room for and return how many; those that were
  // not taken leave no trace. All but the last of a burst have the same length.
  virtual size_t multicast(std::span<const Datagram> datagrams) = 0;
  virtual size_t send(uint32_t node, std::span<const Datagram> datagrams) = 0;
};

}  // namespace torii::multicast
