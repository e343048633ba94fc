// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Between a link and its driver: where the fuzzer puts in what arrives.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/link/link.h"
#include "drivers/decorator.h"
#include "drivers/sim/sim.h"

namespace torii::fuzz {

// Hands up what it was given, all together, each in an allocation of its own.
class Below final : public Decorator {
 public:
  Below(const OpenBelow& open_below, const DriverEnv& env) : Decorator(env) {
    open(open_below, env);
  }
  void add(PeerId from, const std::string& frame) {
    const auto bytes = std::as_bytes(std::span(frame));
    frames_.push_back({from, {bytes.begin(), bytes.end()}});
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    const unsigned count = below_->poll(now_ns, budget);
    const auto frames = std::exchange(frames_, {});
    std::vector<Packet> all;
    for (const auto& [from, bytes] : frames) all.push_back({from, bytes});
    if (!all.empty()) upper_.packets(all);
    return count + static_cast<unsigned>(all.size());
  }

 private:
  std::vector<std::pair<PeerId, std::vector<std::byte>>> frames_;
};

// A link over a simulated interface, and what is between them, which is the link's.
inline std::unique_ptr<Driver> link_over(SimFabric& fabric, const DriverEnv& env, Below** between) {
  return wrap_link(
      [&](const DriverEnv& inner) {
        auto below = std::make_unique<Below>(
            [&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner);
        *between = below.get();
        return below;
      },
      env);
}

}  // namespace torii::fuzz
