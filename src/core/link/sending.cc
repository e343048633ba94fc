// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/link/crc32c.h"
#include "core/link/link_driver.h"

namespace torii::link {
namespace {

constexpr uint32_t kOvertakenMax = 3;  // later frames that may arrive before one is missed
constexpr uint32_t kAtOnce = 2;        // frames under way up to which one is sent by send() itself
constexpr size_t kBatch = 32;          // frames for the driver below at a time

}  // namespace

Sent LinkDriver::frame_of(const Tx& tx) {
  Sent frame;
  frame.cookie = tx.cookie;
  frame.bytes = std::make_shared<std::vector<std::byte>>();
  frame.bytes->reserve(kHeaderBytes + tx.head_bytes + tx.body_bytes);
  frame.bytes->resize(kHeaderBytes);
  const auto* head = static_cast<const std::byte*>(tx.head);
  frame.bytes->insert(frame.bytes->end(), head, head + tx.head_bytes);
  for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
    const auto* base = static_cast<const std::byte*>(piece.iov_base);
    frame.bytes->insert(frame.bytes->end(), base, base + piece.iov_len);
  }
  frame.payload_crc =
      crc32c(0, frame.bytes->data() + kHeaderBytes, frame.bytes->size() - kHeaderBytes);
  return frame;
}

// A frame goes at once if little is under way; else the next poll sends it with others.
size_t LinkDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.body_bytes <= caps_.mtu - tx.head_bytes);
    Peer& peer = peer_of(tx.peer);
    if (peer.down != Status::ok) {
      if (tx.cookie) completed_.push_back({tx.cookie, peer.down});
      taken++;
      continue;
    }
    if (peer.sent.size() >= kWindow) break;
    if (peer.sent.empty()) peer.waiting_since_ns = now_ns_;
    peer.sent.push_back(frame_of(tx));
    if (peer.flying < kAtOnce) send_waiting(tx.peer, peer, 1);
    activate(tx.peer, peer);
    taken++;
  }
  return taken;
}

Header LinkDriver::header_for(const Peer& peer, Kind kind, uint64_t seq) const {
  return {kind,          session_,          peer.session,  seq,
          peer.expected, peer.waiting >> 1, !peer.has_key, whole_tags_};
}

// Sends frames that wait, at most `most`, as far as the window allows.
void LinkDriver::send_waiting(PeerId id, Peer& peer, uint32_t most) {
  size_t at = 0;
  while (most > 0) {
    size_t indices[kBatch], count = 0;
    const uint32_t window = peer.window.frames();
    const size_t room = std::min<size_t>(most, window > peer.flying ? window - peer.flying : 0);
    for (; at < peer.sent.size() && count < std::min(room, kBatch); at++) {
      const Sent& frame = peer.sent[at];
      // The driver below may still read an earlier transmission.
      if (frame.stage == Sent::Stage::waiting && frame.bytes.use_count() == 1)
        indices[count++] = at;
    }
    if (room == 0 && peer.first + peer.sent.size() > peer.next) peer.held_back = true;
    if (count == 0 || transmit(id, peer, {indices, count}) < count) return;
    most -= static_cast<uint32_t>(count);
  }
}

// Hands frames of the window to the driver below; returns how many it took.
size_t LinkDriver::transmit(PeerId id, Peer& peer, std::span<const size_t> indices) {
  Tx batch[kBatch];
  iovec pieces[kBatch];
  for (size_t i = 0; i < indices.size(); i++) {
    Sent& frame = peer.sent[indices[i]];
    std::vector<std::byte>& bytes = *frame.bytes;
    write_header(header_for(peer, Kind::data, peer.first + indices[i]), frame.payload_crc,
                 key_for(peer), std::span(bytes).subspan(kHeaderBytes), bytes.data());
    const size_t head = std::min(bytes.size(), kHeadMax);
    pieces[i] = {bytes.data() + head, bytes.size() - head};
    Tx& tx = batch[i];
    tx.peer = id;
    tx.head = bytes.data();
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = &pieces[i];
    tx.piece_count = pieces[i].iov_len ? 1 : 0;
    tx.body_bytes = static_cast<uint32_t>(pieces[i].iov_len);
    if (tx.body_bytes > below_->caps().inline_max) tx.cookie = next_operation_++;
  }
  const size_t taken = below_->send({batch, indices.size()});
  for (size_t i = 0; i < taken; i++) {
    Sent& frame = peer.sent[indices[i]];
    if (batch[i].cookie) operations_[batch[i].cookie] = {id, 0, frame.bytes};
    if (frame.transmissions++) counters_.link_retransmits++;
    frame.stage = Sent::Stage::flying;
    frame.sent_ns = now_ns_;
    peer.flying++;
    peer.next = std::max(peer.next, peer.first + indices[i] + 1);
    peer.owes_ack = false;
  }
  return taken;
}

bool LinkDriver::send_control(PeerId id, const Peer& peer, Kind kind) {
  std::byte bytes[kHeaderBytes];
  write_header(header_for(peer, kind, 0), 0, key_for(peer), {}, bytes);
  Tx tx;
  tx.peer = id;
  tx.head = bytes;
  tx.head_bytes = kHeaderBytes;
  return below_->send({&tx, 1}) == 1;
}

void LinkDriver::lost(Peer& peer, Sent& frame) {
  frame.stage = Sent::Stage::waiting;
  peer.flying--;
}

// Which frames have to go again? Those that later ones have overtaken; and after the timeout first
// the oldest, for the answer itself may be late or lost, then all.
void LinkDriver::find_losses(Peer& peer) {
  if (!peer.flying) return;
  size_t last_arrived = 0, oldest = peer.sent.size();
  const size_t under_way = static_cast<size_t>(peer.next - peer.first);
  for (size_t i = 0; i < under_way; i++) {
    if (peer.sent[i].stage == Sent::Stage::arrived) last_arrived = i;
    if (peer.sent[i].stage == Sent::Stage::flying) oldest = std::min(oldest, i);
  }
  const uint64_t round_trip_ns = peer.timer.smoothed_ns();
  for (size_t i = oldest; i + kOvertakenMax <= last_arrived; i++) {
    Sent& frame = peer.sent[i];
    if (frame.stage != Sent::Stage::flying) continue;
    const uint64_t age_ns = now_ns_ - frame.sent_ns;
    // Its own second try may still be on its way.
    if (age_ns <= (frame.transmissions == 1 ? 1 : 2) * round_trip_ns) continue;
    lost(peer, frame);
    peer.window.lost(peer.first + i, peer.next);
  }
  Sent& first = peer.sent[oldest];
  if (first.stage != Sent::Stage::flying || now_ns_ - first.sent_ns < peer.timer.timeout_ns())
    return;
  lost(peer, first);
  if (peer.timer.timed_out() > 1) {
    for (size_t i = oldest + 1; i < under_way; i++)
      if (peer.sent[i].stage == Sent::Stage::flying) lost(peer, peer.sent[i]);
    peer.window.stalled(peer.next);
  }
}

}  // namespace torii::link
