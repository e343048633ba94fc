// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The processes of the comparison: the library's Portals and protocol over simulated networks with
// faults, each paired with its part of the model. Requests are shown to the model when they reach
// their target, events when they are taken from their queues, which happens between any two things
// that happen in a process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/api/ni_registry.h"
#include "core/base/random.h"
#include "core/portals/portals.h"
#include "core/protocol/protocol.h"
#include "drivers/fault/fault.h"
#include "drivers/sim/sim.h"
#include "sim/portals_model.h"

namespace torii::model {

// A network, and how the protocol is set up over it.
struct Setting {
  SimOptions sim;
  bool with_fault = false;
  bool with_link = false;
  FaultPlan plan;
  uint64_t eager_limit = 0;
  uint64_t eager_window = 1 << 20;
  bool owns_memory = false;  // as if it were of torii_memory_alloc
  bool two_users = false;    // the last process belongs to somebody else
  std::string describe() const;
};
Setting random_setting(Random& random);

class World;

class Node final : public PortalsHost, public Upper {
 public:
  // Descriptors of entries are in the first part, bound ones in the rest: a process that sends to
  // itself from memory that it receives into is wrong.
  static constexpr size_t kTargetMemory = 24 << 10;
  static constexpr size_t kMemory = 36 << 10;
  static constexpr unsigned kQueues = 2;

  Node(World& world, const Setting& setting, unsigned number);
  ~Node() { unregister_ni(handle); }

  void lock() override {}  // one thread
  void unlock() override {}
  Peer* resolve(uint32_t nid, uint32_t pid, std::string* why) override;
  unsigned progress() override;
  bool sleep(int) override { return false; }
  void wake() override {}
  uint64_t now_ns() override;
  uint32_t job_size() override { return 0; }
  bool rank_ids(uint32_t, uint32_t*, uint32_t*) override { return false; }

  void on_put(Arrival& a) override;
  void on_get(Arrival& a) override;
  void on_update(Arrival& a) override { protocol.drop(a); }
  void on_peer_down(Peer& peer, Status why) override { portals.on_peer_down(peer, why); }

  ptl_process_id_t id() const { return {protocol.self().nid, protocol.self().pid}; }

  const unsigned number;
  std::vector<unsigned char> memory;
  Counters counters;
  Protocol protocol;
  Portals portals;
  ptl_handle_ni_t handle = PTL_INVALID_HANDLE;
  ptl_handle_eq_t queues[kQueues];

 private:
  void arrived(const Arrival& a);

  World& world_;
};

class World {
 public:
  World(const Setting& setting, unsigned count, Mutation mutation);
  ~World();

  Model& model() { return model_; }
  Node& node(unsigned i) { return *nodes_[i]; }
  unsigned size() const { return unsigned(nodes_.size()); }
  SimFabric& fabric() { return fabric_; }
  bool alive(unsigned i) { return !model_.process(i).dead; }
  bool failed() const { return !model_.failure().empty(); }

  // The process with these ids; size() if there is none.
  unsigned find(ptl_process_id_t id) const;
  // Moves time forward and lets one process make progress.
  void run(unsigned i, uint64_t ns);
  // Hands all events of a process to the model. No progress happens.
  void drain(unsigned i);
  // Are there events in that queue? No progress happens.
  bool has_events(ptl_handle_eq_t eq);
  // Until nothing moves any more; then everything is compared.
  void settle();
  void kill(unsigned i);
  // Drops what is held and looks for operations that were never freed.
  void close();
  bool progress_allowed() const { return frozen_ == 0; }

 private:
  Setting setting_;
  SimFabric fabric_;
  Model model_;
  std::vector<std::unique_ptr<Node>> nodes_;
  unsigned frozen_ = 0;
};

}  // namespace torii::model
