// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A cluster of nodes with an emulated card each, cables and switches, in one process and on one
// virtual clock. It is also the cluster's manager: it knows which processes are there, which cables
// work, and who is in which group.
//
// One thread uses a fabric and its cards; the fabric outlives its cards.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nic/card.h"
#include "nic/crossbar.h"
#include "nic/engine.h"
#include "nic/faults.h"
#include "nic/hosts.h"
#include "nic/model.h"
#include "nic/topology.h"

namespace torii::nic {

struct FabricOptions {
  std::string card = "skeleton";
  uint32_t nodes = 2;
  std::string topology = "star";
  std::string faults{};  // see faults.h; its seed is that of the whole run
  std::vector<std::pair<std::string, std::string>> parameters{};  // see set_parameter()
  uint64_t settle_ns = 50000;  // from a cable's end until the manager has made new routes
  // As long as this what a process has sent before it closed may take until it counts as lost.
  uint64_t closing_ns = 10000000;
};

// Memory of a process that is not this one, by its addresses there. The process outlives this, or
// its end is an error: `peer_dead`.
class ProcessMemory {
 public:
  // Copies `here` there (`write`: it is only read), or what is there to it.
  virtual Status move(bool write, uintptr_t at, std::span<std::byte> here) = 0;

 protected:
  ~ProcessMemory() = default;
};

// Descriptors by which another process has the use of a card; the card's until its end.
struct Lending {
  int shared;  // sealed: liveness_bytes() of the manager, then Card::shared()
  int event;   // of interrupts
  int memory;  // of the card, for reading; -1: it has none
};

class Node;
class DirectCard;
struct Context;

class Fabric final : private Manager {
 public:
  // Null with the reason in *why.
  static std::unique_ptr<Fabric> make(const FabricOptions& options, std::string* why);
  ~Fabric();

  Engine& engine() { return engine_; }
  const CardKind& kind() const { return kind_; }
  uint32_t nodes() const { return topology_.hosts; }
  uint32_t endpoints() const { return nodes() * kind_.contexts; }

  // A context of the card of a node; kAnyNode: of the one that was not used for longest. Accesses
  // take no time, or that of the host's program. `memory`: that of the process which uses the card,
  // if it is another one. Null with the reason in *why.
  static constexpr uint32_t kAnyNode = ~0u;
  std::unique_ptr<Card> open(uint32_t node, std::string* why, Host* host = nullptr,
                             ProcessMemory* memory = nullptr);
  Lending lending(Name name) const;  // of a process that is there
  // Will a context of that node, or of kAnyNode, be free soon, because its process has closed?
  bool is_closing(uint32_t node) const;
  // The process dies suddenly; its Card becomes inert.
  void kill(Name name);

  // Cables as faults.h counts them; the first of the two links leads away from the host.
  size_t cables() const { return links_.size() / 2; }
  Link& link(size_t cable, bool back) { return *links_[2 * cable + back]; }
  Switch& crossbar(uint32_t number) { return *crossbars_[number]; }
  Bus& bus(uint32_t node);
  Model& model(uint32_t node);
  // What each card, switch and link did, a line each.
  std::string report() const;

 private:
  friend class Node;
  friend class DirectCard;
  struct Group {
    std::vector<std::byte> name;
    std::map<uint32_t, uint32_t> members;  // by node: its endpoints, a bit for each context
  };

  Fabric(const FabricOptions& options, const CardKind& kind, const FaultPlan& plan,
         const Topology& topology);
  Node& owner_of(uint32_t endpoint) const { return *nodes_[endpoint / kind_.contexts]; }
  unsigned context_of(uint32_t endpoint) const { return endpoint % kind_.contexts; }
  Context& context_at(uint32_t endpoint) const;
  LinkEnd& at(const Cable::End& end);
  void connect_cables();
  void plan_faults(const FaultPlan& plan);
  void set_routes();
  void set_group(uint32_t group);
  void link_down(Link& link, std::vector<Packet>&& unsent);
  void route_again();
  void end(uint32_t endpoint, Life life);
  void publish(uint32_t endpoint);
  static constexpr uint64_t kClosingStepNs = 1000;
  void watch_closing(uint32_t endpoint, uint64_t step_ns);

  const Routes& routes() const override { return routes_; }
  Life life(uint32_t node, Name name) override;
  Status join(std::span<const std::byte> name, uint32_t endpoint, uint32_t* group) override;
  void leave(uint32_t group, uint32_t endpoint) override;
  std::vector<Name> members(uint32_t group) override;
  uint32_t multicast(uint32_t group, uint32_t node) override;

  const FabricOptions options_;
  const CardKind kind_;
  Engine engine_;
  const uint64_t number_;
  const Topology topology_;
  std::vector<bool> works_;  // by cable
  Routes routes_;
  DestinationRoute destination_route_;
  const std::unique_ptr<RoutePolicy> other_route_;  // null: that one
  std::vector<std::unique_ptr<Link>> links_;        // two a cable
  std::vector<std::unique_ptr<Switch>> crossbars_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Group> groups_;
  std::vector<Packet> lost_;  // what dead links have given back
  uint64_t packets_sent_ = 0;
  Alarm reroute_;
  uint32_t next_endpoint_ = 0;
};

}  // namespace torii::nic
