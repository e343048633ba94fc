// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Whole fabrics: life and death of processes, cut cables, repeatability, what a card does with
// nonsense from its driver, and hosts whose programs take time. The cards are skeletons.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/random.h"
#include "drivers/skeleton/skeleton.h"
#include "nic/fabric.h"
#include "nic/skeleton/regs.h"
#include "nic/trace.h"
#include "recorder.h"

namespace torii::nic {
namespace {

using test::End;

std::unique_ptr<Fabric> make(const nic::FabricOptions& options) {
  std::string why;
  std::unique_ptr<Fabric> fabric = Fabric::make(options, &why);
  EXPECT_TRUE(fabric) << why;
  return fabric;
}

std::unique_ptr<Card> open(Fabric& fabric, uint32_t node, nic::Host* host = nullptr) {
  std::string why;
  std::unique_ptr<Card> card = fabric.open(node, &why, host);
  EXPECT_TRUE(card) << why;
  return card;
}

End::Open on(Fabric& fabric, uint32_t node) {
  return [&fabric, node](const DriverEnv& env) {
    std::string why;
    return open_skeleton(open(fabric, node), env, &why);
  };
}

// Rounds of 1 us.
void run(Fabric& fabric, std::initializer_list<End*> ends, int rounds = 300) {
  for (int i = 0; i < rounds; i++) {
    fabric.engine().run_to(fabric.engine().now_ns() + 1000);
    for (End* end : ends) end->driver->poll(fabric.engine().now_ns(), 64);
  }
}

TEST(NicFaults, PlansAreReadAndNonsenseIsRefused) {
  nic::FaultPlan plan;
  std::string why;
  ASSERT_EQ(
      nic::parse_fault_plan("seed=7,ber=1e-9/cable=3,cut#5/cable=2/for=20us,"
                            "stall#2/for=1ms,lose-irq#3+/node=1,fail#9,drop=1e-3,drop#4/cable=1",
                            &plan, &why),
      Status::ok)
      << why;
  EXPECT_EQ(plan.seed, 7u);
  ASSERT_EQ(plan.rules.size(), 7u);
  EXPECT_EQ(plan.rules[0].rate, 1e-9);
  EXPECT_EQ(plan.rules[0].where, 3u);
  EXPECT_EQ(plan.rules[1].nth, 5u);
  EXPECT_EQ(plan.rules[1].for_ns, 20000u);
  EXPECT_EQ(plan.rules[2].where, ~0u);
  EXPECT_TRUE(plan.rules[3].and_later);
  EXPECT_EQ(plan.rules[5].rate, 1e-3);
  EXPECT_EQ(plan.rules[6].rate, 0);
  EXPECT_EQ(plan.rules[6].nth, 4u);
  for (const char* bad :
       {"ber", "ber=", "ber=2", "ber=1e-9/node=1", "cut=5", "cut#0", "cut#5/cable=", "cut#5/for=20",
        "stall#2", "fail#1+", "fail#1/for=2us", "drop=2", "drop#0", "drop#1/for=2us", "seed=x",
        "cut#1/cable=1/x=2", ","}) {
    EXPECT_EQ(nic::parse_fault_plan(bad, &plan, &why), Status::invalid) << bad;
    EXPECT_NE(why.find("expected"), why.npos) << why;
  }
  EXPECT_EQ(plan.rules.size(), 7u) << "a refused plan has left something";
}

TEST(NicFabric, NonsenseIsRefusedWithTheRemedy) {
  const auto refused = [](nic::FabricOptions options) {
    std::string why;
    EXPECT_FALSE(Fabric::make(options, &why));
    EXPECT_NE(why.find("use "), why.npos) << why;
  };
  refused({.card = "none"});
  refused({.topology = "torus"});
  refused({.parameters = {{"link.speed", "1"}}});
  refused({.parameters = {{"link.rate", "0"}}});
  refused({.parameters = {{"switch.ports", "64"}}});
  refused({.parameters = {{"link.delay", "5ns"}}});
  refused({.nodes = 4, .faults = "cut#1/cable=4"});
  refused({.nodes = 4, .faults = "fail#1/node=4"});
}

TEST(NicFabric, ProcessesComeAndGo) {
  const auto fabric = make({.nodes = 2});
  std::unique_ptr<Card> a = open(*fabric, 0), b = open(*fabric, 1);
  std::string why;
  EXPECT_FALSE(fabric->open(0, &why)) << "a second process on a card for one";
  EXPECT_NE(why.find("in use"), why.npos) << why;
  const nic::Name name = b->info().name;
  EXPECT_EQ(a->liveness().life(name), Life::there);
  EXPECT_EQ(a->liveness().life(nic::make_name(1, 2)), Life::never);
  EXPECT_EQ(a->liveness().life(nic::make_name(7, 1)), Life::never);
  const uint32_t changes = a->liveness().changes();
  b.reset();
  fabric->engine().run_to(10000);
  EXPECT_EQ(a->liveness().life(name), Life::closed);
  EXPECT_GT(a->liveness().changes(), changes);
  b = open(*fabric, 1);
  EXPECT_NE(b->info().name, name);
  EXPECT_EQ(a->liveness().life(name), Life::dead) << "another one has its endpoint";
  fabric->kill(b->info().name);
  EXPECT_EQ(a->liveness().life(b->info().name), Life::dead);
  EXPECT_EQ(b->read32(nic::skeleton::kId), ~0u) << "a dead process still has its card";
  b->write32(nic::skeleton::kDoorbell, 1);
  b->shared()[0] = std::byte{1};
  EXPECT_FALSE(fabric->open(5, &why));
}

TEST(NicFabric, WhatWasSentBeforeTheEndArrivesFirst) {
  const auto fabric = make({.nodes = 2});
  End a(on(*fabric, 0)), b(on(*fabric, 1));
  const PeerId to = b.connect(a);
  for (int i = 0; i < 50; i++) ASSERT_TRUE(b.send(to, "head", std::string(2000, 'x')));
  b.driver.reset();
  run(*fabric, {&a}, 3000);
  EXPECT_EQ(a.sink.packets.size(), 50u);
  ASSERT_EQ(a.sink.downs.size(), 1u);
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_closed);
}

// The skeleton's links send again what was lost.
TEST(NicFabric, LostPacketsAreSentAgain) {
  const auto fabric = make({.nodes = 2, .faults = "drop#2/cable=0,drop=0.05/cable=1"});
  End a(on(*fabric, 0)), b(on(*fabric, 1));
  const PeerId to_b = a.connect(b);
  for (int i = 0; i < 60; i++) ASSERT_TRUE(a.send(to_b, std::to_string(i)));
  run(*fabric, {&a, &b}, 3000);
  ASSERT_EQ(b.sink.packets.size(), 60u);
  EXPECT_EQ(b.sink.packets[59].bytes, "59");
  EXPECT_EQ(fabric->link(0, false).counts().lost, 1u);
  EXPECT_GT(fabric->link(1, true).counts().lost, 0u);
}

TEST(NicFabric, ACableWithoutAnotherWayIsADeath) {
  const auto fabric = make({.nodes = 3, .faults = "cut#2/cable=1"});
  End a(on(*fabric, 0)), b(on(*fabric, 1)), c(on(*fabric, 2));
  const PeerId to_b = a.connect(b), to_c = a.connect(c), from_b = b.connect(a);
  for (int i = 0; i < 5; i++) ASSERT_TRUE(b.send(from_b, "x"));
  ASSERT_TRUE(a.send(to_c, "y"));
  run(*fabric, {&a, &b, &c}, 2000);
  ASSERT_EQ(a.sink.downs.size(), 1u);
  EXPECT_EQ(a.sink.downs[0].peer, to_b);
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_dead);
  ASSERT_EQ(b.sink.downs.size(), 1u) << "whoever is cut off has lost the others";
  ASSERT_TRUE(a.send(to_c, "z"));
  run(*fabric, {&a, &b, &c});
  EXPECT_EQ(c.sink.packets.size(), 2u);
  EXPECT_NE(fabric->report().find("down"), std::string::npos) << fabric->report();
}

TEST(NicFabric, ACutCableWithAnotherWayIsHidden) {
  for (const char* faults : {"cut#20/cable=8", "cut#20/cable=11", "ber=1e-4,cut#7/cable=9"}) {
    const auto fabric = make({.nodes = 8, .topology = "ring:4", .faults = faults});
    End a(on(*fabric, 0)), b(on(*fabric, 4));
    const PeerId to = a.connect(b), back = b.connect(a);
    int there = 0, here = 0;
    for (int i = 0; i < 4000 && there + here < 400; i++) {
      if (there < 200) there += a.send(to, "to " + std::to_string(there));
      if (here < 200) here += b.send(back, std::to_string(here));
      run(*fabric, {&a, &b}, 1);
    }
    run(*fabric, {&a, &b}, 2000);
    ASSERT_EQ(b.sink.packets.size(), 200u) << faults;
    ASSERT_EQ(a.sink.packets.size(), 200u) << faults;
    for (size_t i = 0; i < 200; i++) EXPECT_EQ(b.sink.packets[i].bytes, "to " + std::to_string(i));
    EXPECT_TRUE(a.sink.downs.empty());
  }
}

// All that happens while four nodes send to each other over bad links.
std::string traced_traffic(uint64_t seed) {
  const auto fabric = make({.nodes = 4, .faults = "ber=3e-5,seed=" + std::to_string(seed)});
  std::string text;
  nic::Trace trace(nic::TraceFormat::text, [&](std::string_view part) { text += part; });
  fabric->engine().trace = &trace;
  std::vector<std::unique_ptr<End>> ends;
  for (uint32_t i = 0; i < 4; i++) ends.push_back(std::make_unique<End>(on(*fabric, i)));
  Random random(seed);
  for (int i = 0; i < 200; i++) {
    End& from = *ends[random.between(0, 3)];
    from.send(from.connect(*ends[random.between(0, 3)]), "head",
              std::string(random.between(1, 2000), 'x'));
    run(*fabric, {ends[0].get(), ends[1].get(), ends[2].get(), ends[3].get()}, 5);
  }
  ends.clear();
  EXPECT_NE(fabric->report().find("resends"), std::string::npos);
  fabric->engine().trace = nullptr;
  return text;
}

TEST(NicFabric, TheSameSeedIsTheSameTrace) {
  const std::string first = traced_traffic(3);
  EXPECT_TRUE(traced_traffic(3) == first);
  EXPECT_FALSE(traced_traffic(4) == first);
}

TEST(NicFabric, ALostInterruptIsLost) {
  const auto fabric = make({.nodes = 2, .faults = "lose-irq#1/node=1"});
  End a(on(*fabric, 0)), b(on(*fabric, 1));
  const PeerId to = a.connect(b);
  int fd;
  b.driver->poll(0, 64);
  for (const bool lost : {true, false}) {
    uint64_t count;
    run(*fabric, {&b});
    ASSERT_EQ(b.driver->arm(&fd), Status::ok);
    ASSERT_TRUE(a.send(to, "wake up"));
    run(*fabric, {&a}, 50);
    EXPECT_EQ(read(fd, &count, sizeof(count)) == sizeof(count), !lost);
  }
}

TEST(NicSkeleton, ChecksWhatItsDriverWrites) {
  using namespace nic::skeleton;
  const auto fabric = make({.nodes = 2});
  const std::unique_ptr<Card> card = open(*fabric, 0);
  auto& shared = *reinterpret_cast<Shared*>(card->shared().data());
  Random random(1);
  for (int i = 0; i < 3000; i++) {
    auto value =
        static_cast<uint32_t>(random.chance(500000) ? random.next() : random.between(0, 80));
    shared.descriptors[random.between(0, kSends - 1)] = {
        static_cast<uint32_t>(card->info().shared_address + random.between(0, 1 << 20)), value,
        static_cast<nic::Name>(random.next()), 0};
    card->write32(static_cast<uint32_t>(random.between(0, 5)) * 4, value);
    fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
  }
  EXPECT_NE(fabric->model(0).report().find("refused"), std::string::npos);
  EXPECT_EQ(card->read32(kId), kIdValue);
  // The other node has suffered nothing.
  End a(on(*fabric, 1));
  ASSERT_TRUE(a.send(a.connect(a), "to myself"));
  run(*fabric, {&a}, 3000);
  EXPECT_EQ(a.sink.packets.size(), 1u);
}

// A ping-pong of two hosts; the virtual time that it takes.
uint64_t ping_pong(const std::vector<std::pair<std::string, std::string>>& parameters, int rounds) {
  const auto fabric = make({.nodes = 2, .parameters = parameters});
  nic::Hosts hosts(fabric->engine());
  std::unique_ptr<End> ends[2];
  uint64_t ended = 0;
  for (const int side : {0, 1}) {
    hosts.add([&, side](nic::Host& host) {
      ends[side] = std::make_unique<End>([&](const DriverEnv& env) {
        std::string why;
        return open_skeleton(open(*fabric, static_cast<uint32_t>(side), &host), env, &why);
      });
      End& me = *ends[side];
      while (!ends[1 - side]) host.spend(1000);
      const PeerId to = me.connect(*ends[1 - side]);
      for (size_t round = 0; round < static_cast<size_t>(rounds); round++) {
        if (side == 0) me.send(to, {}, std::string(1000, 'x'));
        while (me.sink.packets.size() == round)
          if (me.driver->poll(host.now_ns(), 64) == 0 && !host.poll_memory(50)) return;
        if (side == 1) me.send(to, {}, std::string(1000, 'y'));
      }
      ended = std::max(ended, host.now_ns());
      while (host.poll_memory(50)) me.driver->poll(host.now_ns(), 64);  // until nothing happens
    });
  }
  std::string why;
  EXPECT_FALSE(hosts.run(&why));
  EXPECT_EQ(ends[0]->sink.packets.size(), static_cast<size_t>(rounds)) << why;
  ends[0]->driver.reset();
  ends[1]->driver.reset();
  return ended;
}

TEST(NicFabric, TimedHostsTakeTheTimeOfBusAndWire) {
  const uint64_t ten = ping_pong({}, 10), twenty = ping_pong({}, 20);
  EXPECT_EQ(ping_pong({}, 20), twenty) << "not repeatable";
  // One way: doorbell, descriptor, frame, the wire twice but for the head, switch, frame,
  // completion.
  const double wire = 1016 * 8 + 160 + 300 + 100;
  const double dma = 2 * (1000 / 0.132 + 2 * 200) + 32 / 0.132 + 2 * 200;
  const double expected = 60 + wire + dma;
  const double got = static_cast<double>(twenty - ten) / 20;
  EXPECT_GT(got, expected * 0.99);
  EXPECT_LT(got, expected * 1.05);
  const double slower = static_cast<double>(ping_pong({{"link.rate", "5e8"}}, 20) -
                                            ping_pong({{"link.rate", "5e8"}}, 10)) /
                        20;
  EXPECT_NEAR(slower - got, 1016 * 8 + 128, 250) << "half the rate, twice the time on the wire";
}

}  // namespace
}  // namespace torii::nic
