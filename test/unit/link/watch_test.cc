// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The watch over a simulated network that is reliable and reports no deaths.
#include "core/link/watch.h"

#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using namespace test;

class WatchTest : public LinkTest {
 protected:
  static constexpr uint32_t kFlags = kReliable | kWait | kPut | kGet | kMulticast;

  static std::unique_ptr<End> watched(SimFabric& over) {
    return std::make_unique<End>([&](const DriverEnv& env) {
      return wrap_watch([&](const DriverEnv& inner) { return open_sim(over, inner); }, env);
    });
  }
  std::unique_ptr<End> watched() { return watched(network); }

  SimFabric network{{.flags = kFlags, .latency_min_ns = 1000, .latency_max_ns = 1000}};
};

TEST_P(WatchTest, KeepsWhatTheDriverCanDoAndItsFrames) {
  const auto a = watched(), b = watched();
  EXPECT_EQ(a->driver->caps().flags, kFlags | kPeerDown);
  EXPECT_EQ(a->driver->caps().mtu, 4096u);
  PeerId group_a = kNoPeer, group_b = kNoPeer;
  const std::string name = "group";
  ASSERT_EQ(a->driver->join(std::as_bytes(std::span(name)), &group_a), Status::ok);
  ASSERT_EQ(b->driver->join(std::as_bytes(std::span(name)), &group_b), Status::ok);
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(group_a, "to all", "body", 7));
  ASSERT_TRUE(a->send(peer, "to one", "body", 8));
  run({a.get(), b.get()}, now_ns + kMs);
  ASSERT_EQ(b->sink.packets.size(), 2u);
  EXPECT_EQ(b->sink.packets[0].bytes, "to allbody");
  EXPECT_EQ(b->sink.packets[1].bytes, "to onebody");
  ASSERT_EQ(a->sink.dones.size(), 2u);
  EXPECT_EQ(a->sink.dones[0].cookie, 7u);
  EXPECT_EQ(a->sink.dones[1].cookie, 8u);
}

TEST_P(WatchTest, AnIdlePairIsAskedSeldomAndLives) {
  const auto a = watched(), b = watched();
  a->connect(*b);
  run({a.get(), b.get()}, now_ns + 20 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(b->sink.packets.empty()) << "signs are no frames";
  EXPECT_GE(a->counters.link_probes, 20u);
  EXPECT_LE(a->counters.link_probes, 50u);
  EXPECT_EQ(b->counters.link_probes, 0u) << "it has not connected";
}

TEST_P(WatchTest, AProcessThatComputesItselfHearsNoSilence) {
  const auto a = watched(), b = watched();
  a->connect(*b);
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  now_ns += 100 * kDeadlineMs * kMs;
  run({a.get(), b.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.downs.empty());
}

TEST_P(WatchTest, APeerThatVanishesIsDeadAtTheDeadline) {
  const auto a = watched(), b = watched();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x"));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  const uint64_t start_ns = now_ns;
  network.kill(b->address());
  run({a.get()}, start_ns + (kDeadlineMs - 100) * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  run({a.get()}, start_ns + (kDeadlineMs + 200) * kMs, kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  // Afterwards: sends complete with the reason, connecting is refused until it is forgotten.
  ASSERT_TRUE(a->send(peer, "x", {}, 9));
  run({a.get()}, now_ns + kMs);
  ASSERT_FALSE(a->sink.dones.empty());
  EXPECT_EQ(a->sink.dones.back().cookie, 9u);
  EXPECT_EQ(a->sink.dones.back().status, Status::peer_dead);
  EXPECT_EQ(a->connect(*b), kNoPeer);
}

// The driver still has the operation when its peer is given up.
TEST_P(WatchTest, PendingOperationsEndBeforeTheirPeer) {
  SimFabric slow({.flags = kFlags,
                  .latency_min_ns = 100 * kDeadlineMs * kMs,
                  .latency_max_ns = 100 * kDeadlineMs * kMs,
                  .pending_rma = true});
  const auto a = watched(slow), b = watched(slow);
  const PeerId peer = a->connect(*b);
  Region region;
  std::vector<char> memory(1000), into(1000);
  ASSERT_EQ(b->driver->reg(memory.data(), memory.size(), kRemoteRead, &region), Status::ok);
  uint32_t remote = 0;
  ASSERT_EQ(
      a->driver->import(peer, std::span(region.key).first(b->driver->caps().key_bytes), &remote),
      Status::ok);
  const iovec piece{into.data(), into.size()};
  Rma rma;
  rma.peer = peer;
  rma.remote = remote;
  rma.pieces = &piece;
  rma.piece_count = 1;
  rma.bytes = into.size();
  rma.cookie = 5;
  ASSERT_EQ(a->driver->get(rma), Status::pending);
  slow.kill(b->address());
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].dones_before, 1u);
  EXPECT_EQ(a->sink.dones[0].cookie, 5u);
  EXPECT_EQ(a->sink.dones[0].status, Status::peer_dead);
  EXPECT_EQ(a->driver->get(rma), Status::peer_dead);
  run({a.get()}, now_ns + 200 * kDeadlineMs * kMs, 10 * kMs);
  EXPECT_EQ(a->sink.dones.size(), 1u) << "told once";
}

TEST_P(WatchTest, APeerThatClosesSaysSo) {
  const auto a = watched();
  auto b = watched();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x"));
  run({a.get(), b.get()}, now_ns + kMs);
  b.reset();
  run({a.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_closed);
}

TEST_P(WatchTest, FramesThatAreNoSignsGoUp) {
  const auto a = watched();
  auto evil = std::make_unique<End>([&](const DriverEnv& env) { return open_sim(network, env); });
  const PeerId peer = evil->connect(*a);
  const std::string mark = {'\xff', 'T', 'o', 'r', 'i', 'i', '?', '\xff'};
  const std::vector<std::string> frames = {mark, mark + '\0', mark + '\4', mark + "\1x", "\1"};
  for (const std::string& frame : frames) ASSERT_TRUE(evil->send(peer, frame));
  run({a.get(), evil.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.packets.size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(a->sink.packets[i].bytes, frames[i]);
}

TEST_P(WatchTest, AProcessThatIsThereIsWaitedFor) {
  SimFabric telling({.flags = kFlags, .tells_lives = true});
  const auto a = watched(telling), b = watched(telling);
  a->connect(*b);
  run({a.get()}, now_ns + 10 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty()) << "it computes";
  telling.kill(b->address());
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->sink.downs.size(), 1u);
}

TORII_WITHOUT_CIPHERS(WatchTest);

}  // namespace
}  // namespace torii
