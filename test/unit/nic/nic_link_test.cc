// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Links: rate, credit, bit errors, resends, cuts.
#include <gtest/gtest.h>

#include <cmath>

#include "nic_kit.h"

namespace torii::nic {
namespace {

struct Wire {
  explicit Wire(const LinkOptions& options, bool cut_through = false)
      : link(engine, options, "link") {
    link.connect(&source, 0, &target, 0, cut_through);
  }
  // Sends that many packets and runs to the end.
  void send(uint32_t count, size_t bytes = 128) {
    for (uint32_t i = 0; i < count; i++) source.queue.push_back(test::nic_packet(bytes, i));
    source.start(link);
    while (engine.next_ns() != ~uint64_t{0}) engine.step();
  }
  // All packets from the first on, once each, in order and unchanged.
  void expect_whole(uint32_t count, size_t bytes = 128) {
    ASSERT_EQ(target.packets.size(), count);
    for (uint32_t i = 0; i < count; i++)
      ASSERT_EQ(target.packets[i].bytes, test::nic_packet(bytes, i).bytes) << i;
  }

  Engine engine{1};
  test::NicSource source;
  test::NicTarget target{engine};
  Link link;
};

TEST(NicLink, CarriesItsRate) {
  for (const uint64_t window : {0, 8}) {
    Wire wire({.rate = 1e9, .delay_ns = 100, .overhead = 4, .buffers = 8, .window = window});
    wire.send(100);
    wire.expect_whole(100);
    EXPECT_EQ(wire.link.transfer_ns(128), 1056u);
    EXPECT_EQ(wire.target.times.front(), 1056u + 100);
    EXPECT_EQ(wire.target.times.back(), 100 * 1056u + 100) << "window " << window;
    EXPECT_EQ(wire.link.counts().busy_ns, 100 * 1056u);
  }
}

TEST(NicLink, OneBufferTakesAPacketARoundTrip) {
  Wire wire({.rate = 1e9, .delay_ns = 500, .overhead = 4, .buffers = 1, .window = 8});
  wire.target.hold_ns = 200;
  wire.send(50);
  wire.expect_whole(50);
  EXPECT_EQ(wire.target.times.back(), 49 * (1056u + 500 + 200 + 500) + 1056 + 500);
}

TEST(NicLink, AWindowIsARoundTripsWorth) {
  // Acknowledged 2 * 2000 ns behind its tail: two of 528 ns at a time.
  Wire wire({.rate = 2e9, .delay_ns = 2000, .overhead = 4, .buffers = 100, .window = 2});
  wire.send(40);
  wire.expect_whole(40);
  EXPECT_EQ(wire.target.times.back(), 19 * (528u + 4000) + 2 * 528 + 2000);
}

TEST(NicLink, HeadsArriveBeforeTails) {
  Wire wire({.rate = 1e9, .delay_ns = 100, .overhead = 4, .head = 16, .buffers = 4}, true);
  wire.send(1);
  EXPECT_EQ(wire.target.times.front(), 160u + 100);
  EXPECT_EQ(wire.target.packets.front().tail_ns, 1056u + 100);
}

TEST(NicLink, BitErrorsAreHiddenByResends) {
  constexpr double kBer = 2e-5;
  constexpr uint32_t kCount = 5000;
  Wire wire({.rate = 1e9, .delay_ns = 100, .overhead = 4, .buffers = 4, .window = 3});
  wire.link.add_fault({.fault = Fault::ber, .rate = kBer});
  wire.send(kCount);
  wire.expect_whole(kCount);
  const Link::Counts& counts = wire.link.counts();
  const double bad = 1 - std::pow(1 - kBer, 1024);  // of a packet of 128 bytes
  const double expected = kCount * bad / (1 - bad);
  EXPECT_NEAR(static_cast<double>(counts.bad_crc), expected, 4 * std::sqrt(expected));
  EXPECT_GE(counts.resends, counts.bad_crc) << "what follows a bad one is sent again, too";
  EXPECT_EQ(counts.packets, kCount + counts.resends);
  EXPECT_FALSE(wire.link.down());
}

TEST(NicLink, WithoutAWindowBadPacketsArriveAsTheyAre) {
  Wire wire({.rate = 1e9, .buffers = 4});
  wire.link.add_fault({.fault = Fault::ber, .rate = 1e-4});
  wire.send(2000);
  ASSERT_EQ(wire.target.packets.size(), 2000u);
  int bad = 0;
  for (uint32_t i = 0; i < 2000; i++) {
    const bool changed = wire.target.packets[i].bytes != test::nic_packet(128, i).bytes;
    EXPECT_EQ(nic::intact(wire.target.packets[i]), !changed) << i;
    bad += changed;
  }
  const double expected = 2000 * (1 - std::pow(1 - 1e-4, 1024));
  EXPECT_NEAR(bad, expected, 4 * std::sqrt(expected));
}

TEST(NicLink, AShortCutIsHidden) {
  Wire wire({.rate = 1e9, .buffers = 4, .window = 4, .timeout_ns = 5000, .tries = 8});
  Link back(wire.engine, {}, "back");
  wire.link.add_fault({.fault = Fault::cut, .nth = 20, .for_ns = 30000}, &back);
  wire.send(100);
  wire.expect_whole(100);
  EXPECT_GT(wire.link.counts().lost, 0u);
  EXPECT_EQ(wire.source.downs, 0);
}

TEST(NicLink, ALongCutEndsTheLinkAndGivesBackWhatHasNotArrived) {
  Wire wire({.rate = 1e9, .buffers = 4, .window = 4, .timeout_ns = 5000, .tries = 3});
  Link back(wire.engine, {}, "back");
  wire.link.add_fault({.fault = Fault::cut, .nth = 20}, &back);
  wire.send(100);
  EXPECT_EQ(wire.source.downs, 1);
  EXPECT_TRUE(wire.link.down());
  const size_t arrived = wire.target.packets.size();
  wire.expect_whole(static_cast<uint32_t>(arrived));
  EXPECT_EQ(arrived, 19u);
  // The acknowledgement of the one before was lost, too; that one is not given back.
  ASSERT_EQ(wire.source.unsent.size(), 3u);
  EXPECT_EQ(wire.source.unsent[0].bytes, test::nic_packet(128, 19).bytes) << "the oldest first";
  EXPECT_FALSE(wire.link.ready());
  wire.source.queue.clear();
  wire.link.restore();
  wire.send(3);
  ASSERT_EQ(wire.target.packets.size(), arrived + 3);
  EXPECT_EQ(wire.target.packets.back().bytes, test::nic_packet(128, 2).bytes);
}

TEST(NicLink, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed) {
    Wire wire({.rate = 1e9, .buffers = 4, .window = 3});
    wire.engine.random = Random(seed);
    wire.link.add_fault({.fault = Fault::ber, .rate = 1e-5});
    wire.send(1000);
    return wire.target.times;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(NicLink, TheCrcIsThatOfEthernet) {
  const char text[] = "123456789";
  EXPECT_EQ(nic::crc32(std::as_bytes(std::span(text, 9))), 0xcbf43926u);
}

}  // namespace
}  // namespace torii::nic
