// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Announced payloads, after the match: the target reads the source's memory, or asks the source
// to write or to send frames, whatever the driver between them can do. Nothing is copied twice.
#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/protocol/protocol.h"

namespace torii {

using choice::Move;
using wire::Kind;

// The destination of an announced payload is known. With `answer_here` a transfer that ends at
// once is answered by the return value instead of a notification.
Status Protocol::begin_incoming(Op* op, Op** out, bool answer_here) {
  Op* const outer = starting_;
  const bool outer_done = started_done_;
  starting_ = answer_here ? op : nullptr;
  started_done_ = false;
  if (out) *out = op;

  if (op->accepted == 0) {
    incoming_done(op, Status::ok);
  } else {
    begin_move(op);
  }

  const bool over = started_done_;
  const Status status = starting_status_;
  starting_ = outer;
  started_done_ = outer_done;
  if (!over) return Status::pending;
  if (out) *out = nullptr;
  return status;
}

// A request that waits is none for frames first.
void Protocol::begin_move(Op* op) {
  Peer& peer = *op->peer;
  choice::Target target;
  target.bytes = op->accepted;
  target.backlog = !peer.backlog.empty();
  target.silent = peer.silent;
  target.key = import_key(op, kGet);
  target.near = target.key && near(peer, op->data);
  target.sooner =
      target.key && target.bytes < peer.plan.sent_below && peer.advice->sooner_sent(op->remote);
  switch (choice::move(peer.plan, target)) {
    case Move::frames:
    case Move::write:
      ++counters_->payloads_framed;
      return ask_stream(op);
    case Move::frames_first:
      ++counters_->payloads_asked;
      if (ask_first(op)) return;
      return start_move(op);
    case Move::read:
      ++counters_->payloads_read;
      return start_move(op);
  }
}

// Makes the other side's key a handle of the driver, if that may reach its memory.
bool Protocol::import_key(Op* op, Cap by) {
  Peer& peer = *op->peer;
  const bool whole = op->key_bytes > 0 && op->key_bytes == peer.driver->caps().key_bytes;
  return whole && op->remote == kNoRemote &&
         choice::reachable(peer.plan, by, local_payload(op), op->data.has_address(),
                           peer.remote_denied) &&
         peer.driver->import(peer.route, {op->key.data(), op->key_bytes}, &op->remote) ==
             Status::ok;
}

// Asks the source for the payload: by remote write if that is what the driver offers, otherwise
// by frames.
void Protocol::ask_stream(Op* op) {
  op->key_bytes = 0;
  op->head_bytes = sizeof(wire::Control);
  if (!op->peer->plan.can(kGet)) export_memory(op, kRemoteWrite);
  set_control_head(op, Kind::stream, Status::ok, op->accepted);
  if (!op->peer->hello_sent) queue_hello(*op->peer);
  queue_op(op);
  flush(*op->peer);
}

// False: the request could not leave at once.
bool Protocol::ask_first(Op* op) {
  op->asked = Asked::yes;
  ask_stream(op);
  if (op->stage == OpStage::asked) return true;
  op->peer->backlog.remove(op);
  op->asked = Asked::no;
  return false;
}

// The request has left.
void Protocol::wait_for_stream(Op* op) {
  op->stage = op->readable() ? OpStage::asked : OpStage::waiting;
  if (!op->readable()) return;
  ++moves_;
  op->since_ns = time();
  Peer& peer = *op->peer;
  if (std::exchange(peer.streamed, false)) peer.streamed_ns = op->since_ns;
  asked_.push(op);
}

void Protocol::stop_waiting(Op* op) {
  asked_.remove(op);
  op->stage = OpStage::waiting;
  --moves_;
}

// Some sources do not send, because they compute, say: what has not come is read. If they send in
// spite of that, the frames are not used.
void Protocol::give_up_streams() {
  const uint64_t now = time();
  for (int i = 0; i < kGivenUpAtOnce && !asked_.empty(); ++i) {
    Op* const op = asked_.head;
    if (now - op->since_ns < kPatienceNs) return;
    Peer& peer = *op->peer;
    if (std::exchange(peer.streamed, false)) peer.streamed_ns = now;
    if (now - peer.streamed_ns < kPatienceNs) {  // it sends others first
      op->since_ns = now;
      asked_.remove(op);
      asked_.push(op);
      continue;
    }
    stop_waiting(op);
    peer.silent = peer.given_up = true;
    ++counters_->streams_given_up;
    op->streamed = op->moved;
    enter_moves(op);
    movers_.push(peer);
  }
}

// A payload that came partly by frames, and then was to be read, cannot be read. If no frame was
// passed over meanwhile, those that are missing are still to come.
void Protocol::restart_stream(Op* op) {
  op->moved = op->streamed;
  if (op->asked != Asked::missed) return;
  op->moved = 0;
  op->asked = Asked::again;
  ask_stream(op);
}

// Frames of a source that was given up, or those before the first one of a stream that was begun
// anew.
bool Protocol::comes_late(Peer& peer, Op* op, uint64_t offset) {
  if (!peer.given_up) return false;
  peer.silent = false;
  const bool read = op && op->readable() && op->moves();
  const bool earlier = op && op->asked == Asked::again && offset != 0;
  if (op && !read && !earlier) {
    if (op->asked == Asked::again) op->asked = Asked::no;
    return false;
  }
  if (read) op->asked = Asked::missed;
  ++counters_->late_replies;
  return true;
}

inline Rma Protocol::rma_of(const Peer& peer, uint32_t remote, uint64_t offset,
                            std::span<const iovec> pieces, uint64_t bytes) const {
  Rma rma;
  rma.peer = peer.route;
  rma.remote = remote;
  rma.remote_offset = offset;
  rma.pieces = pieces.data();
  rma.piece_count = uint32_t(pieces.size());
  rma.bytes = bytes;
  rma.alone = announced_ > 0;
  return rma;
}

void Protocol::start_move(Op* op) {
  Peer& peer = *op->peer;
  enter_moves(op);
  move_step(op);
  if (!peer.moves.empty()) movers_.push(peer);
}

void Protocol::enter_moves(Op* op) {
  op->stage = OpStage::moving;
  op->peer->moves.push(op);
  ++moves_;
}

void Protocol::leave_moves(Op* op) {
  if (op->stage == OpStage::moving) op->peer->moves.remove(op);
  op->stage = OpStage::waiting;
  --moves_;
}

// Issues remote reads or writes. A driver that moves data inside the call gets one chunk at a
// time, so that other traffic moves on in between.
unsigned Protocol::move_step(Op* op) {
  Peer& peer = *op->peer;
  Driver& driver = *peer.driver;
  const DriverCaps& caps = driver.caps();
  const bool reading = op->role == OpRole::read || op->role == OpRole::incoming;
  unsigned events = 0;
  bool in_call = false;
  if (!register_local(op)) {
    if (waits_for_registration(op)) return 0;
    move_by_frames(op);
    return 1;
  }
  while (op->moved < op->accepted) {
    if (in_call) return events;
    iovec pieces[kPieces];
    uint64_t covered = 0;
    const uint64_t want = std::min({op->accepted - op->moved, caps.remote_max, move_max_});
    const uint32_t count =
        op->data.slice(op->moved, want, pieces, std::min(kPieces, caps.pieces_max), &covered);
    Rma rma = rma_of(peer, op->remote, op->remote_offset + op->moved, {pieces, count}, covered);
    rma.cookie = ops_.handle(op);
    rma.local = op->local ? &op->local->region : nullptr;
    rma.soon = op->soon;
    const Status status = reading ? driver.get(rma) : driver.put(rma);
    if (status == Status::again) return events;
    if (status == Status::denied || status == Status::unsupported) {
      if (op->pending_dones == 0) move_refused(op);
      return events + 1;
    }
    if (status != Status::ok && status != Status::pending) {
      op->status = status;
      op->moved = op->accepted;
      break;
    }
    op->moved += covered;
    ++events;
    if (reading) counters_->pulled_bytes += covered;
    if (op->role == OpRole::write) counters_->pushed_bytes += covered;
    in_call = status == Status::ok;
    if (in_call) moved_in_call_ += covered;
    if (!in_call) ++op->pending_dones;
  }
  if (op->pending_dones == 0) {
    move_finished(op);
  } else {
    peer.moves.remove(op);
    op->stage = OpStage::issued;
  }
  return events;
}

// There is no room for its registration, but what others hold will be given back without it.
bool Protocol::waits_for_registration(Op* op) {
  return locals_ > 0 && choice::movable(op->peer->plan, local_payload(op));
}

// The operating system forbids it: this peer is served by frames from now on, from the start.
void Protocol::move_refused(Op* op) {
  op->peer->remote_denied = true;
  move_by_frames(op);
}

void Protocol::move_by_frames(Op* op) {
  Peer& peer = *op->peer;
  leave_moves(op);
  if (op->local && !op->sends()) deregister_local(op);
  op->moved = 0;
  if (op->accesses()) return access_over(op, Status::denied);
  if (op->role == OpRole::incoming) return op->readable() ? restart_stream(op) : ask_stream(op);
  op->stage = OpStage::streaming;
  peer.streams.push(op);
  flush(peer);
}

void Protocol::move_finished(Op* op) {
  leave_moves(op);
  if (op->accesses()) return access_over(op, op->status);
  if (op->role == OpRole::incoming) return incoming_done(op, op->status);
  send_control(*op->peer, Kind::finish, op->status, op->peer_op, 0, op->accepted);
}

// Where the driver has no room for one it waits, and the others behind it.
Status Protocol::access_later(Peer& peer, uint32_t remote, uint64_t offset, void* base,
                              uint64_t bytes, bool reading, const AccessOwner& owner) {
  const bool waits = !peer.moves.empty() || in_one_piece(peer, bytes);
  const auto notify = reinterpret_cast<uintptr_t>(owner.notify);
  Op* op = make_op(peer, reading ? OpRole::read : OpRole::write,
                   {&Protocol::access_event, owner.object, nullptr, {notify, owner.argument}});
  if (!op) return Status::no_memory;
  op->data = Data(base, bytes);
  op->length = op->accepted = bytes;
  op->remote = remote;
  op->remote_offset = offset;
  if (waits) {
    enter_moves(op);
    movers_.push(peer);
    return Status::pending;
  }
  Op* const outer = starting_;
  const bool outer_done = started_done_;
  starting_ = op;
  started_done_ = false;
  start_move(op);
  const bool over = started_done_;
  const Status status = starting_status_;
  starting_ = outer;
  started_done_ = outer_done;
  return over ? status : Status::pending;
}

inline bool Protocol::in_one_piece(const Peer& peer, uint64_t bytes) const {
  return bytes <= std::min(peer.whole_max, move_max_);
}

[[gnu::hot]] Status Protocol::try_access(Peer& peer, uint32_t remote, uint64_t offset, void* base,
                                         uint64_t bytes, bool reading, const AccessOwner& owner) {
  if (peer.state != PeerState::up) return down_status(peer);
  if (peer.remote_denied) return Status::denied;
  if (!peer.moves.empty() || !in_one_piece(peer, bytes)) return Status::again;
  return access_whole(peer, remote, offset, base, bytes, reading, owner);
}

[[gnu::hot]] bool Protocol::access_now(Peer& peer, uint32_t remote, uint64_t offset, void* base,
                                       uint64_t bytes, bool reading) {
  return peer.state == PeerState::up && !peer.remote_denied && in_one_piece(peer, bytes) &&
         issue(peer, remote, offset, base, bytes, reading, 0) == Status::ok;
}

// One call of the driver.
inline Status Protocol::issue(Peer& peer, uint32_t remote, uint64_t offset, void* base,
                              uint64_t bytes, bool reading, uint64_t cookie) {
  const iovec piece{base, bytes};
  Rma rma = rma_of(peer, remote, offset, {&piece, 1}, bytes);
  rma.cookie = cookie;
  const Status status = reading ? peer.driver->get(rma) : peer.driver->put(rma);
  if (status == Status::ok) (reading ? counters_->pulled_bytes : counters_->pushed_bytes) += bytes;
  return status;
}

// `again`: the driver has no room. All that is to be remembered is noted after the call, for
// nothing is told of the end before the next poll: it is on its way sooner.
inline Status Protocol::access_whole(Peer& peer, uint32_t remote, uint64_t offset, void* base,
                                     uint64_t bytes, bool reading, const AccessOwner& owner) {
  RemoteAccess* const access = accesses_.get();
  if (!access) return Status::no_memory;
  const uint64_t cookie = accesses_.handle(access) | kAccessCookie;
  const Status status = issue(peer, remote, offset, base, bytes, reading, cookie);
  if (status == Status::pending) {
    ++moves_;
    access->peer = &peer;
    access->owner = owner;
    access->base = base;
    access->offset = offset;
    access->bytes = bytes;
    access->reading = reading;
    return status;
  }
  accesses_.put(access);
  if (status != Status::denied && status != Status::unsupported) return status;
  peer.remote_denied = true;
  return Status::denied;
}

Status Protocol::try_atomic(Peer& peer, RemoteAtomic atomic, uint64_t* before,
                            RemoteAccess** under_way) {
  if (peer.state != PeerState::up) return down_status(peer);
  RemoteAccess* const access = accesses_.get();
  if (!access) return Status::no_memory;
  access->peer = &peer;
  access->bytes = 0;
  access->reading = true;
  atomic.peer = peer.route;
  atomic.old = &access->value;
  atomic.cookie = accesses_.handle(access) | kAccessCookie;
  const Status status = peer.driver->atomic(atomic);
  if (status == Status::pending) {
    ++moves_;
    *under_way = access;
    return status;
  }
  if (status == Status::ok) *before = access->value;
  accesses_.put(access);
  return status;
}

// The driver is through with one that it took whole.
void Protocol::access_done(RemoteAccess* access, Status status) {
  TORII_ASSERT(access);
  const RemoteAccess& over = *access;
  --moves_;
  if (over.peer->state != PeerState::up) status = down_status(*over.peer);
  if (status == Status::ok) {
    (over.reading ? counters_->pulled_bytes : counters_->pushed_bytes) += over.bytes;
  } else if (status == Status::denied) {
    over.peer->remote_denied = true;
  }
  over.owner.notify(over, status);
  accesses_.put(access);
}

// The same of one that is an operation.
void Protocol::access_event(Op* op, OpEvent, Status status, uint64_t) {
  const auto notify = reinterpret_cast<decltype(AccessOwner::notify)>(op->owner.words[0]);
  const AccessOwner owner{notify, op->owner.object, op->owner.words[1], {}};
  const bool reading = op->role == OpRole::read;
  notify({op->peer, owner, op->data.at(0), op->remote_offset, op->length, reading, 0}, status);
}

void Protocol::access_over(Op* op, Status status) {
  if (op == starting_) {
    started_done_ = true;
    starting_status_ = status;
    free_op(op);
  } else {
    conclude(op, status, OpEvent::moved, op->accepted);
  }
}

// The peers in turn; first the next time are those for which there was no room. A process that has
// copied for long looks first at what has arrived meanwhile.
unsigned Protocol::step_moves() {
  unsigned events = 0;
  moved_in_call_ = 0;
  PeerQueue refused;
  for (const Peer* last = movers_.tail; !movers_.empty() && moved_in_call_ < kMovedAtOnce;) {
    Peer& peer = movers_.pop();
    const unsigned count = step_moves(peer);
    if (!peer.moves.empty()) (count > 0 ? movers_ : refused).push(peer);
    events += count;
    if (&peer == last) break;
  }
  refused.append(movers_);
  movers_ = refused;
  return events;
}

// Where the driver has no room for one, the others need not ask: there may be a million of them.
unsigned Protocol::step_moves(Peer& peer) {
  unsigned events = 0;
  Op* next = peer.moves.head;
  while (next && moved_in_call_ < kMovedAtOnce) {
    Op* const op = next;
    next = op->queue.next;
    const unsigned count = move_step(op);
    if (count == 0) break;
    events += count;
  }
  return events;
}

void Protocol::Rail::done(uint64_t cookie, Status status) {
  if (cookie & kAccessCookie)
    return protocol->access_done(protocol->accesses_.find(cookie & ~kAccessCookie), status);
  Op* op = protocol->ops_.find(cookie);
  TORII_ASSERT(op && op->pending_dones > 0);
  --op->pending_dones;
  if (op->stage == OpStage::finished) {
    if (op->pending_dones == 0) protocol->conclude(op, op->status, op->answer, op->answer_bytes);
    return;
  }
  if (status != Status::ok && op->status == Status::ok) op->status = status;
  if (op->pending_dones > 0) return;
  if (op->stage == OpStage::flying) {
    protocol->source_done(op, op->status);
  } else if (op->stage == OpStage::waiting && op->end == End::told && op->status == Status::ok) {
    protocol->conclude(op, Status::ok, OpEvent::acked, op->accepted);
  } else if (op->moves() && op->status == Status::denied) {
    op->status = Status::ok;
    protocol->move_refused(op);
  } else if (op->stage == OpStage::issued || (op->moves() && op->status != Status::ok)) {
    protocol->move_finished(op);
  }
}

// A target that could read the payload may ask a second time: it was to be begun anew.
bool Protocol::may_stream(Op* op, const wire::Control& h) {
  if (op->stage == OpStage::waiting && op->moved == 0) return true;
  if (!op->region || op->peer_op != h.sender_op || op->accepted != h.length) return false;
  if (op->stage == OpStage::streaming) op->peer->streams.remove(op);
  return op->stage == OpStage::streaming || op->stage == OpStage::waiting;
}

// The target asks for the payload of an announced message.
void Protocol::on_stream(Peer& peer, const wire::Frame& frame) {
  const wire::Control& h = frame.control;
  Op* op = find_op(peer, h.op);
  if (!op || !op->sends() || !op->announced() || h.length == 0 || h.length > op->length ||
      !may_stream(op, h))
    return bad_frame(&peer, "request for the payload of no message", "operation", h.op);
  op->moved = 0;
  op->peer_op = h.sender_op;
  op->accepted = h.length;
  keep_key(op, frame.key);
  if (import_key(op, kPut)) return start_move(op);
  op->stage = OpStage::streaming;
  peer.streams.push(op);
  (void)register_local(op);
  if (!op->region || !frame.key.empty()) {
    flush(peer);
  } else {
    // It could have been read. If the peer has done so in the meantime, its word is on the way.
    peer.recent.not_read();
    list_peer(peer);
  }
}

void Protocol::on_data(Peer& peer, const wire::Frame& frame) {
  const wire::Control& h = frame.control;
  Op* op = find_op(peer, h.op);
  if (comes_late(peer, op, h.length)) return;
  const uint64_t size = frame.payload.size();
  const bool asked = op && op->role == OpRole::incoming && op->announced();
  const bool got = op && op->way == choice::Way::streamed &&
                   (op->role == OpRole::request || op->role == OpRole::incoming);
  const bool waits = op && (op->stage == OpStage::waiting || op->stage == OpStage::asked);
  if (!(asked || got) || !waits || h.length != op->moved || size > op->accepted - op->moved)
    return bad_frame(&peer, "payload of no message", "offset", h.length);
  const bool last = h.kind == Kind::data_end;
  if (last && (!asked || size < op->accepted - op->moved))
    return bad_frame(&peer, "end of a stream that goes on", "offset", h.length);
  if (op->role == OpRole::request) {
    op->role = OpRole::incoming;
    op->want_ack = true;
    op->credit_owed = 0;  // what the request carried has arrived
  }
  if (last) op->end = End::told;
  if (size > 0) peer.streamed = true;
  op->data.copy_in(op->moved, frame.payload.data(), size, TakeFrom{peer});
  op->moved += size;
  if (op->moved < op->accepted) return;
  if (op->stage == OpStage::asked) stop_waiting(op);
  incoming_done(op, Status::ok);
}

}  // namespace torii
