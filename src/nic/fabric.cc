// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/fabric.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "core/base/log.h"
#include "nic/node.h"
#include "nic/trace.h"

namespace torii::nic {
namespace {

// Of the 16 bits of a destination; those of the nodes come first.
constexpr uint32_t kDestinations = 1 << 16;

unsigned long long ull(uint64_t value) { return value; }

}  // namespace

std::unique_ptr<Fabric> Fabric::make(const FabricOptions& options, std::string* why) {
  const CardKind* const found = find_card_kind(options.card, why);
  if (!found) return nullptr;
  CardKind kind = *found;
  for (const auto& [name, value] : options.parameters)
    if (set_parameter(&kind, name, value, why) != Status::ok) return nullptr;
  FaultPlan plan;
  if (parse_fault_plan(options.faults, &plan, why) != Status::ok) return nullptr;
  Topology topology;
  if (make_topology(options.topology, options.nodes, static_cast<uint32_t>(kind.crossbar.ports),
                    &topology, why) != Status::ok)
    return nullptr;
  if (options.nodes * kind.contexts > kDestinations) {
    *why = format_text("fabric: %u nodes of %u processes; at most %u processes fit", options.nodes,
                       kind.contexts, kDestinations);
    return nullptr;
  }
  for (const FaultRule& rule : plan.rules) {
    const bool on_cable = is_on_cable(rule.fault);
    const size_t most = on_cable ? topology.cables.size() : topology.hosts;
    if (rule.where == ~0u || rule.where < most) continue;
    *why = format_text("fault plan: %s %u is not there; use 0 to %zu", on_cable ? "cable" : "node",
                       rule.where, most - 1);
    return nullptr;
  }
  std::unique_ptr<Fabric> fabric(new Fabric(options, kind, plan, topology));
  for (const auto& node : fabric->nodes_) {
    if (node->memory().size() == kind.memory_bytes) continue;
    *why = format_text(
        "fabric: no memory of %u bytes for the card of node %u (%m); raise the limits of memory or "
        "of open files",
        kind.memory_bytes, node->number);
    return nullptr;
  }
  return fabric;
}

Fabric::Fabric(const FabricOptions& options, const CardKind& kind, const FaultPlan& plan,
               const Topology& topology)
    : options_(options),
      kind_(kind),
      engine_(plan.seed),
      number_(engine_.random.next()),
      topology_(topology),
      works_(topology.cables.size(), true),
      routes_(topology_),
      other_route_(kind_.make_switches   ? kind_.make_switches(routes_)
                   : kind_.source_routed ? std::make_unique<SourceRoute>()
                                         : nullptr) {
  RoutePolicy& policy = other_route_ ? *other_route_ : destination_route_;
  for (uint32_t i = 0; i < topology_.switches(); i++) {
    crossbars_.push_back(kind_.make_switch
                             ? kind_.make_switch(engine_, i, kind_.crossbar)
                             : std::make_unique<Crossbar>(engine_, i, kind_.crossbar, policy));
    crossbars_.back()->on_down = [this](Link& link, std::vector<Packet>&& unsent) {
      link_down(link, std::move(unsent));
    };
  }
  for (uint32_t i = 0; i < nodes(); i++) nodes_.push_back(std::make_unique<Node>(*this, i));
  connect_cables();
  for (uint32_t i = 0; i < nodes(); i++) {
    Node& node = *nodes_[i];
    node.model =
        kind_.make({engine_, node.bus, node, *this, i, nodes(), kind_.contexts, node.memory()});
  }
  set_routes();
  plan_faults(plan);
}

// While models can still call it.
Fabric::~Fabric() {
  for (const auto& node : nodes_)
    for (unsigned i = 0; i < node->contexts.size(); i++) node->free(i);
}

LinkEnd& Fabric::at(const Cable::End& end) {
  if (end.is_host) return *nodes_[end.index];
  return *crossbars_[end.index];
}

void Fabric::connect_cables() {
  for (size_t i = 0; i < topology_.cables.size(); i++) {
    for (const char* const way : {"a", "b"})
      links_.push_back(
          std::make_unique<Link>(engine_, kind_.link, format_text("cable%zu%s", i, way)));
    for (const bool back : {false, true}) {
      const Cable::End &from = topology_.cables[i].ends[back],
                       &to = topology_.cables[i].ends[!back];
      link(i, back).connect(&at(from), from.port, &at(to), to.port,
                            !to.is_host && kind_.crossbar.cut_through);
      at(from).connect(from.port, &link(i, !back), &link(i, back));
    }
  }
}

void Fabric::plan_faults(const FaultPlan& plan) {
  for (const FaultRule& rule : plan.rules) {
    const bool on_cable = is_on_cable(rule.fault);
    for (uint32_t i = 0; i < (on_cable ? cables() : nodes()); i++) {
      if (rule.where != ~0u && rule.where != i) continue;
      if (!on_cable) bus(i).add_fault(rule);
      if (on_cable) link(i, false).add_fault(rule, &link(i, true));
      if (on_cable && rule.rate > 0) link(i, true).add_fault(rule);
    }
  }
}

Context& Fabric::context_at(uint32_t endpoint) const {
  return owner_of(endpoint).contexts[context_of(endpoint)];
}

Bus& Fabric::bus(uint32_t node) { return nodes_[node]->bus; }
Model& Fabric::model(uint32_t node) { return *nodes_[node]->model; }

// --- processes -------------------------------------------------------------------------------

std::unique_ptr<Card> Fabric::open(uint32_t node, std::string* why, Host* host,
                                   ProcessMemory* memory) {
  const uint32_t first = node == kAnyNode ? next_endpoint_ : node * kind_.contexts;
  const uint32_t count = node == kAnyNode ? endpoints() : kind_.contexts;
  for (uint32_t i = 0; i < count && first < endpoints(); i++) {
    // Nodes in turn, and then their next contexts.
    const uint32_t at = (first + i) % endpoints();
    const uint32_t endpoint =
        node == kAnyNode ? at % nodes() * kind_.contexts + at / nodes() : first + i;
    Node& owner = owner_of(endpoint);
    const unsigned context = context_of(endpoint);
    if (owner.contexts[context].state != Context::State::free) continue;
    if (owner.open(context, host, memory, why) != Status::ok) return nullptr;
    if (node == kAnyNode) next_endpoint_ = (at + 1) % endpoints();
    publish(endpoint);
    return std::make_unique<DirectCard>(owner, context);
  }
  *why = format_text(
      "%s: all %u contexts of %s are in use or there is no such node; close another "
      "process, or use more nodes",
      kind_.name, count, node == kAnyNode ? "the cards" : "this card");
  return nullptr;
}

Lending Fabric::lending(Name name) const {
  const Lent& lent = *context_at(endpoint_of(name)).lent;
  return {lent.file.get(), lent.event.get(), owner_of(endpoint_of(name)).memory_file()};
}

bool Fabric::is_closing(uint32_t node) const {
  for (uint32_t i = 0; i < endpoints(); i++)
    if ((node == kAnyNode || node == i / kind_.contexts) &&
        context_at(i).state == Context::State::closing)
      return true;
  return false;
}

void Fabric::kill(Name name) {
  const uint32_t endpoint = endpoint_of(name);
  if (endpoint < endpoints() && context_at(endpoint).is_of(name)) end(endpoint, Life::dead);
}

// Others hear of the end when all has arrived; at last anyway. Each step is longer than the one
// before: it has waited about as long as the next one.
void Fabric::watch_closing(uint32_t endpoint, uint64_t step_ns) {
  const Node& node = owner_of(endpoint);
  const unsigned context = context_of(endpoint);
  for (uint32_t other = 0; other < endpoints(); other++) {
    const Context& its = context_at(other);
    const uint32_t last = opened_of(its.name) - (its.state != Context::State::free);
    if (last > 0) node.model->peer_ended(make_name(other, last));
  }
  if ((node.model->idle(context) && node.contexts[context].flight.use_count() == 1) ||
      step_ns > options_.closing_ns / 4)
    return end(endpoint, Life::closed);
  engine_.after(step_ns,
                [this, endpoint, step_ns] { watch_closing(endpoint, step_ns + step_ns / 4 + 1); });
}

void Fabric::end(uint32_t endpoint, Life life) {
  context_at(endpoint).life = life;
  for (uint32_t group = 0; group < groups_.size(); group++) leave(group, endpoint);
  owner_of(endpoint).free(context_of(endpoint));
  publish(endpoint);
}

// Tells each node how it is to see this endpoint.
void Fabric::publish(uint32_t endpoint) {
  const Context& context = context_at(endpoint);
  for (const auto& node : nodes_) {
    const bool is_lost =
        context.life == Life::there && !routes_.reaches(node->number, endpoint / kind_.contexts);
    node->publish(endpoint, Liveness::word(context.name, is_lost ? Life::dead : context.life));
  }
}

// --- routes and groups -----------------------------------------------------------------------

void Fabric::set_routes() {
  if (kind_.source_routed) return;
  for (uint32_t host = 0; host < nodes(); host++) {
    std::vector<uint64_t> outputs(topology_.switches());
    for (uint32_t i = 0; i < topology_.switches(); i++)
      if (const int port = routes_.port(i, host); port >= 0) outputs[i] = uint64_t{1} << port;
    destination_route_.set(host, std::move(outputs));
  }
  for (uint32_t group = 0; group < groups_.size(); group++) set_group(group);
}

void Fabric::set_group(uint32_t group) {
  for (uint32_t node = 0; node < nodes() && !kind_.source_routed; node++) {
    std::vector<uint32_t> members;
    // Nobody sends to himself: a single member of a node hears only others.
    for (const auto& [member, contexts] : groups_[group].members)
      if (member != node || !std::has_single_bit(contexts)) members.push_back(member);
    destination_route_.set(multicast(group, node), routes_.tree(node, members));
  }
  for (const auto& node : nodes_) node->tell();
}

void Fabric::link_down(Link& link, std::vector<Packet>&& unsent) {
  for (size_t i = 0; i < links_.size(); i++)
    if (links_[i].get() == &link) works_[i / 2] = false;
  std::move(unsent.begin(), unsent.end(), std::back_inserter(lost_));
  reroute_.at(engine_, engine_.now_ns() + options_.settle_ns, [this] { route_again(); });
}

// With other routes later packets would overtake those that are under way. So all that have reached
// a switch begin again at their first one, in the order in which they were sent. Source routes are
// used up by then: those packets are lost, and the nodes are told that there are other routes.
void Fabric::route_again() {
  std::vector<Packet> packets = std::exchange(lost_, {});
  for (const auto& crossbar : crossbars_) crossbar->take_all(&packets);
  if (kind_.source_routed) packets.clear();
  for (size_t i = 0; i < links_.size() && !kind_.source_routed; i++)
    if (i % 2 == 1 || !topology_.cables[i / 2].ends[0].is_host) links_[i]->take_all(&packets);
  std::ranges::sort(packets, {}, &Packet::number);
  // Of one to a group there may be several: it goes to all again.
  const auto same = [](const Packet& a, const Packet& b) { return a.number == b.number; };
  packets.erase(std::unique(packets.begin(), packets.end(), same), packets.end());
  routes_ = Routes(topology_, works_);
  if (other_route_) other_route_->routes_changed();
  set_routes();
  for (Packet& packet : packets)
    crossbars_[topology_.cables[packet.node].ends[1].index]->give_back(std::move(packet));
  for (uint32_t endpoint = 0; endpoint < endpoints(); endpoint++) publish(endpoint);
  for (size_t i = 0; i < nodes_.size() && kind_.source_routed; i++) nodes_[i]->tell();
}

Life Fabric::life(uint32_t node, Name name) { return nodes_[node]->life(name); }

Status Fabric::join(std::span<const std::byte> name, uint32_t endpoint, uint32_t* group) {
  if (name.empty() || endpoint >= endpoints() ||
      (kind_.source_routed && !kind_.make_switches && !kind_.make_switch))
    return Status::invalid;
  // The one of that name; else one that nobody is in any more; else another one.
  const auto find = [&](auto is_it) {
    return static_cast<size_t>(std::ranges::find_if(groups_, is_it) - groups_.begin());
  };
  size_t at =
      find([&](const Group& g) { return !g.members.empty() && std::ranges::equal(g.name, name); });
  if (at == groups_.size()) at = find([](const Group& g) { return g.members.empty(); });
  if (nodes() * (at + 2) > kDestinations) return Status::no_memory;
  if (at == groups_.size()) groups_.emplace_back();
  *group = static_cast<uint32_t>(at);
  groups_[at].name.assign(name.begin(), name.end());
  groups_[at].members[endpoint / kind_.contexts] |= 1u << endpoint % kind_.contexts;
  set_group(*group);
  return Status::ok;
}

void Fabric::leave(uint32_t group, uint32_t endpoint) {
  if (group >= groups_.size()) return;
  const auto member = groups_[group].members.find(endpoint / kind_.contexts);
  if (member == groups_[group].members.end()) return;
  member->second &= ~(1u << endpoint % kind_.contexts);
  if (member->second == 0) groups_[group].members.erase(member);
  set_group(group);
}

std::vector<Name> Fabric::members(uint32_t group) {
  std::vector<Name> out;
  if (group >= groups_.size()) return out;
  for (const auto& [node, contexts] : groups_[group].members)
    for (unsigned context = 0; context < kind_.contexts; context++)
      if (contexts >> context & 1) out.push_back(nodes_[node]->contexts[context].name);
  return out;
}

Status Board::group_call(GroupCall call, unsigned context, const Control& in, Control* out) const {
  auto group = static_cast<uint32_t>(in.words[0]);
  if (call == GroupCall::join) {
    const auto name = std::as_bytes(std::span(in.words).first(2));
    if (in.words[2] > name.size()) return Status::invalid;
    const Status status = manager.join(name.first(in.words[2]), endpoint(context), &group);
    if (status == Status::ok) out->words[0] = group;
    return status;
  }
  if (call == GroupCall::leave) {
    manager.leave(group, endpoint(context));
  } else {
    const std::vector<Name> members = manager.members(group);
    out->words[0] = in.words[1] < members.size() ? members[in.words[1]] : kNobody;
  }
  return Status::ok;
}

// A number for each sender: the ways of two senders to the same members differ.
uint32_t Fabric::multicast(uint32_t group, uint32_t node) { return nodes() * (group + 1) + node; }

std::string Fabric::report() const {
  std::string out;
  for (const auto& node : nodes_) {
    const Bus::Counts& c = node->bus.counts();
    out += format_text(
        "node%u: %s; bus %llu us, %llu transfers, %llu failed, %llu interrupts, %llu "
        "lost\n",
        node->number, node->model->report().c_str(), ull(c.busy_ns / 1000), ull(c.transfers),
        ull(c.failed), ull(c.interrupts), ull(c.lost_interrupts));
  }
  for (const auto& link : links_) {
    const Link::Counts& c = link->counts();
    if (c.packets == 0) continue;
    out += format_text(
        "%s: %llu packets, %llu bytes, %llu resends, %llu bad CRC, %llu lost, busy "
        "%llu us%s\n",
        link->name().c_str(), ull(c.packets), ull(c.bytes), ull(c.resends), ull(c.bad_crc),
        ull(c.lost), ull(c.busy_ns / 1000), link->down() ? ", down" : "");
  }
  for (size_t i = 0; i < crossbars_.size(); i++)
    out += format_text("switch%zu: %llu packets, %llu dropped\n", i, ull(crossbars_[i]->packets()),
                       ull(crossbars_[i]->dropped()));
  return out;
}

}  // namespace torii::nic
