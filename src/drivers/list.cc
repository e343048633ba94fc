// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <sstream>

#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/driver.h"
#include "drivers/fault/fault.h"
#include "drivers/myrinet/myrinet.h"
#include "drivers/nectar/nectar.h"
#include "drivers/process/process_card.h"
#include "drivers/qsnet/qsnet.h"
#include "drivers/sci/sci.h"
#include "drivers/self/self.h"
#include "drivers/shm/shm.h"
#include "drivers/sim/sim.h"
#include "drivers/skeleton/skeleton.h"
#include "drivers/tnet/tnet.h"
#include "drivers/ucx/ucx.h"
#include "drivers/udp/udp.h"

namespace torii {
namespace {

// Drivers of emulated cards, with the card that torii-fabric gives this process.
template <size_t n>
struct CardName {
  consteval CardName(const char (&name)[n]) { std::copy_n(name, n, text); }
  char text[n];
};

template <auto open, CardName card>
std::unique_ptr<Driver> open_emulated(const DriverEnv& env, std::string* why) {
  std::unique_ptr<nic::Card> made = attach_card(card.text, env.emulated_node, why);
  return made ? open(std::move(made), env, why) : nullptr;
}

template <auto open, CardName card>
constexpr DriverInfo emulated() {
  return {card.text,
          "other emulated nodes, by the card of torii-fabric with that name",
          open_emulated<open, card>,
          true,
          50000,
          50};
}

constexpr DriverInfo kDrivers[] = {
    {"self", "this process itself: one copy in memory", open_self, false, 50, 10000},
    {"shm", "processes on the same node, through shared memory", open_shm, false, 150, 8000},
    {"ucx", "processes on other nodes, over InfiniBand, RoCE and other fabrics that UCX drives",
     open_ucx, true, 1500, 10000,
     [] { return !rdma_devices().empty() || !params().ucx_tls.empty(); }},
    {"udp", "processes on any node, by UDP datagrams over Ethernet", open_udp, true, 10000, 1000},
    {"sim", "simulated endpoints inside this process, for tests and trials", open_sim, false, 500,
     1000},
    emulated<open_skeleton, "skeleton">(),
    emulated<open_myrinet, "myrinet">(),
    emulated<open_tnet, "tnet">(),
    emulated<open_qsnet, "qsnet">(),
    emulated<open_nectar, "nectar">(),
    emulated<open_sci, "sci">(),
};
// Those of emulated cards come last.
constexpr size_t kRealDrivers = 5;
constexpr std::string_view kFaultPrefix = "fault:";

std::unique_ptr<Driver> open_fault(const std::string& below, const DriverEnv& env,
                                   std::string* why) {
  FaultPlan plan;
  if (parse_fault_plan(params().fault, &plan, why) != Status::ok) return nullptr;
  return wrap_fault([&](const DriverEnv& inner) { return open_driver(below, inner, why); }, env,
                    plan);
}

}  // namespace

std::span<const DriverInfo> driver_list() {
  const std::span<const DriverInfo> all(kDrivers);
  return on_emulated_cluster() ? all : all.first(kRealDrivers);
}

std::vector<std::string> chosen_drivers() {
  const auto is_idle = [](const std::string& name) {
    const DriverInfo* const driver = find_driver(name);
    return driver && driver->has_hardware && !driver->has_hardware();
  };
  std::vector<std::string> names;
  std::istringstream list(params().drivers);
  for (std::string name; std::getline(list, name, ',');)
    if (!name.empty() && (param_is_set("drivers") || !is_idle(name))) names.push_back(name);
  return names;
}

const DriverInfo* find_driver(const std::string& name, std::string* why) {
  if (name.starts_with(kFaultPrefix)) return find_driver(name.substr(kFaultPrefix.size()), why);
  std::string known;
  for (const DriverInfo& driver : kDrivers) {
    if (name == driver.name) return &driver;
    known += std::string(known.empty() ? "" : ", ") + driver.name;
  }
  if (why)
    *why = format_text("there is no driver '%s'; known are %s, each also as fault:NAME",
                       name.c_str(), known.c_str());
  return nullptr;
}

bool check_driver(const std::string& name, std::string* why) {
  FaultPlan plan;
  if (!find_driver(name, why)) return false;
  return !name.starts_with(kFaultPrefix) ||
         parse_fault_plan(params().fault, &plan, why) == Status::ok;
}

bool is_network(const std::string& name) {
  const DriverInfo* const driver = find_driver(name);
  return driver && driver->network;
}

std::unique_ptr<Driver> open_driver(const std::string& name, const DriverEnv& env,
                                    std::string* why) {
  if (name.starts_with(kFaultPrefix)) return open_fault(name.substr(kFaultPrefix.size()), env, why);
  const DriverInfo* driver = find_driver(name, why);
  return driver ? driver->open(env, why) : nullptr;
}

}  // namespace torii
