// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/qsnet/elite.h"

#include <algorithm>

namespace torii::nic::qsnet {

// A switch sees itself that a packet is bad, and tells its source at once.
uint64_t EliteRoute::route(unsigned crossbar, unsigned in, Packet& packet) {
  if (packet.bytes.size() < sizeof(Front)) return 0;
  const Front front = front_of(packet);
  if (!intact(packet)) {
    if (packet.channel == kTokenChannel) return 0;
    make_token(&packet, Answer::bad);
    return uint64_t{1} << in;
  }
  if (front.kind == Kind::token) return back(crossbar, in, packet);
  const uint64_t outputs =
      front.kind == Kind::range ? outputs_of_range(crossbar, front) : take_hop(front, &packet);
  circuit_of(crossbar, front) = {front.circuit, in, outputs & ~kOneOf, (outputs & kOneOf) != 0,
                                 Answer::ok};
  return outputs;
}

// Tokens of a broadcast become one. Those of a circuit that was opened again since end here.
uint64_t EliteRoute::back(unsigned crossbar, unsigned in, Packet& packet) {
  const Front front = front_of(packet);
  Circuit& circuit = circuit_of(crossbar, front);
  if (circuit.number != front.circuit || !(circuit.waiting >> in & 1)) return kOneOf;
  circuit.answer = std::max(circuit.answer, front.answer);
  circuit.waiting = circuit.one_of ? 0 : circuit.waiting & ~(uint64_t{1} << in);
  if (circuit.waiting) return kOneOf;
  make_token(&packet, circuit.answer);
  return uint64_t{1} << circuit.in;
}

uint64_t EliteRoute::take_hop(Front front, Packet* packet) {
  Hop hop;
  if (front.hops == 0 || packet->bytes.size() < sizeof(front) + sizeof(hop)) return 0;
  const auto at = packet->bytes.begin() + sizeof(front);
  std::memcpy(&hop, &*at, sizeof(hop));
  if (hop.last >= kPortsMax || hop.first > hop.last) return 0;
  packet->bytes.erase(at, at + sizeof(hop));
  front.hops--;
  std::memcpy(packet->bytes.data(), &front, sizeof(front));
  seal(*packet);
  const uint64_t outputs = ((uint64_t{2} << hop.last) - 1) & ~((uint64_t{1} << hop.first) - 1);
  return outputs | (hop.first < hop.last ? kOneOf : 0);
}

uint64_t EliteRoute::outputs_of_range(unsigned crossbar, const Front& front) {
  const uint32_t node = front.node, range = front.first | uint32_t{front.last} << 16;
  if (node >= routes_.hosts()) return 0;
  if (trees_.size() >= kTreesMax) trees_.clear();
  std::vector<uint64_t>& tree = trees_[{node, range}];
  if (tree.empty()) {
    std::vector<uint32_t> members;
    for (uint32_t i = front.first; i <= front.last && i < routes_.hosts(); i++)
      members.push_back(i);
    tree = routes_.tree(node, members);
  }
  return tree[crossbar];
}

}  // namespace torii::nic::qsnet
