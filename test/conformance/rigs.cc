// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The drivers and configurations that the kit runs by itself.
#include <cstdio>

#include "conformance/kit.h"
#include "core/base/param.h"
#include "core/link/link.h"
#include "core/link/watch.h"
#include "drivers/fault/fault.h"
#include "drivers/sim/sim.h"
#include "sanitized.h"

namespace torii::kit {
namespace {

constexpr uint32_t kSimAll =
    kReliable | kPeerDown | kNeedsReg | kPut | kGet | kMulticast | kWait | kGuard | kAtomic;

// The layer over the sim driver: nothing, faults, or a link over faults.
using Over = std::function<std::unique_ptr<Driver>(const OpenBelow&, const DriverEnv&)>;

Rig sim_rig(const std::string& name, SimOptions options, const Over& over = nullptr) {
  Rig rig;
  auto fabric = std::make_shared<std::unique_ptr<SimFabric>>();
  rig.name = name;
  rig.seed = options.seed;
  rig.reset = [fabric, options] { *fabric = std::make_unique<SimFabric>(options); };
  rig.open = [fabric, over](const DriverEnv& env, std::string*) {
    const OpenBelow open = [&](const DriverEnv& inner) { return open_sim(**fabric, inner); };
    return over ? over(open, env) : open(env);
  };
  rig.kill = [fabric](Driver& driver) {
    std::byte address[kAddressMax];
    driver.address(address);
    (*fabric)->kill(std::span(address).first(kSimAddressBytes));
  };
  rig.remap = [fabric](void* base, size_t bytes) { (*fabric)->remap(base, bytes); };
  return rig;
}

Over with_faults(const std::string& text) {
  return [text](const OpenBelow& open, const DriverEnv& env) -> std::unique_ptr<Driver> {
    FaultPlan plan;
    std::string why;
    if (parse_fault_plan(text, &plan, &why) != Status::ok) return nullptr;
    return wrap_fault(open, env, plan);
  };
}

Over with_link(const std::string& faults) {
  return [faults](const OpenBelow& open, const DriverEnv& env) {
    const Over below = with_faults(faults);
    return wrap_link([&](const DriverEnv& inner) { return below(open, inner); }, env);
  };
}

// Faults that leave an ordered, reliable driver what it is.
Rig slowed_shm(uint64_t seed) {
  Rig rig = named_rig("shm", seed);
  rig.name = "fault/shm-refuse-delay";
  const Over slowed =
      with_faults("refuse=20%,delay=10%,delay-max=300us,seed=" + std::to_string(seed));
  rig.open = [slowed](const DriverEnv& env, std::string* why) {
    return slowed([&](const DriverEnv& inner) { return open_driver("shm", inner, why); }, env);
  };
  return rig;
}

// As where each process has a processor, and asks others for help.
Rig helpful_shm(uint64_t seed) {
  Rig rig = named_rig("shm", seed);
  rig.name = "shm/side-by-side";
  rig.take_turns = false;
  return rig;
}

// Datagrams over loopback, by themselves and with a link over them and over faults.
Rig udp_rig(const std::string& name, uint64_t seed, const Over& over = nullptr) {
  Rig rig = named_rig("udp", seed);
  rig.name = name;
  rig.open = [over](const DriverEnv& env, std::string* why) -> std::unique_ptr<Driver> {
    if (param_set("udp_interfaces", "lo", "torii-conformance", why) != Status::ok) return nullptr;
    const OpenBelow open = [&](const DriverEnv& inner) { return open_driver("udp", inner, why); };
    return over ? over(open, env) : open(env);
  };
  return rig;
}

}  // namespace

std::vector<Rig> all_rigs(uint64_t seed) {
  const SimOptions all{.seed = seed, .flags = kSimAll};
  const auto with = [&](auto change) {
    SimOptions options = all;
    change(options);
    return options;
  };
  const SimOptions slow = with([](SimOptions& o) { o.latency_max_ns = 200000; });
  const auto card_memory = [](SimOptions& o) { o.card_take_min = 300; };
  const auto registers = [](SimOptions& o) {
    o.registers_local = true;
    o.inline_max = 256;
    o.regions_max = 100;
    o.reg_ns = 20000;
  };
  const std::string bad = "drop=5%,duplicate=3%,reorder=5%,corrupt=2%,seed=" + std::to_string(seed);
  std::vector<Rig> rigs = {
      named_rig("self", seed),
      named_rig("shm", seed),
      helpful_shm(seed),
      named_rig("sim", seed),
      udp_rig("udp", seed),
      udp_rig("link/udp", seed, with_link("")),
      udp_rig("link/udp-bad", seed, with_link(bad)),
      sim_rig("sim/all", all),
      sim_rig("sim/bare", with([](SimOptions& o) { o.flags = kReliable; })),
      sim_rig("sim/unordered", with([](SimOptions& o) {
                o.flags &= ~kReliable;
                o.latency_max_ns = 200000;
              })),
      sim_rig("sim/gives-no-memory", with([](SimOptions& o) { o.allocates = false; })),
      sim_rig("sim/put-only", with([](SimOptions& o) { o.flags &= ~kGet; })),
      sim_rig("sim/get-only", with([](SimOptions& o) { o.flags &= ~kPut; })),
      sim_rig("sim/pending", with([](SimOptions& o) {
                o.pending_rma = true;
                o.latency_min_ns = 1000;
                o.latency_max_ns = 100000;
              })),
      sim_rig("sim/registers", with(registers)),
      sim_rig("sim/registers-pending", with([&](SimOptions& o) {
                registers(o);
                o.tells_changes = o.pending_rma = true;
                o.latency_max_ns = 100000;
              })),
      sim_rig("sim/registers-frames", with([&](SimOptions& o) {
                registers(o);
                o.flags = kReliable | kPeerDown | kNeedsReg | kWait;
              })),
      sim_rig("sim/card-memory", with(card_memory)),
      sim_rig("sim/tells-lives", with([](SimOptions& o) { o.tells_lives = true; })),
      sim_rig("sim/refusing", with([](SimOptions& o) { o.again_ppm = 300000; })),
      sim_rig("sim/tiny", with([](SimOptions& o) {
                o.mtu = 512;
                o.inline_max = 0;
                o.pieces_max = 1;
                o.depth = 1;
              })),
      sim_rig("fault/none", all, with_faults("")),
      sim_rig("fault/refuse-delay", slow,
              with_faults("refuse=20%,delay=10%,delay-max=300us,seed=" + std::to_string(seed))),
      sim_rig("fault/registers", with(registers),
              with_faults("refuse=20%,delay=10%,delay-max=300us,seed=" + std::to_string(seed))),
      slowed_shm(seed),
      sim_rig("fault/bad", slow, with_faults(bad + ",truncate=2%,refuse=5%,delay=5%")),
      sim_rig("fault/reorder", slow, with_faults("reorder=20%,delay-max=300us")),
      sim_rig("watch/good", with([](SimOptions& o) { o.flags &= ~kPeerDown; }), wrap_watch),
      sim_rig("watch/refusing", with([](SimOptions& o) {
                o.flags &= ~kPeerDown;
                o.again_ppm = 300000;
                o.pending_rma = true;
                o.latency_max_ns = 100000;
              }),
              wrap_watch),
      sim_rig("link/good", all, with_link("")),
      sim_rig("link/bad", slow, with_link(bad)),
      sim_rig("link/card-memory", with(card_memory), with_link(bad)),
      sim_rig("link/worse", with([](SimOptions& o) {
                o.flags = kWait;
                o.latency_max_ns = 200000;
                o.mtu = 1400;
                o.inline_max = 100;
                o.again_ppm = 100000;
              }),
              with_link(bad + ",truncate=2%,delay=5%,refuse=5%")),
  };
  std::string why;
  if (const Rig ucx = named_rig("ucx", seed); can_open(ucx, &why)) {
    rigs.push_back(ucx);
  } else {
    std::printf("left out: %s\n", why.c_str());
  }
  // One thread does all that emulated cards do here: a thread sanitizer has nothing to look at.
  if (test::kThreadSanitizer && !test::in_long()) return rigs;
  for (Rig& rig : nic_rigs(seed)) rigs.push_back(std::move(rig));
  return rigs;
}

}  // namespace torii::kit
