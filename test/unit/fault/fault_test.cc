// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Each fault alone over the sim driver, the plan's text, and what the decorator declares.
#include "drivers/fault/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "drivers/sim/sim.h"
#include "recorder.h"

namespace torii {
namespace {

using test::End;

FaultPlan plan_of(const std::string& text) {
  FaultPlan plan;
  std::string why;
  EXPECT_EQ(parse_fault_plan(text, &plan, &why), Status::ok) << why;
  return plan;
}

// A pair over one fabric; the sender goes through the faults.
struct Pair {
  explicit Pair(const std::string& plan, const SimOptions& options = {})
      : fabric(options),
        a([&](const DriverEnv& env) {
          return wrap_fault([&](const DriverEnv& inner) { return open_sim(fabric, inner); }, env,
                            plan_of(plan));
        }),
        b([&](const DriverEnv& env) { return open_sim(fabric, env); }),
        peer(a.connect(b)) {}

  void run(uint64_t now_ns) {
    a.driver->poll(now_ns, 1000);
    b.driver->poll(now_ns, 1000);
    a.driver->poll(now_ns, 1000);
  }
  // Sends frames "0".."n-1" at time 0 and returns what has arrived by then, joined.
  std::string send_digits(int n) {
    for (int i = 0; i < n; i++) a.send(peer, std::to_string(i));
    run(0);
    return arrived();
  }
  std::string arrived() const {
    std::string all;
    for (const auto& p : b.sink.packets) all += p.bytes;
    return all;
  }

  SimFabric fabric;
  End a, b;
  PeerId peer;
};

// Each member misses other frames, and none of them is sent again.
TEST(Fault, LossyGroupsLoseFramesWhereTheyArrive) {
  SimFabric fabric({.flags = 0});
  const auto faulty = [&](const DriverEnv& env) {
    return wrap_fault([&](const DriverEnv& inner) { return open_sim(fabric, inner); }, env,
                      plan_of("drop=30%,duplicate=10%,delay-max=1us,drop#1/byte0=0x30"));
  };
  End ends[] = {End(faulty), End(faulty), End(faulty)};
  PeerId groups[3];
  for (uint32_t i = 0; i < 3; i++)
    ASSERT_EQ(ends[i].driver->lossy_groups()->join_lossy({SecretKey{}, i, 3, true}, &groups[i]),
              Status::ok);
  for (int i = 0; i < 200; i++) ASSERT_TRUE(ends[0].send(groups[0], std::to_string(i)));
  for (uint64_t now_ns = 0; now_ns < 10000; now_ns += 1000)
    for (End& end : ends) end.driver->poll(now_ns, 1000);
  std::set<std::string> heard[3];
  for (int i = 1; i < 3; i++) {
    for (const auto& packet : ends[i].sink.packets) heard[i].insert(packet.bytes);
    EXPECT_GT(heard[i].size(), 100u);
    EXPECT_LT(heard[i].size(), 180u);
    EXPECT_GT(ends[i].sink.packets.size(), heard[i].size()) << "some come twice";
    EXPECT_FALSE(heard[i].contains("0")) << "a rule";
  }
  EXPECT_NE(heard[1], heard[2]);
  EXPECT_TRUE(ends[0].sink.packets.empty());
}

// Hands up all that it was sent since the last poll together.
class Bundler final : public Driver {
 public:
  explicit Bundler(Sink* sink) : sink_(sink) { caps_.peers_max = 4; }
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte*) const override {}
  Status connect(std::span<const std::byte>, PeerId*, std::string*) override {
    return Status::unreachable;
  }
  void disconnect(PeerId) override {}
  size_t send(std::span<const Tx>) override { return 0; }
  unsigned poll(uint64_t, unsigned) override {
    std::vector<Packet> all = std::exchange(due, {});
    sink_->packets(all);
    return unsigned(all.size());
  }
  std::vector<Packet> due;

 private:
  Sink* sink_;
  DriverCaps caps_;
};

struct Bundles final : Sink {
  void packet(PeerId, std::span<const std::byte>) override { singles++; }
  void packets(std::span<Packet> all) override {
    std::string from;
    for (const Packet& one : all) from += std::to_string(one.from);
    bundles.push_back(from);
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}
  std::vector<std::string> bundles;
  unsigned singles = 0;
};

TEST(Fault, WhatArrivesTogetherStaysTogether) {
  Bundles sink;
  DriverEnv env;
  env.sink = &sink;
  Counters counters;
  env.counters = &counters;
  Bundler* below = nullptr;
  const auto driver = wrap_fault(
      [&](const DriverEnv& inner) {
        auto made = std::make_unique<Bundler>(inner.sink);
        below = made.get();
        return made;
      },
      env, plan_of("kill#1/peer=2"));
  ASSERT_TRUE(driver);
  below->due = {{1, {}}, {2, {}}, {3, {}}};
  driver->poll(1, 10);
  const Tx tx{.peer = 2};
  EXPECT_EQ(driver->send({&tx, 1}), 1u) << "its death";
  below->due = {{1, {}}, {2, {}}, {3, {}}};
  driver->poll(2, 10);
  EXPECT_EQ(sink.bundles, (std::vector<std::string>{"123", "13"}));
  EXPECT_EQ(sink.singles, 0u);
}

TEST(FaultPlan, EveryItemIsRead) {
  const FaultPlan p = plan_of(
      "seed=9,drop=5%,duplicate=0.25%,reorder=100%,delay-max=20us,deny#2/peer=3,"
      "drop#7+/byte1=0x0d/peer=1");
  EXPECT_EQ(p.seed, 9u);
  EXPECT_EQ(p.ppm[static_cast<size_t>(Fault::drop)], 50000u);
  EXPECT_EQ(p.ppm[static_cast<size_t>(Fault::duplicate)], 2500u);
  EXPECT_EQ(p.ppm[static_cast<size_t>(Fault::reorder)], 1000000u);
  EXPECT_EQ(p.delay_max_ns, 20000u);
  ASSERT_EQ(p.rules.size(), 2u);
  EXPECT_EQ(p.rules[0].fault, Fault::deny);
  EXPECT_EQ(p.rules[0].nth, 2u);
  EXPECT_EQ(p.rules[0].peer, 3u);
  EXPECT_EQ(p.rules[1].nth, 7u);
  EXPECT_TRUE(p.rules[1].and_later);
  EXPECT_EQ(p.rules[1].offset, 1);
  EXPECT_EQ(p.rules[1].value, 13);
  EXPECT_TRUE(p.uses(Fault::deny));
  EXPECT_FALSE(p.uses(Fault::corrupt));
  EXPECT_TRUE(plan_of("").rules.empty());
}

TEST(FaultPlan, ErrorsNameItemPlaceAndRemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"drop=5%,dorp=1%", "'dorp=1%' at character 9"},
      {"drop=5", "percentage from 0% to 100%"},
      {"drop=101%", "percentage"},
      {"drop=1.00001%", "at most 4 decimals"},
      {"drop=%", "percentage"},
      {"drop=0x1%", "percentage"},
      {"seed=x", "a number after seed="},
      {"delay-max=5", "such as 200us"},
      {"delay-max=2000000s", "up to one hour"},
      {"drop#0", "a number from 1"},
      {"drop#", "a number from 1"},
      {"boil#1", "one of drop, duplicate"},
      {"drop#1/peer=x", "a peer number"},
      {"drop#1/byte70000=1", "offset up to 65535"},
      {"drop#1/byte0=256", "value up to 255"},
      {"drop#1/colour=red", "/peer=NUMBER or /byteOFFSET=VALUE"},
      {"drop#1/", "/peer=NUMBER"},
      {"deny#1/byte0=1", "deny is not about frames"},
      {"kill=5%", "peers die by rule only"},
      {",drop=5%", "''"},
  };
  for (const auto& [text, expected] : cases) {
    FaultPlan plan;
    plan.seed = 77;
    std::string why;
    EXPECT_EQ(parse_fault_plan(text, &plan, &why), Status::invalid) << text;
    EXPECT_NE(why.find(expected), std::string::npos) << text << ": " << why;
    EXPECT_EQ(plan.seed, 77u) << "a bad plan must change nothing";
  }
}

TEST(Fault, DeclaresWhatIsLeft) {
  const auto flags = [](const char* plan) { return Pair(plan).a.driver->caps().flags & kReliable; };
  EXPECT_EQ(flags(""), kReliable);
  EXPECT_EQ(flags("refuse=10%,delay=10%,deny=1%,kill#5"), kReliable);
  for (const char* plan : {"drop=1%", "corrupt=1%", "truncate#1", "reorder#9", "duplicate=1%"})
    EXPECT_EQ(flags(plan), 0u) << plan;
}

// Short frames meet the faults of the plan, too, and those that are spared take the short way.
TEST(Fault, ShortFramesMeetFaults) {
  class Short final : public Decorator, private ShortFrames {
   public:
    Short(const OpenBelow& open_below, const DriverEnv& env, int* shorts)
        : Decorator(env), shorts_(shorts) {
      open(open_below, env);
    }
    ShortFrames* short_frames() override { return this; }

   private:
    bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void*, uint32_t) override {
      ++*shorts_;
      const uint64_t head[2] = {word0, word1};
      Tx tx;
      tx.peer = peer;
      tx.head = head;
      tx.head_bytes = sizeof(head);
      return below_->send({&tx, 1}) == 1;
    }
    int* const shorts_;
  };
  SimFabric fabric({.seed = 3});
  int shorts = 0;
  End a([&](const DriverEnv& env) {
    return wrap_fault(
        [&](const DriverEnv& inner) {
          return std::make_unique<Short>(
              [&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner, &shorts);
        },
        env, plan_of("drop#2,refuse#4"));
  });
  End b([&](const DriverEnv& env) { return open_sim(fabric, env); });
  const PeerId to = a.connect(b);
  ShortFrames* const frames = a.driver->short_frames();
  ASSERT_NE(frames, nullptr);
  EXPECT_TRUE(frames->send_short(to, 1, 0, nullptr, 0));
  EXPECT_TRUE(frames->send_short(to, 2, 0, nullptr, 0)) << "it vanishes";
  EXPECT_TRUE(frames->send_short(to, 3, 0, nullptr, 0));
  EXPECT_FALSE(frames->send_short(to, 4, 0, nullptr, 0)) << "it is refused";
  EXPECT_TRUE(frames->send_short(to, 4, 0, nullptr, 0));
  EXPECT_EQ(shorts, 3);
  b.driver->poll(1, 100);
  EXPECT_EQ(b.sink.packets.size(), 3u);
}

TEST(Fault, Drop) {
  Pair p("drop#2,drop#4+");
  EXPECT_EQ(p.send_digits(6), "02");
}

TEST(Fault, DropByContentAndPeer) {
  Pair p("drop#2/byte1=0x62/peer=0,drop#1/peer=1");
  for (const char* body : {"b0", "x0", "b1", "b2"}) ASSERT_TRUE(p.a.send(p.peer, "h", body));
  p.run(0);
  EXPECT_EQ(p.arrived(), "hb0hx0hb2");
}

TEST(Fault, DuplicateArrivesLater) {
  Pair p("duplicate#1");
  std::string got = p.send_digits(8);
  EXPECT_EQ(got.size(), 9u);
  EXPECT_EQ(std::count(got.begin(), got.end(), '0'), 2);
  got.erase(got.find_last_of('0'), 1);
  EXPECT_EQ(got, "01234567");
}

TEST(Fault, ReorderLetsOneToThreeGoFirst) {
  bool seen[4] = {};
  for (int seed = 1; seed <= 40; seed++) {
    Pair p("reorder#1,seed=" + std::to_string(seed));
    std::string got = p.send_digits(8);
    const size_t place = got.find('0');
    ASSERT_GE(place, 1u) << got;
    ASSERT_LE(place, 3u) << got;
    seen[place] = true;
    got.erase(place, 1);
    EXPECT_EQ(got, "1234567");
  }
  EXPECT_TRUE(seen[1] && seen[2] && seen[3]);
}

TEST(Fault, AReorderedFrameIsNotStuckWithoutTraffic) {
  Pair p("reorder#1,delay-max=100us");
  EXPECT_EQ(p.send_digits(1), "");
  p.run(99999);
  EXPECT_EQ(p.arrived(), "");
  p.run(100000);
  EXPECT_EQ(p.arrived(), "0");
}

TEST(Fault, DelayKeepsOrder) {
  Pair p("delay#2,delay-max=1ms,seed=4");
  EXPECT_EQ(p.send_digits(5), "0");
  p.run(1000000);
  EXPECT_EQ(p.arrived(), "01234");
}

TEST(Fault, CorruptFlipsOneBit) {
  Pair p("corrupt#1");
  const std::string sent(100, '\0');
  ASSERT_TRUE(p.a.send(p.peer, sent));
  p.run(0);
  int bits = 0;
  for (const char c : p.arrived()) bits += std::popcount(static_cast<unsigned char>(c));
  EXPECT_EQ(p.arrived().size(), 100u);
  EXPECT_EQ(bits, 1);
}

TEST(Fault, TruncateCutsTheEnd) {
  Pair p("truncate#1");
  ASSERT_TRUE(p.a.send(p.peer, "abcdefgh"));
  p.run(0);
  const std::string got = p.arrived();
  EXPECT_GE(got.size(), 1u);
  EXPECT_LT(got.size(), 8u);
  EXPECT_EQ(got, std::string("abcdefgh").substr(0, got.size()));
}

TEST(Fault, RefuseTakesNothing) {
  Pair p("refuse#2");
  EXPECT_TRUE(p.a.send(p.peer, "0"));
  EXPECT_FALSE(p.a.send(p.peer, "1"));
  EXPECT_TRUE(p.a.send(p.peer, "1"));
  p.run(0);
  EXPECT_EQ(p.arrived(), "01");
}

TEST(Fault, RulesDoNotCountWhatTheDriverBelowRefused) {
  Pair p("drop#2", {.depth = 1});
  EXPECT_TRUE(p.a.send(p.peer, "0"));
  p.run(0);
  EXPECT_TRUE(p.a.send(p.peer, "1"));  // dropped
  EXPECT_TRUE(p.a.send(p.peer, "2"));
  EXPECT_FALSE(p.a.send(p.peer, "3"));
  EXPECT_FALSE(p.a.send(p.peer, "3"));
  p.run(0);
  EXPECT_EQ(p.arrived(), "02");
}

TEST(Fault, CookiesAreDoneOnceWhateverHappens) {
  for (const char* plan : {"drop=50%", "duplicate=50%", "reorder=50%", "delay=50%", "corrupt=50%",
                           "truncate=50%", "refuse=50%", "kill#20", ""}) {
    Pair p(plan, {.inline_max = 16});
    const std::string body(200, 'x');
    std::vector<uint64_t> sent;
    for (uint64_t i = 1; i <= 40; i++)
      if (p.a.send(p.peer, "h", body, i << 60 | i)) sent.push_back(i << 60 | i);
    for (uint64_t t = 0; t < 5; t++) p.run(t * 1000000);
    std::vector<uint64_t> done;
    for (const auto& d : p.a.sink.dones) done.push_back(d.cookie);
    std::sort(done.begin(), done.end());
    std::sort(sent.begin(), sent.end());
    EXPECT_EQ(done, sent) << plan;
  }
}

TEST(Fault, KilledPeersEndInOrder) {
  Pair p("kill#3", {.inline_max = 0, .latency_min_ns = 10, .latency_max_ns = 10});
  const std::string body = "x";
  for (uint64_t i = 1; i <= 4; i++) ASSERT_TRUE(p.a.send(p.peer, "", body, i));
  p.b.send(p.b.connect(p.a), "ghost");
  p.run(0);
  EXPECT_TRUE(p.a.sink.downs.empty()) << "two bodies are still being read";
  p.run(10);
  EXPECT_EQ(p.a.sink.dones.size(), 4u);
  for (const auto& d : p.a.sink.dones) EXPECT_EQ(d.status, Status::peer_dead);
  p.run(20);
  ASSERT_EQ(p.a.sink.downs.size(), 1u);
  EXPECT_EQ(p.a.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(p.a.sink.downs[0].dones_before, 4u);
  EXPECT_TRUE(p.a.sink.packets.empty());
  EXPECT_EQ(p.a.connect(p.b), kNoPeer);
}

TEST(Fault, DenyAndRefuseRemoteAccess) {
  Pair p("deny#2,refuse=0%");
  char there[4] = "abc", here[4] = {};
  Region region;
  ASSERT_EQ(p.b.driver->reg(there, 4, kRemoteRead, &region), Status::ok);
  uint32_t remote;
  ASSERT_EQ(p.a.driver->import(p.peer, std::span(region.key).first(kSimKeyBytes), &remote),
            Status::ok);
  const iovec piece{here, 4};
  const Rma rma{p.peer, remote, 0, &piece, 1, 4, 1};
  EXPECT_EQ(p.a.driver->get(rma), Status::ok);
  EXPECT_STREQ(here, "abc");
  EXPECT_EQ(p.a.driver->get(rma), Status::denied);
  EXPECT_EQ(p.a.driver->get(rma), Status::ok);
}

TEST(Fault, HeldFramesSurviveDisconnect) {
  Pair p("delay#1,delay-max=1ms");
  ASSERT_TRUE(p.a.send(p.peer, "late"));
  p.a.driver->disconnect(p.peer);
  p.run(0);
  EXPECT_EQ(p.arrived(), "");
  int fd;
  EXPECT_EQ(p.a.driver->arm(&fd), Status::again) << "it has work to do";
  p.run(1000000);
  EXPECT_EQ(p.arrived(), "late");
}

TEST(Fault, HeldFramesSurviveClosing) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Pair p("delay#1,delay-max=1ms", {.seed = seed, .again_ppm = 300000});
    for (const char* s : {"a", "b", "c", "d"}) ASSERT_TRUE(p.a.send(p.peer, s));
    p.a.driver.reset();
    p.b.driver->poll(0, 100);
    EXPECT_EQ(p.arrived(), "abcd") << seed;
  }
}

TEST(Fault, TheSameSeedGivesTheSameRun) {
  const char* plan = "drop=20%,duplicate=20%,reorder=20%,seed=";
  const auto run = [&](int seed) {
    Pair p(plan + std::to_string(seed));
    return p.send_digits(40);
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace
}  // namespace torii
