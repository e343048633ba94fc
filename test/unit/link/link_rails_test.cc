// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link over a driver with several ways to a peer, each with a speed of its own.
#include <deque>

#include "core/link/speed.h"
#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using test::End;
using test::kMs;

struct Way {
  uint64_t frame_ns = 10000;  // that a frame takes of it
  bool cut = false;           // takes frames and loses them
  bool answers = true;        // what rails() says
  uint64_t free_ns = 0;
  unsigned taken = 0;
};

// Ways are queues before a simulated network that is quick.
class Railed final : public Decorator, private Paths {
 public:
  Railed(const DriverEnv& env, std::array<Way, 2>& ways) : Decorator(env), ways_(ways) {}
  bool start(const OpenBelow& below, const DriverEnv& env) { return open(below, env); }

  Paths* paths() override { return this; }
  uint32_t rails(PeerId) const override { return ways_[0].answers | ways_[1].answers << 1; }
  uint32_t long_max(PeerId) const override { return 0; }
  size_t send(std::span<const Tx> batch) override {
    for (const Tx& tx : batch) {
      const bool named = tx.rail < ways_.size() && ways_[tx.rail].answers;
      // A frame that arrives comes by a way that is not cut.
      const bool second = tx.rail == kHeardRail ? ways_[0].cut : !ways_[0].answers;
      Way& way = ways_[named ? tx.rail : second];
      way.taken += tx.head_bytes + tx.body_bytes > link::kHeaderBytes + link::kSackMoreBytes;
      if (way.cut) continue;
      way.free_ns = std::max(way.free_ns, now_ns_) + way.frame_ns;
      Held held{tx.peer, way.free_ns, {}};
      held.bytes.assign(static_cast<const char*>(tx.head), tx.head_bytes);
      for (const iovec& piece : std::span(tx.pieces, tx.piece_count))
        held.bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      held_.push_back(std::move(held));
    }
    return batch.size();
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    now_ns_ = now_ns;
    std::erase_if(held_, [&](const Held& one) {
      if (one.due_ns > now_ns) return false;
      Tx tx;
      tx.peer = one.peer;
      tx.head = one.bytes.data();
      tx.head_bytes = static_cast<uint32_t>(std::min(one.bytes.size(), kHeadMax));
      const iovec rest{const_cast<char*>(one.bytes.data()) + tx.head_bytes,
                       one.bytes.size() - tx.head_bytes};
      tx.pieces = &rest;
      tx.piece_count = rest.iov_len ? 1 : 0;
      tx.body_bytes = static_cast<uint32_t>(rest.iov_len);
      return below_->send({&tx, 1}) == 1;
    });
    return below_->poll(now_ns, budget);
  }

 private:
  struct Held {
    PeerId peer;
    uint64_t due_ns;
    std::string bytes;
  };
  std::array<Way, 2>& ways_;
  std::deque<Held> held_;
  uint64_t now_ns_ = 0;
};

class LinkRailsTest : public test::LinkTest {
 protected:
  std::unique_ptr<End> railed(std::array<Way, 2>& ways) {
    return std::make_unique<End>([&](const DriverEnv& env) {
      return wrap_link(
          [&](const DriverEnv& inner) -> std::unique_ptr<Driver> {
            auto driver = std::make_unique<Railed>(inner, ways);
            const auto below = [&](const DriverEnv& bare) { return open_sim(copying, bare); };
            return driver->start(below, inner) ? std::move(driver) : nullptr;
          },
          env);
    });
  }
  void SetUp() override {
    a = railed(ways_a);
    b = railed(ways_b);
    to_b = a->connect(*b);
  }
  // Sends frames with their numbers until they have arrived; returns how long that took.
  uint64_t transfer(unsigned frames) {
    const uint64_t begin_ns = now_ns, end = received + frames;
    b->sink.packets.clear();
    while (received < end && now_ns < begin_ns + 20000 * kMs) {
      while (sent < end && a->send(to_b, std::to_string(sent) + std::string(100, ' '), {}, 1))
        sent++;
      run({a.get(), b.get()}, now_ns + 4000, 5000);
      for (const auto& packet : b->sink.packets) {
        EXPECT_EQ(std::stoul(packet.bytes), received);
        received++;
      }
      b->sink.packets.clear();
    }
    EXPECT_EQ(received, end);
    return now_ns - begin_ns;
  }

  SimFabric copying{{.flags = kWait, .inline_max = 4096, .depth = 4096}};
  std::array<Way, 2> ways_a, ways_b;
  std::unique_ptr<End> a, b;
  PeerId to_b = kNoPeer;
  unsigned sent = 0, received = 0;
};

TEST(LinkSpeedTest, AnOldMeasurementGivesWayToANewOne) {
  link::Speed speed;
  EXPECT_FALSE(speed.known());
  speed.measured(0, 16 * kMs, 16);
  EXPECT_TRUE(speed.fresh(500 * kMs)) << "a measurement that takes long holds for long";
  EXPECT_FALSE(speed.fresh(520 * kMs));
  EXPECT_TRUE(speed.known()) << "the old one is better than none";
  speed.measured(520 * kMs, kMs, 16);
  EXPECT_LT(speed.end_ns(16), 2.1f * kMs);
  speed.measured(525 * kMs, 16 * kMs, 16);
  EXPECT_LT(speed.end_ns(16), 4.1f * kMs) << "one of many";
}

TEST_P(LinkRailsTest, LongTransfersUseAllRailsAsFastAsTheyAre) {
  ways_a[1].frame_ns = 30000;
  transfer(500);
  ways_a[0].taken = ways_a[1].taken = 0;
  const uint64_t ns = transfer(4000);
  const double share = ways_a[1].taken / 4000.0;
  EXPECT_GT(share, 0.15);
  EXPECT_LT(share, 0.35) << "a quarter, if one is three times as fast";
  EXPECT_LT(ns, 36 * kMs) << "40 by the faster one alone, 30 by both";
  EXPECT_LT(a->counters.link_retransmits, 100u) << "frames by different rails overtake nobody";
}

TEST_P(LinkRailsTest, SmallMessagesTakeTheFastestRail) {
  ways_a[0].frame_ns = 200000;
  transfer(1000);  // by both, so both are known
  ways_a[0].taken = ways_a[1].taken = 0;
  for (int i = 0; i < 100; i++) {
    transfer(1);
    run({a.get(), b.get()}, now_ns + kMs);
  }
  EXPECT_EQ(ways_a[0].taken, 0u);
  EXPECT_EQ(ways_a[1].taken, 100u);
}

// The cable is cut; for a while the driver has not noticed.
TEST_P(LinkRailsTest, ARailThatGoesSilentIsRoutedAround) {
  transfer(2000);
  ways_a[0].cut = ways_b[0].cut = true;
  EXPECT_LT(transfer(2000), 200 * kMs);
  ways_a[0].answers = ways_b[0].answers = false;
  const uint64_t again = a->counters.link_retransmits;
  ways_a[0].taken = 0;
  EXPECT_LT(transfer(2000), 40 * kMs);
  EXPECT_EQ(ways_a[0].taken, 0u);
  EXPECT_LT(a->counters.link_retransmits - again, 300u) << "what was under way";
  EXPECT_TRUE(a->sink.downs.empty());
  ways_a[0].cut = ways_b[0].cut = false;
  ways_a[0].answers = ways_b[0].answers = true;
  transfer(2000);
  EXPECT_GT(ways_a[0].taken, 500u) << "it is used again";
}

// An acknowledgement goes back by the way that works.
TEST_P(LinkRailsTest, SmallMessagesGetThroughWhenTheFirstRailIsCut) {
  transfer(10);
  ways_a[0].cut = true;
  for (int i = 0; i < 20; i++) EXPECT_LT(transfer(1), 20 * kMs);
}

TEST_P(LinkRailsTest, ABrokenRailThatTheDriverNamesIsTriedSeldom) {
  transfer(2000);
  ways_a[1].cut = true;
  transfer(2000);
  ways_a[1].taken = 0;
  transfer(20000);
  EXPECT_LT(ways_a[1].taken, 20000u / 10);
}

TORII_WITH_CIPHERS(LinkRailsTest);

}  // namespace
}  // namespace torii
