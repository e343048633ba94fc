// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// When the link acknowledges, what it does with lent memory until then, and sleeping meanwhile.
#include <poll.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "drivers/decorator.h"
#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using test::End;
using test::kDeadlineMs;
using test::kMs;
using LinkAckTest = test::LinkTest;

// Hands up together what one poll() of the driver below brings, some of it spoiled.
class Together final : public Decorator {
 public:
  Together(const OpenBelow& open_below, const DriverEnv& env) : Decorator(env) {
    open(open_below, env);
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    const unsigned count = below_->poll(now_ns, budget);
    const std::vector<std::pair<PeerId, std::string>> kept = std::exchange(kept_, {});
    std::vector<Packet> all;
    for (const auto& [from, bytes] : kept) all.push_back({from, std::as_bytes(std::span(bytes))});
    upper_.packets(all);
    longest = std::max(longest, all.size());
    return count;
  }
  // In frame `number`, the byte at `at`; once.
  std::map<size_t, size_t> spoil;
  size_t longest = 0;

 private:
  void packet(PeerId from, std::span<const std::byte> frame) override {
    kept_.push_back({from, {reinterpret_cast<const char*>(frame.data()), frame.size()}});
    const auto it = spoil.find(count_++);
    if (it != spoil.end()) kept_.back().second.at(it->second) ^= 1;
  }

  std::vector<std::pair<PeerId, std::string>> kept_;
  size_t count_ = 0;
};

// Tags of frames that come together are checked together: each is still judged by itself.
TEST_P(LinkAckTest, FramesThatArriveTogether) {
  constexpr size_t kFrames = 60, kTagAt = link::kHeaderBytes - 8, kSeqAt = 8;
  Together* together = nullptr;
  const auto a = linked();
  const End b([&](const DriverEnv& env) {
    return wrap_link(
        [&](const DriverEnv& inner) {
          auto below = std::make_unique<Together>(
              [&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner);
          together = below.get();
          return below;
        },
        env);
  });
  // A forged tag, a changed header, a changed payload, no frame of a link at all.
  together->spoil = {{5, kTagAt}, {11, kSeqAt}, {12, link::kHeaderBytes}, {19, 0}};
  const PeerId to_b = a->connect(b);
  for (size_t i = 0; i < kFrames; i++)
    ASSERT_TRUE(a->send(to_b, "frame " + std::to_string(i), {}, i + 1));
  for (; now_ns < 100 * kMs; now_ns += kMs / 10) {
    a->driver->poll(now_ns, 1000);
    b.driver->poll(now_ns, 1000);
  }
  ASSERT_EQ(b.sink.packets.size(), kFrames);
  for (size_t i = 0; i < kFrames; i++)
    EXPECT_EQ(b.sink.packets[i].bytes, "frame " + std::to_string(i));
  EXPECT_GT(together->longest, kSipLanes);
  // Damage of what is encrypted looks like a forgery.
  EXPECT_EQ(b.counters.link_forged, encrypted() ? 3u : 1u);
  EXPECT_EQ(b.counters.link_corrupt, encrypted() ? 1u : 3u);
  EXPECT_EQ(a->counters.link_retransmits, 4u);
}

// A peer that answers every frame acknowledges with the answers: no frame goes for that alone.
// That holds after timeouts, too, which have left room for hardly more than one frame.
TEST_P(LinkAckTest, AnAnswerCarriesTheAcknowledgement) {
  const auto a = linked(), b = linked();
  const PeerId to_b = a->connect(*b), to_a = b->connect(*a);
  const auto acks_of_answers = [&] {
    unsigned alone = 0;
    for (int i = 0; i < 100; i++) {
      for (auto [from, at, to] : {std::tuple{a.get(), b.get(), to_b}, {b.get(), a.get(), to_a}}) {
        EXPECT_TRUE(from->send(to, "x"));
        const unsigned events = at->driver->poll(now_ns += 2000, 100);
        if (i >= 20) alone += events - 1;
      }
    }
    return alone;
  };
  EXPECT_EQ(acks_of_answers(), 0u);
  EXPECT_EQ(a->sink.packets.size(), 100u);
  EXPECT_EQ(a->counters.link_retransmits, 0u);
  for (auto [from, to] : {std::pair{a.get(), to_b}, {b.get(), to_a}}) {
    ASSERT_TRUE(from->send(to, "x"));
    for (int i = 0; i < 3; i++) from->driver->poll(now_ns += kDeadlineMs / 8 * kMs, 100);
    EXPECT_GE(from->counters.link_retransmits, 2u);
    for (int i = 0; i < 10; i++, now_ns += kMs)
      for (End* end : {a.get(), b.get()}) end->driver->poll(now_ns, 100);
  }
  EXPECT_EQ(acks_of_answers(), 0u);
  EXPECT_EQ(a->sink.packets.size(), 201u);
}

// The clock of poll() may stand still for milliseconds and then jump, while a round trip takes
// microseconds: that is no timeout, and a loss is still repaired after the timeout.
TEST_P(LinkAckTest, TimeThatPollIsToldMayBeCoarse) {
  FaultPlan plan;
  const auto open = [&](const DriverEnv& env) {
    DriverEnv with_clock = env;
    with_clock.clock = [](void* precise) { return static_cast<SimFabric*>(precise)->now_ns(); };
    with_clock.clock_context = &fabric;
    return wrap_link(
        [&](const DriverEnv& inner) {
          return wrap_fault([&](const DriverEnv& bare) { return open_sim(fabric, bare); }, inner,
                            plan);
        },
        with_clock);
  };
  const auto a = std::make_unique<End>(open), b = std::make_unique<End>(open);
  std::string why;
  ASSERT_EQ(parse_fault_plan("drop#2000", &plan, &why), Status::ok) << why;
  const auto unlucky = std::make_unique<End>(open);
  fabric.advance(kMs);
  const auto step = [&] {
    fabric.advance(10000);
    for (const End* end : {a.get(), b.get(), unlucky.get()})
      end->driver->poll(fabric.now_ns() / (3 * kMs) * 3 * kMs, 100);
  };
  const PeerId to_b = a->connect(*b), there = unlucky->connect(*b);
  for (int i = 0; i < 3000; i++, step()) ASSERT_TRUE(a->send(to_b, "x"));
  EXPECT_EQ(a->counters.link_retransmits, 0u);
  for (int i = 0; i < 2000; i++, step()) ASSERT_TRUE(unlucky->send(there, "y"));
  for (int i = 0; i < 100; i++) step();
  EXPECT_EQ(unlucky->counters.link_retransmits, 1u);
  EXPECT_EQ(b->sink.packets.size(), 5000u);
}

// A peer with nothing to answer acknowledges after a while; one that was late with that does it at
// once from then on.
TEST_P(LinkAckTest, AnAcknowledgementWaitsForCompanyNotForLong) {
  const auto a = linked(), b = linked();
  const PeerId to_b = a->connect(*b), to_a = b->connect(*a);
  for (int i = 0; i < 20; i++) {
    ASSERT_TRUE(a->send(to_b, "x"));
    b->driver->poll(now_ns += 2000, 100);
    ASSERT_TRUE(b->send(to_a, "y"));
    a->driver->poll(now_ns += 2000, 100);
  }
  uint64_t cookie = 0;
  const auto acknowledged_after = [&](uint64_t step_ns) {
    EXPECT_TRUE(a->send(to_b, "x", {}, ++cookie));
    const uint64_t begin_ns = now_ns;
    while (a->sink.dones.size() < cookie && now_ns < begin_ns + 10 * kMs) {
      b->driver->poll(now_ns += step_ns, 100);
      a->driver->poll(now_ns += 2000, 100);
    }
    return now_ns - begin_ns;
  };
  for (int i = 0; i < 20; i++) acknowledged_after(2000);
  const uint64_t usual_ns = acknowledged_after(2000);
  EXPECT_GT(usual_ns, 50000u);
  EXPECT_LT(usual_ns, 200000u);
  EXPECT_EQ(a->counters.link_retransmits, 0u);
  ASSERT_TRUE(a->send(to_b, "x", {}, ++cookie));
  b->driver->poll(now_ns += 2000, 100);
  now_ns += 3 * kMs;  // b computes
  b->driver->poll(now_ns, 100);
  a->driver->poll(now_ns += 2000, 100);
  for (int i = 0; i < 10; i++) EXPECT_LT(acknowledged_after(2000), 10000u);
}

// Sends the body behind "head", with cookie 7; it stays with the caller.
bool lend(End& from, PeerId to, std::string* body, bool awaited = false) {
  const iovec piece{body->data(), body->size()};
  Tx tx;
  tx.peer = to;
  tx.head = "head";
  tx.head_bytes = 4;
  tx.pieces = &piece;
  tx.piece_count = 1;
  tx.body_bytes = uint32_t(body->size());
  tx.cookie = 7;
  tx.lent = true;
  tx.awaited = awaited;
  return from.driver->send({&tx, 1}) == 1;
}

// Over a driver that reads bodies before send() returns.
class LinkLendTest : public LinkAckTest {
 protected:
  std::unique_ptr<End> lender(const std::string& faults = "") { return linked(copying_, faults); }

  SimFabric copying_{{.inline_max = 4096, .latency_min_ns = 1000, .latency_max_ns = 1000}};
};

// The last words of a peer may be in the frame that acknowledges.
TEST_P(LinkLendTest, DoneComesBeforeThePeersNextWords) {
  const auto a = lender(), b = lender();
  const PeerId to_b = meet(*a, *b), to_a = b->connect(*a);
  std::string body(1000, 'a');
  ASSERT_TRUE(lend(*a, to_b, &body));
  size_t dones_before = 0;
  a->sink.on_packet = [&](PeerId, const std::string&) { dones_before = a->sink.dones.size(); };
  b->sink.on_packet = [&](PeerId, const std::string&) { b->send(to_a, "bye"); };
  run({b.get()}, now_ns + kMs);
  ASSERT_EQ(b->sink.packets.size(), 1u);
  run({a.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  EXPECT_EQ(dones_before, 1u);
}

// A frame that came out of order is not the receiver's before it has all that was sent before.
TEST_P(LinkLendTest, DoneWaitsForFramesThatWereSentBefore) {
  const auto a = lender("drop#2"), b = lender();
  const PeerId to_b = a->connect(*b);
  std::string body(1000, 'a');
  ASSERT_TRUE(a->send(to_b, "first"));
  ASSERT_TRUE(lend(*a, to_b, &body));
  for (int i = 0; i < 1000 && a->sink.dones.empty(); i++) {
    EXPECT_FALSE(a->driver->paths()->delivered());
    run({b.get(), a.get()}, now_ns + 10000, 10000);
    ASSERT_TRUE(a->sink.dones.empty() || b->sink.packets.size() == 2);
  }
  EXPECT_EQ(a->sink.dones.size(), 1u);
  EXPECT_TRUE(a->driver->paths()->delivered());
}

// Also behind it there may be frames that nobody waits for.
TEST_P(LinkLendTest, WhatIsAwaitedIsAnsweredAtOnce) {
  const auto a = lender(), b = lender();
  const PeerId to_b = a->connect(*b);
  std::string bodies[2] = {std::string(1000, 'a'), std::string(1000, 'b')};
  for (int i = 0; i < 200; i++) {  // no longer a new pair
    ASSERT_TRUE(a->send(to_b, "x"));
    run({b.get(), a.get()}, now_ns + kMs);
  }
  uint64_t took[2] = {};
  for (const bool awaited : {true, false}) {
    constexpr size_t kBefore = 4;
    const size_t dones = a->sink.dones.size();
    for (size_t i = 0; i < kBefore; i++) ASSERT_TRUE(lend(*a, to_b, &bodies[1]));
    ASSERT_TRUE(lend(*a, to_b, &bodies[0], awaited));
    ASSERT_TRUE(lend(*a, to_b, &bodies[1]));
    const uint64_t begin = now_ns;
    while (a->sink.dones.size() <= dones + kBefore) run({a.get(), b.get()}, now_ns + 2000, 2000);
    took[awaited] = now_ns - begin;
    run({a.get(), b.get()}, now_ns + kMs);
  }
  EXPECT_LT(took[true], 50000u);
  EXPECT_GT(took[false], 100000u);
}

// A body that was lent is the lender's again after done().
TEST_P(LinkAckTest, LentBodiesAreReadUntilTheyAreAcknowledged) {
  SimFabric copying({.inline_max = 4096, .latency_min_ns = 1000, .latency_max_ns = 1000});
  const auto open = [&](const char* faults) {
    return [&copying, faults](const DriverEnv& env) {
      FaultPlan plan;
      std::string why;
      EXPECT_EQ(parse_fault_plan(faults, &plan, &why), Status::ok);
      return wrap_link(
          [&](const DriverEnv& inner) {
            return wrap_fault([&](const DriverEnv& bare) { return open_sim(copying, bare); }, inner,
                              plan);
          },
          env);
    };
  };
  End a(open("drop#2")), b(open(""));
  const uint32_t least = a.driver->caps().lend_min;
  ASSERT_GT(least, 0u);
  std::string body(least, 'a');
  const PeerId to_b = a.connect(b);
  ASSERT_TRUE(lend(a, to_b, &body));
  run({&a, &b}, now_ns + kMs);
  EXPECT_TRUE(a.sink.dones.empty());
  run({&a, &b}, now_ns + 20 * kMs);
  ASSERT_EQ(a.sink.dones.size(), 1u);
  body.assign(least, 'b');
  run({&a, &b}, now_ns + 20 * kMs);
  ASSERT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(b.sink.packets[0].bytes, "head" + std::string(least, 'a'));
  // A peer dies with it.
  ASSERT_TRUE(lend(a, to_b, &body));
  run({&a}, now_ns + 2 * kDeadlineMs * kMs);
  ASSERT_EQ(a.sink.dones.size(), 2u);
  EXPECT_EQ(a.sink.dones[1].status, Status::peer_dead);
}

// Exported memory changes when it pleases: then what is there now arrives, and arrives whole.
TEST_P(LinkAckTest, LentBodiesMayChangeMeanwhile) {
  SimFabric copying({.inline_max = 4096, .latency_min_ns = 1000, .latency_max_ns = 1000});
  End a([&](const DriverEnv& env) {
    FaultPlan plan;
    std::string why;
    EXPECT_EQ(parse_fault_plan("drop#2", &plan, &why), Status::ok);
    return wrap_link(
        [&](const DriverEnv& inner) {
          return wrap_fault([&](const DriverEnv& bare) { return open_sim(copying, bare); }, inner,
                            plan);
        },
        env);
  });
  End b([&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return open_sim(copying, inner); }, env);
  });
  std::string body(1000, 'a');
  ASSERT_TRUE(lend(a, a.connect(b), &body));
  body.assign(body.size(), 'b');
  run({&a, &b}, now_ns + 20 * kMs);
  ASSERT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(b.sink.packets[0].bytes, "head" + body);
  EXPECT_EQ(b.counters.link_corrupt, 0u);
  EXPECT_EQ(a.counters.link_retransmits, 1u);
}

// The first byte of some memory changes whenever frames are about to be read.
class Restless final : public Decorator {
 public:
  Restless(const OpenBelow& open_below, const DriverEnv& env, char* memory)
      : Decorator(env), memory_(memory) {
    EXPECT_TRUE(open(open_below, env));
  }
  size_t send(std::span<const Tx> batch) override {
    ++*memory_;
    return below_->send(batch);
  }

 private:
  char* const memory_;
};

TEST_P(LinkAckTest, LentBodiesThatChangeAllTheTimeArrive) {
  SimFabric copying({.inline_max = 4096, .latency_min_ns = 1000, .latency_max_ns = 1000});
  std::string body(1000, 'a');
  End a([&](const DriverEnv& env) {
    return wrap_link(
        [&](const DriverEnv& inner) {
          return std::make_unique<Restless>(
              [&](const DriverEnv& bare) { return open_sim(copying, bare); }, inner, body.data());
        },
        env);
  });
  End b([&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return open_sim(copying, inner); }, env);
  });
  ASSERT_TRUE(lend(a, a.connect(b), &body));
  run({&a, &b}, now_ns + 20 * kMs);
  ASSERT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(b.sink.packets[0].bytes.substr(5), std::string(999, 'a'));
  // A body that is encrypted was read once.
  EXPECT_EQ(b.counters.link_corrupt, encrypted() ? 0u : 1u);
  EXPECT_EQ(a.counters.link_retransmits, encrypted() ? 0u : 1u);
  ASSERT_EQ(a.sink.dones.size(), 1u);
}

// Notes how many frames are offered at a time.
class Batches final : public Decorator {
 public:
  Batches(const OpenBelow& open_below, const DriverEnv& env, std::vector<size_t>* sizes)
      : Decorator(env), sizes_(sizes) {
    EXPECT_TRUE(open(open_below, env));
  }
  size_t send(std::span<const Tx> batch) override {
    sizes_->push_back(batch.size());
    return below_->send(batch);
  }

 private:
  void packet(PeerId from, std::span<const std::byte> frame) override {
    upper_.packet(from, frame);
  }
  void done(uint64_t cookie, Status status) override { upper_.done(cookie, status); }
  void peer_down(PeerId peer, Status status) override { upper_.peer_down(peer, status); }

  std::vector<size_t>* const sizes_;
};

// Frames of one call leave with it, if little is under way.
TEST_P(LinkAckTest, WhatComesTogetherLeavesTogether) {
  SimFabric deep({.flags = kReliable, .inline_max = inline_max(), .depth = 1000});
  const OpenBelow bare = [&](const DriverEnv& env) { return open_sim(deep, env); };
  std::vector<size_t> sizes;
  End a([&](const DriverEnv& env) {
    return wrap_link(
        [&](const DriverEnv& inner) { return std::make_unique<Batches>(bare, inner, &sizes); },
        env);
  });
  End b([&](const DriverEnv& env) { return wrap_link(bare, env); });
  const PeerId to_b = meet(a, b);
  sizes.clear();
  std::vector<Tx> batch(8);
  ASSERT_GE(a.driver->caps().batch_max, batch.size());
  for (Tx& tx : batch) {
    tx.peer = to_b;
    tx.head = "head";
    tx.head_bytes = 4;
    tx.cookie = 1;
  }
  ASSERT_EQ(a.driver->send(batch), batch.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{batch.size()}));
  sizes.clear();
  ASSERT_EQ(a.driver->send({batch.data(), 2}), 2u);
  EXPECT_TRUE(sizes.empty()) << "much is under way: the next poll sends them with others";
  run({&a, &b}, now_ns + 20 * kMs);
  EXPECT_EQ(b.sink.packets.size(), batch.size() + 2);
}

// A driver sends so many frames as it advises for the price of few: a window that is always full
// opens in such steps, although the peer acknowledges in others.
TEST_P(LinkAckTest, AWideWindowIsUsedInWholeBatches) {
  SimFabric deep({.flags = kReliable,
                  .inline_max = inline_max(),
                  .latency_min_ns = 1000,
                  .latency_max_ns = 1000,
                  .depth = 1000});
  const OpenBelow bare = [&](const DriverEnv& env) { return open_sim(deep, env); };
  std::vector<size_t> sizes;
  End a([&](const DriverEnv& env) {
    return wrap_link(
        [&](const DriverEnv& inner) { return std::make_unique<Batches>(bare, inner, &sizes); },
        env);
  });
  End b([&](const DriverEnv& env) { return wrap_link(bare, env); });
  const PeerId to_b = a.connect(b);
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; i++) {
      while (a.send(to_b, "x", {}, 1)) continue;
      a.driver->poll(now_ns += 2000, 1000);
      b.driver->poll(now_ns += 2000, 37);  // some at a time
    }
  };
  rounds(1000);
  sizes.clear();
  rounds(300);
  EXPECT_GE(sizes.size(), 100u);
  for (const size_t size : sizes) EXPECT_EQ(size, a.driver->caps().batch_max);
  EXPECT_EQ(a.counters.link_retransmits, 0u);
}

// A process asleep on the driver hears an answer when it comes: such a round trip is measured.
TEST_P(LinkAckTest, TimeAsleepIsPartOfTheRoundTrip) {
  constexpr uint64_t kWay = 20 * kMs;
  SimFabric far(
      {.flags = kWait, .inline_max = inline_max(), .latency_min_ns = kWay, .latency_max_ns = kWay});
  const auto a = linked(far, "drop#3"), b = linked(far, "");
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  b->driver->poll(now_ns += kWay, 100);  // who a is
  a->driver->poll(now_ns += kWay, 100);
  int fd = -1;
  ASSERT_EQ(a->driver->arm(&fd), Status::ok);
  b->driver->poll(now_ns += kWay, 100);
  a->driver->poll(now_ns += kWay, 100);
  ASSERT_EQ(a->sink.dones.size(), 1u);
  ASSERT_TRUE(a->send(peer, "y"));
  run({a.get(), b.get()}, now_ns + 2 * kWay);
  EXPECT_EQ(a->counters.link_retransmits, 0u) << "no timeout is shorter than a round trip";
  run({a.get(), b.get()}, now_ns + 4 * kWay);
  EXPECT_EQ(b->sink.packets.size(), 2u);
}

// A sleeper is woken when a frame has to go again, and has acknowledged what it got.
TEST_P(LinkAckTest, SleepsWhileAnAnswerIsOutstanding) {
  const auto a = linked(), b = linked();
  ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
  b->driver->poll(now_ns += 2000, 100);  // who a is
  a->driver->poll(now_ns += 2000, 100);
  int fd = -1;
  ASSERT_EQ(a->driver->arm(&fd), Status::ok);
  pollfd asleep{fd, POLLIN, 0};
  EXPECT_EQ(poll(&asleep, 1, 0), 0);
  EXPECT_EQ(poll(&asleep, 1, 1000), 1) << "the timeout is 5 ms";
  a->driver->poll(now_ns += 6 * kMs, 100);
  EXPECT_EQ(a->counters.link_retransmits, 1u);
  b->driver->poll(now_ns += 2000, 100);
  ASSERT_EQ(b->driver->arm(&fd), Status::ok);
  a->driver->poll(now_ns += 2000, 100);
  EXPECT_EQ(a->sink.dones.size(), 1u);
  ASSERT_EQ(a->driver->arm(&fd), Status::ok);
  asleep.fd = fd;
  EXPECT_EQ(poll(&asleep, 1, 10), 0) << "nothing is outstanding";
}

TORII_WITH_CIPHERS(LinkAckTest);
TORII_WITH_CIPHERS(LinkLendTest);

}  // namespace
}  // namespace torii
