// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Cases for the driver of every emulated card.
#include "nic_cards.h"

#include <algorithm>

#include "core/base/param.h"
#include "core/base/random.h"
#include "core/link/link.h"
#include "nic/trace.h"

namespace torii::test {
namespace {

class NicCards : public testing::TestWithParam<const char*> {};

// All that happens while four nodes send to each other over cables that flip bits and lose packets,
// and one of which is cut for a while.
std::string trace_of_cards(const char* name, uint64_t seed) {
  CardEnds ends(
      name, {.nodes = 4,
             .topology = "ring:4",
             .faults = "ber=2e-6,drop=1e-3,cut#60/cable=5/for=40us,seed=" + std::to_string(seed)});
  std::string text;
  nic::Trace trace(nic::TraceFormat::text, [&](std::string_view part) { text += part; });
  ends.fabric->engine().trace = &trace;
  Random random(seed);
  std::vector<std::string> bodies;
  for (int i = 0; i < 120; i++) bodies.emplace_back(random.between(1, 1900), 'x');
  for (size_t i = 0; i < bodies.size(); i++) {
    const size_t from = random.between(0, 3);
    const PeerId to = ends[from].connect(ends[random.between(0, 3)]);
    ends.send(from, to, "head", bodies[i], i + 1);
    ends.run(5);
  }
  ends.run(2000);
  ends.fabric->engine().trace = nullptr;
  return text;
}

TEST_P(NicCards, TheSameSeedIsTheSameTrace) {
  const std::string first = trace_of_cards(GetParam(), 3);
  EXPECT_TRUE(trace_of_cards(GetParam(), 3) == first);
  EXPECT_FALSE(trace_of_cards(GetParam(), 4) == first);
}

// There is one cable to node 1.
TEST_P(NicCards, ACutWithoutASecondRouteIsReported) {
  CardEnds ends(GetParam(), {.nodes = 3, .faults = "cut#200/cable=1"});
  if (!(ends[0].driver->caps().flags & kPeerDown)) GTEST_SKIP() << "that is the link's to find";
  const PeerId to_1 = ends[0].connect(ends[1]), to_2 = ends[0].connect(ends[2]);
  const PeerId from_1 = ends[1].connect(ends[0]);
  const std::string body(1500, 'x');
  uint64_t cookies = 0;
  for (int i = 0; i < 3000 && ends[0].sink.downs.empty(); i++) {
    cookies += ends[0].send(to_1, "head", body, cookies + 1);
    cookies += ends[0].send(to_2, "head", body, cookies + 1);
    ends.send(1, from_1, "back");
    ends.run(5);
  }
  ends.run(5000);
  ASSERT_EQ(ends[0].sink.downs.size(), 1u);
  EXPECT_EQ(ends[0].sink.downs[0].peer, to_1);
  EXPECT_EQ(ends[0].sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(ends[0].sink.dones.size(), cookies) << "cookies that are never done";
  ASSERT_EQ(ends[1].sink.downs.size(), 1u);
  EXPECT_EQ(ends[1].sink.downs[0].status, Status::peer_dead);
  const size_t before = ends[2].sink.packets.size();
  ends.send(0, to_2, "still there");
  ends.run(3000);
  EXPECT_EQ(ends[2].sink.packets.size(), before + 1);
}

// Protocols of a card that know nothing of ended peers: the link over them finds out.
class NicCardsUnderALink : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { set_deadline("150"); }
  static void TearDownTestSuite() { set_deadline("30000"); }
  static void set_deadline(const char* ms) {
    std::string why;
    ASSERT_EQ(param_set("peer_deadline_ms", ms, "test", &why), Status::ok) << why;
  }
};

TEST_P(NicCardsUnderALink, ACutWithoutASecondRouteIsReported) {
  CardEnds ends(GetParam(), {.nodes = 3, .faults = "cut#60/cable=1"}, wrap_link);
  const PeerId to_1 = ends[0].connect(ends[1]), to_2 = ends[0].connect(ends[2]);
  uint64_t cookies = 0;
  for (int i = 0; i < 30000 && ends[0].sink.downs.empty(); i++) {
    cookies += ends[0].send(to_1, "to 1", {}, cookies + 1);
    cookies += ends[0].send(to_2, "to 2", {}, cookies + 1);
    ends.run(1, 10000);
  }
  ends.run(1000, 10000);
  ASSERT_EQ(ends[0].sink.downs.size(), 1u);
  EXPECT_EQ(ends[0].sink.downs[0].peer, to_1);
  EXPECT_EQ(ends[0].sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(ends[0].sink.dones.size(), cookies) << "cookies that are never done";
  EXPECT_GT(ends[1].sink.packets.size(), 0u) << "it was there before";
  const size_t before = ends[2].sink.packets.size();
  ends.send(0, to_2, "still there");
  ends.run(1000, 10000);
  EXPECT_EQ(ends[2].sink.packets.size(), before + 1);
}

std::string test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, NicCardsUnderALink, testing::Values("myrinet/raw", "nectar/datagram"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(All, NicCards,
                         testing::Values("skeleton", "tnet", "myrinet", "myrinet/raw", "qsnet",
                                         "nectar", "nectar/datagram", "sci", "sci/dolphin"),
                         test_name);

}  // namespace
}  // namespace torii::test
