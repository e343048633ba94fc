// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which way does a frame go? The driver below says which rails answer; each has a window, a timeout
// and a speed of its own.
#include <algorithm>
#include <bit>

#include "core/link/link_driver.h"

namespace torii::link {

Rail LinkDriver::new_rail() const { return Rail(first_timer_, window_); }

// Frames that were under way by a rail that ended go again by another one. A rail that comes back
// begins as a new one.
void LinkDriver::look_at_rails(PeerId id, Peer& peer) {
  const uint32_t now = rails(id);
  if (now == peer.answering || now == 0) return;
  const auto count = static_cast<size_t>(std::bit_width(now));
  if (count > peer.rails.size()) peer.rails.resize(std::min<size_t>(count, kRailsMax), new_rail());
  for (uint8_t i = 0; i < peer.rails.size(); i++) {
    const uint32_t bit = 1u << i;
    if (peer.answering & ~now & bit) lose_all(peer, i);
    if (now & ~peer.answering & bit && !peer.rails[i].flying) peer.rails[i] = new_rail();
  }
  peer.answering = now & ((1u << kRailsMax) - 1);
}

// The rail by which the next frames arrive first, if so many wait. It may have no room now.
uint8_t LinkDriver::rail_for(PeerId id, Peer& peer, size_t frames) {
  look_at_rails(id, peer);
  const uint32_t answering = peer.answering;
  if (std::has_single_bit(answering)) return static_cast<uint8_t>(std::countr_zero(answering));
  const uint8_t first = static_cast<uint8_t>(std::countr_zero(answering));
  uint32_t good = 0;
  for (uint32_t rest = answering; rest; rest &= rest - 1) {
    const Rail& rail = peer.rails[static_cast<size_t>(std::countr_zero(rest))];
    if (!rail.timer.late() || now_ns_ >= rail.shunned_ns) good |= rest & -rest;
  }
  if (!good) good = answering;
  int best = -1;
  float best_ns = 0;
  for (uint32_t rest = good; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Rail& rail = peer.rails[static_cast<size_t>(i)];
    // A batch of a long transfer finds out.
    const bool may_try = frames >= batch_ && !rail.flying && peer.flying;
    if (may_try && !rail.speed.fresh(now_ns_)) return static_cast<uint8_t>(i);
    if (i != first && !rail.speed.known() && good & ~(1u << i)) continue;
    const float end_ns = rail.speed.end_ns(rail.flying + std::min(frames, batch_));
    if (best >= 0 && end_ns >= best_ns) continue;
    best = i;
    best_ns = end_ns;
  }
  return static_cast<uint8_t>(best >= 0 ? best : std::countr_zero(good));
}

// Where long frames are not on their way as such, they only cost a copy at their end.
uint32_t LinkDriver::long_max(PeerId id) const {
  if (!caps_.long_max || id >= peers_.size() || !peers_[id]) return 0;
  const Peer& peer = *peers_[id];
  for (size_t i = 0; i < peer.rails.size(); i++)
    if (peer.answering >> i & 1 && peer.rails[i].long_frames.may_go(now_ns_)) return caps_.long_max;
  return 0;
}

void LinkDriver::lose_all(Peer& peer, uint8_t rail) {
  const auto under_way = static_cast<size_t>(peer.next - peer.first);
  for (size_t i = 0; i < under_way && peer.rails[rail].flying; i++) {
    Sent& frame = peer.sent[i];
    if (frame.stage == Sent::Stage::flying && frame.rail == rail) lost(peer, frame);
  }
}

// There is one.
size_t LinkDriver::oldest_flying(Peer& peer, uint8_t rail) {
  size_t i = 0;
  while (peer.sent[i].stage != Sent::Stage::flying || peer.sent[i].rail != rail) i++;
  return i;
}

// There is one.
size_t LinkDriver::newest_flying(Peer& peer, uint8_t rail) {
  auto i = static_cast<size_t>(peer.next - peer.first) - 1;
  while (peer.sent[i].stage != Sent::Stage::flying || peer.sent[i].rail != rail) i--;
  return i;
}

}  // namespace torii::link
