// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Benchmarks of QsNet on up to 64 timed hosts: barriers, a broadcast, puts to one memory.
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "nic/qsnet/regs.h"
#include "nic/timed.h"

namespace torii::figures {
namespace {

constexpr uint64_t kLookNs = 50;      // a look at memory
constexpr uint64_t kPauseNs = 10000;  // a look whether all are there
constexpr int kBarriers = 4;          // that are counted; one before them is not
constexpr uint32_t kFrameBytes = 2040;

// A process: its driver, and what it has got.
struct Member final : Sink {
  void packet(PeerId, std::span<const std::byte>) override { frames++; }
  void done(uint64_t, Status) override { dones++; }
  void peer_down(PeerId, Status) override {}

  std::vector<std::byte> address() const {
    std::vector<std::byte> out(driver->caps().address_bytes);
    driver->address(out.data());
    return out;
  }
  // Polls until that holds. False: it never will.
  bool wait(const std::function<bool()>& until) {
    while (!until())
      if (driver->poll(host->now_ns(), 16) == 0 && !host->poll_memory(kLookNs)) return until();
    return true;
  }
  bool send(PeerId to, size_t bytes) {
    const iovec piece{body.data(), bytes};
    Tx tx;
    tx.peer = to;
    tx.pieces = &piece;
    tx.piece_count = 1;
    tx.body_bytes = static_cast<uint32_t>(bytes);
    return wait([&] { return driver->send({&tx, 1}) == 1; });
  }

  nic::Host* host = nullptr;
  Counters counters{};
  std::unique_ptr<Driver> driver;
  std::vector<std::byte> body = std::vector<std::byte>(kFrameBytes);
  std::vector<PeerId> peers;
  size_t frames = 0, dones = 0;
};

class Crowd {
 public:
  // Runs the program on so many hosts, each with a driver that knows all others.
  using Program = std::function<void(Member&, uint32_t rank, Crowd&)>;
  Crowd(uint32_t hosts, const Program& program) : members_(hosts) {
    std::string why;
    fabric_ = nic::Fabric::make({.card = "qsnet", .nodes = hosts, .topology = "fattree"}, &why);
    if (!fabric_) return;
    nic::Hosts timed(fabric_->engine());
    for (uint32_t rank = 0; rank < hosts; rank++)
      timed.add([&, rank](nic::Host& host) {
        if (enter(rank, host)) program(*members_[rank], rank, *this);
      });
    static_cast<void>(timed.run(&why));  // who listens to the end waits for ever
    for (const auto& member : members_)  // their hosts have ended: no card takes time any more
      if (member) fabric_->kill(name_of(*member));
    members_.clear();
  }
  Member& member(uint32_t rank) { return *members_[rank]; }
  double ns() const { return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) : 0; }

  uint64_t begin_ns = 0, end_ns = 0;
  Region region;  // of the first one

 private:
  static nic::Name name_of(const Member& member) {
    nic::Name name;
    std::memcpy(&name, member.address().data() + sizeof(uint64_t), sizeof(name));
    return name;
  }
  bool enter(uint32_t rank, nic::Host& host) {
    auto me = std::make_unique<Member>();
    me->host = &host;
    DriverEnv env;
    env.sink = me.get();
    env.counters = &me->counters;
    std::string why;
    std::unique_ptr<nic::Card> card = fabric_->open(rank, &why, &host);
    if (card) me->driver = open_qsnet(std::move(card), env, &why);
    if (!me->driver) std::fprintf(stderr, "%s\n", why.c_str());
    if (!me->driver) return false;
    members_[rank] = std::move(me);
    for (open_++; open_ < members_.size();) host.spend(kPauseNs);
    for (const auto& other : members_) {
      PeerId peer = kNoPeer;
      if (members_[rank]->driver->connect(other->address(), &peer, &why) != Status::ok)
        return false;
      members_[rank]->peers.push_back(peer);
    }
    host.spend(kPauseNs);
    return true;
  }

  std::unique_ptr<nic::Fabric> fabric_;
  std::vector<std::unique_ptr<Member>> members_;
  size_t open_ = 0;
};

}  // namespace

// Up and down a tree in which each has four children.
double software_barrier_ns(uint32_t hosts) {
  const Crowd crowd(hosts, [hosts](Member& me, uint32_t rank, Crowd& all) {
    const uint32_t first = std::min(4 * rank + 1, hosts), last = std::min(4 * rank + 5, hosts);
    size_t expected = 0;
    for (int round = 0; round <= kBarriers; round++) {
      if (rank == 0 && round == 1) all.begin_ns = me.host->now_ns();
      expected += last - first;
      if (!me.wait([&] { return me.frames >= expected; })) return;
      if (rank > 0 && !me.send(me.peers[(rank - 1) / 4], 8)) return;
      expected += rank > 0;
      if (!me.wait([&] { return me.frames >= expected; })) return;
      for (uint32_t child = first; child < last; child++)
        if (!me.send(me.peers[child], 8)) return;
    }
    if (rank == 0) all.end_ns = me.host->now_ns();
  });
  return crowd.ns() / kBarriers;
}

// Frames to a group, until the last member has all of them. Bytes a microsecond.
double broadcast_rate(uint32_t hosts) {
  constexpr size_t kFrames = 512;
  const Crowd crowd(hosts, [](Member& me, uint32_t rank, Crowd& all) {
    const std::byte name[4] = {};
    PeerId group;
    if (me.driver->join(name, &group) != Status::ok) return;
    me.host->spend(100 * kPauseNs);  // all have
    if (rank == 0) {
      all.begin_ns = me.host->now_ns();
      for (size_t i = 0; i < kFrames; i++)
        if (!me.send(group, kFrameBytes)) return;
    } else {
      if (!me.wait([&] { return me.frames >= kFrames; })) return;
      all.end_ns = std::max(all.end_ns, me.host->now_ns());
    }
    me.wait([] { return false; });
  });
  return kFrames * kFrameBytes * 1e3 / crowd.ns();
}

// The rate of so many writers together that put to the same memory of another process.
double put_rate(uint32_t writers) {
  constexpr size_t kBytes = 256 << 10, kPuts = 4;
  std::vector<std::byte> target(kBytes), source(kBytes);
  const Crowd crowd(writers + 1, [&](Member& me, uint32_t rank, Crowd& all) {
    if (rank == 0)
      static_cast<void>(me.driver->reg(target.data(), kBytes, kRemoteWrite, &all.region));
    me.host->spend(100 * kPauseNs);
    if (rank == 0) {
      all.begin_ns = me.host->now_ns();
      me.wait([] { return false; });
      return;
    }
    const iovec piece{source.data(), kBytes};
    Rma rma;
    rma.peer = me.peers[0];
    rma.pieces = &piece;
    rma.piece_count = 1;
    rma.bytes = kBytes;
    const auto key = std::span(all.region.key).first(me.driver->caps().key_bytes);
    if (me.driver->import(rma.peer, key, &rma.remote) != Status::ok) return;
    for (rma.cookie = 1; rma.cookie <= kPuts; rma.cookie++)
      if (me.driver->put(rma) != Status::pending) return;
    if (me.wait([&] { return me.dones == kPuts; }))
      all.end_ns = std::max(all.end_ns, me.host->now_ns());
  });
  return static_cast<double>(writers * kBytes * kPuts) * 1e3 / crowd.ns();
}

// By the registers: the first process tests by a broadcast whether the events of all have fired,
// and tells them by another one.
double hardware_barrier_ns(uint32_t hosts) {
  namespace regs = nic::qsnet;
  constexpr uint32_t kDescriptorAt = 4096, kFrontEvent = 256, kEndEvent = 272, kArrived = 1024;
  constexpr uint32_t kFrontCopy = 0, kEndCopy = 64, kSlots = 4096;  // in lent memory
  std::string why;
  const auto fabric =
      nic::Fabric::make({.card = "qsnet", .nodes = hosts, .topology = "fattree"}, &why);
  if (!fabric) return 0;
  nic::Hosts timed(fabric->engine());
  std::vector<std::unique_ptr<nic::Card>> cards(hosts);
  uint64_t begin_ns = 0, end_ns = 0;
  for (uint32_t rank = 0; rank < hosts; rank++)
    timed.add([&, rank](nic::Host& host) {
      cards[rank] = fabric->open(rank, &why, &host);
      nic::Card& card = *cards[rank];
      const auto set = [&](uint32_t at, const auto& value) {
        card.write(regs::kSdram + at, &value, sizeof(value));
      };
      const auto wait = [&](uint32_t at, uint32_t least) {
        while (__atomic_load_n(reinterpret_cast<const uint32_t*>(&card.shared()[at]),
                               __ATOMIC_ACQUIRE) < least)
          if (!host.poll_memory(kLookNs)) return false;
        return true;
      };
      set(regs::kQueueAt, regs::Queue{regs::kLent + kSlots, 64, 64, kFrontEvent, 0, {}, 0, 0});
      set(kFrontEvent, regs::Event{1, regs::kCopies | regs::kEachTime, regs::kQueueAt, kFrontCopy});
      set(kEndEvent, regs::Event{1, regs::kCopies | regs::kEachTime, kDescriptorAt, kEndCopy});
      for (uint32_t round = 0; round <= kBarriers; round++)
        set(kArrived + round * 16, regs::Event{1, 0, 0, 0});
      nic::Control out;
      static_cast<void>(card.control({regs::kJoin, {1, 0, 1}}, &out));
      host.spend(100 * kPauseNs);  // all have joined
      regs::Descriptor d{};
      d.process = (hosts - 1) << 16;
      d.group = static_cast<uint32_t>(out.words[0]);
      d.source = regs::kLent + kSlots;
      d.source_event = kEndEvent;
      const auto start = [&](uint32_t type, uint32_t bytes, uint32_t dest) {
        d.type = type | 4u << regs::kRetriesShift;
        d.bytes = bytes;
        d.dest = dest;
        std::memset(&card.shared()[kEndCopy], 0, sizeof(d));
        set(kDescriptorAt, d);
        card.write32(regs::kStartDma, kDescriptorAt);
        return wait(kEndCopy + offsetof(regs::Descriptor, status), regs::kDone);
      };
      for (uint32_t round = 0; round <= kBarriers; round++) {
        if (rank == 0 && round == 1) begin_ns = host.now_ns();
        set(kArrived + round * 16 + offsetof(regs::Event, count), uint32_t{0});
        if (rank == 0 &&
            !(start(regs::kDmaTest, 0, kArrived + round * 16) && start(regs::kDmaBroadcast, 8, 0)))
          return;
        if (rank > 0 && !wait(kFrontCopy + offsetof(regs::Queue, front), round + 1)) return;
      }
      if (rank == 0) end_ns = host.now_ns();
    });
  static_cast<void>(timed.run(&why));
  for (const auto& card : cards) fabric->kill(card->info().name);
  return static_cast<double>(end_ns - begin_ns) / kBarriers;
}

}  // namespace torii::figures
