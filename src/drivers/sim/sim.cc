// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The template to copy from. The calls of `card_` are those to replace: they stand for the library
// or the registers of a real card. The rest is common to all drivers.
#include "drivers/sim/sim.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "drivers/fabric/card.h"
#include "drivers/interfaces.h"

namespace torii {
namespace {

class SimDriver final : public Driver, private Paths, private MappedMemory, private LossyGroups {
 public:
  SimDriver(std::unique_ptr<SimCard> card, const DriverEnv& env);

  // Required.
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { card_->address(out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  // Remote memory: kPut, kGet, kAtomic.
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override { imports_.erase(remote); }
  Status put(const Rma& rma) override { return move(rma, kPut); }
  Status get(const Rma& rma) override { return move(rma, kGet); }
  Status atomic(const RemoteAtomic& atomic) override;
  // Memory of the card, and memory that is cheap for it.
  void take(void* to, const std::byte* from, size_t bytes) override {
    counters_.taken_bytes += card_->copy(to, from, bytes);
  }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return card_->alloc(bytes, alignment, base);
  }
  void dealloc(void* base) override { card_->dealloc(base); }
  // Groups: kMulticast. Sleep: kWait.
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    uint32_t number;
    return enter(card_->join(group, &number), &number, peer);
  }
  void leave(PeerId peer) override {
    card_->leave(peers_[peer].number);
    disconnect(peer);
  }
  Status arm(int* fd) override { return card_->arm(fd); }
  // Interfaces that few drivers offer.
  Paths* paths() override { return this; }
  Advice* advice() override { return card_.get(); }
  RegisteredMemory* registered_memory() override { return has(kNeedsReg) ? card_.get() : nullptr; }
  MappedMemory* mapped_memory() override { return has(kGuard) ? this : nullptr; }
  LossyGroups* lossy_groups() override { return this; }

 private:
  struct Peer {
    bool connected = false;
    uint32_t number = 0;  // of an endpoint or group on the fabric
  };

  Life life(PeerId peer) override { return card_->life(peers_[peer].number); }
  uint32_t long_max(PeerId) const override { return caps_.long_max; }
  Status reach(uint32_t remote, Reach* out) override;
  Status join_lossy(const LossyMember& membership, PeerId* group) override {
    uint32_t number;
    return enter(card_->join_lossy(membership, &number), &number, group);
  }

  bool has(uint32_t any_of) const { return caps_.flags & any_of; }
  PeerId add_peer(uint32_t number);
  SimFrame frame_of(const Tx& tx) const;
  Status find_import(Cap cap, uint32_t remote, SimKey* key) const;
  Status move(const Rma& rma, Cap cap);
  Status enter(Status joined, const uint32_t* number, PeerId* peer);

  const std::unique_ptr<SimCard> card_;
  Sink& sink_;
  Counters& counters_;
  DriverCaps caps_;
  std::vector<Peer> peers_;
  std::vector<PeerId> left_;  // free, as soon as what was sent there has left
  std::unordered_map<uint32_t, PeerId> by_number_;
  std::unordered_map<uint32_t, SimKey> imports_;
  uint32_t next_import_ = 0;
};

SimDriver::SimDriver(std::unique_ptr<SimCard> card, const DriverEnv& env)
    : card_(std::move(card)), sink_(*env.sink), counters_(*env.counters) {
  const SimOptions& options = card_->options();
  caps_.flags = options.flags;
  caps_.mtu = options.mtu;
  caps_.long_max = options.long_max;
  caps_.inline_max = std::min(options.inline_max, options.mtu);
  caps_.pieces_max = options.pieces_max;
  caps_.batch_max = 16;
  caps_.address_bytes = kSimAddressBytes;
  caps_.key_bytes = has(kPut | kGet) ? kSimKeyBytes : 0;
  caps_.peers_max = options.peers_max;
  caps_.remote_max = has(kPut | kGet) ? 1ull << 40 : 0;
}

// --- peers -----------------------------------------------------------------------------------

Status SimDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  uint32_t number;
  if (const Status there = card_->find(address, &number); there != Status::ok) {
    *why = format_text(
        "sim: the address of %zu bytes names none of the %u endpoints of this fabric that are open "
        "(%s); use what address() of an open one gave",
        address.size(), card_->known_endpoints(), status_text(there));
    return Status::unreachable;
  }
  *peer = add_peer(number);
  if (*peer != kNoPeer) return Status::ok;
  *why = format_text("sim: all %u peers are in use; disconnect one", caps_.peers_max);
  return Status::no_memory;
}

// The peer of that number, made if need be; kNoPeer: no more fit.
PeerId SimDriver::add_peer(uint32_t number) {
  if (const auto it = by_number_.find(number); it != by_number_.end()) return it->second;
  const auto free =
      std::find_if(left_.begin(), left_.end(), [&](PeerId peer) { return card_->is_empty(peer); });
  auto peer = static_cast<PeerId>(peers_.size());
  if (free != left_.end()) {
    peer = *free;
    left_.erase(free);
  } else if (peer < caps_.peers_max) {
    peers_.emplace_back();
  } else {
    return kNoPeer;
  }
  peers_[peer] = {true, number};
  by_number_[number] = peer;
  card_->meet(number);
  return peer;
}

void SimDriver::disconnect(PeerId peer) {
  TORII_ASSERT(peer < peers_.size() && peers_[peer].connected);
  by_number_.erase(peers_[peer].number);
  peers_[peer].connected = false;
  left_.push_back(peer);
}

// --- frames ----------------------------------------------------------------------------------

size_t SimDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.peer < peers_.size() && peers_[tx.peer].connected);
    if (!card_->has_room(tx.peer)) break;
    card_->send(frame_of(tx));
    taken++;
  }
  return taken;
}

// Copies what may change as soon as send() has returned.
SimFrame SimDriver::frame_of(const Tx& tx) const {
  const uint64_t bytes = uint64_t{tx.head_bytes} + tx.body_bytes;
  const bool copied = tx.body_bytes <= caps_.inline_max || bytes > caps_.mtu ||
                      SimCard::is_lossy(peers_[tx.peer].number);
  TORII_ASSERT(tx.head_bytes <= kHeadMax && bytes <= std::max(caps_.mtu, caps_.long_max));
  TORII_ASSERT((tx.cookie || copied) && tx.piece_count <= caps_.pieces_max);
  SimFrame frame{peers_[tx.peer].number, tx.peer, tx.cookie, {}, {}, kNoRegion};
  const iovec head{const_cast<void*>(tx.head), tx.head_bytes};
  const std::span body(tx.pieces, tx.piece_count);
  sim_gather(frame.bytes, std::span(&head, 1));
  if (copied) {
    sim_gather(frame.bytes, body);
  } else {
    frame.pieces.assign(body.begin(), body.end());
    if (tx.local) frame.local = tx.local->driver_data;
  }
  return frame;
}

unsigned SimDriver::poll(uint64_t now_ns, unsigned budget) {
  unsigned count = 0;
  for (SimEvent event; count < budget && card_->next(now_ns, &event); count++) {
    switch (event.kind) {
      case SimEvent::Kind::frame:
        sink_.packet(add_peer(event.from), event.frame);
        card_->give_back();
        break;
      case SimEvent::Kind::done:
        sink_.done(event.cookie, event.status);
        break;
      case SimEvent::Kind::down:
        if (const auto it = by_number_.find(event.from); it != by_number_.end())
          sink_.peer_down(it->second, event.status);
        break;
    }
  }
  return count;
}

// --- remote memory ---------------------------------------------------------------------------

Status SimDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (!base && bytes) return Status::invalid;
  *out = Region{base, bytes, access, {}, 0, out->label};
  return card_->reg(out);
}

void SimDriver::dereg(Region& region) {
  card_->dereg(region.driver_data);
  region = Region{};
}

Status SimDriver::import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) {
  if (!has(kPut | kGet)) return Status::unsupported;
  SimKey parsed;
  if (key.size() != sizeof(parsed) || peer >= peers_.size()) return Status::invalid;
  std::memcpy(&parsed, key.data(), sizeof(parsed));
  if (parsed.owner != peers_[peer].number) return Status::invalid;
  *remote = next_import_++;
  imports_[*remote] = parsed;
  return Status::ok;
}

Status SimDriver::find_import(Cap cap, uint32_t remote, SimKey* key) const {
  if (!has(cap)) return Status::unsupported;
  const auto import = imports_.find(remote);
  if (import == imports_.end()) return Status::invalid;
  *key = import->second;
  return Status::ok;
}

// The target's card checks key, rights and bounds.
Status SimDriver::move(const Rma& rma, Cap cap) {
  SimKey key;
  const Status status = find_import(cap, rma.remote, &key);
  return status == Status::ok ? card_->move(rma, key, cap == kPut) : status;
}

Status SimDriver::atomic(const RemoteAtomic& atomic) {
  SimKey key;
  const Status status = find_import(kAtomic, atomic.remote, &key);
  return status == Status::ok ? card_->atomic(atomic, key) : status;
}

Status SimDriver::reach(uint32_t remote, Reach* out) {
  SimKey key;
  const Status status = find_import(kGuard, remote, &key);
  return status == Status::ok ? card_->reach(key, out) : status;
}

Status SimDriver::enter(Status joined, const uint32_t* number, PeerId* peer) {
  if (joined != Status::ok) return joined;
  *peer = add_peer(*number);
  if (*peer != kNoPeer) return Status::ok;
  card_->leave(*number);
  return Status::no_memory;
}

}  // namespace

std::unique_ptr<Driver> open_sim(SimFabric& fabric, const DriverEnv& env) {
  return std::make_unique<SimDriver>(fabric.plug_in(), env);
}

std::unique_ptr<Driver> open_sim(const DriverEnv& env, std::string*) {
  static SimFabric* const fabric = new SimFabric;
  return open_sim(*fabric, env);
}

}  // namespace torii
