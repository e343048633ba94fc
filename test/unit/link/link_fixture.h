// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Links over a simulated network, a hand-driven clock.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>

#include "core/base/param.h"
#include "core/link/link.h"
#include "drivers/fault/fault.h"
#include "drivers/sim/sim.h"
#include "recorder.h"
#include "unit/link/link_kit.h"

namespace torii::test {

inline constexpr uint64_t kDeadlineMs = 1600;  // so that the longest timeout is 100 ms

class LinkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string why;
    ASSERT_EQ(param_set("peer_deadline_ms", std::to_string(kDeadlineMs), "test", &why), Status::ok)
        << why;
  }

  static FaultPlan plan_of(const std::string& faults) {
    FaultPlan plan;
    std::string why;
    EXPECT_EQ(parse_fault_plan(faults, &plan, &why), Status::ok) << why;
    return plan;
  }
  std::unique_ptr<End> linked(const std::string& faults = "") { return linked(fabric, faults); }
  static std::unique_ptr<End> linked(SimFabric& over, const std::string& faults) {
    return std::make_unique<End>([&](const DriverEnv& env) {
      return wrap_link(
          [&](const DriverEnv& inner) {
            return wrap_fault([&](const DriverEnv& bare) { return open_sim(over, bare); }, inner,
                              plan_of(faults));
          },
          env);
    });
  }
  std::unique_ptr<End> bare() {
    return std::make_unique<End>([&](const DriverEnv& env) { return open_sim(fabric, env); });
  }
  // A number by which one without a link reaches one that has a link.
  static PeerId reach(End& from, const End& to) {
    const auto address = to.address();
    PeerId peer = kNoPeer;
    std::string why;
    EXPECT_EQ(from.driver->connect(std::span(address).first(address.size() - sizeof(link::Key)),
                                   &peer, &why),
              Status::ok)
        << why;
    return peer;
  }
  void kill(const End& end) {
    const auto address = end.address();
    fabric.kill(std::span(address).first(address.size() - sizeof(link::Key)));
  }
  // Polls until `end_ns`, in steps.
  void run(std::initializer_list<End*> ends, uint64_t end_ns, uint64_t step_ns = 100000) {
    for (; now_ns <= end_ns; now_ns += step_ns)
      for (End* end : ends) end->driver->poll(now_ns, 1000);
  }

  SimFabric fabric{{.flags = kWait | kPut | kGet, .latency_min_ns = 1000, .latency_max_ns = 1000}};
  uint64_t now_ns = kMs;
};

}  // namespace torii::test
