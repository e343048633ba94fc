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

// Each test runs without a cipher and with each. Its own class, so that members of tests find it
// set.
class WithCipher : public testing::TestWithParam<const char*> {
 protected:
  WithCipher() { use_cipher(GetParam()); }
  ~WithCipher() override { use_cipher("none"); }
  static void use_cipher(const std::string& name) {
    std::string why;
    EXPECT_EQ(param_set("link_cipher", name, "test", &why), Status::ok) << why;
  }
  static bool encrypted() { return cipher_in_use() != Cipher::none; }
  // Bytes that the link adds to a frame.
  static size_t overhead() { return link::kHeaderBytes + (encrypted() ? kCipherGrowth : 0); }
  // A property of networks: with a cipher the link needs those that copy frames.
  static uint32_t inline_max() { return encrypted() ? 4096 : 1024; }
};

class LinkTest : public WithCipher {
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
  // The address of an end's driver below its link.
  static std::vector<std::byte> below(const End& linked) {
    auto address = linked.address();
    address.resize(address.size() - kPublicKeyBytes);
    return address;
  }
  // A number by which one without a link reaches one that has a link, which knows it from now on.
  PeerId reach(End& from, End& to) {
    PeerId peer = kNoPeer;
    std::string why;
    EXPECT_EQ(from.driver->connect(below(to), &peer, &why), Status::ok) << why;
    EXPECT_TRUE(from.send(peer, hello_of(from.address(), from.keys, to.keys)));
    run({&to, &from}, now_ns + 10000, 1000);
    from.sink.packets.clear();
    return peer;
  }
  // The same for two with links, after a frame from the first to the second: nothing of it counts.
  PeerId meet(End& a, End& b) {
    const PeerId to_b = a.connect(b), to_a = b.connect(a);
    EXPECT_NE(to_a, kNoPeer);
    EXPECT_TRUE(a.send(to_b, "met", {}, 1));
    run({&a, &b}, now_ns + 20000, 1000);
    EXPECT_EQ(b.sink.packets.size(), 1u);
    EXPECT_EQ(a.sink.dones.size(), 1u);
    for (End* end : {&a, &b}) {
      end->sink.packets.clear();
      end->sink.dones.clear();
      end->counters = {};
    }
    return to_b;
  }
  static FrameKey key_of(const End& from, const End& to) { return key_between(from.keys, to.keys); }
  void kill(const End& end) { fabric.kill(below(end)); }
  // Polls until `end_ns`, in steps.
  void run(std::initializer_list<End*> ends, uint64_t end_ns, uint64_t step_ns = 100000) {
    for (; now_ns <= end_ns; now_ns += step_ns)
      for (End* end : ends) end->driver->poll(now_ns, 1000);
  }

  SimFabric fabric{{.flags = kWait | kPut | kGet,
                    .inline_max = inline_max(),
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000}};
  uint64_t now_ns = kMs;
};

inline std::string cipher_of_test(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace torii::test

// Once for each suite.
#define TORII_WITH_CIPHERS(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(Ciphers, suite,                                              \
                           testing::Values("none", "aes-128-gcm", "chacha20-poly1305"), \
                           ::torii::test::cipher_of_test)
#define TORII_WITHOUT_CIPHERS(suite) \
  INSTANTIATE_TEST_SUITE_P(Without, suite, testing::Values("none"), ::torii::test::cipher_of_test)
