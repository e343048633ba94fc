// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The Elite switches: source routes with a choice, broadcasts, and the way back of tokens.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "nic/qsnet/model.h"

namespace torii::nic::qsnet {
namespace {

class EliteRoute final : public RoutePolicy {
 public:
  explicit EliteRoute(const Routes& routes) : routes_(routes) {}
  void routes_changed() override { trees_.clear(); }

  // A switch sees itself that a packet is bad, and tells its source at once.
  uint64_t route(unsigned crossbar, unsigned in, Packet& packet) override {
    const Front front = header_of<Front>(packet.bytes);
    if (!intact(packet)) {
      if (packet.channel == kTokenChannel) return 0;
      make_token(&packet, front, Answer::bad);
      return uint64_t{1} << in;
    }
    Circuit& circuit = circuits_[uint64_t{crossbar} << 32 | front.node * kDataChannels |
                                 front.channel % kDataChannels];
    if (front.kind == Kind::token) {
      // Tokens of a broadcast become one. Those of a circuit that was opened again since end here.
      if (circuit.number != front.circuit || !(circuit.waiting >> in & 1)) return kOneOf;
      circuit.answer = std::max(circuit.answer, front.answer);
      circuit.waiting = circuit.waiting & kOneOf ? 0 : circuit.waiting & ~(uint64_t{1} << in);
      if (circuit.waiting) return kOneOf;
      make_token(&packet, front, circuit.answer);
      return uint64_t{1} << circuit.in;
    }
    const uint64_t outputs =
        front.kind == Kind::range ? tree_of(front)[crossbar] : take_hop(front, packet);
    circuit = {front.circuit, in, outputs, Answer::ok};
    return outputs;
  }

 private:
  struct Circuit {
    uint32_t number = 0;
    unsigned in = 0;
    uint64_t waiting = 0;  // for tokens from these ports; with kOneOf: from one of them
    Answer answer = Answer::ok;
  };
  static constexpr size_t kTreesMax = 4096;

  static uint64_t take_hop(Front front, Packet& packet) {
    if (front.hops == 0) return 0;
    const auto at = packet.bytes.begin() + sizeof(front);
    const auto hop = header_of<Hop>({at, sizeof(Hop)});
    packet.bytes.erase(at, at + sizeof(hop));
    front.hops--;
    std::memcpy(packet.bytes.data(), &front, sizeof(front));
    seal(packet);
    const uint64_t outputs = ((uint64_t{2} << hop.last) - 1) & ~((uint64_t{1} << hop.first) - 1);
    return outputs | (hop.first < hop.last ? kOneOf : 0);
  }

  const std::vector<uint64_t>& tree_of(const Front& front) {
    if (trees_.size() >= kTreesMax) trees_.clear();
    std::vector<uint64_t>& tree = trees_[{front.node, front.first | uint32_t{front.last} << 16}];
    if (!tree.empty()) return tree;
    std::vector<uint32_t> members;
    for (uint32_t i = front.first; i <= front.last && i < routes_.hosts(); i++)
      members.push_back(i);
    return tree = routes_.tree(front.node, members);
  }

  const Routes& routes_;
  std::unordered_map<uint64_t, Circuit> circuits_;  // by switch, node, channel
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> trees_;  // by node and range
};

}  // namespace

std::unique_ptr<RoutePolicy> make_switches(const Routes& routes) {
  return std::make_unique<EliteRoute>(routes);
}

}  // namespace torii::nic::qsnet
