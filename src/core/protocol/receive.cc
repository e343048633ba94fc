// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The target's side: from a frame to matched memory, and the answers that go back.
#include <algorithm>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "core/protocol/express.h"

namespace torii {

using choice::Way;
using wire::Kind;

namespace {

// True for the answers of a target to a request that it does not serve.
bool refusal(Status status) {
  return status == Status::dropped || status == Status::denied || status == Status::invalid;
}

// The fields that the headers of messages for a tagged port have in common.
template <typename H>
inline Arrival for_port(Peer& peer, Kind kind, const H& h, uint64_t length) {
  Arrival a;
  a.peer = &peer;
  a.kind = kind;
  a.env.space = Space::tagged;
  a.env.index = uint8_t(h.port & ~wire::kReadyBit);
  a.env.ready = (h.port & wire::kReadyBit) != 0;
  a.env.bits = h.bits;
  a.env.hdr_data = h.user;
  a.env.length = length;
  return a;
}

}  // namespace

// Charges an eager message to the peer's window. False: the peer sent more than it was granted.
inline bool Protocol::take_window(Peer& peer, uint64_t bytes, uint32_t* units) {
  const uint64_t cost = wire::credit_units(bytes);
  if (peer.window < peer.in_use || cost > peer.window - peer.in_use) return false;
  peer.in_use += cost;
  *units = uint32_t(cost);
  return true;
}

[[gnu::hot]] Arrival tagged_arrival(Peer& peer, const wire::Tagged& h,
                                    std::span<const std::byte> payload) {
  Arrival a = for_port(peer, Kind::put, h, payload.size());
  a.payload = payload;
  a.peer_op = 0;
  a.credit = uint32_t(wire::credit_units(payload.size()));
  return a;
}

// Nearly every frame is a tagged one; the others are left to on_frame().
[[gnu::hot]] void Protocol::Rail::packet(PeerId from, std::span<const std::byte> frame) {
  Counters& counters = *protocol->counters_;
  ++counters.frames_received;
  Peer* const peer = get(from);
  wire::Tagged tagged;
  uint32_t units;
  if (__builtin_expect(!peer || !peer->hello_received || !wire::parse_tagged(frame, &tagged), 0))
    return protocol->on_frame(*this, from, frame);
  peer->in_row = false;
  const auto payload = frame.subspan(sizeof(tagged));
  counters.bytes_received += payload.size();
  if (__builtin_expect(!protocol->take_window(*peer, payload.size(), &units), 0))
    return protocol->bad_frame(peer, "eager message beyond the granted window", "bytes",
                               payload.size());
  peer->credit += tagged.credit;
  if (__builtin_expect(payload.size() >= peer->plan.crossing_min, 0) && !peer->backlog.empty())
    peer->recent.met();
  protocol->upper_->on_tagged(*peer, tagged, payload);
}

// Most of a network's frames to lossy groups come from the link, which knows their senders.
void Protocol::Rail::packets(std::span<Packet> all) {
  for (const Packet& one : all) {
    if (__builtin_expect(one.sender != kNoSender, 0)) {
      ++protocol->counters_->frames_received;
      protocol->upper_->on_lossy(index, one.from, one.sender, one.frame);
    } else {
      packet(one.from, one.frame);
    }
  }
}

void Protocol::on_frame(Rail& rail, PeerId from, std::span<const std::byte> bytes) {
  Peer* peer = rail.get(from);
  if (!peer && std::find(rail.lossy.begin(), rail.lossy.end(), from) != rail.lossy.end())
    return upper_->on_lossy(rail.index, from, kNoSender, bytes);
  if (peer && peer->state != PeerState::up) return;  // it may not know of its end yet
  wire::Frame frame;
  if (!wire::parse(bytes, &frame))
    return bad_frame(peer ? peer : stranger(rail, from), "malformed header", "kind",
                     bytes.empty() ? 0 : uint64_t(bytes[0]));
  if (frame.kind == Kind::hello) return on_hello(rail, from, frame.hello);
  if (!peer || !peer->hello_received)
    return bad_frame(peer ? peer : stranger(rail, from), "frame before hello", "kind",
                     uint64_t(frame.kind));
  counters_->bytes_received += frame.payload.size();
  peer->in_row = false;
  switch (frame.kind) {
    case Kind::tagged_announce:
      return on_announced(*peer, frame);
    case Kind::put:
    case Kind::puts:
    case Kind::put_announce:
    case Kind::get:
    case Kind::getput:
      return on_request(*peer, frame);
    case Kind::update:
      return on_update(*peer, frame);
    case Kind::updated:
      return on_updated(*peer, frame.updated);
    default:
      return on_control(*peer, frame);
  }
}

Op* Protocol::find_op(Peer& peer, uint64_t handle) const {
  Op* op = ops_.find(handle);
  return op && op->peer == &peer && op->stage != OpStage::finished ? op : nullptr;
}

void Protocol::on_announced(Peer& peer, const wire::Frame& frame) {
  const wire::Announced& h = frame.announced;
  peer.credit += h.credit;
  Arrival a = for_port(peer, Kind::put_announce, h, h.length);
  a.key = frame.key;
  a.peer_op = h.op;
  a.credit = 0;
  peer.silent = false;
  if (announced_ > 0) peer.recent.met();
  upper_->on_put(a);
}

void Protocol::on_request(Peer& peer, const wire::Frame& frame) {
  const wire::Request& h = frame.request;
  uint32_t units = 0;
  if (h.kind == Kind::put) {
    if (peer.inflow) return bad_frame(&peer, "eager message inside another one", "bytes", h.length);
    // Data for an export is never kept.
    if (!(h.flags & wire::kMemorySpace) && !take_window(peer, h.length, &units))
      return bad_frame(&peer, "eager message beyond the granted window", "bytes", h.length);
  } else if (h.kind == Kind::getput && h.length > kGetputMax) {
    return bad_frame(&peer, "getput that is too long", "bytes", h.length);
  }
  peer.credit += h.credit;
  Arrival a;
  a.peer = &peer;
  a.kind = h.kind;
  a.env.space = h.flags & wire::kTaggedSpace   ? Space::tagged
                : h.flags & wire::kMemorySpace ? Space::memory
                                               : Space::portal;
  a.env.index = h.index;
  a.env.want_ack = (h.flags & wire::kWantAck) != 0;
  a.env.ready = (h.flags & wire::kReady) != 0;
  a.env.ac_index = h.ac_index;
  a.env.bits = h.bits;
  a.env.hdr_data = h.hdr_data;
  a.env.offset = h.offset;
  a.env.length = h.length;
  a.payload = frame.payload;
  a.key = frame.key;
  a.peer_op = h.op;
  a.credit = units;
  if (h.kind == Kind::put_announce && announced_ > 0) peer.recent.met();
  peer.silent = false;
  if (h.kind == Kind::get || h.kind == Kind::getput) return upper_->on_get(a);
  upper_->on_put(a);
}

void Protocol::on_update(Peer& peer, const wire::Frame& frame) {
  const wire::Update& h = frame.update;
  peer.credit += h.credit;
  Arrival a;
  a.peer = &peer;
  a.kind = h.kind;
  a.env.space = Space::memory;
  a.env.bits = h.bits;
  a.env.hdr_data = h.label;
  a.env.offset = h.offset;
  a.env.length = h.width;
  a.payload = frame.payload;
  a.peer_op = h.op;
  a.credit = 0;
  a.update = &h;
  upper_->on_update(a);
}

void Protocol::on_updated(Peer& peer, const wire::Updated& h) {
  peer.credit += h.credit;
  Op* op = find_op(peer, h.op);
  if (!op || op->role != OpRole::update || op->waits())
    return bad_frame(&peer, "answer to no atomic operation", "operation", h.op);
  op->data.copy_in(0, &h.old, sizeof(h.old));
  conclude(op, Status::ok, OpEvent::received, h.busy ? 0 : sizeof(h.old));
}

void Protocol::on_control(Peer& peer, const wire::Frame& frame) {
  const wire::Control& h = frame.control;
  peer.credit += h.credit;
  switch (h.kind) {
    case Kind::credit:
      return;
    case Kind::bye:
      if (h.status == uint8_t(Status::ok)) return fail_peer(peer, Status::peer_closed);
      peer.fault = "it has cut this process off, and its own message says why";
      return fail_peer(peer, Status::peer_dead);
    case Kind::joined:
      return upper_->on_joined(peer, h.op, h.length != 0);
    case Kind::more:
      return on_more(peer, frame);
    case Kind::reply:
      return on_reply(peer, frame, false);
    case Kind::reply_announce:
      return on_reply(peer, frame, true);
    case Kind::stream:
      return on_stream(peer, frame);
    case Kind::data:
    case Kind::data_end:
      return on_data(peer, frame);
    default:
      break;
  }
  Op* op = find_op(peer, h.op);
  if (!op || op->waits()) return bad_frame(&peer, "answer to no operation", "operation", h.op);
  if (h.kind == Kind::finish) return on_finish(op, static_cast<Status>(h.status), h.length);
  // An acknowledgement. It may come before the driver's done().
  if (!op->sends() || op->announced() || !op->want_ack || h.length > op->length)
    return bad_frame(&peer, "unexpected acknowledgement", "bytes", h.length);
  conclude(op, Status::ok, OpEvent::acked, h.length);
}

// The peer's last word on an operation: it moved the announced payload, or dropped the request.
void Protocol::on_finish(Op* op, Status status, uint64_t length) {
  Peer& peer = *op->peer;
  if (status == Status::pending || status == Status::again)
    return bad_frame(&peer, "finish that is none", "status", uint64_t(status));
  if (op->role == OpRole::incoming) {  // the source wrote into our memory
    if (!op->region || length != op->accepted)
      return bad_frame(&peer, "unexpected finish of a write", "bytes", length);
    counters_->pushed_bytes += op->accepted;
    return incoming_done(op, status);
  }
  if (op->role == OpRole::request || op->role == OpRole::update) {
    if (!refusal(status))
      return bad_frame(&peer, "unexpected finish of a request", "status", uint64_t(status));
    return conclude(op, status == Status::dropped ? Status::ok : status, OpEvent::dropped, 0);
  }
  const bool owed = op->sends() && (op->announced() || op->want_ack);
  if (!owed || length > op->length)
    return bad_frame(&peer, "unexpected finish of a message", "bytes", length);
  if (op->moves()) return bad_frame(&peer, "finish during a remote write", "bytes", length);
  if (op->stage == OpStage::streaming) peer.streams.remove(op);
  op->stage = OpStage::waiting;
  const bool dropped = status == Status::dropped;
  conclude(op, dropped ? Status::ok : status, dropped ? OpEvent::dropped : OpEvent::acked, length);
}

// `verdict`: ok, or why the put was refused.
void Protocol::answer_put(Peer& peer, uint64_t peer_op, Status verdict, uint64_t accepted) {
  if (peer_op == 0) return;
  if (verdict != Status::ok) {
    send_control(peer, Kind::finish, verdict, peer_op, 0, 0);
  } else {
    send_control(peer, Kind::ack, Status::ok, peer_op, 0, accepted);
  }
}

Debt Protocol::postpone(const Arrival& a) {
  ++counters_->unexpected;
  counters_->unexpected_bytes += a.env.length;
  return {a.peer_op, a.credit};
}

// With the zeros at its end, which did not travel.
void Protocol::keep_key(Op* op, std::span<const std::byte> key) {
  const size_t whole = key.empty() ? 0 : op->peer->driver->caps().key_bytes;
  op->key_bytes = uint16_t(std::max(whole, key.size()));
  std::copy(key.begin(), key.end(), op->key.begin());
  std::fill(op->key.begin() + key.size(), op->key.begin() + op->key_bytes, std::byte{0});
}

Status Protocol::accept(Arrival& a, const Data& destination, uint64_t accepted, bool no_ack,
                        const Owner& owner, Op** out) {
  Peer& peer = *a.peer;
  if (out) *out = nullptr;
  if (a.complete()) {
    place(a, destination, accepted, no_ack);
    return Status::ok;
  }
  Op* op = make_op(peer, OpRole::incoming, owner);
  if (!op) {
    drop(a);
    return Status::no_memory;
  }
  op->data = destination;
  op->length = a.env.length;
  op->accepted = accepted;
  op->peer_op = a.peer_op;
  op->want_ack = !no_ack;
  if (a.kind == Kind::put_announce) {
    op->way = Way::announced;
    op->soon = a.soon;
    keep_key(op, a.key);
    return begin_incoming(op, out, true);
  }
  op->credit_owed = a.credit;
  return receive_eager(op, a.payload, out);
}

// The first payload of an eager message of several frames; the rest comes by `more`.
Status Protocol::receive_eager(Op* op, std::span<const std::byte> payload, Op** out) {
  const uint64_t here = std::min<uint64_t>(payload.size(), op->accepted);
  if (op->role == OpRole::held) {
    copy_bytes(op->buffer, payload.data(), payload.size(), TakeFrom{*op->peer});
  } else {
    op->data.copy_in(0, payload.data(), here, TakeFrom{*op->peer});
  }
  op->moved = payload.size();
  op->stage = OpStage::waiting;
  if (op->moved < op->length) op->peer->inflow = op;
  if (out) *out = op;
  return Status::pending;
}

void Protocol::on_more(Peer& peer, const wire::Frame& frame) {
  Op* op = peer.inflow;
  const uint64_t size = frame.payload.size();
  if (!op || frame.control.length != op->moved || size > op->length - op->moved)
    return bad_frame(&peer, "continuation of no message", "offset", frame.control.length);
  const uint64_t at = op->moved;
  op->moved += size;
  if (!peer.backlog.empty()) peer.recent.met();
  if (op->moved == op->length) peer.inflow = nullptr;
  if (op->role == OpRole::held) {
    copy_bytes(op->buffer + at, frame.payload.data(), size, TakeFrom{peer});
    return;
  }
  if (at < op->accepted)
    op->data.copy_in(at, frame.payload.data(), std::min<uint64_t>(size, op->accepted - at),
                     TakeFrom{peer});
  if (op->moved == op->length) incoming_done(op, Status::ok);
}

// The destination is complete (or failed): answer the source, tell the owner.
void Protocol::incoming_done(Op* op, Status status) {
  Peer& peer = *op->peer;
  give_back(peer, op->credit_owed);
  op->credit_owed = 0;
  if (op->announced()) {
    const bool hide = !op->want_ack && status == Status::ok;
    if (op->end == End::finish || hide)
      send_control(peer, Kind::finish, hide ? op->refusal : status, op->peer_op, 0, op->accepted);
  } else if (status == Status::ok) {
    answer_put(peer, op->peer_op, op->want_ack ? Status::ok : op->refusal, op->accepted);
  }
  if (op == starting_) {
    started_done_ = true;
    starting_status_ = status;
  } else if (op->owner.notify) {
    op->owner.notify(op, OpEvent::received, status, op->accepted);
  }
  free_op(op);
}

Op* Protocol::hold(Arrival& a) {
  Op* op = make_op(*a.peer, OpRole::held, Owner{});
  if (!op) return nullptr;
  op->length = a.env.length;
  op->peer_op = a.peer_op;
  op->stage = OpStage::waiting;
  ++counters_->unexpected;
  if (a.kind == Kind::put_announce) {
    op->way = Way::announced;
    keep_key(op, a.key);
    return op;
  }
  if (op->length > 0) {
    op->buffer = buffers_.get(op->length);
    if (!op->buffer) {
      free_op(op);
      return nullptr;
    }
  }
  op->credit_owed = a.credit;
  counters_->unexpected_bytes += op->length;
  if (op->length > 0) (void)receive_eager(op, a.payload, nullptr);
  return op;
}

Status Protocol::claim(Op* op, const Data& destination, uint64_t accepted, bool no_ack,
                       const Owner& owner, Op** out) {
  Peer& peer = *op->peer;
  if (out) *out = nullptr;
  op->role = OpRole::incoming;
  op->owner = owner;
  op->data = destination;
  op->accepted = accepted;
  op->want_ack = !no_ack;
  const bool incomplete = op->announced() || op->moved < op->length;
  if (incomplete && peer.state != PeerState::up) {
    const Status why = down_status(peer);
    free_op(op);
    return why;
  }
  if (op->announced()) {
    return begin_incoming(op, out, true);
  }
  destination.copy_in(0, op->buffer, std::min(op->moved, accepted));
  if (op->moved == op->length) {
    give_back(peer, op->credit_owed);
    answer_put(peer, op->peer_op, no_ack ? Status::dropped : Status::ok, accepted);
    free_op(op);
    return Status::ok;
  }
  buffers_.put(op->buffer);
  op->buffer = nullptr;
  if (out) *out = op;
  return Status::pending;
}

void Protocol::discard(Op* op) {
  Peer& peer = *op->peer;
  if (peer.inflow == op) {  // the rest of its payload is still to come, then the answer goes
    op->role = OpRole::incoming;
    op->accepted = 0;
    op->want_ack = false;
    return;
  }
  if (op->peer_op) send_control(peer, Kind::finish, Status::dropped, op->peer_op, 0, 0);
  give_back(peer, op->credit_owed);
  free_op(op);
}

void Protocol::drop(Arrival& a) {
  ++counters_->dropped;
  refuse(a, Status::dropped);
}

void Protocol::refuse(Arrival& a, Status why) {
  TORII_ASSERT(refusal(why));
  Peer& peer = *a.peer;
  if (a.kind == Kind::put && a.payload.size() < a.env.length) {
    // Swallows the rest. The answer has to wait for it: the sender is still at work.
    Op* op = make_op(peer, OpRole::incoming, Owner{});
    TORII_ASSERT(op);
    op->length = a.env.length;
    op->peer_op = a.peer_op;
    op->credit_owed = a.credit;
    op->refusal = why;
    (void)receive_eager(op, a.payload, nullptr);
    return;
  }
  if (a.peer_op) send_control(peer, Kind::finish, why, a.peer_op, 0, 0);
  give_back(peer, a.credit);
}

Status Protocol::reply(Arrival& a, const Data& source, uint64_t accepted, const Owner& owner,
                       Op** out) {
  Peer& peer = *a.peer;
  if (out) *out = nullptr;
  if (peer.state != PeerState::up) return Status::peer_closed;
  if (!peer.hello_sent) queue_hello(peer);
  Op* op = make_op(peer, OpRole::reply, owner);
  if (!op) {
    drop(a);
    return Status::no_memory;
  }
  op->data = source;
  op->length = op->accepted = accepted;
  op->peer_op = a.peer_op;
  choice::Payload payload;
  payload.bytes = accepted;
  payload.contiguous = source.contiguous();
  payload.near = accepted == source.bytes() && near(peer, source);
  payload.exported = a.env.space == Space::memory;
  const choice::Choice choice = choice::reply(peer.plan, payload);
  op->way = choice.way;
  if (op->way == Way::streamed) {
    op->stage = OpStage::streaming;
    (void)register_local(op);
    return start(op, out);
  }
  announced_ += op->announced();
  op->head_bytes = sizeof(wire::Control);
  (void)(op->announced() ? export_memory(op, kRemoteRead) : register_local(op));
  set_control_head(op, op->announced() ? Kind::reply_announce : Kind::reply, Status::ok, accepted);
  return start(op, out);
}

void Protocol::on_reply(Peer& peer, const wire::Frame& frame, bool announced) {
  const wire::Control& h = frame.control;
  Op* op = find_op(peer, h.op);
  if (!op || op->role != OpRole::request || op->waits() || h.length > op->accepted)
    return bad_frame(&peer, "reply to no request", "operation", h.op);
  if (!announced && frame.payload.size() < h.length && (peer.inflow || frame.payload.empty()))
    return bad_frame(&peer, "broken reply", "bytes", frame.payload.size());
  op->role = OpRole::incoming;
  op->length = op->accepted = h.length;
  op->want_ack = true;
  op->credit_owed = 0;  // what the request carried has arrived
  op->way = announced ? Way::announced : Way::eager;
  buffers_.put(op->buffer);
  op->buffer = nullptr;
  if (announced) {
    op->peer_op = h.sender_op;
    keep_key(op, frame.key);
    (void)begin_incoming(op, nullptr, false);
    return;
  }
  (void)receive_eager(op, frame.payload, nullptr);
  if (op->moved == op->length) incoming_done(op, Status::ok);
}

}  // namespace torii
