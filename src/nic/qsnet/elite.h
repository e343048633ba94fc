// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Packets between Elans, and the Elite switches. A packet opens a circuit: each switch knows the
// way back, and closes it with the token.
#pragma once

#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nic/crossbar.h"
#include "nic/topology.h"

namespace torii::nic::qsnet {

inline constexpr unsigned kDataChannels = 2, kTokenChannel = 2;
inline constexpr uint8_t kTokenPriority = 2;  // above those of data

enum class Answer : uint8_t {  // of a token; that of a broadcast is the highest
  ok,
  early,  // the one before it has not come
  full,   // there is no room for it now
  bad,    // its CRC is wrong
  no_process,
  no_memory,
  none,  // no token has come
};

enum class Kind : uint8_t { data, range, token };

// Every packet begins with it. With `data` as many hops follow as there are switches before it, of
// which each takes off one. A token is no longer than this.
struct Front {
  Kind kind;
  uint8_t hops;
  uint8_t channel;       // of the circuit
  Answer answer;         // of a token
  uint16_t node;         // that has opened the circuit
  uint16_t first, last;  // nodes of a range
  uint16_t reserved;
  uint32_t circuit;  // its number there
};
static_assert(sizeof(Front) == 16 && sizeof(Hop) == 2);

inline Front front_of(const Packet& packet) {
  Front out;
  std::memcpy(&out, packet.bytes.data(), sizeof(out));
  return out;
}

// Makes the packet the token that answers it.
inline void make_token(Packet* packet, Answer answer) {
  Front front = front_of(*packet);
  front.kind = Kind::token;
  front.hops = 0;
  front.answer = answer;
  packet->bytes.resize(sizeof(front));
  std::memcpy(packet->bytes.data(), &front, sizeof(front));
  packet->channel = kTokenChannel;
  packet->priority = kTokenPriority;
  seal(*packet);
}

class EliteRoute final : public RoutePolicy {
 public:
  explicit EliteRoute(const Routes& routes) : routes_(routes) {}
  uint64_t route(unsigned crossbar, unsigned in, Packet& packet) override;
  void routes_changed() override { trees_.clear(); }

 private:
  struct Circuit {
    uint32_t number = 0;
    unsigned in = 0;
    uint64_t waiting = 0;  // for tokens from these ports
    bool one_of = false;   // from one of them
    Answer answer = Answer::ok;
  };
  static constexpr size_t kTreesMax = 4096;
  uint64_t back(unsigned crossbar, unsigned in, Packet& packet);
  uint64_t outputs_of_range(unsigned crossbar, const Front& front);
  static uint64_t take_hop(Front front, Packet* packet);
  Circuit& circuit_of(unsigned crossbar, const Front& front) {
    return circuits_[uint64_t{crossbar} << 32 | front.node * kDataChannels |
                     front.channel % kDataChannels];
  }

  const Routes& routes_;
  std::unordered_map<uint64_t, Circuit> circuits_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> trees_;  // by node and range
};

}  // namespace torii::nic::qsnet
