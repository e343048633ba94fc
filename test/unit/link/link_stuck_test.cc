// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames that do not arrive at a peer that answers others: a network that drops long packets.
#include <gtest/gtest.h>

#include "core/link/link.h"
#include "unit/link/link_fixture.h"

namespace torii::test {
namespace {

using link::Kind;

// Loses frames that are longer than the test says.
class Narrow final : public Decorator {
 public:
  Narrow(const OpenBelow& open_below, const DriverEnv& env, const uint32_t& carried)
      : Decorator(env), carried_(carried) {
    open(open_below, env);
  }
  size_t send(std::span<const Tx> batch) override {
    size_t taken = 0;
    for (const Tx& tx : batch) {
      EXPECT_EQ(tx.cookie, 0u);
      if (tx.head_bytes + tx.body_bytes <= carried_ && below_->send({&tx, 1}) == 0) break;
      taken++;
    }
    return taken;
  }

 private:
  const uint32_t& carried_;
};

class LinkStuckTest : public LinkTest {
 protected:
  static constexpr uint32_t kAll = 1 << 20, kShort = 200;
  static constexpr uint64_t kLimitMs = 2000;  // the deadline is shorter than the link allows here

  std::unique_ptr<End> linked() {
    return std::make_unique<End>([&](DriverEnv env) {
      env.clock = [](void* precise) { return static_cast<SimFabric*>(precise)->now_ns(); };
      env.clock_context = &lives_;
      return wrap_link(
          [&](const DriverEnv& inner) {
            return std::make_unique<Narrow>(
                [&](const DriverEnv& bare) { return open_sim(lives_, bare); }, inner, carried);
          },
          env);
    });
  }
  // After a first exchange.
  void SetUp() override {
    to_b = a->connect(*b);
    to_a = b->connect(*a);
    ASSERT_TRUE(a->send(to_b, "first", {}, 1));
    ASSERT_TRUE(b->send(to_a, "first", {}, 1));
    run({a.get(), b.get()}, now_ns + 10 * kMs);
    ASSERT_EQ(a->sink.dones.size(), 1u);
  }

  SimFabric lives_{{.flags = kWait,
                    .inline_max = inline_max(),
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000,
                    .tells_lives = true}};
  uint32_t carried = kAll;
  std::unique_ptr<End> a = linked(), b = linked();
  PeerId to_a = kNoPeer, to_b = kNoPeer;
  const std::string body = std::string(800, 'l');
};

TEST_P(LinkStuckTest, AFrameThatNeverArrivesEndsThePeer) {
  carried = kShort;
  ASSERT_TRUE(a->send(to_b, "long", body, 2));
  const uint64_t begin_ns = now_ns;
  run({a.get(), b.get()}, begin_ns + (kLimitMs - 200) * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  run({a.get(), b.get()}, begin_ns + (kLimitMs + 400) * kMs, kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  ASSERT_EQ(a->sink.dones.size(), 2u);
  EXPECT_EQ(a->sink.dones[1].status, Status::peer_dead);
  const std::string why = a->driver->paths()->trouble(to_b);
  EXPECT_NE(why.find(encrypted() ? "a frame of 852 bytes" : "a frame of 836 bytes"),
            std::string::npos)
      << why;
  // The peer has nothing under way, and would wait for ever.
  ASSERT_EQ(b->sink.downs.size(), 1u);
  EXPECT_EQ(b->sink.downs[0].status, Status::peer_dead);
  EXPECT_NE(b->driver->paths()->trouble(to_a), "");
}

// Acknowledgements of other frames, and frames that the peer has to send, are no progress.
TEST_P(LinkStuckTest, AlsoIfOtherFramesArrive) {
  carried = kShort;
  ASSERT_TRUE(a->send(to_b, "long", body, 2));
  const uint64_t begin_ns = now_ns;
  while (now_ns < begin_ns + (kLimitMs + 400) * kMs) {
    a->send(to_b, "short", {}, 3);
    for (int i = 0; i < 8; i++) b->send(to_a, "short", {}, 3);
    run({a.get(), b.get()}, now_ns + kMs);
  }
  EXPECT_GT(a->sink.packets.size(), 1000u);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
}

TEST_P(LinkStuckTest, ProgressStartsTheTimeAgain) {
  for (int i = 0; i < 4; i++) {
    carried = kShort;
    ASSERT_TRUE(a->send(to_b, "long", body, 2));
    run({a.get(), b.get()}, now_ns + (kLimitMs - 300) * kMs, kMs);
    carried = kAll;
    run({a.get(), b.get()}, now_ns + 200 * kMs, kMs);
  }
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(b->sink.packets.size(), 5u);
}

TEST_P(LinkStuckTest, APeerThatDoesNotPollIsWaitedFor) {
  ASSERT_TRUE(a->send(to_b, "into the void", body, 2));
  run({a.get()}, now_ns + 5 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  run({a.get(), b.get()}, now_ns + 1100 * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(b->sink.packets.size(), 2u);
}

// Its frames leave by send() alone, and tell that the other one's have not arrived.
TEST_P(LinkStuckTest, APeerThatSendsWithoutPollingIsWaitedFor) {
  for (int i = 0; i < 100; i++) {  // so that its window is wide
    while (b->send(to_a, "short", {}, 3)) continue;
    run({a.get(), b.get()}, now_ns + kMs);
  }
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  const size_t before = a->sink.packets.size();
  ASSERT_TRUE(a->send(to_b, "long", body, 2));
  for (int i = 0; i < 60; i++) {
    b->send(to_a, "short", {}, 3);
    run({a.get()}, now_ns + 90 * kMs, kMs);
  }
  EXPECT_GE(a->sink.packets.size(), before + 50) << "which is longer than the deadline";
  EXPECT_TRUE(a->sink.downs.empty());
  run({a.get(), b.get()}, now_ns + 1100 * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(a->sink.dones.size(), 2u);
}

// It computes for long, and polls for a moment now and then: only that time counts.
TEST_P(LinkStuckTest, TimeInWhichThePeerComputesDoesNotCount) {
  carried = kShort;
  ASSERT_TRUE(a->send(to_b, "long", body, 2));
  for (int i = 0; i < 10; i++) {
    run({a.get()}, now_ns + kLimitMs * kMs, kMs);
    run({a.get(), b.get()}, now_ns + 2 * kMs);
  }
  EXPECT_TRUE(a->sink.downs.empty());
  carried = kAll;
  run({a.get(), b.get()}, now_ns + 200 * kMs, kMs);
  EXPECT_EQ(b->sink.packets.size(), 2u);
}

// A peer whose frames are made by hand: it never acknowledges the second frame that it is sent.
class LinkStuckForgedTest : public LinkStuckTest {
 protected:
  void SetUp() override {
    to_a = reach(*evil, *a);
    evil_sends(frame_of({Kind::data, 0, 0, 0}, "which", key()));
    ASSERT_EQ(a->sink.packets.size(), 1u);
    to_evil = a->sink.packets[0].from;
    ASSERT_TRUE(a->send(to_evil, "first", {}, 1));
    evil_sends(old_ack);
    ASSERT_EQ(a->sink.dones.size(), 1u);
    ASSERT_TRUE(a->send(to_evil, "second", {}, 2));
    run({a.get(), evil.get()}, now_ns + kMs);
  }
  FrameKey key() const { return key_of(*evil, *a); }
  void evil_sends(const std::string& frame) {
    ASSERT_TRUE(evil->send(to_a, frame));
    run({a.get(), evil.get()}, now_ns + 100000);
  }

  std::unique_ptr<End> evil =
      std::make_unique<End>([&](const DriverEnv& env) { return open_sim(lives_, env); });
  PeerId to_evil = kNoPeer;
  uint64_t number = 2;  // of its last control frame; the hello was the first
  const std::string old_ack = frame_of({Kind::ack, 2, 1, 0}, "", key());
};

// Else who records them could end a peer that computes.
TEST_P(LinkStuckForgedTest, WhatIsForgedOrRecordedDoesNotCount) {
  const std::string last_ack = frame_of({Kind::ack, ++number, 1, 0}, "", key());
  const std::string forged = frame_of({Kind::ack, 1000, 1, 0}, "", key_of(*a, *evil));
  const uint64_t begin_ns = now_ns;
  evil_sends(last_ack);
  while (now_ns < begin_ns + 3 * kLimitMs * kMs) {
    evil_sends(last_ack);
    evil_sends(forged);
    run({a.get(), evil.get()}, now_ns + 20 * kMs, kMs);
  }
  EXPECT_GT(a->counters.link_forged, 100u);
  EXPECT_GT(a->counters.link_duplicates, 100u);
  EXPECT_TRUE(a->sink.downs.empty());
  evil_sends(frame_of({Kind::ack, ++number, 2, 0}, "", key()));
  EXPECT_EQ(a->sink.dones.size(), 2u);
}

TEST_P(LinkStuckForgedTest, WhatIsForgedOrRecordedIsNoProgress) {
  const std::string old_data = frame_of({Kind::data, 0, 1, 0}, "which", key());
  const std::string forged = frame_of({Kind::ack, 1000, 2, 0}, "", key_of(*a, *evil));
  const uint64_t begin_ns = now_ns;
  while (now_ns < begin_ns + (kLimitMs + 400) * kMs && a->sink.downs.empty()) {
    evil_sends(frame_of({Kind::ack, ++number, 1, 0}, "", key()));
    for (const auto& frame : {old_ack, old_data, forged}) evil_sends(frame);
    run({a.get(), evil.get()}, now_ns + 20 * kMs, kMs);
  }
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  EXPECT_GE(now_ns, begin_ns + (kLimitMs - 200) * kMs);
  EXPECT_EQ(a->sink.dones[1].status, Status::peer_dead);
}

// Else a recording of one process's last words would end another one's life here.
TEST_P(LinkStuckForgedTest, OnlyTheGenuineByeEndsThePeer) {
  link::Header bye{Kind::bye, number, 1, 0};
  bye.ask = true;
  evil_sends(frame_of(bye, "", key()));
  bye.seq = number + 1;
  evil_sends(frame_of(bye, "", key_of(*a, *evil)));
  bye.ask = false;
  std::string altered = frame_of(bye, "", key());
  bye.ask = true;
  const std::string genuine = frame_of(bye, "", key());
  altered.replace(0, 8, genuine, 0, 8);  // its kind, and the checksum with it
  evil_sends(altered);
  EXPECT_EQ(a->counters.link_forged, 2u);
  EXPECT_EQ(a->counters.link_duplicates, 1u);
  EXPECT_TRUE(a->sink.downs.empty());
  evil_sends(genuine);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  EXPECT_NE(a->driver->paths()->trouble(to_evil), "");
}

TORII_WITH_CIPHERS(LinkStuckTest);
TORII_WITH_CIPHERS(LinkStuckForgedTest);

}  // namespace
}  // namespace torii::test
