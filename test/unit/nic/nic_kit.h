// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Both ends of a link, for tests of the network.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "nic/link.h"

namespace torii::test {

inline nic::Packet nic_packet(size_t bytes, uint32_t number) {
  nic::Packet packet;
  packet.bytes.resize(bytes);
  for (size_t i = 0; i < bytes; i++) packet.bytes[i] = static_cast<std::byte>(number >> i % 4 * 8);
  nic::seal(packet);
  return packet;
}

// An end that takes part in one direction only.
struct NicEnd : nic::LinkEnd {
  void connect(unsigned, nic::Link*, nic::Link*) override { ADD_FAILURE() << "it is of no fabric"; }
  void link_ready(nic::Link&) override {}
  void link_down(nic::Link&, std::vector<nic::Packet>&&) override {}
  void link_arrive(nic::Link&, nic::Packet&&) override { ADD_FAILURE() << "it only sends"; }

 protected:
  ~NicEnd() = default;
};

// Sends its queue as fast as the link takes it.
struct NicSource final : NicEnd {
  void link_ready(nic::Link& link) override {
    for (; !queue.empty() && link.ready(queue.front().channel); queue.pop_front())
      link.send(std::move(queue.front()));
  }
  void link_down(nic::Link&, std::vector<nic::Packet>&& packets) override {
    downs++;
    unsent = std::move(packets);
  }
  void start(nic::Link& link) { link_ready(link); }

  std::deque<nic::Packet> queue;
  std::vector<nic::Packet> unsent;
  int downs = 0;
};

// Writes down what arrives, and when; frees the buffer at once, or after a while.
struct NicTarget final : NicEnd {
  explicit NicTarget(nic::Engine& e) : engine(e) {}
  void link_arrive(nic::Link& link, nic::Packet&& packet) override {
    const unsigned channel = packet.channel;
    times.push_back(engine.now_ns());
    packets.push_back(std::move(packet));
    if (hold_ns == 0) return link.release(channel);
    engine.after(hold_ns, [&link, channel] { link.release(channel); });
  }

  nic::Engine& engine;
  uint64_t hold_ns = 0;
  std::vector<uint64_t> times;
  std::vector<nic::Packet> packets;
};

}  // namespace torii::test
