// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// From operations to frames in a driver: the backlog in order, streams in turn.
#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/protocol/protocol.h"

namespace torii {

using choice::Way;

namespace {

constexpr uint32_t kStreamTurnBytes = 64 << 10;  // of a stream, before others have their turn

// How many of `want` bytes go with this frame. Where all payload travels in frames, those of a
// message have the same length: drivers and cards send many frames of one length more cheaply.
uint64_t share_of_frame(const DriverCaps& caps, uint32_t frame_max, uint32_t head_bytes,
                        uint64_t want) {
  const uint64_t most = frame_max - head_bytes;
  if (want <= most) return want;
  if (caps.flags & (kGet | kPut)) return most;
  const uint64_t later = frame_max - sizeof(wire::Control);
  const uint64_t more = (want - most + later - 1) / later;
  const uint64_t all = want + head_bytes + more * sizeof(wire::Control);
  return (all + more) / (more + 1) - head_bytes;
}

// Frames of the driver's mtu that a stream fills before others have their turn: whole batches, if
// they are not too long.
uint32_t stream_turn(const DriverCaps& caps) {
  const uint32_t frames = std::max(kStreamTurnBytes / caps.mtu, 1u);
  return frames < caps.batch_max ? frames : frames - frames % caps.batch_max;
}

}  // namespace

void Protocol::queue_op(Op* op) {
  op->stage = OpStage::queued;
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
    const uint32_t sent = send_next(peer.backlog.head);
    frames += sent;
    room = sent > 0;
  }
  if (__builtin_expect(peer.unproven && frames > 0, 0)) prove(peer);
  // Frames of one message in a row: its memory is read, and written at the other side, in order.
  const uint32_t turn = stream_turn(peer.driver->caps());
  for (uint32_t i = 0; i < turn && room && !peer.streams.empty();) {
    Op* op = peer.streams.head;
    const uint32_t sent = stream_next(op, std::min(turn - i, turn - peer.stream_frames));
    frames += sent;
    i += sent;
    room = sent > 0;
    peer.stream_frames += sent;
    if (peer.stream_frames < turn) continue;
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

// The next frames of the operation at the head of the backlog; how many the driver took.
uint32_t Protocol::send_next(Op* op) {
  const bool carries_payload = op->sends() && !op->announced();
  const bool carries_buffer = op->role == OpRole::request && op->buffer;
  const uint64_t left = carries_payload  ? op->accepted - op->moved
                        : carries_buffer ? op->buffer_bytes
                                         : 0;
  uint32_t sent;
  if (carries_payload && in_run(op, left)) {
    sent = send_run(op, wire::Kind::more, kRunMost);
  } else if (op->stage == OpStage::queued) {
    sent = send_frame(op, op->head.data(), op->head_bytes, 0, left);
  } else {
    std::byte head[sizeof(wire::Control)];
    sent =
        send_frame(op, head, payload_head(op, wire::Kind::more, op->moved, head), op->moved, left);
  }
  if (sent == 0) return 0;
  op->stage = OpStage::sending;
  if (!carries_payload || op->moved == op->accepted) {
    if (op->moved > op->peer->driver->caps().mtu) op->peer->in_row = true;
    op->peer->backlog.remove(op);
    frames_handed_over(op);
  }
  return sent;
}

// At most about `most` frames of a stream; how many went.
uint32_t Protocol::stream_next(Op* op, uint32_t most) {
  const uint64_t before = op->moved;
  const uint64_t left = op->accepted - op->moved;
  uint32_t sent;
  if (in_run(op, left)) {
    sent = send_run(op, wire::Kind::data, std::min(most, kRunMost));
  } else {
    std::byte head[sizeof(wire::Control)];
    sent =
        send_frame(op, head, payload_head(op, wire::Kind::data, op->moved, head), op->moved, left);
  }
  const auto bytes = uint32_t(op->moved - before);
  counters_->streamed_bytes += bytes;
  // Long frames count for as many as they are long.
  sent = std::max(sent, bytes / op->peer->driver->caps().mtu);
  if (op->moved < op->accepted || sent == 0) return sent;
  op->peer->streams.remove(op);
  if (op->announced()) {
    op->stage = OpStage::waiting;  // for the finish of the target
  } else {
    frames_handed_over(op);
  }
  return sent;
}

// The header of a frame with the payload from `offset` on, but not of the first one of a message.
uint32_t Protocol::payload_head(const Op* op, wire::Kind kind, uint64_t offset, std::byte* out) {
  wire::Control h{};
  h.kind = kind;
  h.op = kind == wire::Kind::more ? 0 : op->peer_op;
  h.length = offset;
  return uint32_t(wire::encode(h, out));
}

// Several frames of it go to the driver together.
bool Protocol::in_run(const Op* op, uint64_t left) {
  const DriverCaps& caps = op->peer->driver->caps();
  if (op->way == Way::together) return left > caps.mtu - op->head_bytes;
  return caps.batch_max > 1 && left > caps.mtu && op->data.contiguous();
}

// The memory of a stream is the protocol's until its target has all of it.
bool Protocol::lends(const Op* op, const DriverCaps& caps, uint64_t bytes) {
  return caps.lend_min && bytes >= caps.lend_min &&
         (op->local || !op->peer->plan.registers_local()) &&
         (op->announced() || op->lent() || op->stage == OpStage::streaming);
}

// Nothing follows an eager message whose owner waits until the driver gives its memory back.
bool Protocol::awaited(const Op* op) {
  const bool several_short = op->way == Way::together && op->length <= op->peer->plan.eager_max;
  return op->lent() && !op->sent_told && !several_short;
}

// The driver tells when the stream has arrived: the frame with these bytes at its end says so.
bool Protocol::ends_by_done(const Op* op, const DriverCaps& caps, uint64_t end, uint64_t bytes) {
  return op->end != End::finish && end == op->accepted && (caps.flags & kDelivers) &&
         lends(op, caps, bytes);
}

// The longest frame for a contiguous payload. Where both processes copy, the target of a message
// that is alone waits for less if frames are short, as those at the end of a stream are.
uint32_t Protocol::longest(const Op* op, const DriverCaps& caps) {
  const Peer& peer = *op->peer;
  if (op->way == Way::together) return std::max(caps.mtu, uint32_t(op->head_bytes + op->accepted));
  if (!caps.long_max || (caps.lend_min && !lends(op, caps, caps.mtu))) return caps.mtu;
  const uint32_t most = std::max(caps.mtu, peer.long_max());
  if (caps.lend_min) return most;
  if (op->stage != OpStage::streaming) return peer.in_row ? most : caps.mtu;
  return uint32_t(std::clamp<uint64_t>((op->accepted - op->moved) / 4, caps.mtu, most));
}

// A frame of a payload that the driver only copies, for its memory is not registered.
uint32_t Protocol::bounded(const Op* op, const DriverCaps& caps, uint32_t frame, uint32_t head) {
  const bool copied = op->peer->plan.registers_local() && !op->local;
  return copied ? std::min(frame, caps.inline_max + head) : frame;
}

// Frames of a message in one piece, in one call: a driver that sends many at once more cheaply sees
// them all. Advances op->moved; returns how many the driver took.
uint32_t Protocol::send_run(Op* op, wire::Kind kind, uint32_t most) {
  Peer& peer = *op->peer;
  Driver& driver = *peer.driver;
  const DriverCaps& caps = driver.caps();
  auto& [heads, pieces, frames] = *run_;
  frames.clear();
  const uint32_t frame_max = bounded(op, caps, longest(op, caps), sizeof(wire::Control));
  most = std::max(std::min(most, caps.batch_max) * caps.mtu / frame_max, 1u);
  uint64_t at = op->moved;
  while (frames.size() < most && at < op->accepted) {
    const size_t count = frames.size();
    Tx& tx = frames.emplace_back();
    const bool first = kind == wire::Kind::more && at == 0;
    tx.peer = op->peer->route;
    tx.head = first ? op->head.data() : heads[count];
    tx.head_bytes = first ? op->head_bytes : uint32_t{sizeof(wire::Control)};
    const uint64_t bytes = share_of_frame(caps, frame_max, tx.head_bytes, op->accepted - at);
    const bool end = kind == wire::Kind::data && ends_by_done(op, caps, at + bytes, bytes);
    if (!first) payload_head(op, end ? wire::Kind::data_end : kind, at, heads[count]);
    tx.awaited = end ? peer.backlog.empty() && peer.streams.head == peer.streams.tail
                     : awaited(op) && at + bytes == op->accepted;
    pieces[count] = {op->data.at(at), bytes};
    tx.pieces = &pieces[count];
    tx.piece_count = 1;
    tx.body_bytes = uint32_t(bytes);
    tx.local = op->local ? &op->local->region : nullptr;
    tx.lent = lends(op, caps, bytes);
    if (bytes > caps.inline_max || tx.lent) tx.cookie = ops_.handle(op);
    at += bytes;
  }
  const auto taken = uint32_t(driver.send(frames));
  for (const Tx& tx : std::span(frames.data(), taken)) {
    op->moved += tx.body_bytes;
    op->pending_dones += tx.cookie != 0;
    counters_->bytes_sent += tx.body_bytes;
  }
  counters_->frames_sent += taken;
  if (kind == wire::Kind::data && op->moved == op->accepted &&
      ends_by_done(op, caps, op->moved, frames[frames.size() - 1].body_bytes))
    op->end = End::told;
  return taken;
}

// One frame with up to `want` bytes of the payload from `offset` on; advances op->moved.
bool Protocol::send_frame(Op* op, const std::byte* head, uint32_t head_bytes, uint64_t offset,
                          uint64_t want) {
  Driver& driver = *op->peer->driver;
  const DriverCaps& caps = driver.caps();
  const uint32_t mtu = op->peer->unproven ? kMtuLeast : caps.mtu;
  const uint32_t frame_max = bounded(op, caps, mtu, head_bytes);
  const uint64_t room = share_of_frame(caps, frame_max, head_bytes, want);
  const bool functions = op->role != OpRole::request && !op->data.has_address();
  iovec pieces[kPieces];
  Tx tx;
  uint64_t bytes = 0;
  bool packed = false;
  if (room > 0) {
    if (op->role == OpRole::request || (functions && op->buffer)) {
      bytes = op->buffer_bytes;  // a getput's payload, or a packed body that was refused
      pieces[0] = {op->buffer, bytes};
      tx.piece_count = 1;
    } else {
      if (!functions)
        tx.piece_count =
            op->data.slice(offset, room, pieces, std::min(kPieces, caps.pieces_max), &bytes);
      const uint64_t packable = std::min<uint64_t>(room, caps.inline_max);
      if (functions || bytes < packable) {
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
  tx.local = op->local ? &op->local->region : nullptr;
  // Packed data is not kept until the target has it.
  tx.lent = !packed && !functions && lends(op, caps, bytes);
  const bool borrowed = bytes > caps.inline_max || tx.lent;
  tx.awaited = awaited(op) && offset + bytes == op->accepted;
  if (borrowed) tx.cookie = ops_.handle(op);
  if (driver.send({&tx, 1}) != 1) {
    if (packed && functions) {  // pack functions run once for every byte
      op->buffer = buffers_.get(bytes);
      TORII_ASSERT(op->buffer);
      std::memcpy(op->buffer, staging_.data(), bytes);
      op->buffer_bytes = uint32_t(bytes);
    }
    return false;
  }
  if (functions && op->buffer) {
    buffers_.put(op->buffer);
    op->buffer = nullptr;
  }
  if (borrowed) ++op->pending_dones;
  if (op->sends()) op->moved += bytes;
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
    case OpRole::put:
    case OpRole::reply:
      if (op->announced()) {
        op->stage = OpStage::waiting;
      } else {
        op->stage = OpStage::flying;
        if (op->pending_dones == 0) source_done(op, Status::ok);
      }
      return;
    case OpRole::incoming:
      return wait_for_stream(op);
    case OpRole::request:
    case OpRole::update:
      op->stage = OpStage::waiting;
      return;
    case OpRole::held:
    case OpRole::read:
    case OpRole::write:
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
  if (!op->sends()) {
    op->owner.notify(op, answer, status, bytes);
    return free_op(op);
  }
  const bool first = !op->sent_told;
  op->sent_told = true;
  if (first)
    op->owner.notify(op, op->role == OpRole::reply ? OpEvent::replied : OpEvent::sent, status,
                     good ? op->accepted : 0);
  if (op->want_ack && (good || !first))
    op->owner.notify(op, good ? answer : OpEvent::acked, status, bytes);
  free_op(op);
}

// The source memory is free again.
void Protocol::source_done(Op* op, Status status) {
  // Others may be waiting for it, while this one waits for its target's acknowledgement.
  if (__builtin_expect(op->local != nullptr, 0)) deregister_local(op);
  const OpEvent event = op->role == OpRole::reply ? OpEvent::replied : OpEvent::sent;
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
