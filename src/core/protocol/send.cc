// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The initiator's side: from a request of the room above to an operation.
#include <algorithm>
#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "core/protocol/express.h"

namespace torii {

using choice::Way;

namespace {

// The length of a key without the words of zeros at its end.
uint16_t telling_bytes(const std::byte* key, uint32_t bytes) {
  uint64_t word = 0;
  for (; bytes > sizeof(word); bytes -= sizeof(word)) {
    std::memcpy(&word, key + bytes - sizeof(word), sizeof(word));
    if (word != 0) break;
  }
  return uint16_t(bytes);
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
  announced_ -= op->sends() && op->announced();
  op->peer->ops.remove(op);
  if (op->region) registrations_.put(op->region, op->peer->state == PeerState::up);
  if (__builtin_expect(op->local != nullptr, 0)) deregister_local(op);
  if (op->remote != kNoRemote && !op->accesses()) op->peer->driver->drop(op->remote);
  op->remote = kNoRemote;
  if (op->way == Way::copied) op->peer->copied = false;
  buffers_.put(op->buffer);
  ops_.put(op);
}

// A message that one frame could not carry lies in memory that the peer reads more cheaply than
// frames.
bool Protocol::near(const Peer& peer, const Data& source) {
  return source.bytes() > peer.plan.small_max && source.contiguous() && !peer.remote_denied &&
         peer.advice && peer.advice->near(peer.route, source.at(0));
}

// Makes op->data reachable for the peer and appends the key to op->head. False: use frames.
bool Protocol::export_memory(Op* op, uint32_t access) {
  Peer& peer = *op->peer;
  choice::Payload payload;
  payload.bytes = op->accepted;
  payload.contiguous = op->data.contiguous();
  payload.near = payload.contiguous && peer.advice && peer.advice->near(peer.route, op->data.at(0));
  payload.kept = payload.contiguous && keeps(peer, op->data, op->accepted, access);
  if (!choice::exports(peer.plan, peer.recent, payload, peer.remote_denied, access)) return false;
  op->region = registrations_.get(*peer.driver, op->data.at(0), op->accepted, access);
  if (!op->region) return false;
  const std::byte* const key = op->region->region.key.data();
  op->key_bytes = telling_bytes(key, peer.driver->caps().key_bytes);
  std::memcpy(op->head.data() + op->head_bytes, key, op->key_bytes);
  return true;
}

bool Protocol::keeps(const Peer& peer, const Data& data, uint64_t bytes, uint32_t access) {
  return peer.plan.can(kNeedsReg) && registrations_.keeps(*peer.driver, data.at(0), bytes, access);
}

// The payload that the driver itself is to move from or to memory here.
choice::Payload Protocol::local_payload(const Op* op) {
  choice::Payload payload;
  payload.bytes = op->accepted;
  payload.contiguous = op->data.contiguous();
  payload.kept = payload.contiguous && payload.bytes > op->peer->plan.copied_max &&
                 keeps(*op->peer, op->data, op->accepted, kLocal);
  return payload;
}

// Before the driver itself moves the operation's bytes. False: they cannot be registered now, or it
// does not pay; the driver may only be given what it copies.
bool Protocol::register_local(Op* op) {
  Peer& peer = *op->peer;
  if (__builtin_expect(op->accepted <= peer.plan.copied_max, 1) || op->local) return true;
  if (!choice::movable(peer.plan, local_payload(op))) return false;
  op->local = registrations_.get(*peer.driver, op->data.at(0), op->accepted, kLocal);
  locals_ += op->local != nullptr;
  return op->local != nullptr;
}

void Protocol::deregister_local(Op* op) {
  registrations_.put(op->local, op->peer->state == PeerState::up);
  op->local = nullptr;
  --locals_;
}

// For a tagged port.
void Protocol::set_announced_head(Op* op, const Envelope& env) {
  op->head_bytes = sizeof(wire::Announced);
  op->key_bytes = 0;
  export_memory(op, kRemoteRead);
  wire::Announced h{};
  h.kind = wire::Kind::tagged_announce;
  h.port = uint8_t(env.index | (env.ready ? wire::kReadyBit : 0));
  h.credit = take_credit(*op->peer);
  op->credit_owed = h.credit;
  h.user = uint32_t(env.hdr_data);
  h.bits = env.bits;
  h.length = env.length;
  h.op = ops_.handle(op);
  wire::encode(h, op->head.data());
  op->head_bytes = uint8_t(sizeof(h) + op->key_bytes);
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
  h.credit = op->readable() ? 0 : take_credit(*op->peer);  // it may be withdrawn
  h.key_bytes = op->key_bytes;
  h.op = op->peer_op;
  h.sender_op = ops_.handle(op);
  h.length = length;
  wire::encode(h, op->head.data());
  op->head_bytes = uint8_t(sizeof(h) + op->key_bytes);
}

choice::Choice Protocol::choose(Peer& peer, const Envelope& env, const Data& source) {
  if (env.several) return {Way::together};
  choice::Payload payload;
  payload.bytes = source.bytes();
  payload.contiguous = source.contiguous();
  payload.near = payload.bytes <= peer.plan.eager_max && near(peer, source);  // else it is long
  payload.exported = env.space == Space::memory;
  payload.answered = env.want_ack;
  choice::Load load;
  load.credit = peer.credit;
  load.backlog = !peer.backlog.empty();
  load.announced = announced_ > 0;
  load.denied = peer.remote_denied;
  load.copied = peer.copied;
  if (peer.plan.can(kDelivers) && payload.bytes > peer.plan.mtu) load.long_max = peer.long_max();
  return choice::put(peer.plan, &peer.recent, payload, load);
}

void Protocol::count(choice::Choice choice) {
  static constexpr uint64_t Counters::*kByReason[] = {
      nullptr,  // Reason::none
      &Counters::rendezvous_long,
      &Counters::credit_stalls,
      &Counters::rendezvous_near,
      &Counters::rendezvous_crossing,
      &Counters::rendezvous_alone,
  };
  if (choice.way == Way::announced) {
    ++counters_->rendezvous_sent;
    ++(counters_->*kByReason[size_t(choice.reason)]);
    return;
  }
  ++counters_->eager_sent;
  counters_->eager_lent += choice.way == Way::lent;
  counters_->eager_copied += choice.way == Way::copied;
}

Status Protocol::put(Peer& peer, const Envelope& env, const Data& source, const Owner& owner,
                     Op** out) {
  if (peer.state != PeerState::up) return down_status(peer);
  if (!peer.hello_sent) queue_hello(peer);
  Op* op = make_op(peer, OpRole::put, owner);
  if (!op) return Status::no_memory;
  op->data = source;
  op->length = op->accepted = source.bytes();
  op->want_ack = env.want_ack;
  const choice::Choice choice = choose(peer, env, source);
  op->way = choice.way;
  if (op->way == Way::copied && !lend_copy(op)) op->way = Way::eager;
  count({op->way, choice.reason});
  if (op->announced()) {
    ++announced_;
    if (env.space == Space::tagged) {  // it is told no more than that it was received
      op->end = End::arrival;
      set_announced_head(op, env);
    } else {
      set_request_head(op, wire::Kind::put_announce, env);
    }
    return start(op, out);
  }
  if (env.space != Space::memory) op->credit_taken = uint32_t(wire::credit_units(op->length));
  peer.credit -= op->credit_taken;
  set_request_head(op, env.several ? wire::Kind::puts : wire::Kind::put, env);
  (void)register_local(op);
  if (op->way != Way::copied) return start(op, out);
  if (out) *out = nullptr;
  (void)start(op, nullptr);
  return Status::ok;
}

// The message is over for its owner, who learns of a failure as of that of any eager message that
// has left.
bool Protocol::lend_copy(Op* op) {
  op->buffer = buffers_.get(op->length);
  if (!op->buffer) return false;
  copy_bytes(op->buffer, op->data.at(0), op->length);
  op->data = Data(op->buffer, op->length);
  op->owner = Owner{};
  op->sent_told = op->peer->copied = true;
  return true;
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
  if (env.space == Space::memory) op->way = Way::streamed;
  if (source.bytes() > 0) {
    op->buffer_bytes = uint32_t(source.bytes());
    op->buffer = buffers_.get(op->buffer_bytes);
    if (!op->buffer) {
      free_op(op);
      return Status::no_memory;
    }
    source.copy_out(0, op->buffer, op->buffer_bytes);
  }
  set_request_head(op, kind, env);
  return start(op, out);
}

Status Protocol::update(Peer& peer, wire::Update h, const wire::LockWord* lock, uint64_t* old,
                        const Owner& owner) {
  if (peer.state != PeerState::up) return down_status(peer);
  if (!peer.hello_sent) queue_hello(peer);
  Op* op = make_op(peer, OpRole::update, owner);
  if (!op) return Status::no_memory;
  op->data = Data(old, sizeof(*old));
  h.kind = wire::Kind::update;
  h.credit = take_credit(peer);
  h.op = ops_.handle(op);
  h.locked = lock != nullptr;
  op->head_bytes = uint8_t(wire::encode(h, op->head.data()));
  if (lock) {
    wire::write_lock(*lock, op->head.data() + op->head_bytes);
    op->head_bytes += uint8_t{wire::LockWord::kBytes};
  }
  return start(op, nullptr);
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
  op->stage == OpStage::streaming ? peer.streams.push(op) : queue_op(op);
  flush(peer);
  const bool over = started_done_;
  starting_ = outer;
  started_done_ = outer_done;
  if (over && out) *out = nullptr;
  return over ? Status::ok : Status::pending;
}

bool Protocol::withdraw(Op* op) {
  if (op->role != OpRole::put || op->stage != OpStage::queued) return false;
  Peer& peer = *op->peer;
  peer.credit += op->credit_taken;
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
  wire::Control h{};
  h.kind = kind;
  h.status = static_cast<uint8_t>(status);
  h.credit = take_credit(peer);
  h.op = op;
  h.sender_op = sender_op;
  h.length = length;
  send_header(peer, h);
}

void Protocol::updated(const Arrival& a, uint64_t old, bool busy) {
  Peer& peer = *a.peer;
  if (peer.state != PeerState::up) return;
  if (!peer.hello_sent) queue_hello(peer);
  wire::Updated h{};
  h.kind = wire::Kind::updated;
  h.busy = busy;
  h.credit = take_credit(peer);
  h.op = a.peer_op;
  h.old = old;
  send_header(peer, h);
}

// A frame without payload that is part of no operation: at once, or when its turn comes.
template <typename H>
void Protocol::send_header(Peer& peer, H header) {
  std::byte head[sizeof(H)];
  Tx tx;
  tx.peer = peer.route;
  tx.head = head;
  tx.head_bytes = uint32_t(wire::encode(header, head));
  if (peer.backlog.empty() && peer.driver->send({&tx, 1}) == 1) {
    ++counters_->frames_sent;
    return;
  }
  Op* frame = make_op(peer, OpRole::control, Owner{});
  if (!frame) {
    TORII_ERROR("out of memory for a control frame to %s", describe(peer).c_str());
    return;
  }
  std::memcpy(frame->head.data(), head, sizeof(H));
  frame->head_bytes = uint8_t(sizeof(H));
  queue_op(frame);
  flush(peer);
}

}  // namespace torii
