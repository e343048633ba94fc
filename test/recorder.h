// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A sink that writes down every upcall, and small helpers to drive a Driver in tests.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "drivers/interfaces.h"
#include "trust.h"

namespace torii::test {

struct Recorder final : Sink {
  struct Packet {
    PeerId from;
    std::string bytes;
  };
  struct Done {
    uint64_t cookie;
    Status status;
  };
  struct Down {
    PeerId peer;
    Status status;
    size_t dones_before;  // how many done() calls had been made
  };

  void packet(PeerId from, std::span<const std::byte> frame) override {
    packets.push_back(
        {from, std::string(reinterpret_cast<const char*>(frame.data()), frame.size())});
    if (on_packet) on_packet(from, packets.back().bytes);
  }
  void done(uint64_t cookie, Status status) override { dones.push_back({cookie, status}); }
  void peer_down(PeerId peer, Status status) override {
    downs.push_back({peer, status, dones.size()});
  }

  std::vector<Packet> packets;
  std::vector<Done> dones;
  std::vector<Down> downs;
  std::function<void(PeerId, const std::string&)> on_packet;
};

// One end: a recorder, counters and the driver that reports to them.
struct End {
  using Open = std::function<std::unique_ptr<Driver>(const DriverEnv&)>;

  explicit End(const Open& open) {
    env.sink = &sink;
    env.counters = &counters;
    env.keys = &keys;
    env.members = &members;
    driver = open(env);
  }

  std::vector<std::byte> address() const {
    std::vector<std::byte> out(driver->caps().address_bytes);
    driver->address(out.data());
    return out;
  }
  PeerId connect(const End& other) {
    PeerId peer = kNoPeer;
    std::string why;
    return driver->connect(other.address(), &peer, &why) == Status::ok ? peer : kNoPeer;
  }
  // Sends one frame; true if it was taken. A body must outlive the call if it is long.
  bool send(PeerId peer, const std::string& head, const std::string& body = {},
            uint64_t cookie = 0) {
    const iovec piece{const_cast<char*>(body.data()), body.size()};
    Tx tx;
    tx.peer = peer;
    tx.head = head.data();
    tx.head_bytes = static_cast<uint32_t>(head.size());
    tx.pieces = &piece;
    tx.piece_count = body.empty() ? 0 : 1;
    tx.body_bytes = static_cast<uint32_t>(body.size());
    tx.cookie = cookie;
    return driver->send({&tx, 1}) == 1;
  }

  Recorder sink;
  Counters counters;
  PlainKeys keys;
  Everybody members;
  DriverEnv env;
  std::unique_ptr<Driver> driver;
};

}  // namespace torii::test
