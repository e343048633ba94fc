// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <errno.h>

#include <cstring>

#include "core/base/log.h"
#include "drivers/udp/outbox.h"

namespace torii::udp {
namespace {

constexpr size_t kFrameLeast = kPacketLeast - kIpBytes - kHeaderBytes;

}  // namespace

size_t UdpDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  while (taken < batch.size()) {
    if (const Tx& tx = batch[taken]; tx.anywhere && !peer_at(tx.peer).has_path()) {
      introduce(tx);
      if (tx.cookie) done_.push_back(tx.cookie);
      taken++;
      continue;
    }
    Outbox& out = *outbox_;
    out.clear();
    for (const Tx& tx : batch.subspan(taken)) {
      Peer& peer = peer_at(tx.peer);
      TORII_ASSERT(tx.head_bytes <= kHeadMax &&
                   tx.head_bytes + tx.body_bytes <= std::max(caps_.mtu, caps_.long_max));
      TORII_ASSERT(tx.piece_count <= caps_.pieces_max);
      if (!peer.has_path()) look_for(tx.peer);
      if (!peer.has_path()) break;
      const uint8_t rail = choose(peer, tx.rail);
      if (peer.group) {  // nobody answers for all its members
        if (!out.add(tx, rail)) break;
        continue;
      }
      doubt(tx.peer, peer, peer.rails[rail]);
      if (tx.head_bytes + tx.body_bytes > kFrameLeast && peer.rails[rail].size.is_due(now_ns_))
        ask_for_size(tx.peer, peer.rails[rail]);
      if (!out.add(tx, rail)) break;
      consider_direct(tx.peer, rail);
    }
    if (out.count() == 0) return taken;
    const int sent = out.flush();
    const int error = sent < 0 ? errno : 0;
    if (error == EINTR) continue;
    if (error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM)
      return taken;
    const bool segmented = sent < 0 && out.message(0).bytes > out.message(0).size;
    if (segmented && (error == EINVAL || error == EMSGSIZE || error == EIO)) {
      Rail& rail = peers_[out.message(0).peer].rails[out.message(0).rail];
      if (peers_[out.message(0).peer].group) {
        rail.segments = false;
        continue;
      }
      // This path's packets are smaller.
      const bool was_least = rail.size.is_least();
      if (was_least) rail.segments = false;
      rail.size.shorten();
      if (!was_least || !out.message(0).longer) continue;
    }
    if (sent < 0) lost(out, 0, error);
    size_t frames = 0;
    for (size_t i = 0; i < static_cast<size_t>(sent < 0 ? 1 : sent); i++)
      frames += out.message(i).frames;
    for (const Tx& tx : batch.subspan(taken, frames))
      if (tx.cookie) done_.push_back(tx.cookie);
    taken += frames;
    if (sent >= 0 && static_cast<size_t>(sent) < out.count()) continue;
  }
  return taken;
}

// The system refuses to send there, or somebody has refused an earlier datagram: as good as lost on
// the way. Perhaps another rail is better. A connected socket also tells what others on the network
// say, whoever they are: that alone ends no rail.
void UdpDriver::lost(const Outbox& out, size_t message, int error) {
  const PeerId id = out.message(message).peer;
  Peer& peer = peers_[id];
  Rail& rail = peer.rails[out.message(message).rail];
  TORII_DEBUG("udp: sending by %s: %s", name_of(rail).c_str(), std::strerror(error));
  if (peer.group) return;
  const bool no_way =
      rail.direct.fd < 0 && (error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN);
  retire_direct(rail);
  if (no_way && rail.answers) silent(peer, rail);
  look_for(id);
}

}  // namespace torii::udp
