// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Silent peers, over a driver that knows which processes exist.
#include <gtest/gtest.h>

#include "core/link/link.h"
#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using test::End;
using test::kDeadlineMs;
using test::kMs;
using test::LinkTest;

class LinkLifeTest : public LinkTest {
 protected:
  LinkLifeTest() { now_ns = kMs; }
  std::unique_ptr<End> linked() { return LinkTest::linked(lives_, ""); }
  void kill(const End& end) {
    const auto address = end.address();
    lives_.kill(std::span(address).first(address.size() - kPublicKeyBytes));
  }

  SimFabric lives_{{.flags = kWait,
                    .inline_max = inline_max(),
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000,
                    .tells_lives = true}};
};

TEST_P(LinkLifeTest, AProcessThatIsThereIsWaitedFor) {
  const auto a = linked(), b = linked(), c = linked();
  const PeerId peer = a->connect(*b);
  a->connect(*c);
  ASSERT_TRUE(a->send(peer, "first", {}, 7));
  run({a.get(), b.get(), c.get()}, now_ns + 10 * kMs);
  ASSERT_TRUE(a->send(peer, "into the void", {}, 8));
  run({a.get()}, now_ns + 5 * kDeadlineMs * kMs, kMs);  // b and c are stopped
  EXPECT_TRUE(a->sink.downs.empty());
  run({a.get(), b.get(), c.get()}, now_ns + 1100 * kMs, kMs);
  EXPECT_EQ(b->sink.packets.size(), 2u);
  EXPECT_EQ(a->sink.dones.size(), 2u);
}

TEST_P(LinkLifeTest, AProcessThatHasGoneIsMissedSoon) {
  for (const bool owing : {true, false}) {
    const auto a = linked(), b = linked();
    const PeerId peer = a->connect(*b);
    ASSERT_TRUE(a->send(peer, "first", {}, 7));
    run({a.get(), b.get()}, now_ns + 10 * kMs);
    kill(*b);
    if (owing) a->send(peer, "into the void", {}, 8);
    const uint64_t death_ns = now_ns;
    run({a.get()}, death_ns + 500 * kMs);
    EXPECT_TRUE(a->sink.downs.empty()) << "it had no time to contradict";
    run({a.get()}, death_ns + 900 * kMs);
    ASSERT_EQ(a->sink.downs.size(), 1u);
    EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  }
}

// Says of all peers that they have gone.
class Slanderer final : public Decorator, private Paths {
 public:
  Slanderer(const OpenBelow& open_below, const DriverEnv& env) : Decorator(env) {
    open(open_below, env);
  }
  Paths* paths() override { return this; }

 private:
  Life life(PeerId) override { return Life::gone; }
  uint32_t long_max(PeerId) const override { return 0; }
};

TEST_P(LinkTest, ALivingPeerContradicts) {
  End a([&](const DriverEnv& env) {
    return wrap_link(
        [&](const DriverEnv& inner) {
          return std::make_unique<Slanderer>(
              [&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner);
        },
        env);
  });
  const auto b = linked();
  const PeerId peer = a.connect(*b);
  ASSERT_TRUE(a.send(peer, "first", {}, 7));
  run({&a, b.get()}, now_ns + 5 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a.sink.downs.empty());
  EXPECT_GT(a.counters.link_probes, 0u);
}

// A process that polls says so after the deadline, one that cannot tell yet is waited for.
TEST_P(LinkLifeTest, WhoIsNotAMemberIsToldAfterTheDeadline) {
  for (const bool certain : {false, true}) {
    const auto a = linked(), b = linked();
    b->members.admit = false;
    b->members.certain = certain;
    const PeerId to_b = a->connect(*b);
    ASSERT_TRUE(a->send(to_b, "does anybody know me?", {}, 7));
    run({a.get(), b.get()}, now_ns + (kDeadlineMs - 10) * kMs, kMs);
    EXPECT_TRUE(a->sink.downs.empty());
    run({a.get(), b.get()}, now_ns + kDeadlineMs * kMs, kMs);
    EXPECT_TRUE(b->sink.packets.empty());
    EXPECT_TRUE(b->sink.downs.empty());
    if (!certain) {
      EXPECT_TRUE(a->sink.downs.empty());
      b->members.admit = true;
      run({a.get(), b.get()}, now_ns + kDeadlineMs * kMs, kMs);
      EXPECT_EQ(b->sink.packets.size(), 1u);
      continue;
    }
    ASSERT_EQ(a->sink.downs.size(), 1u);
    EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
    ASSERT_EQ(a->sink.dones.size(), 1u);
    EXPECT_EQ(a->sink.dones[0].status, Status::peer_dead);
    const std::string why = a->driver->paths()->trouble(to_b);
    EXPECT_NE(why.find("does not know this process"), std::string::npos) << why;
  }
}

TORII_WITH_CIPHERS(LinkLifeTest);

}  // namespace
}  // namespace torii
