// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The initiator's side: from an operation to frames in a driver.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.h"
#include "core/protocol/express.h"

namespace torii {

namespace {

constexpr uint64_t kWorthRegistering = 64 << 10;  // where registration is expensive
constexpr uint32_t kStreamTurnBytes = 64 << 10;   // of a stream, before others have their turn

// How many of `want` bytes go with this frame. Where all payload travels in frames, those of a
// message have the same length: drivers and cards send many frames of one length more cheaply.
uint64_t share_of_frame(const DriverCaps& caps, uint32_t head_bytes, uint64_t want) {
  const uint64_t most = caps.mtu - head_bytes;
  if (want <= most) return want;
  if (caps.flags & (kGet | kPut)) return most;
  const uint64_t later = caps.mtu - sizeof(wire::Control);
  const uint64_t more = (want - most + later - 1) / later;
  const uint64_t all = want + head_bytes + more * sizeof(wire::Control);
  return (all + more) / (more + 1) - head_bytes;
}

// Frames of a stream before others have their turn: whole batches of the driver's, if they are not
// too long.
uint32_t stream_turn(const DriverCaps& caps) {
  const uint32_t frames = std::max(kStreamTurnBytes / caps.mtu, 1u);
  return frames < caps.batch_max ? frames : frames - frames % caps.batch_max;
}

uint8_t request_flags(const Envelope& env) {
  return uint8_t((env.want_ack ? wire::kWantAck : 0) | (env.ready ? wire::kReady : 0) |
                 (env.space == Space::tagged ? wire::kTaggedSpace : 0) |
                 (env.space == Space::memory ? wire::kMemorySpace : 0));
}

}  // namespace

Op* Protocol::make_op(Peer& peer, OpRole role, const Owner& owner) {
  Op* op = ops_.get();
  if (!op) return nullptr;
  op->role = role;
  op->peer = &peer;
  op->owner = owner;
  peer.ops.push(op);
  return op;
}

void Protocol::free_op(Op* op) {
  TORII_ASSERT(op->pending_dones == 0);
  announced_ -= op->role == OpRole::send && op->announced;
  op->peer->ops.remove(op);
  if (op->region) {
    op->peer->driver->dereg(*op->region);
    regions_.put(op->region);
    op->region = nullptr;
  }
  if (op->remote != kNoRemote && op->role != OpRole::access) op->peer->driver->drop(op->remote);
  op->remote = kNoRemote;
  std::free(op->buffer);
  ops_.put(op);
}

// A message that one frame could not carry lies in memory that the peer reads more cheaply than
// frames.
bool Protocol::near(const Peer& peer, const Data& source) {
  return source.bytes() > peer.small_max && source.contiguous() && !peer.remote_denied &&
         peer.driver->near(peer.route, source.at(0));
}

// The shortest message that moves by remote read or write.
uint64_t Protocol::remote_least(const Peer& peer) {
  const DriverCaps& caps = peer.driver->caps();
  const uint64_t least = peer.crossing ? caps.remote_min / 2 + 1 : caps.remote_min;
  return caps.flags & kNeedsReg ? std::max(least, kWorthRegistering) : least;
}

// While both processes have more to send than the other takes at once, each copies in and out in
// turn and nothing overlaps: then the one copy of a remote read pays earlier. Two messages that
// meet nothing else under way end it.
bool Protocol::better_read(Peer& peer, const Data& source) {
  if (!peer.crossing || source.bytes() <= peer.eager_max / 2 || source.bytes() < remote_least(peer))
    return false;
  if (announced_ == 0) --peer.crossing;
  return (peer.driver->caps().flags & kGet) && !peer.remote_denied && source.contiguous();
}

// Makes op->data reachable for the peer and appends the key to op->head. False: use frames.
bool Protocol::export_memory(Op* op, uint32_t access) {
  Peer& peer = *op->peer;
  const DriverCaps& caps = peer.driver->caps();
  const bool able = caps.flags & (access == kRemoteRead ? kGet : kPut);
  const uint64_t least = remote_least(peer);
  if (!able || peer.remote_denied || !op->data.contiguous() || op->accepted == 0) return false;
  if (op->accepted < least && !peer.driver->near(peer.route, op->data.at(0))) return false;
  Region* region = regions_.get();
  if (!region) return false;
  if (peer.driver->reg(op->data.at(0), op->accepted, access, region) != Status::ok) {
    regions_.put(region);
    return false;
  }
  op->region = region;
  std::memcpy(op->head.data() + op->head_bytes, region->key.data(), caps.key_bytes);
  op->key_bytes = uint16_t(caps.key_bytes);
  return true;
}

void Protocol::set_request_head(Op* op, wire::Kind kind, const Envelope& env) {
  op->head_bytes = sizeof(wire::Request);
  op->key_bytes = 0;
  if (kind == wire::Kind::put_announce) export_memory(op, kRemoteRead);
  wire::Request h{};
  h.kind = kind;
  h.flags = request_flags(env);
  h.index = env.index;
  h.credit = take_credit(*op->peer);
  op->credit_owed = h.credit;
  h.key_bytes = op->key_bytes;
  h.ac_index = env.ac_index;
  h.bits = env.bits;
  h.hdr_data = env.hdr_data;
  h.length = env.length;
  h.offset = env.offset;
  const bool expects_answer = kind != wire::Kind::put || env.want_ack;
  h.op = expects_answer ? ops_.handle(op) : 0;
  wire::encode(h, op->head.data());
  op->head_bytes = uint8_t(sizeof(h) + op->key_bytes);
}

// The head of a control frame about this operation; a key set before stays behind it.
void Protocol::set_control_head(Op* op, wire::Kind kind, Status status, uint64_t length) {
  wire::Control h{};
  h.kind = kind;
  h.status = static_cast<uint8_t>(status);
  h.credit = take_credit(*op->peer);
  h.key_bytes = op->key_bytes;
  h.op = op->peer_op;
  h.sender_op = ops_.handle(op);
  h.length = length;
  wire::encode(h, op->head.data());
  op->head_bytes = uint8_t(sizeof(h) + op->key_bytes);
}

Status Protocol::put(Peer& peer, const Envelope& env, const Data& source, const Owner& owner,
                     Op** out) {
  if (peer.state != PeerState::up) return down_status(peer);
  if (!peer.hello_sent) queue_hello(peer);
  Op* op = make_op(peer, OpRole::send, owner);
  if (!op) return Status::no_memory;
  op->data = source;
  op->length = op->accepted = source.bytes();
  op->want_ack = env.want_ack;
  op->functions = !source.has_address();

  const uint64_t cost = wire::credit_units(op->length);
  const bool room = cost <= peer.credit;
  op->announced =
      op->length > peer.eager_max || !room || near(peer, source) || better_read(peer, source);
  if (op->announced) {
    ++announced_;
    ++counters_->rendezvous_sent;
    if (!room && op->length <= peer.eager_max) ++counters_->credit_stalls;
    set_request_head(op, wire::Kind::put_announce, env);
  } else {
    ++counters_->eager_sent;
    peer.credit -= cost;
    set_request_head(op, wire::Kind::put, env);
  }
  return start(op, out);
}

Status Protocol::get(Peer& peer, const Envelope& env, const Data& destination, const Owner& owner,
                     Op** out) {
  return request(wire::Kind::get, peer, env, Data(nullptr, 0), destination, owner, out);
}

Status Protocol::getput(Peer& peer, const Envelope& env, const Data& source,
                        const Data& destination, const Owner& owner, Op** out) {
  return request(wire::Kind::getput, peer, env, source, destination, owner, out);
}

// A getput of no bytes is still a getput: the target asks for both permissions.
Status Protocol::request(wire::Kind kind, Peer& peer, const Envelope& env, const Data& source,
                         const Data& destination, const Owner& owner, Op** out) {
  if (peer.state != PeerState::up) return down_status(peer);
  if (source.bytes() > kGetputMax) return Status::invalid;
  if (!peer.hello_sent) queue_hello(peer);
  Op* op = make_op(peer, OpRole::request, owner);
  if (!op) return Status::no_memory;
  op->data = destination;
  op->length = op->accepted = env.length;
  if (source.bytes() > 0) {
    op->buffer_bytes = uint32_t(source.bytes());
    op->buffer = static_cast<std::byte*>(std::malloc(op->buffer_bytes));
    if (!op->buffer) {
      free_op(op);
      return Status::no_memory;
    }
    source.copy_out(0, op->buffer, op->buffer_bytes);
  }
  set_request_head(op, kind, env);
  return start(op, out);
}

// Queues the operation and serves the queue. If all is over at once nobody is notified: the
// caller learns it from the return value.
Status Protocol::start(Op* op, Op** out) {
  Peer& peer = *op->peer;
  Op* const outer = starting_;
  const bool outer_done = started_done_;
  starting_ = op;
  started_done_ = false;
  if (out) *out = op;
  queue_op(op);
  flush(peer);
  const bool over = started_done_;
  starting_ = outer;
  started_done_ = outer_done;
  if (over && out) *out = nullptr;
  return over ? Status::ok : Status::pending;
}

bool Protocol::withdraw(Op* op) {
  if (op->role != OpRole::send || op->is_reply || op->stage != OpStage::queued) return false;
  if (op->first_sent || op->pending_dones > 0) return false;
  Peer& peer = *op->peer;
  if (!op->announced) peer.credit += wire::credit_units(op->length);
  peer.in_use += op->credit_owed;  // credit that the unsent header was to carry
  give_back(peer, op->credit_owed);
  peer.backlog.remove(op);
  free_op(op);
  return true;
}

// The peer is owed a quarter of its window: a frame of its own takes it back.
void Protocol::send_credit(Peer& peer) {
  if (peer.state != PeerState::up) return;
  if (!peer.hello_sent) queue_hello(peer);
  send_control(peer, wire::Kind::credit, Status::ok, 0, 0, 0);
}

void Protocol::send_control(Peer& peer, wire::Kind kind, Status status, uint64_t op,
                            uint64_t sender_op, uint64_t length) {
  if (peer.state != PeerState::up) return;
  if (!peer.hello_sent) queue_hello(peer);
  Op* frame = make_op(peer, OpRole::control, Owner{});
  if (!frame) {
    TORII_ERROR("out of memory for a control frame to %s", describe(peer).c_str());
    return;
  }
  wire::Control h{};
  h.kind = kind;
  h.status = static_cast<uint8_t>(status);
  h.credit = take_credit(peer);
  h.op = op;
  h.sender_op = sender_op;
  h.length = length;
  frame->head_bytes = uint8_t(wire::encode(h, frame->head.data()));
  queue_op(frame);
  flush(peer);
}

void Protocol::queue_op(Op* op) {
  op->stage = OpStage::queued;
  op->first_sent = false;
  op->peer->backlog.push(op);
}

void Protocol::list_peer(Peer& peer) {
  if (peer.listed) return;
  peer.listed = true;
  peer.next_listed = listed_;
  listed_ = &peer;
}

unsigned Protocol::flush_listed() {
  unsigned events = 0;
  Peer* peer = listed_;
  listed_ = nullptr;
  while (peer) {
    Peer* const next = peer->next_listed;
    peer->listed = false;
    events += flush(*peer);
    peer = next;
  }
  return events;
}

// Hands frames to the driver until it has no room or nothing is left: first the backlog in
// order, then the streams in turn, so that a small message never waits for a large one.
unsigned Protocol::flush(Peer& peer) {
  if (peer.flushing || peer.state != PeerState::up) return 0;
  peer.flushing = true;
  unsigned frames = 0;
  bool room = true;
  while (room && !peer.backlog.empty()) {
    Op* op = peer.backlog.head;
    room = send_next_frame(op);
    frames += room;
  }
  // Frames of one message in a row: its memory is read, and written at the other side, in order.
  const uint32_t turn = stream_turn(peer.driver->caps());
  for (uint32_t i = 0; i < turn && room && !peer.streams.empty(); ++i) {
    Op* op = peer.streams.head;
    room = stream_next_frame(op);
    frames += room;
    if (!room || ++peer.stream_frames < turn) continue;
    peer.stream_frames = 0;
    if (peer.streams.head != op) continue;
    peer.streams.remove(op);
    peer.streams.push(op);
  }
  peer.flushing = false;
  if (!room) ++counters_->backpressure;
  if (peer.state == PeerState::up && (!peer.backlog.empty() || !peer.streams.empty()))
    list_peer(peer);
  return frames;
}

// The next frame of the operation at the head of the backlog.
bool Protocol::send_next_frame(Op* op) {
  const bool carries_payload = op->role == OpRole::send && !op->announced;
  const bool carries_buffer = op->role == OpRole::request && op->buffer;
  const uint64_t left = carries_payload  ? op->accepted - op->moved
                        : carries_buffer ? op->buffer_bytes
                                         : 0;
  if (!op->first_sent) {
    if (!send_frame(op, op->head.data(), op->head_bytes, 0, left)) return false;
    op->first_sent = true;
  } else {
    wire::Control h{};
    h.kind = wire::Kind::more;
    h.length = op->moved;
    std::byte head[sizeof(h)];
    if (!send_frame(op, head, uint32_t(wire::encode(h, head)), op->moved, left)) return false;
  }
  if (!carries_payload || op->moved == op->accepted) {
    op->peer->backlog.remove(op);
    frames_handed_over(op);
  }
  return true;
}

bool Protocol::stream_next_frame(Op* op) {
  wire::Control h{};
  h.kind = wire::Kind::data;
  h.op = op->peer_op;
  h.length = op->moved;
  std::byte head[sizeof(h)];
  const uint64_t before = op->moved;
  const uint64_t left = op->accepted - op->moved;
  if (!send_frame(op, head, uint32_t(wire::encode(h, head)), op->moved, left)) return false;
  counters_->streamed_bytes += op->moved - before;
  if (op->moved == op->accepted) {
    op->peer->streams.remove(op);
    op->stage = OpStage::waiting;  // for the finish of the target
  }
  return true;
}

// One frame with up to `want` bytes of the payload from `offset` on; advances op->moved.
bool Protocol::send_frame(Op* op, const std::byte* head, uint32_t head_bytes, uint64_t offset,
                          uint64_t want) {
  Driver& driver = *op->peer->driver;
  const DriverCaps& caps = driver.caps();
  const uint64_t room = share_of_frame(caps, head_bytes, want);
  iovec pieces[kPieces];
  Tx tx;
  uint64_t bytes = 0;
  bool packed = false;
  if (room > 0) {
    if (op->role == OpRole::request || (op->functions && op->buffer)) {
      bytes = op->buffer_bytes;  // a getput's payload, or a packed body that was refused
      pieces[0] = {op->buffer, bytes};
      tx.piece_count = 1;
    } else {
      if (!op->functions)
        tx.piece_count =
            op->data.slice(offset, room, pieces, std::min(kPieces, caps.pieces_max), &bytes);
      const uint64_t packable = std::min<uint64_t>(room, caps.inline_max);
      if (op->functions || bytes < packable) {
        bytes = packable;
        op->data.copy_out(offset, staging_.data(), bytes);
        pieces[0] = {staging_.data(), bytes};
        tx.piece_count = 1;
        packed = true;
      }
    }
  }
  tx.peer = op->peer->route;
  tx.head = head;
  tx.head_bytes = head_bytes;
  tx.pieces = pieces;
  tx.body_bytes = uint32_t(bytes);
  // The memory of a stream is the protocol's until its target has all of it, but what was packed
  // is not kept that long.
  const bool stays = !packed && !op->functions;
  tx.lent = op->announced && stays && caps.lend_min && bytes >= caps.lend_min;
  const bool borrowed = bytes > caps.inline_max || tx.lent;
  if (borrowed) tx.cookie = ops_.handle(op);
  if (driver.send({&tx, 1}) != 1) {
    if (packed && op->functions) {  // pack functions run once for every byte
      op->buffer = static_cast<std::byte*>(std::malloc(bytes));
      TORII_ASSERT(op->buffer);
      std::memcpy(op->buffer, staging_.data(), bytes);
      op->buffer_bytes = uint32_t(bytes);
    }
    return false;
  }
  if (op->functions && op->buffer) {
    std::free(op->buffer);
    op->buffer = nullptr;
  }
  if (borrowed) ++op->pending_dones;
  if (op->role == OpRole::send) op->moved += bytes;
  ++counters_->frames_sent;
  counters_->bytes_sent += bytes;
  return true;
}

// All frames that leave by themselves have left.
void Protocol::frames_handed_over(Op* op) {
  switch (op->role) {
    case OpRole::control:
      free_op(op);
      return;
    case OpRole::send:
      if (op->announced) {
        op->stage = OpStage::waiting;
      } else {
        op->stage = OpStage::flying;
        if (op->pending_dones == 0) source_done(op, Status::ok);
      }
      return;
    case OpRole::request:
    case OpRole::incoming:
      op->stage = OpStage::waiting;
      return;
    case OpRole::held:
    case OpRole::access:
      return;
  }
}

// The operation is over. Its owner is told at once, or, while the driver still uses the memory,
// after the last done().
void Protocol::conclude(Op* op, Status status, OpEvent answer, uint64_t bytes) {
  if (op->pending_dones > 0) {
    op->stage = OpStage::finished;
    op->status = status;
    op->answer = answer;
    op->answer_bytes = bytes;
    return;
  }
  const bool good = status == Status::ok;
  if (op->role == OpRole::control || !op->owner.notify) return free_op(op);
  if (op->role != OpRole::send) {
    op->owner.notify(op, answer, status, bytes);
    return free_op(op);
  }
  const bool first = !op->sent_told;
  op->sent_told = true;
  if (first)
    op->owner.notify(op, op->is_reply ? OpEvent::replied : OpEvent::sent, status,
                     good ? op->accepted : 0);
  if (op->want_ack && (good || !first))
    op->owner.notify(op, good ? answer : OpEvent::acked, status, bytes);
  free_op(op);
}

// The source memory is free again.
void Protocol::source_done(Op* op, Status status) {
  const OpEvent event = op->is_reply ? OpEvent::replied : OpEvent::sent;
  op->sent_told = true;
  if (op == starting_ && !op->want_ack && status == Status::ok) {
    started_done_ = true;
  } else if (op->owner.notify) {
    op->owner.notify(op, event, status, op->accepted);
  }
  if (op->want_ack && status == Status::ok) {
    op->stage = OpStage::waiting;
  } else {
    free_op(op);
  }
}

}  // namespace torii
