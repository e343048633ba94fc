// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Interfaces of one job on several simulated nodes, on one virtual clock: those of a node share
// memory by a fabric of their own, all are on a network with multicast.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/link/link.h"
#include "drivers/fault/fault.h"
#include "unit/collective/collective_kit.h"
#include "world.h"

namespace torii::test {

// A driver that offers no lossy groups.
class NoMulticast final : public Decorator {
 public:
  NoMulticast(const OpenBelow& open_below, const DriverEnv& env) : Decorator(env) {
    open(open_below, env);
  }
  LossyGroups* lossy_groups() override { return nullptr; }
};

// One that says which network its frames stay in.
class WithinNetwork final : public Decorator, private LossyGroups {
 public:
  WithinNetwork(const OpenBelow& open_below, const DriverEnv& env, uint64_t network)
      : Decorator(env), network_(network) {
    open(open_below, env);
  }
  LossyGroups* lossy_groups() override { return this; }

 private:
  Status join_lossy(const LossyMember& membership, PeerId* group) override {
    return below_->lossy_groups()->join_lossy(membership, group);
  }
  uint64_t network() const override { return network_; }

  const uint64_t network_;
};

class Cluster {
 public:
  struct Options {
    std::string faults;                       // of the network, which then has a link; empty: none
    std::set<uint32_t> unicast = {};          // ranks whose driver has no multicast
    std::map<uint32_t, uint64_t> least = {};  // multicast_min of ranks; of the others 0
    std::map<uint32_t, uint64_t> networks = {};  // of ranks; of the others it is not known
    bool reliable = false;                       // the network's groups lose nothing
  };

  // `nodes`: where each rank is.
  Cluster(std::vector<uint32_t> nodes, const Options& options)
      : node_of_(std::move(nodes)), network_(network_options(options)) {
    const uint32_t count = *std::max_element(node_of_.begin(), node_of_.end()) + 1;
    for (uint32_t i = 0; i < count; ++i) fabrics_.push_back(std::make_unique<SimFabric>());
    for (uint32_t rank = 0; rank < size(); ++rank) open(rank, options);
    for (uint32_t from = 0; from < size(); ++from) {
      peers_.emplace_back();
      for (uint32_t to = 0; to < size(); ++to) peers_[from].push_back(peer(from, to));
    }
  }

  uint32_t size() const { return uint32_t(node_of_.size()); }
  Ni& ni(uint32_t rank) { return *nis_[rank]; }
  torii_ni_t* handle(uint32_t rank) { return reinterpret_cast<torii_ni_t*>(nis_[rank].get()); }
  Peer* known(uint32_t from, uint32_t to) { return peers_[from][to]; }
  // One of them works for some time.
  void progress(uint32_t rank) {
    pass(kStepNs);
    torii_progress(handle(rank));
  }
  void run(unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round)
      for (uint32_t rank = 0; rank < size(); ++rank)
        if (!dead_.contains(rank)) progress(rank);
  }
  // The process dies; only those of its node hear of it at once.
  void kill(uint32_t rank) {
    std::byte address[kAddressMax];
    ni(rank).protocol().drivers()[0]->address(address);
    fabrics_[node_of_[rank]]->kill({address, kSimAddressBytes});
    dead_.insert(rank);
  }
  // The process closes its interface. Those that know it hear of it behind all that it has sent.
  void leave(uint32_t rank) {
    dead_.insert(rank);
    nis_[rank].reset();
  }
  // Virtual time, in which nobody does anything.
  void pass(uint64_t ns) {
    network_.advance(ns);
    for (auto& fabric : fabrics_) fabric->advance(ns);
  }
  uint64_t sum(uint64_t Counters::*counter) {
    uint64_t all = 0;
    for (auto& each : nis_) all += each->counters().*counter;
    return all;
  }

 private:
  static constexpr uint64_t kStepNs = 3000;

  static SimOptions network_options(const Options& options) {
    SimOptions out;
    out.flags = options.faults.empty() ? kWait | kReliable | kPeerDown : kWait;
    if (options.reliable) out.flags |= kMulticast;
    out.inline_max = out.mtu;
    out.latency_min_ns = 1000;
    out.latency_max_ns = 3000;
    return out;
  }

  void open(uint32_t rank, const Options& options) {
    NiConfig config;
    config.self = own_identity();
    config.self.job = 77;
    config.self.rank = rank;
    config.self.nid = rank;
    config.self.pid = 1;
    config.size = size();
    config.clock = [](void* f) { return static_cast<SimFabric*>(f)->now_ns(); };
    config.clock_context = &network_;
    const auto least = options.least.find(rank);
    config.multicast_min = least == options.least.end() ? 0 : least->second;
    nis_.push_back(std::make_unique<Ni>(config));
    Protocol& protocol = nis_.back()->protocol();
    DriverEnv env;
    env.counters = &nis_.back()->counters();
    env.members = &everybody();
    env.clock = config.clock;
    env.clock_context = config.clock_context;
    env.sink = protocol.next_sink();
    // The name differs on each node: no other one finds an address for it.
    protocol.add_driver("node" + std::to_string(node_of_[rank]),
                        open_sim(*fabrics_[node_of_[rank]], env));
    env.sink = protocol.next_sink();
    env.name = "net";
    const OpenBelow plain = [this](const DriverEnv& e) { return open_sim(network_, e); };
    if (!options.faults.empty()) {
      FaultPlan plan;
      std::string why;
      ASSERT_EQ(parse_fault_plan(options.faults, &plan, &why), Status::ok) << why;
      const OpenBelow faulty = [&](const DriverEnv& e) { return wrap_fault(plain, e, plan); };
      protocol.add_driver("net", open_with_link(faulty, env));
    } else if (options.unicast.contains(rank)) {
      protocol.add_driver("net", std::make_unique<NoMulticast>(plain, env));
    } else if (options.networks.contains(rank)) {
      protocol.add_driver("net",
                          std::make_unique<WithinNetwork>(plain, env, options.networks.at(rank)));
    } else {
      protocol.add_driver("net", plain(env));
    }
  }
  Peer* peer(uint32_t from, uint32_t to) {
    std::byte address[Protocol::kAddressBytes];
    const size_t n = ni(to).protocol().address(address, sizeof(address));
    Peer* out = nullptr;
    std::string why;
    EXPECT_EQ(ni(from).connect({address, n}, &out, &why), Status::ok) << why;
    return out;
  }

  std::vector<uint32_t> node_of_;
  SimFabric network_;
  std::vector<std::unique_ptr<SimFabric>> fabrics_;
  std::vector<std::unique_ptr<Ni>> nis_;
  std::vector<std::vector<Peer*>> peers_;
  std::set<uint32_t> dead_;
};

// A group of some ranks of a cluster.
class Clan {
 public:
  // All but the members `late` open it.
  Clan(Cluster& cluster, std::vector<uint32_t> ranks, const char* name = "c",
       const std::set<uint32_t>& late = {})
      : groups(ranks.size()), cluster_(cluster), ranks_(std::move(ranks)), name_(name) {
    for (uint32_t i = 0; i < size(); ++i)
      if (!late.contains(i)) open(i);
  }
  ~Clan() {
    for (uint32_t i = 0; i < size(); ++i) close(i);
  }
  Clan(const Clan&) = delete;
  void open(uint32_t member) {
    std::vector<torii_peer_t*> peers;
    for (const uint32_t other : ranks_) peers.push_back(pub(cluster_.known(ranks_[member], other)));
    EXPECT_EQ(torii_group_open(cluster_.handle(ranks_[member]), name_, 1, peers.data(),
                               peers.size(), &groups[member]),
              TORII_OK)
        << torii_error();
  }
  void close(uint32_t member) {
    if (groups[member]) torii_group_close(groups[member]);
    groups[member] = nullptr;
  }

  uint32_t size() const { return uint32_t(ranks_.size()); }
  void progress(uint32_t member) { cluster_.progress(ranks_[member]); }
  bool may_refuse(const Call& call) const { return has_to_refuse(call); }
  bool has_to_refuse(const Call& call) const {
    switch (call.kind) {
      case Kind::alltoall:
        return true;
      case Kind::reduce:
      case Kind::allreduce:
        return !in_blocks || call.bytes > multicast::kSmallMax;
      case Kind::allgather:
        return !in_blocks || !even;
      default:
        return false;
    }
  }

  // The codes that all get for an operation that each begins by start(member, done flag).
  template <typename Start>
  std::vector<int> all(Start start, unsigned rounds) {
    std::vector<int> codes(size());
    flags_ = std::vector<torii_flag_t>(size());
    for (uint32_t i = 0; i < size(); ++i) codes[i] = start(i, &flags_[i]);
    cluster_.run(rounds);
    for (uint32_t i = 0; i < size(); ++i)
      if (codes[i] == TORII_PENDING)
        codes[i] = flags_[i].done ? flags_[i].result.code : TORII_PENDING;
    return codes;
  }
  std::vector<int> prepare(unsigned rounds = 200) {
    return all([&](uint32_t i,
                   torii_flag_t* flag) { return torii_group_prepare(groups[i], torii_flag, flag); },
               rounds);
  }
  std::vector<int> barrier(unsigned rounds = 5000) {
    return all([&](uint32_t i,
                   torii_flag_t* flag) { return torii_group_barrier(groups[i], torii_flag, flag); },
               rounds);
  }
  // The result of the last operation.
  const torii_result_t& result(uint32_t member) const { return flags_[member].result; }

  std::vector<torii_group_t*> groups;
  bool in_blocks = true, even = true;

 private:
  Cluster& cluster_;
  std::vector<uint32_t> ranks_;
  const char* name_;  // of one letter
  std::vector<torii_flag_t> flags_;
};

}  // namespace torii::test
