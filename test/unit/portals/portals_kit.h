// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For the tests of portals3.h: several interfaces in this process, each with the real protocol,
// over simulated networks (every way in which bytes can move) or over the drivers `self` and `shm`.
// The tests use the public calls on their handles.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/api/ni_registry.h"
#include "core/base/log.h"
#include "core/portals/portals.h"
#include "core/portals3.h"
#include "core/protocol/protocol.h"
#include "drivers/interfaces.h"
#include "drivers/sim/sim.h"
#include "trust.h"

namespace torii {

struct Network {
  const char* name = "eager";
  uint32_t flags = kGet | kPut;  // of the simulated driver, beside the usual ones
  uint64_t eager_limit = 0;      // 0: the driver's advice
  uint64_t eager_window = 1 << 20;
  bool pending_rma = false;
  uint32_t again_ppm = 0;
  uint64_t latency_max_ns = 0;
  const char* driver = "sim";  // or "shm"; or "self": one interface, which is both sides
};

inline std::ostream& operator<<(std::ostream& out, const Network& n) { return out << n.name; }

inline const Network kEager{};

// Every way in which bytes can move.
inline std::vector<Network> all_networks() {
  std::vector<Network> all(9);
  all[1] = {.name = "pull", .flags = kGet, .eager_limit = 1};
  all[2] = {.name = "push", .flags = kPut, .eager_limit = 1};
  all[3] = {.name = "stream", .flags = 0, .eager_limit = 1};
  all[4] = {.name = "jitter",
            .eager_limit = 64,
            .pending_rma = true,
            .again_ppm = 200000,
            .latency_max_ns = 5000};
  all[5] = {.name = "no_credit", .eager_window = 64};
  all[6] = {.name = "self", .driver = "self"};
  all[7] = {.name = "shm", .driver = "shm"};
  all[8] = {.name = "shm_pull", .eager_limit = 1, .driver = "shm"};
  return all;
}

class World;

// One interface: what core/ni is in a real process.
class Node final : public PortalsHost, public Upper {
 public:
  Node(World& world, const Network& network, uint32_t number);
  ~Node() { unregister_ni(handle); }

  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }
  Peer* resolve(uint32_t nid, uint32_t pid, std::string* why) override;
  unsigned progress() override;
  bool sleep(int milliseconds) override;
  void wake() override { ++wakes; }
  uint64_t now_ns() override;
  uint32_t job_size() override;
  bool rank_ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override;

  void on_put(Arrival& a) override { portals.on_put(a); }
  void on_get(Arrival& a) override { portals.on_get(a); }
  void on_update(Arrival& a) override { protocol.drop(a); }
  void on_peer_down(Peer& peer, Status why) override { portals.on_peer_down(peer, why); }

  ptl_process_id_t id() const { return {protocol.self().nid, protocol.self().pid}; }
  uint64_t status(ptl_sr_index_t index) {
    ptl_sr_value_t value = 0;
    EXPECT_EQ(PtlNIStatus(handle, index, &value), PTL_OK);
    return value;
  }

  Counters counters;
  Protocol protocol;
  Portals portals;
  ptl_handle_ni_t handle = PTL_INVALID_HANDLE;
  unsigned wakes = 0;

 private:
  World& world_;
  std::mutex mutex_;  // finds a call that takes the lock twice
};

class World {
 public:
  explicit World(const Network& network, uint32_t count, uint64_t seed = 1, bool initialise = true)
      : initialised_(initialise), fabric_(sim_options(network, seed)) {
    int interfaces = 0;
    if (initialise) {
      EXPECT_EQ(PtlInit(&interfaces), PTL_OK);
    }
    if (network.driver == std::string("self")) count = 1;
    for (uint32_t i = 0; i < count; ++i)
      nodes_.push_back(std::make_unique<Node>(*this, network, i));
  }
  ~World() {
    nodes_.clear();
    if (initialised_) PtlFini();
  }

  // With `self` every number names the one interface.
  Node& node(uint32_t i) { return *nodes_[i < nodes_.size() ? i : 0]; }
  uint32_t size() const { return uint32_t(nodes_.size()); }
  bool one_process() const { return nodes_.size() == 1; }
  SimFabric& fabric() { return fabric_; }

  unsigned step() {
    unsigned events = 0;
    for (auto& node : nodes_) {
      std::lock_guard guard(*node);
      events += node->progress();
    }
    fabric_.advance(1000);
    return events;
  }
  // Until nothing moves any more.
  void settle() {
    for (unsigned quiet = 0; quiet < 20;) quiet = step() ? 0 : quiet + 1;
  }
  void kill(uint32_t i) {
    std::byte address[kSimAddressBytes];
    fabric_.address(i, address);
    fabric_.kill(address);
  }

  std::unique_ptr<Driver> open_driver_for(const Network& network, const DriverEnv& env) {
    if (network.driver == std::string("sim")) return open_sim(fabric_, env);
    std::string why;
    auto driver = open_driver(network.driver, env, &why);
    EXPECT_TRUE(driver) << why;
    return driver;
  }

 private:
  static SimOptions sim_options(const Network& network, uint64_t seed) {
    SimOptions options;
    options.seed = seed;
    options.flags = kReliable | kPeerDown | network.flags;
    options.mtu = 1024;
    options.inline_max = 512;
    options.pending_rma = network.pending_rma;
    options.again_ppm = network.again_ppm;
    options.latency_max_ns = network.latency_max_ns;
    return options;
  }

  bool initialised_;
  SimFabric fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

inline ProtocolConfig node_config(const Network& network, uint32_t number) {
  ProtocolConfig config;
  config.self.job = 0x7000000000000001;
  config.self.rank = number;
  config.self.nid = number / 2;  // two processes on a node
  config.self.pid = number % 2 + 1;
  config.self.uid = 1000;
  config.self.os_pid = 100 + number;
  std::strcpy(config.self.host, "sim");
  config.eager_limit = network.eager_limit;
  config.eager_window = network.eager_window;
  return config;
}

inline Node::Node(World& world, const Network& network, uint32_t number)
    : protocol(node_config(network, number), this, &counters),
      portals(protocol, counters, *this, Portals::grant(nullptr)),
      world_(world) {
  DriverEnv env;
  env.sink = protocol.next_sink();
  env.counters = &counters;
  env.members = &test::everybody();
  protocol.add_driver(network.driver, world.open_driver_for(network, env));
  handle = register_ni(portals);
  EXPECT_NE(handle, PTL_INVALID_HANDLE);
}

inline Peer* Node::resolve(uint32_t nid, uint32_t pid, std::string* why) {
  if (Peer* known = protocol.find_process(nid, pid); known && known->driver) return known;
  for (uint32_t i = 0; i < world_.size(); ++i) {
    Node& other = world_.node(i);
    if (other.id().nid != nid || other.id().pid != pid) continue;
    std::byte address[Protocol::kAddressBytes];
    const size_t bytes = other.protocol.address(address, sizeof(address));
    Peer* peer = nullptr;
    if (protocol.connect({address, bytes}, &peer, why) == Status::ok) return peer;
  }
  return nullptr;
}

inline unsigned Node::progress() {
  world_.fabric().advance(100);  // a look at the network takes time, so a spinning wait ends
  return protocol.progress(now_ns());
}
inline uint64_t Node::now_ns() { return world_.fabric().now_ns(); }

// Other processes run while this one sleeps.
inline bool Node::sleep(int) {
  unlock();
  world_.step();
  lock();
  return true;
}

inline uint32_t Node::job_size() { return world_.size(); }
inline bool Node::rank_ids(uint32_t rank, uint32_t* nid, uint32_t* pid) {
  if (rank >= world_.size()) return false;
  *nid = world_.node(rank).id().nid;
  *pid = world_.node(rank).id().pid;
  return true;
}

// --- short forms ------------------------------------------------------------------------------

inline constexpr ptl_process_id_t kAnyone{PTL_NID_ANY, PTL_PID_ANY};
inline constexpr ptl_pt_index_t kPortal = 4;
inline constexpr int kInf = PTL_MD_THRESH_INF;

inline ptl_md_t make_md(void* start, ptl_size_t length, unsigned options, int threshold,
                        ptl_handle_eq_t eq) {
  ptl_md_t md{};
  md.start = start;
  md.length = length;
  md.options = options;
  md.threshold = threshold;
  md.eq_handle = eq;
  return md;
}

inline ptl_handle_eq_t make_eq(Node& node, ptl_size_t count = 64) {
  ptl_handle_eq_t eq = PTL_INVALID_HANDLE;
  EXPECT_EQ(PtlEQAlloc(node.handle, count, PTL_EQ_HANDLER_NONE, &eq), PTL_OK);
  return eq;
}

// An entry at the end of the list, and its descriptor.
struct Target {
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  ptl_handle_md_t md = PTL_INVALID_HANDLE;
};
inline Target make_target(Node& node, const ptl_md_t& md, ptl_unlink_t unlink = PTL_RETAIN,
                          ptl_match_bits_t bits = 1, ptl_match_bits_t ignore = 0,
                          ptl_pt_index_t portal = kPortal) {
  Target t;
  EXPECT_EQ(PtlMEAttach(node.handle, portal, kAnyone, bits, ignore, unlink, PTL_INS_AFTER, &t.me),
            PTL_OK);
  EXPECT_EQ(PtlMDAttach(t.me, md, unlink, &t.md), PTL_OK);
  return t;
}

inline ptl_handle_md_t bind(Node& node, const ptl_md_t& md, ptl_unlink_t unlink = PTL_RETAIN) {
  ptl_handle_md_t handle = PTL_INVALID_HANDLE;
  EXPECT_EQ(PtlMDBind(node.handle, md, unlink, &handle), PTL_OK);
  return handle;
}

inline int put(ptl_handle_md_t md, Node& target, ptl_match_bits_t bits = 1,
               ptl_ack_req_t ack = PTL_NO_ACK_REQ, ptl_size_t offset = 0,
               ptl_hdr_data_t hdr_data = 0) {
  return PtlPut(md, ack, target.id(), kPortal, 0, bits, offset, hdr_data);
}

// Everything in a queue now; must not have lost anything.
inline std::vector<ptl_event_t> drain(ptl_handle_eq_t eq) {
  std::vector<ptl_event_t> events;
  ptl_event_t event;
  int rc;
  while ((rc = PtlEQGet(eq, &event)) != PTL_EQ_EMPTY) {
    EXPECT_EQ(rc, PTL_OK) << PtlErrorStr(unsigned(rc));
    if (rc != PTL_OK) break;
    events.push_back(event);
  }
  return events;
}

// Their kinds without "PTL_EVENT_", with "!" for a failure.
inline std::string kinds(const std::vector<ptl_event_t>& events) {
  std::string text;
  for (const ptl_event_t& event : events) {
    if (!text.empty()) text += ' ';
    text += PtlEventKindStr(event.type) + std::strlen("PTL_EVENT_");
    if (event.type != PTL_EVENT_UNLINK && event.ni_fail_type != PTL_NI_OK) text += '!';
  }
  return text;
}

inline std::vector<std::byte> pattern(size_t bytes, unsigned seed = 1) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = std::byte((i * 131 + seed * 17 + (i >> 8)) & 0xff);
  return data;
}

// Two processes, a sender and a receiver with a queue each; one process plays both over `self`.
class PortalsPair : public testing::TestWithParam<Network> {
 protected:
  PortalsPair() : world(GetParam(), 2), a(world.node(0)), b(world.node(1)) {
    eq_a = make_eq(a);
    eq_b = make_eq(b);
  }
  // Kinds of the events of both sides, after everything has come to rest.
  std::string at_a() {
    world.settle();
    events_a = drain(eq_a);
    return kinds(events_a);
  }
  std::string at_b() {
    world.settle();
    events_b = drain(eq_b);
    return kinds(events_b);
  }

  World world;
  Node& a;
  Node& b;
  ptl_handle_eq_t eq_a, eq_b;
  std::vector<ptl_event_t> events_a, events_b;
};

// With memory to send and to receive into.
class PortalsMemory : public PortalsPair {
 protected:
  std::vector<std::byte> source = pattern(4000);
  std::vector<std::byte> memory = std::vector<std::byte>(16000);

  ptl_handle_md_t out(ptl_size_t bytes, int threshold = PTL_MD_THRESH_INF,
                      ptl_unlink_t unlink = PTL_RETAIN) {
    return bind(a, make_md(source.data(), bytes, 0, threshold, eq_a), unlink);
  }
  // A target of `bytes` bytes at `slot` * 1000 of the memory.
  Target target(unsigned slot, ptl_size_t bytes, unsigned options,
                int threshold = PTL_MD_THRESH_INF, ptl_unlink_t unlink = PTL_RETAIN) {
    return make_target(b, make_md(memory.data() + slot * 1000, bytes, options, threshold, eq_b),
                       unlink);
  }
  // The descriptor that got the last put or get; -1: it was dropped.
  int hit(const std::vector<Target>& targets) {
    at_b();
    drain(eq_a);
    for (const ptl_event_t& e : events_b)
      for (size_t i = 0; i < targets.size(); ++i)
        if (e.md_handle == targets[i].md) return int(i);
    return -1;
  }
};

inline std::string network_name(const testing::TestParamInfo<Network>& info) {
  return info.param.name;
}

}  // namespace torii
