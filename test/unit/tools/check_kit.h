// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Healthy nodes for tests of what torii-check says; a test then breaks something.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/tools/check/check_verdict.h"

namespace torii::check {

struct Nodes {
  // Each with interfaces eth0 and eth1 (10.77.0.k, 10.77.1.k), `processes` on each.
  explicit Nodes(uint32_t nodes, uint32_t processes = 1) {
    for (uint32_t k = 1; k <= nodes; k++)
      for (uint32_t i = 0; i < processes; i++) all.push_back(process(k));
    plan = make_plan(all, 10000);
    for (const auto& ranks : plan.places)
      for (const uint32_t a : ranks)
        for (const uint32_t b : ranks)
          if (a != b) meet(a, b, false);
    for (const auto& from : plan.places)
      for (const auto& to : plan.places)
        if (from != to) meet(from[0], to[0], true);
  }

  static Participant process(uint32_t k) {
    Participant one;
    one.present = one.reported = true;
    one.facts.host = "n" + std::to_string(k);
    one.facts.place = "place " + std::to_string(k);
    one.facts.attach = "allowed";
    one.facts.processors = 2;
    one.facts.shared_bytes = one.facts.shared_free = uint64_t{1} << 30;
    one.facts.receive_buffer = 4 << 20;
    for (const char* rail : {"0", "1"}) {
      Interface& eth = one.facts.interfaces.emplace_back();
      eth.name = std::string("eth") + rail;
      eth.mtu = 1500;
      eth.up = eth.carrier = true;
      eth.addresses = {"10.77." + std::string(rail) + "." + std::to_string(k)};
    }
    one.facts.endpoints = {{"shm", false, 8312, Bytes(64), ""}, {"udp", true, 1436, Bytes(64), ""}};
    return one;
  }

  void meet(uint32_t a, uint32_t b, bool network) {
    PairSeen& pair = all[a].seen.pairs.emplace_back();
    pair.rank = b;
    pair.driver = network ? "udp" : "shm";
    for (uint32_t rail = 0; rail < (network ? 2u : 1u); rail++) {
      RailSeen& way = pair.rails.emplace_back();
      way.rail = rail;
      way.sent = way.answered = 1000;
      way.least_ns = 20000, way.median_ns = 50000;
      way.longest = way.longest_sent = network ? 1436 : 8312;
      if (!network) continue;
      way.interface = "eth" + std::to_string(rail);
      way.address = all[b].facts.interfaces[rail].addresses[0];
      way.mtu = 1500;
    }
    for (uint32_t rail = 0; rail < pair.rails.size(); rail++)
      all[b].seen.heard.push_back({a, rail, 1000});
    if (!network) return;
    all[b].seen.multicast = true;
    all[b].seen.multicast_heard.push_back({a, 180});
  }

  PairSeen& pair(uint32_t a, uint32_t b) {
    return *std::find_if(all[a].seen.pairs.begin(), all[a].seen.pairs.end(),
                         [&](const PairSeen& one) { return one.rank == b; });
  }
  ProbesHeard& heard(uint32_t by, uint32_t of, uint32_t rail) {
    return *std::find_if(
        all[by].seen.heard.begin(), all[by].seen.heard.end(),
        [&](const ProbesHeard& one) { return one.rank == of && one.rail == rail; });
  }
  void forget_heard(uint32_t by, uint32_t of) {
    std::erase_if(all[by].seen.heard, [&](const ProbesHeard& one) { return one.rank == of; });
  }
  Verdict verdict() const { return judge(all, plan); }

  std::vector<Participant> all;
  Plan plan;
};

// "FAILURE thing: value" of each finding, a line each.
inline std::string told(const Verdict& verdict) {
  std::string out;
  for (const Finding& one : verdict.findings) {
    const char* kind = one.severity == Severity::failure   ? "FAILURE "
                       : one.severity == Severity::warning ? "warning "
                                                           : "note ";
    out += kind + one.thing + ": " + one.value + "\n";
  }
  return out;
}

}  // namespace torii::check
