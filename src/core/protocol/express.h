// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The short way of a message that fits one frame: the functions of Protocol that run for each of
// them, to be compiled into their callers.
#pragma once

#include <algorithm>

#include "core/protocol/protocol.h"

namespace torii {

inline uint16_t Protocol::take_credit(Peer& peer) {
  const uint32_t units = std::min(peer.owed, 0xffffu);
  peer.owed -= units;
  peer.in_use -= units;
  return uint16_t(units);
}

inline void Protocol::give_back(Peer& peer, uint32_t units) {
  peer.owed += units;
  if (__builtin_expect(uint64_t{peer.owed} * 4 >= peer.window, 0)) send_credit(peer);
}

// A tagged frame of so many bytes may leave before anything else to that peer.
inline bool Protocol::may_put_now(const Peer& peer, uint64_t bytes, uint64_t cost) {
  return bytes < peer.express_end && cost <= peer.credit &&
         __builtin_expect(peer.backlog.empty(), 1);
}

// `send` hands the header's words and the body to the driver.
template <typename Send>
inline bool Protocol::put_now_by(Peer& peer, uint8_t port, uint64_t bits, uint32_t user,
                                 uint64_t bytes, Send send) {
  const uint64_t cost = wire::credit_units(bytes);
  if (__builtin_expect(!may_put_now(peer, bytes, cost), 0)) return false;
  const wire::TaggedWords h(port, uint16_t(std::min(peer.owed, 0xffffu)), user, bits);
  if (__builtin_expect(!send(h), 0)) {
    ++counters_->backpressure;
    return false;
  }
  if (peer.owed) take_credit(peer);
  peer.credit -= cost;
  ++counters_->eager_sent;
  ++counters_->frames_sent;
  counters_->bytes_sent += bytes;
  return true;
}

inline bool Protocol::put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user,
                              const iovec* pieces, uint32_t piece_count, uint64_t bytes) {
  return put_now_by(peer, port, bits, user, bytes, [&](const wire::TaggedWords& h) {
    Tx tx;
    tx.peer = peer.route;
    tx.head = &h;
    tx.head_bytes = sizeof(h);
    tx.pieces = pieces;
    tx.piece_count = piece_count;
    tx.body_bytes = uint32_t(bytes);
    return peer.driver->send({&tx, 1}) == 1;
  });
}

inline bool Protocol::put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user,
                              const void* base, uint64_t bytes) {
  if (__builtin_expect(!peer.short_frames, 0)) {
    const iovec piece = {const_cast<void*>(base), bytes};
    return put_now(peer, port, bits, user, &piece, bytes > 0, bytes);
  }
  return put_now_by(peer, port, bits, user, bytes, [&](const wire::TaggedWords& h) {
    return peer.short_frames->send_short(peer.route, h.words[0], h.words[1], base, uint32_t(bytes));
  });
}

// Tells the initiator of a put what became of it, if it wants to know, and gives credit back.
inline void Protocol::settle(Peer& peer, const Debt& debt, uint64_t accepted, bool no_ack) {
  give_back(peer, debt.credit);
  if (__builtin_expect(debt.peer_op != 0, 0))
    answer_put(peer, debt.peer_op, no_ack ? Status::dropped : Status::ok, accepted);
}

inline void Protocol::place(const Arrival& a, const Data& destination, uint64_t accepted,
                            bool no_ack) {
  destination.copy_in(0, a.payload.data(), accepted, TakeFrom{*a.peer});
  settle(*a.peer, {a.peer_op, a.credit}, accepted, no_ack);
}

}  // namespace torii
