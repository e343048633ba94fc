// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// QsNet: the packets between Elans, and what the fabric makes a network of.
#pragma once

#include <cstring>
#include <memory>

#include "nic/model.h"
#include "nic/qsnet/regs.h"

namespace torii::nic::qsnet {

// --- packets ---------------------------------------------------------------------------------

inline constexpr unsigned kDataChannels = 2, kTokenChannel = 2;

enum class Answer : uint8_t {  // of a token; a broadcast gets the highest of all
  ok,
  early,  // an earlier packet is missing
  full,   // there is no room now
  bad,    // the CRC is wrong
  no_process,
  no_memory,
  none,  // no token has come
};

enum class Kind : uint8_t { data, range, token };

// The first bytes of each packet, and all of a token. A packet opens a circuit: each switch knows
// the way back until the token has passed. With `data` the hops follow, of which each switch takes
// off the first.
struct Front {
  Kind kind = Kind::data;
  uint8_t hops = 0;
  uint8_t channel = 0;           // of the circuit
  Answer answer = Answer::none;  // of a token
  uint16_t node = 0;             // that has opened the circuit
  uint16_t first = 0, last = 0;  // nodes of a range
  uint16_t reserved = 0;
  uint32_t circuit = 0;  // number at that node
};
static_assert(sizeof(Front) == 16 && sizeof(Hop) == 2);

// Follows in packets with data; then come the data, in whole blocks.
struct Body {
  Name from = kNobody, to = kNobody;  // `to`: of a broadcast the group
  uint64_t number = 0;                // in the flow
  uint64_t address = 0;               // of frames the offset, of kReply that in the DMA
  uint64_t ends = 0;   // by the last packet: kDmaWrite: event there; kDmaRead, kReply: the kDmaRead
  uint32_t total = 0;  // bytes of the DMA
  uint16_t bytes = 0;  // of the data
  uint8_t type = 0;    // kOperation or kReply, and Flag
  uint8_t behind = 0;  // all packets before number - behind have been taken
  uint32_t operation() const { return type & kOperation; }
};
static_assert(sizeof(Body) == 40);
inline constexpr uint32_t kReply = kDmaTest + 1;  // an operation: the data that a kDmaRead asks for
enum Flag : uint8_t { kFirst = 16, kLast = 32, kVoid = 64 };  // kVoid: there are no other data

// Makes the packet the token of that circuit.
inline void make_token(Packet* packet, Front front, Answer answer) {
  front.kind = Kind::token;
  front.hops = 0;
  front.answer = answer;
  packet->bytes.resize(sizeof(front));
  std::memcpy(packet->bytes.data(), &front, sizeof(front));
  packet->channel = kTokenChannel;
  packet->priority = 2;  // above those of data
  seal(*packet);
}

// --- the network ------------------------------------------------------------------------------

std::unique_ptr<Model> make_model(const Board& board);
std::unique_ptr<RoutePolicy> make_switches(const Routes& routes);

// Elites of eight links with two virtual channels each: Petrini et al. 2002. All figures are
// assumptions: 400 MB/s a link, packets of 320 bytes of data, 35 ns in a switch, cables of 5 m, and
// a bus on which DMA gets 400 MB/s after 150 ns.
inline constexpr CardKind kKind = {
    .name = "qsnet",
    .doc = "QsNet, Elan3 and Elite: remote DMA to any memory, queues, broadcast to ranges",
    .contexts = 4,
    .bar_bytes = kBarBytes,
    .shared_bytes = kSharedBytes,
    .memory_bytes = 0,
    .source_routed = true,
    .link = {.rate = 3.2e9, .delay_ns = 25, .head = 18, .buffers = 2, .channels = true},
    .bus = {.burst_rate = 264e6,
            .dma_read_rate = 400e6,
            .dma_write_rate = 400e6,
            .dma_setup_ns = 150},
    .crossbar = {.latency_ns = 35, .ports = 8},
    .make = make_model,
    .make_switches = make_switches,
};

}  // namespace torii::nic::qsnet
