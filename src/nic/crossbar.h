// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A switch: each output serves the inputs in turn, one packet at a time, those of the highest
// priority first. Each virtual channel of a link is an input. The packet at the head of an input
// waits until all its outputs have taken it, and those behind it wait, too. Where a packet goes is
// the matter of a policy.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "nic/link.h"

namespace torii::nic {

inline constexpr unsigned kPortsMax = 63;

class RoutePolicy {
 public:
  virtual ~RoutePolicy() = default;
  // Output ports of a packet at that switch, a bit each; 0: it goes nowhere. May change the packet.
  // With kOneOf it leaves by the output that is free first; kOneOf alone: it was for this switch.
  static constexpr uint64_t kOneOf = uint64_t{1} << kPortsMax;
  virtual uint64_t route(unsigned crossbar, unsigned in, Packet& packet) = 0;
  virtual void routes_changed() {}  // cables have been cut
};

struct CrossbarOptions {
  uint64_t latency_ns = 300;  // from the head of a packet to its output
  uint64_t ports = 12;
  bool cut_through = true;
};

// A switch, as the fabric sees it.
class Switch : public LinkEnd {
 public:
  virtual ~Switch() = default;
  // Appends all packets that wait here, if new routes of the fabric are not theirs.
  virtual void take_all(std::vector<Packet>*) {}
  // Packets that were taken from the fabric, in the order in which they are to go on: before all
  // others. Where routes are by destination only.
  virtual void give_back(Packet&&) {}
  uint64_t packets() const { return packets_; }
  uint64_t dropped() const { return dropped_; }  // they had no way
  // Called when an output is down. Packets for it wait.
  std::function<void(Link& link, std::vector<Packet>&& unsent)> on_down;

 protected:
  uint64_t packets_ = 0, dropped_ = 0;
};

class Crossbar final : public Switch {
 public:
  Crossbar(Engine& engine, unsigned number, const CrossbarOptions& options, RoutePolicy& policy);
  void connect(unsigned port, Link* in, Link* out) override {
    ports_[port].in = in;
    ports_[port].out = out;
  }
  void take_all(std::vector<Packet>* out) override;
  void give_back(Packet&& packet) override {
    add(static_cast<unsigned>(options_.ports), std::move(packet));
  }

  void link_arrive(Link& link, Packet&& packet) override {
    add(link.target_port(), std::move(packet));
  }
  void link_ready(Link& link) override { serve(link.source_port()); }
  void link_down(Link& link, std::vector<Packet>&& unsent) override;

 private:
  struct Waiting {
    Packet packet;
    uint64_t outputs = 0;  // that have still to take it
    bool one_of = false;   // one of these is enough
    unsigned channel = 0;  // by which it has come
    uint64_t ready_ns = 0;
  };
  using Queue = std::deque<Waiting>;
  struct Port {
    Link* in = nullptr;
    Link* out = nullptr;
    std::array<Queue, kChannels> queues;
    // By the heads of these inputs, a bit for each port; by the channel on which they have come.
    std::array<uint64_t, kChannels> wanted{};
    unsigned next = 0;  // input whose turn it is
  };
  // An input is a channel of a port.
  static constexpr unsigned kInputs = (kPortsMax + 1) * kChannels, kNone = ~0u;
  Queue& queue_of(unsigned input) { return ports_[input / kChannels].queues[input % kChannels]; }

  void add(unsigned input, Packet&& packet);
  void show_head(unsigned input);
  void want(unsigned input);
  unsigned choose(unsigned output);
  void serve(unsigned output);
  void pass(unsigned input, unsigned output);

  Engine& engine_;
  const unsigned number_;
  const CrossbarOptions options_;
  RoutePolicy& policy_;
  std::vector<Port> ports_;    // the last one: packets given back
  unsigned first_choice_ = 0;  // of the outputs of kOneOf
};

// Each switch removes the first byte of a packet, the number of the output, and makes the CRC right
// again if it was.
class SourceRoute final : public RoutePolicy {
 public:
  uint64_t route(unsigned crossbar, unsigned in, Packet& packet) override;
};

// Tables of the switches, by the number in the first two bytes: a node, or a group.
class DestinationRoute final : public RoutePolicy {
 public:
  uint64_t route(unsigned crossbar, unsigned in, Packet& packet) override;
  // The outputs at each switch; empty: the number is of nobody.
  void set(uint32_t number, std::vector<uint64_t> outputs);

 private:
  std::vector<std::vector<uint64_t>> tables_;  // by number
};

}  // namespace torii::nic
