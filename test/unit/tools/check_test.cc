// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Parts of torii-check: the plan, what processes tell each other, probes.
#include <gtest/gtest.h>

#include <set>

#include "core/base/random.h"
#include "core/tools/check/check_hosts.h"
#include "core/tools/check/check_prober.h"
#include "core/tools/check/check_stream.h"
#include "sanitized.h"
#include "unit/tools/check_kit.h"

using namespace torii;
using namespace torii::check;

namespace {

TEST(CheckPlan, EachPairMeetsOnceAndNobodyTwiceInARound) {
  for (const uint32_t count : {0u, 1u, 2u, 3u, 4u, 7u, 16u, 33u}) {
    std::set<std::pair<uint32_t, uint32_t>> met;
    EXPECT_LE(rounds_of(count), count);
    for (uint32_t round = 0; round < rounds_of(count); round++) {
      for (uint32_t a = 0; a < count; a++) {
        const uint32_t b = partner_of(a, count, round);
        if (b == kNobody) continue;
        ASSERT_LT(b, count);
        ASSERT_NE(a, b);
        EXPECT_EQ(partner_of(b, count, round), a) << count << " round " << round;
        if (a < b) {
          EXPECT_TRUE(met.insert({a, b}).second) << a << " and " << b << " have met";
        }
      }
    }
    EXPECT_EQ(met.size(), count * (count - (count > 0)) / 2) << count;
  }
  EXPECT_EQ(rounds_of(4), 3u);
  EXPECT_EQ(partner_of(4, 4, 0), kNobody);
  EXPECT_EQ(partner_of(0, 4, 3), kNobody) << "no such round";
}

TEST(CheckPlan, PlacesAreOfThosePresent) {
  Nodes nodes(3, 2);
  nodes.all[2].present = false;
  const Plan plan = make_plan(nodes.all, 10000);
  EXPECT_EQ(plan.places, (std::vector<std::vector<uint32_t>>{{0, 1}, {3}, {4, 5}}));
  EXPECT_EQ(plan.place_of(3), 1u);
  EXPECT_EQ(plan.place_of(2), kNobody);
  EXPECT_EQ(plan.local_rounds, 1u);
  EXPECT_EQ(plan.rounds, 3u);
  EXPECT_LE(plan.total_ns(), 5000000000u) << "half of the deadline";
  EXPECT_LE(plan.needed_ms, 10000u);
}

TEST(CheckPlan, ManyNodesNeedALongerDeadline) {
  std::vector<Participant> all;
  for (uint32_t k = 0; k < 300; k++) all.push_back(Nodes::process(k));
  const Plan plan = make_plan(all, 10000);
  EXPECT_GT(plan.needed_ms, 10000u);
  EXPECT_LE(make_plan(all, plan.needed_ms).total_ns(), plan.needed_ms * 500000);
}

TEST(CheckPlan, TimeForMulticastComesOnTop) {
  const Nodes nodes(3, 2), alone(1, 2);
  const Plan before = make_plan(nodes.all, 10000), plan = make_plan(nodes.all, 10000, 300000);
  EXPECT_EQ(plan.total_ns() - before.total_ns(), 300000 * kMs);
  EXPECT_EQ(plan.slot_ns, before.slot_ns);
  EXPECT_EQ(plan.needed_ms, before.needed_ms);
  EXPECT_EQ(make_plan(alone.all, 10000, 300000).multicast_ns, 0u) << "there is no other node";
}

// Some of everything.
Participant full() {
  Nodes nodes(2, 2);
  Participant one = nodes.all[0];
  one.facts.dice[3] = std::byte{7};
  one.facts.pid = 77;
  one.facts.endpoints.push_back({"x", true, 0, {}, "no card"});
  one.seen.pairs[1].silent.push_back({"10.0.0.9", "eth1", true});
  one.seen.pairs[1].note = "a note";
  one.seen.multicast_why = "why not";
  return one;
}

TEST(CheckData, WhatIsWrittenIsRead) {
  const Participant in = full();
  Participant out;
  ASSERT_TRUE(decode(encode(in.facts), &out.facts));
  ASSERT_TRUE(decode(encode(in.seen), &out.seen));
  EXPECT_EQ(encode(out.facts), encode(in.facts));
  EXPECT_EQ(encode(out.seen), encode(in.seen));
  EXPECT_EQ(out.facts.host, "n1");
  EXPECT_EQ(out.facts.dice[3], std::byte{7});
  EXPECT_EQ(out.facts.interfaces[1].addresses, in.facts.interfaces[1].addresses);
  EXPECT_EQ(out.facts.endpoints[2].why, "no card");
  EXPECT_EQ(out.seen.pairs[1].rails[1].interface, "eth1");
  EXPECT_TRUE(out.seen.pairs[1].silent[0].asked);
  EXPECT_EQ(out.seen.multicast_heard, in.seen.multicast_heard);
}

TEST(CheckData, WhatIsCutOrAddedIsRefused) {
  const Participant in = full();
  for (const bool facts : {true, false}) {
    Bytes bytes = facts ? encode(in.facts) : encode(in.seen);
    const auto read = [&](std::span<const std::byte> from) {
      Participant out;
      return facts ? decode(from, &out.facts) : decode(from, &out.seen);
    };
    for (size_t cut = 0; cut < bytes.size(); cut++)
      EXPECT_FALSE(read(std::span(bytes).first(cut))) << cut;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(read(bytes));
  }
}

TEST(CheckData, DamagedBytesDoNoHarm) {
  const Participant in = full();
  Random random(5);
  for (int i = 0; i < (test::in_short() ? 4000 : 20000); i++) {
    Bytes bytes = i % 2 ? encode(in.facts) : encode(in.seen);
    for (int n = 0; n < 3; n++)
      bytes[random.between(0, bytes.size() - 1)] = static_cast<std::byte>(random.next());
    Participant out;
    if (i % 2) {
      (void)decode(bytes, &out.facts);
    } else if (decode(bytes, &out.seen)) {
      Nodes nodes(2, 2);
      nodes.all[0].seen = out.seen;
      (void)text_of(nodes.verdict(), true);
    }
  }
}

TEST(CheckData, TextsHaveNoControlCharacters) {
  Participant in = full(), out;
  in.facts.host = "n1\x1b[2J\n";
  ASSERT_TRUE(decode(encode(in.facts), &out.facts));
  EXPECT_EQ(out.facts.host, "n1?[2J?");
}

TEST(CheckStream, OrdersAreRead) {
  Orders in{2, 3, 10000, 300000, {{"TORII_UDP_MTU", "1500"}, {"TORII_LOG", ""}}}, out;
  const Bytes bytes = encode(in);
  ASSERT_TRUE(decode(bytes, &out));
  EXPECT_EQ(out.rank, 2u);
  EXPECT_EQ(out.size, 3u);
  EXPECT_EQ(out.deadline_ms, 10000u);
  EXPECT_EQ(out.multicast_ms, 300000u);
  EXPECT_EQ(out.variables, in.variables);
  for (size_t cut = 0; cut < bytes.size(); cut++) {
    Orders none;
    EXPECT_FALSE(decode(std::span(bytes).first(cut), &none)) << cut;
  }
  for (const Orders& bad : {Orders{3, 3, 10000, 0, {}}, Orders{0, 1, 0, 0, {}},
                            Orders{0, 1, 10000, 0, {{"LD_PRELOAD", "x.so"}}},
                            Orders{0, 1, 10000, 0, {{"TORII_A=B", "x"}}}}) {
    Orders none;
    EXPECT_FALSE(decode(encode(bad), &none)) << bad.rank;
  }
}

TEST(CheckStream, ATableHasAsManyAsWereAsked) {
  const std::vector<Bytes> in = {Bytes(3, std::byte{1}), {}, Bytes(70000, std::byte{2})};
  std::vector<Bytes> out;
  ASSERT_TRUE(decode(encode(in), 3, &out));
  EXPECT_EQ(out, in);
  EXPECT_FALSE(decode(encode(in), 2, &out));
  EXPECT_FALSE(decode(encode(in), 4, &out));
}

TEST(CheckHosts, ListsOfHosts) {
  std::vector<std::string> hosts;
  std::string why;
  ASSERT_TRUE(parse_hosts("n1,user@n2:2", &hosts, &why)) << why;
  EXPECT_EQ(hosts, (std::vector<std::string>{"n1", "user@n2", "user@n2"}));
  for (const char* bad : {"", "n1,", "n1:0", "n1:x", "n1:2x", "-oProxyCommand=x", "n1;ls", "n1 n2",
                          "n1:2000", "$(x)"}) {
    hosts.clear();
    EXPECT_FALSE(parse_hosts(bad, &hosts, &why)) << bad;
    EXPECT_NE(why.find("--hosts"), std::string::npos) << why;
  }
}

TEST(CheckProbe, OnlyWithTheSecret) {
  Secret secret{}, other{};
  secret[0] = std::byte{1};
  Probe in, out;
  in.kind = Probe::question;
  in.from = 1, in.to = 2, in.rail = 3, in.number = 4, in.size = 100, in.sent_ns = 0x123456789a;
  Bytes bytes(100);
  in.write(secret, bytes.data());
  ASSERT_TRUE(Probe::read(bytes, secret, &out));
  EXPECT_TRUE(out.kind == in.kind && out.from == 1 && out.to == 2 && out.rail == 3 &&
              out.number == 4 && out.size == 100 && out.sent_ns == in.sent_ns);
  EXPECT_FALSE(Probe::read(bytes, other, &out));
  EXPECT_FALSE(Probe::read(std::span(bytes).first(Probe::kBytes - 1), secret, &out));
  for (size_t i = 0; i < Probe::kBytes; i++) {
    Bytes bad = bytes;
    bad[i] ^= std::byte{16};
    EXPECT_FALSE(Probe::read(bad, secret, &out)) << "byte " << i;
  }
}

}  // namespace
