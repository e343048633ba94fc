// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "sim/portals_model_world.h"

#include <algorithm>
#include <cstring>

#include "core/link/link.h"
#include "trust.h"

namespace torii::model {

namespace {

constexpr uint64_t kJob = 77;
constexpr uint64_t kStepNs = 2000;
constexpr unsigned kQuietRounds = 40;
constexpr uint64_t kLinkQuietNs = 800000000;  // a link may have to repeat a frame several times
constexpr uint64_t kRestNs = 400000000000;    // everything must be over by then
constexpr ptl_size_t kQueueEvents = 1024;     // more than the traffic between two looks

FaultPlan mild_plan(Random& random) {
  FaultPlan plan;
  plan.seed = random.next();
  plan.delay_max_ns = random.between(100, 40000);
  plan.ppm[size_t(Fault::refuse)] = uint32_t(random.between(0, 200000));
  plan.ppm[size_t(Fault::delay)] = uint32_t(random.between(0, 200000));
  if (random.next() % 3 == 0) plan.ppm[size_t(Fault::deny)] = uint32_t(random.between(0, 300000));
  return plan;
}

FaultPlan harsh_plan(Random& random) {
  FaultPlan plan = mild_plan(random);
  for (Fault f : {Fault::drop, Fault::duplicate, Fault::reorder, Fault::corrupt, Fault::truncate})
    if (random.next() % 2) plan.ppm[size_t(f)] = uint32_t(random.between(0, 60000));
  return plan;
}

ProtocolConfig config_of(const Setting& setting, unsigned number) {
  ProtocolConfig config;
  config.self.job = kJob;
  config.self.rank = number;
  config.self.nid = number / 2;
  config.self.pid = number % 2 + 1;
  config.self.uid = setting.two_users && number == 2 ? 1001 : 1000;
  config.self.os_pid = 100 + number;
  std::strcpy(config.self.host, "sim");
  config.eager_limit = setting.eager_limit;
  config.eager_window = setting.eager_window;
  return config;
}

std::unique_ptr<Driver> open_driver_of(SimFabric& fabric, const Setting& setting,
                                       const DriverEnv& env, unsigned number) {
  const OpenBelow sim = [&](const DriverEnv& e) { return open_sim(fabric, e); };
  if (!setting.with_fault) return sim(env);
  FaultPlan plan = setting.plan;
  plan.seed += number;
  const OpenBelow fault = [&](const DriverEnv& e) { return wrap_fault(sim, e, plan); };
  return setting.with_link ? wrap_link(fault, env) : fault(env);
}

}  // namespace

Setting random_setting(Random& random) {
  Setting s;
  const uint32_t capabilities[] = {0, kGet, kPut, kGet | kPut};
  const uint64_t limits[] = {0, 1, 64, 500, 3000};
  const uint64_t windows[] = {64, 2000, 16000, 1 << 20, 1 << 20};
  const uint32_t depths[] = {2, 4, 64, 64};
  SimOptions& o = s.sim;
  o.seed = random.next();
  o.flags = kReliable | kPeerDown | capabilities[random.next() % 4];
  o.mtu = uint32_t(random.between(512, 4096));
  o.inline_max = uint32_t(random.between(256, o.mtu));
  o.pieces_max = uint32_t(random.between(1, 8));
  if (random.next() % 4) o.latency_max_ns = random.between(0, 20000);
  o.latency_min_ns = random.between(0, o.latency_max_ns);
  o.depth = depths[random.next() % 4];
  o.pending_rma = random.next() % 2;
  if (random.next() % 3 == 0) o.again_ppm = uint32_t(random.between(0, 400000));
  s.eager_limit = limits[random.next() % 5];
  s.eager_window = windows[random.next() % 5];
  s.two_users = random.next() % 4 == 0;
  const unsigned faults = unsigned(random.next() % 4);
  s.with_fault = faults > 0;
  s.with_link = faults == 3;
  if (s.with_link) o.mtu += 100;  // for the link's own header
  if (random.next() % 3 == 0) o.card_take_min = uint32_t(random.between(65, 600));
  if (!s.with_link && random.next() % 3 == 0) {
    o.flags |= kNeedsReg;
    o.registers_local = true;
    o.tells_changes = random.next() % 2;
    o.once_min = random.between(1, 8000);
    o.regions_max = uint32_t(random.between(s.with_fault, 6));  // faults have one of their own
    s.owns_memory = random.next() % 2;
  }
  if (s.with_fault) s.plan = s.with_link ? harsh_plan(random) : mild_plan(random);
  return s;
}

std::string Setting::describe() const {
  char text[400];
  std::snprintf(text, sizeof(text),
                "%s%s%s mtu %u inline %u pieces %u depth %u latency %llu-%llu ns%s again %u ppm "
                "eager limit %llu window %llu%s",
                sim.flags & kGet ? "get " : "", sim.flags & kPut ? "put " : "",
                with_link    ? "link over faults,"
                : with_fault ? "faults,"
                             : "",
                sim.mtu, sim.inline_max, sim.pieces_max, sim.depth,
                static_cast<unsigned long long>(sim.latency_min_ns),
                static_cast<unsigned long long>(sim.latency_max_ns),
                sim.pending_rma ? " pending" : "", sim.again_ppm,
                static_cast<unsigned long long>(eager_limit),
                static_cast<unsigned long long>(eager_window), two_users ? " two users" : "");
  std::string out = text;
  if (sim.registers_local) out += " regions " + std::to_string(sim.regions_max);
  const char* const names[kFaultCount] = {"drop",     "duplicate", "reorder", "delay", "corrupt",
                                          "truncate", "refuse",    "deny",    "kill"};
  for (size_t i = 0; with_fault && i < kFaultCount; ++i)
    if (plan.ppm[i]) out += std::string(" ") + names[i] + " " + std::to_string(plan.ppm[i]);
  return out;
}

// --- one process ----------------------------------------------------------------------------

Node::Node(World& world, const Setting& setting, unsigned n)
    : number(n),
      memory(kMemory),
      protocol(config_of(setting, n), this, &counters),
      portals(protocol, counters, *this, Portals::grant(nullptr)),
      world_(world) {
  DriverEnv env;
  env.sink = protocol.next_sink();
  env.counters = &counters;
  env.members = &test::everybody();
  protocol.add_driver("sim", open_driver_of(world.fabric(), setting, env, n));
  if (setting.owns_memory) protocol.registrations().own(memory.data(), memory.size());
  handle = register_ni(portals);
  Random random(n);
  for (unsigned char& byte : memory) byte = static_cast<unsigned char>(random.next());
  world.model().add_process(id(), protocol.self().uid, ptl_jid_t(kJob), memory);
  for (ptl_handle_eq_t& queue : queues) {
    if (PtlEQAlloc(handle, kQueueEvents, PTL_EQ_HANDLER_NONE, &queue) != PTL_OK)
      world.model().fail("PtlEQAlloc failed");
    world.model().add_eq(n, queue);
  }
}

Peer* Node::resolve(uint32_t nid, uint32_t pid, std::string* why) {
  if (Peer* known = protocol.find_process(nid, pid); known && known->driver) return known;
  const unsigned i = world_.find({nid, pid});
  if (i == world_.size()) return nullptr;
  std::byte address[Protocol::kAddressBytes];
  const size_t bytes = world_.node(i).protocol.address(address, sizeof(address));
  Peer* peer = nullptr;
  return protocol.connect({address, bytes}, &peer, why) == Status::ok ? peer : nullptr;
}

unsigned Node::progress() {
  return world_.progress_allowed() ? protocol.progress(world_.fabric().now_ns()) : 0;
}

uint64_t Node::now_ns() { return world_.fabric().now_ns(); }

void Node::arrived(const Arrival& a) {
  world_.drain(number);
  const Verb verb = a.kind == wire::Kind::get      ? Verb::get
                    : a.kind == wire::Kind::getput ? Verb::getput
                                                   : Verb::put;
  const unsigned from = world_.find({a.peer->id.nid, a.peer->id.pid});
  world_.model().arrive(from, number, verb, a.env.bits, a.env.length);
}

void Node::on_put(Arrival& a) {
  arrived(a);
  portals.on_put(a);
  world_.drain(number);
}

void Node::on_get(Arrival& a) {
  arrived(a);
  portals.on_get(a);
  world_.drain(number);
}

// --- all of them ----------------------------------------------------------------------------

World::World(const Setting& setting, unsigned count, Mutation mutation)
    : setting_(setting), fabric_(setting.sim), model_(mutation) {
  for (unsigned i = 0; i < count; ++i) nodes_.push_back(std::make_unique<Node>(*this, setting, i));
}

World::~World() { nodes_.clear(); }

unsigned World::find(ptl_process_id_t id) const {
  unsigned i = 0;
  while (i < size() && (nodes_[i]->id().nid != id.nid || nodes_[i]->id().pid != id.pid)) ++i;
  return i;
}

void World::drain(unsigned i) {
  if (frozen_ > 0) return;
  ++frozen_;
  ptl_event_t event;
  for (ptl_handle_eq_t queue : nodes_[i]->queues) {
    int rc;
    while (!failed() && (rc = PtlEQGet(queue, &event)) != PTL_EQ_EMPTY) {
      if (rc != PTL_OK) {
        model_.fail(std::string("PtlEQGet returned ") + PtlErrorStr(unsigned(rc)));
      } else {
        model_.event(i, queue, event);
      }
    }
  }
  if (!failed()) model_.drained(i);
  --frozen_;
}

bool World::has_events(ptl_handle_eq_t queue) {
  ++frozen_;
  ptl_event_t event;
  const bool some = PtlEQPeek(queue, &event) == PTL_OK;
  --frozen_;
  return some;
}

void World::run(unsigned i, uint64_t ns) {
  fabric_.advance(ns);
  if (alive(i)) (void)nodes_[i]->progress();
}

void World::settle() {
  const uint64_t wait_ns = setting_.with_link
                               ? kLinkQuietNs
                               : setting_.sim.latency_max_ns + 2 * setting_.plan.delay_max_ns;
  const uint64_t start = fabric_.now_ns();
  uint64_t last = start;
  for (unsigned quiet = 0; quiet < kQuietRounds || fabric_.now_ns() - last < wait_ns;) {
    // After a while without events longer steps do.
    fabric_.advance(quiet < kQuietRounds ? kStepNs : wait_ns / kQuietRounds + 1);
    unsigned events = 0;
    for (unsigned i = 0; i < size(); ++i) {
      if (!alive(i)) continue;
      events += nodes_[i]->progress();
      if (failed()) return;
      if (!nodes_[i]->protocol.drained()) ++events;
    }
    quiet = events ? 0 : quiet + 1;
    if (events) last = fabric_.now_ns();
    if (fabric_.now_ns() - start > kRestNs || (events && last - start > kRestNs / 100))
      return model_.fail("the network does not come to rest");
  }
  for (unsigned i = 0; i < size(); ++i)
    if (alive(i)) drain(i);
  if (!failed()) model_.rest();
  for (unsigned i = 0; i < size() && !failed(); ++i)
    if (alive(i)) model_.check_registers(i, nodes_[i]->handle);
}

void World::kill(unsigned i) {
  drain(i);
  std::byte address[kSimAddressBytes];
  fabric_.address(i, address);
  fabric_.kill(address);
  model_.die(i);
}

void World::close() {
  for (unsigned i = 0; i < size(); ++i) {
    if (!alive(i)) continue;
    for (ptl_pt_index_t pt = 0; pt < Process::kPortals; ++pt)
      model_.flow_control(i, pt, false, PtlPTFlowControl(nodes_[i]->handle, pt, 0));
  }
  if (!failed()) settle();
  for (unsigned i = 0; i < size() && !failed(); ++i) {
    if (!alive(i)) continue;
    std::string left;
    nodes_[i]->protocol.ops().for_each([&](const torii::Op* op) {
      left += " role " + std::to_string(int(op->role)) + " stage " +
              std::to_string(int(op->stage)) + " " + std::to_string(op->moved) + " of " +
              std::to_string(op->length) + " bytes";
    });
    if (!left.empty())
      model_.fail("operations of process " + std::to_string(i) + " were never freed:" + left);
    if (nodes_[i]->counters.bad_frames)
      model_.fail(std::to_string(nodes_[i]->counters.bad_frames) + " bad frames at process " +
                  std::to_string(i));
  }
}

}  // namespace torii::model
