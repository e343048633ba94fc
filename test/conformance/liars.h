// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For the test of the kit: the driver that tells the truth, and those that lie about optional
// functions.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "drivers/decorator.h"

namespace torii::kit {

// A decorator that tells the truth; liars derive from it.
class Honest : public Decorator,
               public Paths,
               public Advice,
               public RegisteredMemory,
               public MappedMemory,
               public ShortFrames {
 public:
  explicit Honest(const DriverEnv& env) : Decorator(env) {}
  bool start(const OpenBelow& open_below, const DriverEnv& env) {
    if (!open(open_below, env)) return false;
    if (const Advice* const below = below_->advice()) Advice::operator=(*below);
    if (const RegisteredMemory* const below = below_->registered_memory())
      RegisteredMemory::operator=(*below);
    return begin();
  }
  Paths* paths() override { return below_->paths() ? this : nullptr; }
  Advice* advice() override { return below_->advice() ? this : nullptr; }
  RegisteredMemory* registered_memory() override {
    return below_->registered_memory() ? this : nullptr;
  }
  MappedMemory* mapped_memory() override { return below_->mapped_memory() ? this : nullptr; }
  ShortFrames* short_frames() override { return this; }

  Life life(PeerId peer) override { return below_->paths()->life(peer); }
  uint32_t long_max(PeerId peer) const override { return below_->paths()->long_max(peer); }
  bool near(PeerId peer, const void* at) const override { return below_->advice()->near(peer, at); }
  bool current(const Region& region) const override {
    return below_->registered_memory()->current(region);
  }
  Status reach(uint32_t remote, Reach* out) override {
    return below_->mapped_memory()->reach(remote, out);
  }
  bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                  uint32_t body_bytes) override {
    const ShortTx frame(peer, word0, word1, body, body_bytes);
    return send({&frame.tx, 1}) == 1;
  }
  virtual bool begin() { return true; }
  uint32_t below_inline() const { return below_->caps().inline_max; }
};

// --- frames ----------------------------------------------------------------------------------
struct LargerMtu final : Honest {
  using Honest::Honest;
  bool begin() override {
    caps_.mtu *= 2;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    Tx tx = batch[0];
    iovec piece{tx.piece_count ? tx.pieces->iov_base : nullptr, tx.body_bytes};
    piece.iov_len = std::min<size_t>(piece.iov_len, below_->caps().mtu - tx.head_bytes);
    tx.pieces = &piece;
    tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
    return below_->send({&tx, 1});
  }
};
struct CutsLongFrames final : Honest {
  using Honest::Honest;
  bool begin() override {
    caps_.long_max = 4 * caps_.mtu;
    return true;
  }
  uint32_t long_max(PeerId) const override { return caps_.long_max; }
  size_t send(std::span<const Tx> batch) override {
    Tx tx = batch[0];
    iovec piece{tx.piece_count ? tx.pieces->iov_base : nullptr, tx.body_bytes};
    piece.iov_len = std::min<size_t>(piece.iov_len, below_->caps().mtu - tx.head_bytes);
    if (tx.head_bytes + tx.body_bytes > below_->caps().mtu) {
      tx.pieces = &piece;
      tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
    }
    return below_->send({&tx, 1});
  }
};

struct TakesLater final : Honest {  // with the next poll()
  using Honest::Honest;
  void take(void* to, const std::byte* from, size_t bytes) override {
    to_ = to;
    late_.assign(from, from + bytes);
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    late_.clear();
    return below_->poll(now_ns, budget);
  }
  void* to_ = nullptr;
  std::vector<std::byte> late_;
};
struct TakesTooMuch final : Honest {
  using Honest::Honest;
  void take(void* to, const std::byte* from, size_t bytes) override {
    below_->take(to, from, bytes);
    static_cast<char*>(to)[bytes] = 0;
  }
};
struct TakesNothing final : Honest {
  using Honest::Honest;
  bool begin() override { return (take_min = 256) > 0; }
};

// --- lives -----------------------------------------------------------------------------------
struct DeclaresDead final : Honest {
  using Honest::Honest;
  Life life(PeerId) override { return Life::gone; }
};
struct DeniesDeath final : Honest {
  using Honest::Honest;
  Life life(PeerId) override { return Life::there; }
};

// --- registration ----------------------------------------------------------------------------
struct ClaimsLocal final : Honest {
  using Honest::Honest;
  bool begin() override { return local = true; }
};
struct HidesLocal final : Honest {
  using Honest::Honest;
  bool begin() override { return !(local = false); }
};
struct AlwaysCurrent final : Honest {
  using Honest::Honest;
  bool current(const Region&) const override { return true; }
};
struct NeverCurrent final : Honest {
  using Honest::Honest;
  bool current(const Region&) const override { return false; }
};
struct HidesThatThereIsNoRoom final : Honest {
  using Honest::Honest;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return ++count_ > 10 ? Status::io_error : below_->reg(base, bytes, access, out);
  }
  int count_ = 0;
};
struct HasNoRoomForEver final : Honest {
  using Honest::Honest;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return ++count_ > 10 ? Status::no_memory : below_->reg(base, bytes, access, out);
  }
  int count_ = 0;
};
// As a card that still has the pages of an earlier registration of the same addresses.
struct KeepsOldRegistrations final : Honest {
  using Honest::Honest;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    if (access == kLocal) ++seen_[base];
    return below_->reg(base, bytes, access, out);
  }
  Status put(const Rma& rma) override { return old(rma) ? Status::ok : below_->put(rma); }
  Status get(const Rma& rma) override { return old(rma) ? Status::ok : below_->get(rma); }
  bool old(const Rma& rma) { return rma.local && seen_[rma.local->base] > 1; }
  std::map<void*, int> seen_;
};
struct WritesAfterDereg final : Honest {
  using Honest::Honest;
  void dereg(Region& region) override {
    if (region.access & kLocal) late_ = static_cast<char*>(region.base);
    below_->dereg(region);
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    if (late_) ++*std::exchange(late_, nullptr);
    return below_->poll(now_ns, budget);
  }
  char* late_ = nullptr;
};
struct DeregistersLater final : Honest {
  using Honest::Honest;
  void dereg(Region& region) override { late_.push_back(region); }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    const unsigned count = below_->poll(now_ns, budget);
    for (Region& region : std::exchange(late_, {})) below_->dereg(region);
    return count;
  }
  std::vector<Region> late_;
};

// --- remote memory, groups, sleeping --------------------------------------------------------
struct MovesNothing final : Honest {
  using Honest::Honest;
  Status put(const Rma&) override { return Status::ok; }
  Status get(const Rma&) override { return Status::ok; }
};
struct NeedsNoCookie final : Honest {  // and says so of what it never does
  using Honest::Honest;
  Status put(const Rma& rma) override { return rma.cookie ? below_->put(rma) : Status::pending; }
  Status get(const Rma& rma) override { return rma.cookie ? below_->get(rma) : Status::pending; }
};
struct AddsTwice final : Honest {
  using Honest::Honest;
  Status atomic(const RemoteAtomic& atomic) override {
    RemoteAtomic twice = atomic;
    if (atomic.op == AtomicOp::add) twice.operand *= 2;
    return below_->atomic(twice);
  }
};
struct IgnoresBounds final : Honest {
  using Honest::Honest;
  Status put(const Rma& rma) override {
    Rma clamped = rma;
    if (rma.remote_offset > 4096 - rma.bytes) clamped.remote_offset = 0;
    return below_->put(clamped);
  }
  Status get(const Rma& rma) override {
    Rma clamped = rma;
    if (rma.remote_offset > 4096 - rma.bytes) clamped.remote_offset = 0;
    return below_->get(clamped);
  }
};
struct IgnoresRights final : Honest {
  using Honest::Honest;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    const uint32_t all = kRemoteRead | kRemoteWrite | kRemoteUpdate;
    return below_->reg(base, bytes, all | (access & kGuarded), out);
  }
};
struct TakesLongKeys final : Honest {
  using Honest::Honest;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return below_->import(peer, key.first(std::min<size_t>(key.size(), caps_.key_bytes)), remote);
  }
};
struct MapsOtherMemory final : Honest {
  using Honest::Honest;
  Status reach(uint32_t remote, Reach* out) override {
    const Status status = Honest::reach(remote, out);
    if (status == Status::ok) out->at = other_;
    return status;
  }
  std::byte other_[8192]{};
};
struct BelievesKeys final : Honest {
  using Honest::Honest;
  Status reach(uint32_t remote, Reach* out) override {
    const Status status = Honest::reach(remote, out);
    out->access = kRemoteRead | kRemoteWrite;
    return status;
  }
};
struct NeverEndsGuards final : Honest {
  using Honest::Honest;
  Status reach(uint32_t remote, Reach* out) override {
    const Status status = Honest::reach(remote, out);
    word_ = out->valid;
    if (out->guard) out->guard = &word_;
    return status;
  }
  std::atomic<uint64_t> word_{0};
};
struct KeysLiveOn final : Honest {
  using Honest::Honest;
  void dereg(Region&) override {}
};
struct GivesOddAddresses final : Honest {
  using Honest::Honest;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    const Status status = below_->alloc(bytes + 1, alignment, base);
    if (status == Status::ok) *base = static_cast<char*>(*base) + 1;
    return status;
  }
};
struct GivesMemoryTwice final : Honest {
  using Honest::Honest;
  Status alloc(uint64_t bytes, uint64_t, void** base) override {
    *base = memory_.get();
    return bytes <= kBytes ? Status::ok : Status::no_memory;
  }
  void dealloc(void*) override {}
  bool begin() override {
    memory_.reset(static_cast<char*>(aligned_alloc(4096, kBytes)));
    return memory_ != nullptr;
  }
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  static constexpr size_t kBytes = 4 << 20;
  std::unique_ptr<char, Free> memory_;
};
struct PromisesAnything final : Honest {
  using Honest::Honest;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return below_->alloc(std::min<uint64_t>(bytes, 4 << 20), alignment, base);
  }
};
struct ClearsWhatItGave final : Honest {  // when it closes
  using Honest::Honest;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    const Status status = below_->alloc(bytes, alignment, base);
    if (status == Status::ok) given_[*base] = bytes;
    return status;
  }
  void dealloc(void* base) override {
    given_.erase(base);
    below_->dealloc(base);
  }
  ~ClearsWhatItGave() override {
    for (const auto& [base, bytes] : given_) std::memset(base, 0, bytes);
  }
  std::map<void*, size_t> given_;
};
struct CallsEverythingNear final : Honest {
  using Honest::Honest;
  bool near(PeerId, const void*) const override { return true; }
};
struct DeallocHasNoEffect final : Honest {
  using Honest::Honest;
  void dereg(Region&) override {}
  void dealloc(void*) override {}
};
struct TakesAnyGroupName final : Honest {
  using Honest::Honest;
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    const std::byte other[1] = {};
    return below_->join(group.empty() ? std::span<const std::byte>(other) : group, peer);
  }
};
struct LeaveHasNoEffect final : Honest {
  using Honest::Honest;
  void leave(PeerId) override {}
};
struct GroupsLagBehind final : Honest {  // frames to groups leave with the next poll()
  using Honest::Honest;
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    const Status status = below_->join(group, peer);
    group_ = *peer;
    return status;
  }
  size_t send(std::span<const Tx> batch) override {
    const Tx& tx = batch[0];
    if (tx.peer != group_ || tx.body_bytes) return below_->send(batch.first(1));
    const auto* head = static_cast<const std::byte*>(tx.head);
    held_.emplace_back(head, head + tx.head_bytes);
    return 1;
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    for (const auto& head : std::exchange(held_, {})) {
      Tx tx;
      tx.peer = group_;
      tx.head = head.data();
      tx.head_bytes = static_cast<uint32_t>(head.size());
      below_->send({&tx, 1});
    }
    return below_->poll(now_ns, budget);
  }
  PeerId group_ = kNoPeer;
  std::vector<std::vector<std::byte>> held_;
};
struct GroupsHideTheSender final : Honest {  // as if the sender of a frame to a group were unknown
  using Honest::Honest;
  void packet(PeerId from, std::span<const std::byte> frame) override {
    upper_.packet(frame[0] == std::byte{'g'} ? kNoPeer : from, frame);
  }
};
struct LossyFramesFromNobody final : Honest {  // as if their group were unknown
  using Honest::Honest;
  void packet(PeerId from, std::span<const std::byte> frame) override {
    upper_.packet(frame[0] == std::byte{'L'} ? kNoPeer : from, frame);
  }
};
struct TakesAnyMembership final : Honest, LossyGroups {
  using Honest::Honest;
  LossyGroups* lossy_groups() override { return this; }
  Status join_lossy(const LossyMember& membership, PeerId* group) override {
    LossyMember other;
    other.key = membership.key;
    return below_->lossy_groups()->join_lossy(other, group);
  }
};
struct RepeatsLossyFrames final : Honest {  // and says that their sender was proved
  using Honest::Honest;
  void packet(PeerId from, std::span<const std::byte> frame) override {
    Packet one{from, frame, false, frame[0] == std::byte{'L'} ? 0 : kNoSender};
    for (int i = 0; i < 2; i++) upper_.packets({&one, 1});
  }
};
struct NeverWakes final : Honest {
  using Honest::Honest;
  Status arm(int* fd) override {
    const Status status = below_->arm(fd);
    if (status == Status::ok) *fd = quiet_[0];
    return status;
  }
  bool begin() override { return pipe(quiet_) == 0; }
  ~NeverWakes() override {
    close(quiet_[0]);
    close(quiet_[1]);
  }
  int quiet_[2];
};
struct OverlooksWork final : Honest {
  using Honest::Honest;
  Status arm(int* fd) override {
    if (fd_ < 0 && below_->arm(&fd_) != Status::ok) return Status::again;
    *fd = fd_;
    return Status::ok;
  }
  int fd_ = -1;
};

}  // namespace torii::kit
