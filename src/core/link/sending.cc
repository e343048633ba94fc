// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/inplace_vector.h"
#include "core/base/log.h"
#include "core/link/crc32c.h"
#include "core/link/link_driver.h"

namespace torii::link {
namespace {

constexpr uint64_t kAckDelayNs = 100000;
constexpr uint64_t kAckLateNs = 4 * kAckDelayNs;

constexpr int32_t kOvertakenMax = 3;  // later frames that may arrive before one is missed
constexpr uint32_t kAtOnce = 2;       // frames under way up to which one is sent by send() itself
constexpr uint32_t kAcksPerWindow = 4;
constexpr size_t kBatches = 4;  // in a window that is used in whole batches
constexpr uint64_t kShunNs = 200000000;

}  // namespace

// Returns the end.
std::byte* LinkDriver::append(const Tx& tx, std::byte* out, bool body) {
  std::memcpy(out, tx.head, tx.head_bytes);
  out += tx.head_bytes;
  for (const iovec& piece : std::span(tx.pieces, body ? tx.piece_count : 0)) {
    std::memcpy(out, piece.iov_base, piece.iov_len);
    out += piece.iov_len;
  }
  return out;
}

void LinkDriver::fill(const Tx& tx, Sent* out) {
  Sent& frame = *out;
  frame.cookie = tx.cookie;
  frame.memory = pool_.get();
  const bool lent = tx.lent && tx.piece_count == 1 && caps_.lend_min;
  if (lent) {
    frame.lent = tx.pieces[0].iov_base;
    frame.lent_bytes = tx.body_bytes;
  }
  frame.memory->size =
      static_cast<uint32_t>(kHeaderBytes + tx.head_bytes + (lent ? 0 : tx.body_bytes));
  append(tx, frame.memory->bytes + kHeaderBytes, !lent);
  frame.open = !tx.cookie && !lent && tx.head_bytes + tx.body_bytes <= caps_.mtu / 2;
  if (!frame.open && !lent) set_crc(&frame);
}

// Short frames that wait share one of the link's, and with it the way through two kernels. False:
// this one does not join the last one that was taken.
bool LinkDriver::join(Peer& peer, const Tx& tx) {
  if (peer.sent.empty() || !peer.sent.back().open || tx.cookie) return false;
  Sent& last = peer.sent.back();
  const size_t bytes = tx.head_bytes + tx.body_bytes, used = last.memory->size - kHeaderBytes;
  const size_t lengths = last.several ? kLengthBytes : 2 * kLengthBytes;
  if (bytes > caps_.mtu / 2 || used + bytes + lengths > caps_.mtu) return false;
  std::byte* const first = last.memory->bytes + kHeaderBytes;
  if (!std::exchange(last.several, true)) {
    std::memmove(first + kLengthBytes, first, used);
    write_length(used, first);
  }
  std::byte* out = first + used + lengths - kLengthBytes;
  write_length(bytes, out);
  out = append(tx, out + kLengthBytes);
  last.memory->size = static_cast<uint32_t>(out - last.memory->bytes);
  return true;
}

void LinkDriver::set_crc(Sent* frame) {
  const FrameMemory& memory = *frame->memory;
  frame->payload_crc = crc32c(0, memory.bytes + kHeaderBytes, memory.size - kHeaderBytes);
  if (frame->lent) frame->payload_crc = crc32c(frame->payload_crc, frame->lent, frame->lent_bytes);
}

// Exported memory may change at any time, also between its checksum and the driver's look at it:
// such a frame is lost, so from the second time on a copy goes.
void LinkDriver::read_lent(Sent* frame) {
  if (frame->transmissions > 0) {
    FrameMemory& memory = *frame->memory;
    std::memcpy(memory.bytes + memory.size, frame->lent, frame->lent_bytes);
    memory.size += frame->lent_bytes;
    frame->lent = nullptr;
    frame->lent_bytes = 0;
  }
  set_crc(frame);
}

size_t LinkDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  while (taken < batch.size()) {
    const PeerId id = batch[taken].peer;
    size_t end = taken + 1;
    while (end < batch.size() && batch[end].peer == id) end++;
    taken += send_to(id, batch.subspan(taken, end - taken));
    if (taken < end) break;
  }
  return taken;
}

// Frames that come together leave together: at once if little is under way; else the next poll
// sends them with others.
size_t LinkDriver::send_to(PeerId id, std::span<const Tx> batch) {
  Peer& peer = peer_of(id);
  if (peer.down != Status::ok) {
    for (const Tx& tx : batch)
      if (tx.cookie) completed_.push_back({tx.cookie, peer.down});
    return batch.size();
  }
  const bool at_once = peer.flying < kAtOnce;
  if (at_once) look_at_clock();
  if (peer.sent.empty()) peer.waiting_since_ns = now_ns_;
  peer.refused = false;
  size_t taken = 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.body_bytes <= caps_.mtu - tx.head_bytes);
    if (!join(peer, tx)) {
      peer.refused = peer.sent.size() >= window_;
      if (peer.refused) break;
      fill(tx, &peer.sent.emplace_back());
    }
    taken++;
  }
  if (taken == 0) return 0;
  if (at_once) send_waiting(id, peer, static_cast<uint32_t>(taken));
  activate(id, peer);
  return taken;
}

Header LinkDriver::header_for(const Peer& peer, Kind kind, uint64_t seq) const {
  return {kind,          session_,      peer.session,
          seq,           peer.expected, peer.slots.bits(peer.expected + 1),
          !peer.has_key, whole_tags_,   false};
}

// How many frames from `at` on may go. While more is to come and something is under way, a wide
// window is used in whole batches.
size_t LinkDriver::room_for(const Peer& peer, const Rail& rail, size_t at) const {
  const uint32_t window = rail.window.frames();
  const size_t waiting = peer.sent.size() - at;
  size_t room = std::min<size_t>(waiting, window > rail.flying ? window - rail.flying : 0);
  const bool more = peer.refused || room < waiting;
  if (more && rail.flying && !peer.lost && window >= kBatches * batch_) room -= room % batch_;
  return room;
}

// Sends frames that wait, at most `most`, as far as the window allows.
void LinkDriver::send_waiting(PeerId id, Peer& peer, uint32_t most) {
  size_t at = first_waiting(peer);
  while (most > 0 && at < peer.sent.size()) {
    size_t indices[kBatchMax], count = 0;
    const uint8_t number = rail_for(id, peer, peer.sent.size() - at);
    Rail& rail = peer.rails[number];
    const size_t room = std::min<size_t>(most, room_for(peer, rail, at));
    for (; at < peer.sent.size() && count < std::min(room, batch_); at++) {
      const Sent& frame = peer.sent[at];
      // The driver below may still read an earlier transmission.
      if (frame.stage == Sent::Stage::waiting && frame.memory->users == 1) indices[count++] = at;
    }
    if (room == 0 && peer.first + peer.sent.size() > peer.next) rail.held_back = true;
    if (count == 0 || transmit(id, peer, number, {indices, count}) < count) return;
    most -= static_cast<uint32_t>(count);
  }
}

void LinkDriver::write_tags(Peer& peer, std::span<const size_t> indices, const Numbered* headers) {
  for (size_t at = 0; at < indices.size(); at += kSipLanes) {
    const size_t count = std::min(kSipLanes, indices.size() - at);
    uint64_t tags[kSipLanes];
    tags_of({headers + at, count}, key_for(peer), tags);
    for (size_t i = 0; i < count; i++) write_tag(tags[i], peer.sent[indices[at + i]].memory->bytes);
  }
}

// Hands frames of the window to the driver below; returns how many it took.
size_t LinkDriver::transmit(PeerId id, Peer& peer, uint8_t number,
                            std::span<const size_t> indices) {
  InplaceVector<Tx, kBatchMax> batch;
  iovec pieces[kBatchMax];
  InplaceVector<Numbered, kBatchMax> headers;
  Rail& rail = peer.rails[number];
  // Four times in a window the sender has to hear what has arrived.
  const uint32_t part = std::max(rail.window.frames() / kAcksPerWindow, 1u);
  for (size_t i = 0; i < indices.size(); i++) {
    Sent& frame = peer.sent[indices[i]];
    std::byte* bytes = frame.memory->bytes;
    if (frame.lent) {
      read_lent(&frame);
    } else if (std::exchange(frame.open, false)) {
      set_crc(&frame);
    }
    const Kind kind = frame.several ? Kind::several : Kind::data;
    Header header = header_for(peer, kind, peer.first + indices[i]);
    header.ask = frame.transmissions > 0 ||
                 (peer.flying + i + 1 >= part && header.seq + 1 - peer.asked >= part);
    if (header.ask) peer.asked = std::max(peer.asked, header.seq + 1);
    if (whole_tags_) {
      write_header(header, frame.payload_crc, key_for(peer),
                   {bytes + kHeaderBytes, frame.memory->size - kHeaderBytes}, bytes);
    } else {
      write_untagged(header, frame.payload_crc, bytes);
    }
    headers.emplace_back(bytes, header.seq, header.ack);
    const size_t head = std::min<size_t>(frame.memory->size, kHeadMax);
    pieces[i] = {bytes + head, frame.memory->size - head};
    if (frame.lent) pieces[i] = {const_cast<void*>(frame.lent), frame.lent_bytes};
    Tx& tx = batch.emplace_back();
    tx.peer = id;
    tx.head = bytes;
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = &pieces[i];
    tx.piece_count = pieces[i].iov_len ? 1 : 0;
    tx.body_bytes = static_cast<uint32_t>(pieces[i].iov_len);
    tx.rail = number;
    if (tx.body_bytes > below_->caps().inline_max) tx.cookie = next_operation_++;
  }
  if (!whole_tags_) write_tags(peer, indices, headers.data());
  const size_t taken = below_->send(batch);
  for (size_t i = 0; i < taken; i++) {
    Sent& frame = peer.sent[indices[i]];
    if (batch[i].cookie) {
      operations_[batch[i].cookie] = {id, 0, frame.memory};
      frame.memory->users++;
    }
    if (frame.transmissions++) {
      counters_.link_retransmits++;
      peer.lost--;
    }
    frame.stage = Sent::Stage::flying;
    frame.sent_ns = now_ns_;
    frame.rail = number;
    frame.delivered = rail.delivered;
    frame.turn = ++rail.turns;
    rail.flying++;
    peer.flying++;
    peer.next = std::max(peer.next, peer.first + indices[i] + 1);
    acknowledgement_left(peer);
  }
  return taken;
}

// A frame that goes to the peer tells it what has arrived.
void LinkDriver::acknowledgement_left(Peer& peer) { peer.owes_ack = peer.ack_at_once = false; }

// An ack tells of all frames that have arrived, also of those far behind a missing one.
bool LinkDriver::send_control(PeerId id, const Peer& peer, Kind kind, uint8_t rail) {
  std::byte bytes[kHeaderBytes + kSackMoreBytes];
  Header header = header_for(peer, kind, 0);
  size_t size = kHeaderBytes;
  uint32_t crc = 0;
  if (kind == Kind::ack && peer.slots.any()) {
    MoreSack more;
    for (size_t i = 0; i < more.size(); i++) more[i] = peer.slots.bits(peer.expected + 65 + 64 * i);
    more.back() &= ~uint64_t{0} >> 1;  // the last one is beyond the window
    if (std::any_of(more.begin(), more.end(), [](uint64_t word) { return word != 0; })) {
      write_more(more, bytes + kHeaderBytes);
      size += kSackMoreBytes;
      crc = crc32c(0, bytes + kHeaderBytes, kSackMoreBytes);
      header.whole = true;
    }
  }
  write_header(header, crc, key_for(peer), std::span(bytes, size).subspan(kHeaderBytes), bytes);
  Tx tx;
  tx.peer = id;
  tx.head = bytes;
  tx.head_bytes = static_cast<uint32_t>(size);
  tx.rail = rail;
  return below_->send({&tx, 1}) == 1;
}

// Not yet, if a frame may soon go there that tells it: who answers saves a frame. One that was so
// late is not polling while it waits for something to say; its next ones do not wait.
bool LinkDriver::ack_is_due(const Peer& peer) const {
  return peer.ack_at_once || peer.prompt_acks > 0 || now_ns_ - peer.owes_since_ns >= kAckDelayNs;
}

void LinkDriver::send_ack(PeerId id, Peer& peer) {
  // By the way by which the peer reached us: another one may be broken.
  if (!send_control(id, peer, Kind::ack, kHeardRail)) return;
  if (now_ns_ - peer.owes_since_ns >= kAckLateNs) {
    peer.prompt_acks = Peer::kPromptAcks;
  } else if (peer.prompt_acks > 0) {
    peer.prompt_acks--;
  }
  acknowledgement_left(peer);
}

void LinkDriver::lost(Peer& peer, Sent& frame) {
  frame.stage = Sent::Stage::waiting;
  peer.rails[frame.rail].flying--;
  peer.flying--;
  peer.lost++;
}

// Which frames have to go again? Those that later ones have overtaken, and after the timeout first
// the oldest, for the answer itself may be late or lost, then all.
void LinkDriver::find_losses(PeerId id, Peer& peer) {
  if (!peer.flying) return;
  look_at_rails(id, peer);
  if (peer.has_gaps) find_overtaken(peer);
  for (uint8_t i = 0; i < peer.rails.size(); i++)
    if (peer.rails[i].flying) time_out(peer, i);
}

void LinkDriver::find_overtaken(Peer& peer) {
  const auto under_way = static_cast<size_t>(peer.next - peer.first);
  for (size_t i = 0; i < under_way; i++) {
    Sent& frame = peer.sent[i];
    if (frame.stage != Sent::Stage::flying) continue;
    Rail& rail = peer.rails[frame.rail];
    // Frames by other rails overtake nobody.
    if (static_cast<int32_t>(rail.arrived - frame.turn) < kOvertakenMax) continue;
    const uint64_t age_ns = now_ns_ - frame.sent_ns;
    // Its own second try may still be on its way.
    if (age_ns <= (frame.transmissions == 1 ? 1 : 2) * rail.timer.smoothed_ns()) continue;
    lost(peer, frame);
    rail.window.lost(peer.first + i, peer.next);
  }
}

void LinkDriver::time_out(Peer& peer, uint8_t number) {
  Rail& rail = peer.rails[number];
  Sent& first = peer.sent[oldest_flying(peer, number)];
  if (now_ns_ - std::max(first.sent_ns, rail.restarted_ns) < rail.timer.timeout_ns()) return;
  lost(peer, first);
  rail.restarted_ns = now_ns_;
  rail.shunned_ns = now_ns_ + kShunNs;
  if (rail.timer.timed_out() > 1) {
    lose_all(peer, number);
    rail.window.stalled(peer.next);
  }
}

}  // namespace torii::link
