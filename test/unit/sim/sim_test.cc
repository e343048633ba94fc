// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Cases that the conformance kit cannot ask of every driver: the virtual clock, repeatability,
// back-pressure at a known depth, sudden death, and endpoints that were never opened.
#include "drivers/sim/sim.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "recorder.h"

namespace torii {
namespace {

using test::End;

End::Open on(SimFabric& fabric) {
  return [&fabric](const DriverEnv& env) { return open_sim(fabric, env); };
}

bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

// Three senders, one receiver; what arrives, in order.
std::string traffic(uint64_t seed, uint32_t flags) {
  SimFabric fabric({.seed = seed, .flags = flags, .latency_min_ns = 10, .latency_max_ns = 500});
  End target(on(fabric));
  std::vector<std::unique_ptr<End>> senders;
  for (int i = 0; i < 3; i++) senders.push_back(std::make_unique<End>(on(fabric)));
  for (int n = 0; n < 20; n++) {
    for (int i = 0; i < 3; i++) {
      End& s = *senders[static_cast<size_t>(i)];
      EXPECT_TRUE(s.send(s.connect(target), {static_cast<char>('a' + i), static_cast<char>(n)}));
    }
  }
  target.driver->poll(1000, 1000);
  std::string order;
  for (const auto& p : target.sink.packets) order += p.bytes;
  EXPECT_EQ(order.size(), 120u);
  return order;
}

TEST(Sim, TheSeedDecidesTheOrderBetweenPairs) {
  const uint32_t flags = kReliable;
  EXPECT_EQ(traffic(1, flags), traffic(1, flags));
  EXPECT_NE(traffic(1, flags), traffic(2, flags));
}

TEST(Sim, OrderWithinAPairFollowsTheFlag) {
  const auto inversions = [](const std::string& order) {
    int count = 0;
    int last[3] = {-1, -1, -1};
    for (size_t i = 0; i < order.size(); i += 2) {
      int& l = last[order[i] - 'a'];
      count += order[i + 1] < l;
      l = order[i + 1];
    }
    return count;
  };
  for (uint64_t seed = 1; seed <= 50; seed++) {
    EXPECT_EQ(inversions(traffic(seed, kReliable)), 0) << seed;
    EXPECT_GT(inversions(traffic(seed, 0)), 0) << seed;
  }
}

TEST(Sim, NothingArrivesBeforeItsTime) {
  SimFabric fabric({.latency_min_ns = 100, .latency_max_ns = 100});
  End a(on(fabric)), b(on(fabric));
  ASSERT_TRUE(a.send(a.connect(b), "x"));
  EXPECT_EQ(fabric.next_event_ns(), 100u);
  EXPECT_EQ(b.driver->poll(99, 8), 0u);
  EXPECT_EQ(b.driver->poll(100, 8), 1u);
  fabric.advance(5);
  EXPECT_EQ(fabric.now_ns(), 105u);
  EXPECT_EQ(fabric.next_event_ns(), ~uint64_t{0});
}

TEST(Sim, LongBodiesAreReadOnArrival) {
  SimFabric fabric({.mtu = 512, .inline_max = 4});
  End a(on(fabric)), b(on(fabric));
  std::string body = "12345";
  ASSERT_TRUE(a.send(a.connect(b), "h", body, 9));
  body[0] = 'X';
  b.driver->poll(0, 8);
  EXPECT_EQ(b.sink.packets.at(0).bytes, "hX2345");
  a.driver->poll(0, 8);
  EXPECT_EQ(a.sink.dones.at(0).cookie, 9u);
}

TEST(Sim, DepthIsBackPressure) {
  SimFabric fabric({.depth = 3});
  End a(on(fabric)), b(on(fabric));
  const PeerId peer = a.connect(b);
  for (int i = 0; i < 3; i++) ASSERT_TRUE(a.send(peer, "x"));
  EXPECT_FALSE(a.send(peer, "x"));
  b.driver->poll(0, 1);
  EXPECT_TRUE(a.send(peer, "x"));
}

TEST(Sim, SilentEndpointsHoldTheirFrames) {
  SimFabric fabric({.depth = 2, .endpoints = 100000});
  End a(on(fabric));
  std::byte address[kSimAddressBytes];
  PeerId peer;
  std::string why;
  fabric.address(100000, address);
  EXPECT_EQ(a.driver->connect(address, &peer, &why), Status::unreachable);
  EXPECT_NE(why.find("100000 endpoints"), std::string::npos) << why;
  fabric.address(1, address);
  ASSERT_EQ(a.driver->connect(address, &peer, &why), Status::ok);
  EXPECT_TRUE(a.send(peer, "x"));
  EXPECT_TRUE(a.send(peer, "y"));
  EXPECT_FALSE(a.send(peer, "z"));
  End late(on(fabric));
  EXPECT_EQ(late.driver->poll(0, 8), 2u);
  EXPECT_EQ(late.sink.packets.at(1).bytes, "y");
}

TEST(Sim, SuddenDeathLosesFramesAndIsReportedAfterTheLastDone) {
  SimFabric fabric({.inline_max = 0, .latency_min_ns = 10, .latency_max_ns = 10});
  End a(on(fabric)), b(on(fabric)), stranger(on(fabric));
  const PeerId peer = a.connect(b);
  const std::string body = "body";
  ASSERT_TRUE(a.send(peer, "", body, 5));
  ASSERT_TRUE(b.send(b.connect(a), "lost", body, 6));
  fabric.kill(b.address());
  EXPECT_EQ(b.driver->poll(100, 8), 0u);
  EXPECT_FALSE(b.send(0, "x"));
  EXPECT_EQ(a.driver->poll(100, 8), 2u);
  EXPECT_TRUE(a.sink.packets.empty());
  ASSERT_EQ(a.sink.dones.size(), 1u);
  EXPECT_EQ(a.sink.dones[0].status, Status::peer_dead);
  ASSERT_EQ(a.sink.downs.size(), 1u);
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(a.sink.downs[0].dones_before, 1u);
  EXPECT_EQ(stranger.driver->poll(100, 8), 0u);
  PeerId again;
  std::string why;
  EXPECT_EQ(a.driver->connect(b.address(), &again, &why), Status::unreachable);
}

TEST(Sim, PendingTransfersOfADeadPeerEndBeforeItsReport) {
  SimFabric fabric({.latency_min_ns = 50, .latency_max_ns = 90, .pending_rma = true});
  End a(on(fabric)), b(on(fabric));
  char there[8] = "before", here[8] = "after";
  Region region;
  ASSERT_EQ(b.driver->reg(there, 8, kRemoteWrite, &region), Status::ok);
  const PeerId peer = a.connect(b);
  uint32_t remote;
  ASSERT_EQ(a.driver->import(peer, std::span(region.key).first(kSimKeyBytes), &remote), Status::ok);
  const iovec piece{here, 8};
  const Rma rma{peer, remote, 0, &piece, 1, 8, 77};
  ASSERT_EQ(a.driver->put(rma), Status::pending);
  fabric.kill(b.address());
  a.driver->poll(1000, 8);
  ASSERT_EQ(a.sink.dones.size(), 1u);
  EXPECT_EQ(a.sink.dones[0].status, Status::peer_dead);
  ASSERT_EQ(a.sink.downs.size(), 1u);
  EXPECT_EQ(a.sink.downs[0].dones_before, 1u);
  EXPECT_STREQ(there, "before");
}

TEST(Sim, ClosingDeliversWhatWasSent) {
  SimFabric fabric({.inline_max = 0, .latency_min_ns = 10, .latency_max_ns = 10});
  End a(on(fabric));
  const std::string body = "body";
  {
    End b(on(fabric));
    ASSERT_TRUE(b.send(b.connect(a), "h", body, 6));
  }
  a.driver->poll(100, 8);
  ASSERT_EQ(a.sink.packets.size(), 1u);
  EXPECT_EQ(a.sink.packets[0].bytes, "hbody");
  ASSERT_EQ(a.sink.downs.size(), 1u);
  EXPECT_EQ(a.sink.downs[0].status, Status::peer_closed);
}

TEST(Sim, SleepersWake) {
  SimFabric fabric;
  End a(on(fabric)), b(on(fabric));
  int fd = -1;
  ASSERT_EQ(b.driver->arm(&fd), Status::ok);
  EXPECT_FALSE(readable(fd));
  ASSERT_TRUE(a.send(a.connect(b), "x"));
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(b.driver->arm(&fd), Status::again);
  b.driver->poll(0, 8);
  ASSERT_EQ(b.driver->arm(&fd), Status::ok);
  EXPECT_FALSE(readable(fd));
}

TEST(Sim, RefusalsLeaveNoTrace) {
  SimFabric fabric({.seed = 3, .again_ppm = 500000});
  End a(on(fabric)), b(on(fabric));
  const PeerId peer = a.connect(b);
  int taken = 0;
  for (int i = 0; i < 60; i++) taken += a.send(peer, "x");
  b.driver->poll(0, 100);
  EXPECT_EQ(b.sink.packets.size(), static_cast<size_t>(taken));
  EXPECT_GT(taken, 10);
  EXPECT_LT(taken, 50);
}

// --- a busy network -------------------------------------------------------------------------

// When each frame arrives, in steps of 100 ns.
std::vector<uint64_t> arrivals(End& end, uint64_t end_ns) {
  std::vector<uint64_t> out;
  for (uint64_t now_ns = 0; now_ns <= end_ns; now_ns += 100) {
    end.driver->poll(now_ns, 1000);
    while (out.size() < end.sink.packets.size()) out.push_back(now_ns);
  }
  return out;
}

// A port of 1,000 MB/s moves a byte in a nanosecond.
TEST(Sim, FramesLeaveAndArriveOneAfterTheOther) {
  SimFabric fabric({.latency_min_ns = 5000, .latency_max_ns = 5000, .port_mbytes_per_s = 1000});
  End a(on(fabric)), b(on(fabric)), c(on(fabric));
  const PeerId to_b = a.connect(b), to_c = a.connect(c);
  const std::string frame(1000, 'x');
  for (int i = 0; i < 3; i++) ASSERT_TRUE(a.send(i == 1 ? to_c : to_b, "", frame));
  EXPECT_EQ(fabric.next_event_ns(), 1000u + 5000u + 1000u);
  EXPECT_EQ(arrivals(b, 20000), (std::vector<uint64_t>{7000, 9000}));
  EXPECT_EQ(arrivals(c, 0).size(), 1u);
}

TEST(Sim, EachFrameThatArrivesIsServed) {
  SimFabric fabric({.latency_min_ns = 1000, .latency_max_ns = 1000, .service_ns = 700});
  End a(on(fabric)), b(on(fabric)), c(on(fabric));
  for (End* from : {&a, &b}) ASSERT_TRUE(from->send(from->connect(c), "x"));
  EXPECT_EQ(arrivals(c, 20000), (std::vector<uint64_t>{1700, 2400}));
}

TEST(Sim, APortWithABacklogRefuses) {
  SimFabric fabric({.flags = 0, .mtu = 1000, .depth = 4, .port_mbytes_per_s = 1000});
  End a(on(fabric));
  PeerId group;
  ASSERT_EQ(a.driver->lossy_groups()->join_lossy({SecretKey{}, 0, 2, true}, &group), Status::ok);
  int taken = 0;
  while (taken < 100 && a.send(group, std::string(100, 'h'), std::string(900, 'b'))) taken++;
  EXPECT_EQ(taken, 5);
  a.driver->poll(1000, 10);
  EXPECT_TRUE(a.send(group, "one has left"));
}

// One frame takes the sender's port once, however many there are; a member that is slow loses some.
TEST(Sim, LossyGroupsCostTheSenderOneFrame) {
  constexpr uint32_t kMembers = 20;
  SimFabric fabric({.flags = 0,
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000,
                    .port_mbytes_per_s = 1000,
                    .service_ns = 1000,
                    .lossy_depth = 3});
  std::vector<std::unique_ptr<End>> ends;
  std::vector<PeerId> groups(kMembers);
  for (uint32_t i = 0; i < kMembers; i++) {
    ends.push_back(std::make_unique<End>(on(fabric)));
    ASSERT_EQ(
        ends[i]->driver->lossy_groups()->join_lossy({SecretKey{}, i, kMembers, true}, &groups[i]),
        Status::ok);
  }
  for (int i = 0; i < 10; i++) ASSERT_TRUE(ends[0]->send(groups[0], std::string(100, 'x')));
  EXPECT_EQ(fabric.next_event_ns(), 100u + 1000u + 1000u + 100u);
  for (uint32_t i = 1; i < kMembers; i++) {
    ends[i]->driver->poll(50000, 100);
    EXPECT_EQ(ends[i]->sink.packets.size(), 3u) << i;
    EXPECT_EQ(ends[i]->sink.packets[0].from, groups[i]);
  }
}

}  // namespace
}  // namespace torii
