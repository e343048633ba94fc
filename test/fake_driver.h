// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A driver in the hands of a test: what is sent through it is kept, and the test says what
// arrives, what is refused and when memory is given back. It touches the memory that it was lent
// at the last moment that the rules of driver.h allow.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drivers/interfaces.h"

namespace torii::test {

class FakeDriver final : public Driver,
                         private Advice,
                         private RegisteredMemory,
                         private MappedMemory {
 public:
  static constexpr uint32_t kAddressBytes = 4;  // the number of a peer, low byte first
  static constexpr uint32_t kKeyBytes = 24;
  static constexpr PeerId kPeers = 4;

  struct Sent {
    PeerId peer;
    std::string bytes;
    bool lent;
  };

  FakeDriver(Sink* sink, uint32_t flags, uint32_t mtu = 4096) : sink_(sink) {
    caps_.flags = kReliable | kPeerDown | flags;
    caps_.mtu = mtu;
    caps_.inline_max = 256;
    caps_.pieces_max = 4;
    caps_.batch_max = 1;
    caps_.address_bytes = kAddressBytes;
    caps_.key_bytes = flags & (kPut | kGet) ? kKeyBytes : 0;
    caps_.peers_max = kPeers;
    caps_.remote_max = 1 << 16;
  }

  static std::string address_of(PeerId peer) {
    return {char(peer), char(peer >> 8), char(peer >> 16), char(peer >> 24)};
  }

  // --- the test's side ----------------------------------------------------------------------
  // Each is an upcall of the next poll().
  void arrive(PeerId from, std::string frame) {
    due_.push_back({from, Status::ok, std::move(frame), false});
  }
  void go_down(PeerId peer, Status status) { due_.push_back({peer, status, {}, true}); }
  // Ends the oldest operation that has a cookie; false if there is none.
  bool finish(Status status) {
    if (lent_.empty()) return false;
    finished_.emplace_back(std::move(lent_.front()), status);
    lent_.pop_front();
    return true;
  }

  std::vector<Sent> sent;             // the test may clear it
  std::vector<std::string> imported;  // keys
  std::vector<size_t> batches;        // offered frames of each send() that was not refused whole
  unsigned refusals = 0;              // send() and remote access are refused so often
  unsigned takes = ~0u;               // frames before all are refused
  unsigned awaited = 0;               // frames that were taken with Tx::awaited
  unsigned accesses = 0;              // calls of put and get
  size_t lent_most = ~size_t{0};      // more remote access than this is refused
  size_t regions_most = ~size_t{0};   // more registrations than this are refused
  Status remote = Status::ok;         // what put and get answer
  Reach reach_says;                   // of every guarded key
  uint64_t taken = 0;                 // bytes that were taken of frames while they arrived
  size_t lent() const { return lent_.size(); }
  size_t registered() const { return regions_.size(); }
  void take_bodies_from(uint64_t bytes) { take_min = bytes; }
  // As RegisteredMemory::local, and tells_changes.
  void want_local_memory_registered(uint64_t worth_from, bool tells) {
    local = true;
    tells_changes = tells;
    once_min = worth_from;
  }
  // The address has other memory now.
  void remap(const void* at) {
    for (auto& [id, region] : regions_) region.stale |= region.base == at;
  }
  void want_lent_from(uint32_t bytes) { caps_.lend_min = bytes; }
  void take_long_frames_of(uint32_t bytes) { caps_.long_max = bytes; }
  void advise_batches_of(uint32_t frames) { caps_.batch_max = frames; }
  // Before a peer is connected.
  void advise_frames_below(uint64_t bytes) { sent_below = bytes; }
  void advise(uint32_t eager, uint64_t read_alone, uint64_t read_crossing) {
    caps_.eager_advice = eager;
    read_alone_min = read_alone;
    read_crossing_min = read_crossing;
  }

  // --- driver.h -----------------------------------------------------------------------------
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { std::memset(out, 0xff, kAddressBytes); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    PeerId number = kNoPeer;
    if (address.size() == kAddressBytes) std::memcpy(&number, address.data(), kAddressBytes);
    if (number >= kPeers) {
      *why = "fake: no such peer";
      return Status::unreachable;
    }
    *peer = number;
    return Status::ok;
  }
  void disconnect(PeerId) override {}

  size_t send(std::span<const Tx> batch) override {
    size_t taken = 0;
    for (const Tx& tx : batch) {
      if (takes == 0 || refuse()) break;
      require(tx.peer < kPeers && tx.head_bytes <= kHeadMax);
      const bool in_one_piece = (tx.lent || caps_.lend_min == 0) && tx.piece_count == 1;
      const uint32_t longest = std::max(caps_.mtu, in_one_piece ? caps_.long_max : 0);
      require(tx.body_bytes <= longest - tx.head_bytes && tx.piece_count <= caps_.pieces_max);
      require(tx.cookie || tx.body_bytes <= caps_.inline_max);
      Sent frame{tx.peer, std::string(static_cast<const char*>(tx.head), tx.head_bytes), tx.lent};
      const std::vector<iovec> pieces(tx.pieces, tx.pieces + tx.piece_count);
      frame.bytes += gather(pieces);
      require(frame.bytes.size() == tx.head_bytes + tx.body_bytes);
      sent.push_back(std::move(frame));
      const bool copied = !tx.lent && tx.body_bytes <= caps_.inline_max;
      if (tx.cookie) lent_.push_back({tx.cookie, pieces, false, id_of(tx.local, pieces, copied)});
      awaited += tx.awaited;
      ++taken;
      --takes;
    }
    if (taken > 0) batches.push_back(batch.size());
    return taken;
  }

  // A peer's pending operations end before it goes down.
  unsigned poll(uint64_t, unsigned budget) override {
    unsigned events = 0;
    while (events < budget && !(finished_.empty() && due_.empty())) {
      ++events;
      if (finished_.empty()) {
        const Due due = std::move(due_.front());
        due_.pop_front();
        if (!due.down) {
          // An allocation of its own, so that nobody reads beyond the frame.
          const std::vector<char> frame(due.frame.begin(), due.frame.end());
          arriving_ = std::as_bytes(std::span(frame));
          sink_->packet(due.peer, arriving_);
          arriving_ = {};
          continue;
        }
        while (finish(due.status)) report();
        sink_->peer_down(due.peer, due.status);
        continue;
      }
      report();
    }
    return events;
  }

  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    require(caps_.key_bytes > 0 || access == kLocal);
    if (regions_.size() >= regions_most) return Status::no_memory;
    out->base = base;
    out->bytes = bytes;
    out->access = access;
    out->driver_data = ++next_;
    std::memcpy(out->key.data(), &out->driver_data, sizeof(out->driver_data));
    regions_[next_] = {static_cast<std::byte*>(base), bytes, access, false};
    return Status::ok;
  }
  void dereg(Region& region) override { require(regions_.erase(region.driver_data) == 1); }
  Status import(PeerId, std::span<const std::byte> key, uint32_t* remote) override {
    require(key.size() == kKeyBytes);
    imported.emplace_back(reinterpret_cast<const char*>(key.data()), key.size());
    if (key[0] == std::byte{0xff}) return Status::invalid;
    imports_[uint32_t(++next_)] = true;
    *remote = uint32_t(next_);
    return Status::ok;
  }
  void drop(uint32_t remote) override { require(imports_.erase(remote) == 1); }
  Status put(const Rma& rma) override { return access(rma, false); }
  Status get(const Rma& rma) override { return access(rma, true); }
  void take(void* to, const std::byte* from, size_t bytes) override {
    const std::byte* const end = arriving_.data() + arriving_.size();
    require(bytes >= take_min && from >= arriving_.data() && from + bytes <= end);
    std::memcpy(to, from, bytes);
    taken += bytes;
  }
  Advice* advice() override { return this; }
  RegisteredMemory* registered_memory() override {
    return caps_.flags & kNeedsReg ? this : nullptr;
  }
  MappedMemory* mapped_memory() override { return caps_.flags & kGuard ? this : nullptr; }

 private:
  bool current(const Region& region) const override {
    return !regions_.at(region.driver_data).stale;
  }
  bool sooner_sent(uint32_t remote) const override {
    require(imports_.count(remote) == 1);
    return true;
  }
  Status reach(uint32_t remote, Reach* out) override {
    require(imports_.count(remote) == 1);
    *out = reach_says;
    return Status::ok;
  }

  struct Lent {
    uint64_t cookie;
    std::vector<iovec> pieces;
    bool written;    // a get: the driver writes
    uint64_t local;  // registration of the pieces; 0: they need none
  };
  struct Registered {
    std::byte* base;
    uint64_t bytes;
    uint32_t access;
    bool stale;
  };
  struct Due {
    PeerId peer;
    Status status;
    std::string frame;
    bool down;
  };

  static void require(bool condition) {
    if (!condition) __builtin_trap();  // the core broke a rule of driver.h
  }
  static std::string gather(const std::vector<iovec>& pieces) {
    std::string out;
    for (const iovec& p : pieces) out.append(static_cast<const char*>(p.iov_base), p.iov_len);
    return out;
  }
  static void touch(const std::vector<iovec>& pieces, bool write) {
    volatile unsigned char sum = 0;
    for (const iovec& p : pieces) {
      if (write) std::memset(p.iov_base, 0x5a, p.iov_len);
      for (size_t i = 0; i < p.iov_len; i += 64)
        sum = static_cast<const unsigned char*>(p.iov_base)[i];
    }
    (void)sum;
  }
  // The registration that covers the pieces, if they need one.
  uint64_t id_of(const Region* region, const std::vector<iovec>& pieces, bool copied) const {
    if (!local || copied) return 0;
    require(region && regions_.count(region->driver_data) == 1);
    const Registered& r = regions_.at(region->driver_data);
    require((r.access & kLocal) && !r.stale);
    for (const iovec& p : pieces) {
      const auto* const at = static_cast<std::byte*>(p.iov_base);
      require(at >= r.base && at + p.iov_len <= r.base + r.bytes);
    }
    return region->driver_data;
  }
  bool refuse() { return refusals > 0 && refusals--; }
  Status access(const Rma& rma, bool reads) {
    require(caps_.flags & (reads ? kGet : kPut));
    require(imports_.count(rma.remote) == 1 && rma.bytes <= caps_.remote_max && rma.bytes > 0);
    require(rma.piece_count <= caps_.pieces_max);
    ++accesses;
    if (!rma.cookie && remote == Status::pending) return Status::again;
    if (lent_.size() >= lent_most || refuse()) return Status::again;
    const std::vector<iovec> pieces(rma.pieces, rma.pieces + rma.piece_count);
    const uint64_t id = id_of(rma.local, pieces, rma.bytes <= caps_.inline_max);
    if (remote == Status::pending) lent_.push_back({rma.cookie, pieces, reads, id});
    if (remote == Status::ok) touch(pieces, reads);
    return remote;
  }
  void report() {
    const auto [lent, status] = std::move(finished_.front());
    finished_.pop_front();
    require(lent.local == 0 || regions_.count(lent.local) == 1);
    touch(lent.pieces, lent.written);
    sink_->done(lent.cookie, status);
  }

  Sink* sink_;
  DriverCaps caps_;
  std::deque<Due> due_;
  std::span<const std::byte> arriving_;
  std::deque<Lent> lent_;
  std::deque<std::pair<Lent, Status>> finished_;
  std::map<uint64_t, Registered> regions_;
  std::map<uint32_t, bool> imports_;
  uint64_t next_ = 0;
};

}  // namespace torii::test
