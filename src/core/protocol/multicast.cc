// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One frame for several peers, and several for one.
#include "core/base/inplace_vector.h"
#include "core/protocol/express.h"

namespace torii {
namespace {

constexpr size_t kFrames = 16;  // for the driver at a time; they are on the stack

}  // namespace

size_t Protocol::put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user,
                         std::span<const Body> bodies) {
  size_t taken = 0;
  while (taken < bodies.size()) {
    InplaceVector<wire::TaggedWords, kFrames> heads;
    InplaceVector<Tx, kFrames> frames;
    uint64_t cost = 0;
    for (const Body& body : bodies.subspan(taken, std::min(kFrames, bodies.size() - taken))) {
      const uint64_t with_it = cost + wire::credit_units(body.bytes);
      if (!may_put_now(peer, body.bytes, with_it)) break;
      cost = with_it;
      const auto owed = static_cast<uint16_t>(frames.size() ? 0 : std::min(peer.owed, 0xffffu));
      Tx& tx = frames.emplace_back();
      tx.peer = peer.route;
      tx.head = &heads.emplace_back(port, owed, user, bits);
      tx.head_bytes = sizeof(wire::TaggedWords);
      tx.pieces = body.pieces;
      tx.piece_count = body.piece_count;
      tx.body_bytes = static_cast<uint32_t>(body.bytes);
    }
    if (frames.size() == 0) break;
    const size_t count = peer.driver->send(frames);
    counters_->backpressure += count < frames.size();
    if (count == 0) break;
    if (peer.owed) take_credit(peer);
    for (const Body& body : bodies.subspan(taken, count)) {
      peer.credit -= wire::credit_units(body.bytes);
      counters_->bytes_sent += body.bytes;
    }
    counters_->eager_sent += count;
    counters_->frames_sent += count;
    taken += count;
    if (count < frames.size()) break;
  }
  return taken;
}

// The frame stands for one tagged frame to each peer, so each must be ready for that one.
bool Protocol::multicast_now(PeerId group, std::span<Peer* const> peers, const Envelope& env,
                             const Data& source) {
  const uint64_t bytes = source.bytes();
  const uint64_t cost = wire::credit_units(bytes);
  const Peer* receiver = nullptr;
  for (const Peer* peer : peers) {
    if (peer->state != PeerState::up) continue;
    if (!may_put_now(*peer, bytes, cost)) return false;
    receiver = peer;
  }
  if (!receiver || !source.has_address()) return false;
  iovec pieces[kPieces];
  uint64_t covered = 0;
  Tx tx;
  tx.piece_count = source.slice(0, bytes, pieces, receiver->plan.pieces_max, &covered);
  if (covered != bytes) return false;

  // Credit goes back by frames to one peer.
  const uint8_t port = env.index | (env.ready ? wire::kReadyBit : 0);
  const wire::TaggedWords h(port, 0, uint32_t(env.hdr_data), env.bits);
  tx.peer = group;
  tx.head = &h;
  tx.head_bytes = sizeof(h);
  tx.pieces = pieces;
  tx.body_bytes = uint32_t(bytes);
  if (receiver->driver->send({&tx, 1}) != 1) {
    ++counters_->backpressure;
    return false;
  }
  for (Peer* peer : peers)
    if (peer->state == PeerState::up) peer->credit -= cost;
  ++counters_->eager_sent;
  ++counters_->frames_sent;
  ++counters_->multicast_frames;
  counters_->bytes_sent += bytes;
  return true;
}

Status Protocol::join_lossy(uint8_t rail, const LossyMember& membership, PeerId* group) {
  LossyGroups* const groups = drivers_[rail]->lossy_groups();
  if (!groups) return Status::unsupported;
  const Status status = groups->join_lossy(membership, group);
  if (status == Status::ok) rails_[rail]->lossy.push_back(*group);
  return status;
}

void Protocol::leave_lossy(uint8_t rail, PeerId group) {
  std::erase(rails_[rail]->lossy, group);
  drivers_[rail]->leave(group);
}

void Protocol::tell_joined(Peer& peer, uint64_t group, bool ask) {
  send_control(peer, wire::Kind::joined, Status::ok, group, 0, ask);
}

}  // namespace torii
