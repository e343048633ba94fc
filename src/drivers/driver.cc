// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/driver.h"

namespace torii {

bool Driver::send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                        uint32_t body_bytes) {
  const uint64_t head[2] = {word0, word1};
  const iovec piece = {const_cast<void*>(body), body_bytes};
  Tx tx;
  tx.peer = peer;
  tx.head_bytes = sizeof(head);
  tx.head = head;
  tx.pieces = &piece;
  tx.piece_count = body_bytes > 0;
  tx.body_bytes = body_bytes;
  return send({&tx, 1}) == 1;
}
std::string Driver::path_text(PeerId) const { return {}; }
uint32_t Driver::rails(PeerId) const { return 1; }
Life Driver::life(PeerId) { return Life::unknown; }
uint32_t Driver::long_max(PeerId) const { return caps().long_max; }
bool Driver::delivered() const { return true; }
std::vector<PeerAddress> Driver::peer_addresses(PeerId) const { return {}; }
Status Driver::reg(void*, uint64_t, uint32_t, Region*) { return Status::unsupported; }
void Driver::dereg(Region&) {}
Status Driver::import(PeerId, std::span<const std::byte>, uint32_t*) { return Status::unsupported; }
void Driver::drop(uint32_t) {}
Status Driver::reach(uint32_t, Reach*) { return Status::unsupported; }
Status Driver::alloc(uint64_t, uint64_t, void**) { return Status::unsupported; }
void Driver::dealloc(void*) {}
bool Driver::near(PeerId, const void*) const { return false; }
bool Driver::sooner_sent(uint32_t, uint64_t) const { return false; }
void Driver::look(PeerId) {}
Status Driver::put(const Rma&) { return Status::unsupported; }
Status Driver::get(const Rma&) { return Status::unsupported; }
Status Driver::atomic(const RemoteAtomic&) { return Status::unsupported; }
Status Driver::join(std::span<const std::byte>, PeerId*) { return Status::unsupported; }
void Driver::leave(PeerId) {}
Status Driver::arm(int*) { return Status::unsupported; }

}  // namespace torii
