// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link against a hand-driven clock and hand-made frames.
#include "core/link/link.h"

#include <gtest/gtest.h>

#include "core/base/param.h"
#include "core/link/crc32c.h"
#include "core/link/header.h"
#include "core/link/timer.h"
#include "drivers/fault/fault.h"
#include "drivers/random.h"
#include "drivers/sim/sim.h"
#include "recorder.h"

namespace torii {
namespace {

using link::Header;
using link::Kind;
using test::End;

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kDeadlineMs = 1600;  // so that the longest timeout is 100 ms

class LinkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string why;
    ASSERT_EQ(param_set("peer_deadline_ms", std::to_string(kDeadlineMs), "test", &why), Status::ok)
        << why;
  }

  std::unique_ptr<End> linked(const std::string& faults = "") {
    return std::make_unique<End>([&](const DriverEnv& env) {
      FaultPlan plan;
      std::string why;
      EXPECT_EQ(parse_fault_plan(faults, &plan, &why), Status::ok) << why;
      return wrap_link(
          [&](const DriverEnv& inner) {
            return wrap_fault([&](const DriverEnv& bare) { return fabric.open(bare); }, inner,
                              plan);
          },
          env);
    });
  }
  std::unique_ptr<End> bare() {
    return std::make_unique<End>([&](const DriverEnv& env) { return fabric.open(env); });
  }
  // Polls until `end_ns`, in steps.
  void run(std::initializer_list<End*> ends, uint64_t end_ns, uint64_t step_ns = 100000) {
    for (; now_ns <= end_ns; now_ns += step_ns)
      for (End* end : ends) end->driver->poll(now_ns, 1000);
  }

  SimFabric fabric{{.flags = kWait | kPut | kGet, .latency_min_ns = 1000, .latency_max_ns = 1000}};
  uint64_t now_ns = kMs;
};

std::string frame_of(const Header& header, const std::string& payload = {}) {
  std::string out(link::kHeaderBytes, '\0');
  link::write_header(header, crc32c(0, payload.data(), payload.size()),
                     reinterpret_cast<std::byte*>(out.data()));
  return out + payload;
}

bool parses(const std::string& frame, Header* header) {
  return link::parse_header({reinterpret_cast<const std::byte*>(frame.data()), frame.size()},
                            header);
}

TEST(Crc32c, KnownValues) {
  // RFC 3720, B.4.
  const std::string zeros(32, '\0'), ones(32, '\xff');
  std::string rising;
  for (char c = 0; c < 32; c++) rising += c;
  for (const auto crc : {crc32c, crc32c_table}) {
    EXPECT_EQ(crc(0, zeros.data(), 32), 0x8a9136aau);
    EXPECT_EQ(crc(0, ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(crc(0, rising.data(), 32), 0x46dd794eu);
    EXPECT_EQ(crc(0, "123456789", 9), 0xe3069283u);
  }
}

TEST(Crc32c, BothWaysAgreeAndContinue) {
  Random random(1);
  std::string data(300, '\0');
  for (char& c : data) c = static_cast<char>(random.next());
  for (size_t size = 0; size < data.size(); size++) {
    const uint32_t whole = crc32c_table(0, data.data(), size);
    EXPECT_EQ(crc32c(0, data.data(), size), whole);
    const size_t cut = size / 3;
    EXPECT_EQ(crc32c(crc32c(0, data.data(), cut), data.data() + cut, size - cut), whole);
  }
}

TEST(LinkHeader, GoldenBytes) {
  const std::string frame = frame_of(
      {Kind::data, 0x01020304, 0x05060708, 0x090a0b0c, 0x0d0e0f10, 0x1112131415161718}, "payload");
  std::string hex;
  for (const unsigned char c : frame.substr(0, link::kHeaderBytes)) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  EXPECT_EQ(hex.substr(0, 8), "4c4b0201");
  EXPECT_EQ(hex.substr(16), "04030201080706050c0b0a09100f0e0d1817161514131211");
}

TEST(LinkHeader, EveryFlippedBitAndEveryCutIsNoticed) {
  const std::string frame = frame_of({Kind::data, 1, 2, 3, 4, 5}, "payload");
  Header header;
  ASSERT_TRUE(parses(frame, &header));
  EXPECT_EQ(header.sack, 5u);
  for (size_t bit = 0; bit < frame.size() * 8; bit++) {
    std::string bad = frame;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(parses(bad, &header)) << bit;
  }
  for (size_t size = 0; size < frame.size(); size++)
    EXPECT_FALSE(parses(frame.substr(0, size), &header)) << size;
  EXPECT_FALSE(parses(frame_of({static_cast<Kind>(9), 1, 0, 0, 0, 0}), &header));
  EXPECT_FALSE(parses(frame_of({Kind::ack, 1, 0, 0, 0, 0}, "x"), &header)) << "payload after ack";
  EXPECT_FALSE(parses(frame_of({Kind::ack, 0, 0, 0, 0, 0}), &header)) << "no session";
}

TEST(RetransmitTimer, FollowsTheRoundTripAndBacksOff) {
  link::RetransmitTimer timer(100 * kMs);
  EXPECT_EQ(timer.timeout_ns(), link::RetransmitTimer::kFirstNs);
  timer.measured(2 * kMs);
  EXPECT_EQ(timer.timeout_ns(), 6 * kMs);  // R + 4 * R/2
  for (int i = 0; i < 100; i++) timer.measured(2 * kMs);
  EXPECT_LT(timer.timeout_ns(), 2200000u);
  const uint64_t base = timer.timeout_ns();
  timer.timed_out();
  EXPECT_EQ(timer.timeout_ns(), 2 * base);
  for (int i = 0; i < 30; i++) timer.timed_out();
  EXPECT_EQ(timer.timeout_ns(), 100 * kMs);
  timer.answered();
  EXPECT_EQ(timer.timeout_ns(), base);
  for (int i = 0; i < 200; i++) timer.measured(1);
  EXPECT_EQ(timer.timeout_ns(), link::RetransmitTimer::kMinNs);
}

TEST_F(LinkTest, DeclaresReliabilityAndHidesWhatIsNot) {
  const auto a = linked();
  const DriverCaps& caps = a->driver->caps();
  EXPECT_EQ(caps.flags, kReliable | kOrdered | kPeerDown | kWait);
  EXPECT_EQ(caps.key_bytes, 0u);
  EXPECT_EQ(caps.mtu, 4096 - link::kHeaderBytes);
  SimFabric reliable({.flags = kReliable | kPut});
  End b([&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return reliable.open(inner); }, env);
  });
  EXPECT_TRUE(b.driver->caps().flags & kPut);
}

TEST_F(LinkTest, ALostFrameGoesAgainAfterTheTimeout) {
  const auto a = linked("drop#1"), b = linked();
  ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
  run({a.get(), b.get()}, now_ns + link::RetransmitTimer::kFirstNs - kMs);
  EXPECT_TRUE(b->sink.packets.empty());
  EXPECT_TRUE(a->sink.dones.empty());
  run({a.get(), b.get()}, now_ns + 2 * kMs);
  ASSERT_EQ(b->sink.packets.size(), 1u);
  EXPECT_EQ(a->counters.link_retransmits, 1u);
  ASSERT_EQ(a->sink.dones.size(), 1u);
  EXPECT_EQ(a->sink.dones[0].cookie, 7u);
}

TEST_F(LinkTest, AMissedFrameGoesAgainBeforeTheTimeout) {
  const auto a = linked("drop#1"), b = linked();
  const PeerId peer = a->connect(*b);
  for (const char* s : {"0", "1", "2", "3", "4"}) ASSERT_TRUE(a->send(peer, s));
  // The timeout is at least half a millisecond.
  run({a.get(), b.get()}, now_ns + 300000, 20000);
  ASSERT_EQ(b->sink.packets.size(), 5u);
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(b->sink.packets[i].bytes, std::to_string(i));
  EXPECT_EQ(a->counters.link_retransmits, 1u);
}

// An answer to a frame that went twice says nothing about the round trip: the second loss is
// repaired after the first timeout again, not after one measured from the repetition.
TEST_F(LinkTest, RepeatedFramesAreNotMeasured) {
  const auto a = linked("drop#1,drop#3"), b = linked();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  run({a.get(), b.get()}, now_ns + 8 * kMs);
  ASSERT_EQ(a->sink.dones.size(), 1u);
  ASSERT_TRUE(a->send(peer, "y"));
  run({a.get(), b.get()}, now_ns + link::RetransmitTimer::kFirstNs - kMs);
  EXPECT_EQ(b->sink.packets.size(), 1u);
  run({a.get(), b.get()}, now_ns + 2 * kMs);
  EXPECT_EQ(b->sink.packets.size(), 2u);
}

TEST_F(LinkTest, AFrameThatIsStillBeingReadDoesNotGoAgain) {
  SimFabric slow(
      {.flags = 0, .inline_max = 0, .latency_min_ns = 50 * kMs, .latency_max_ns = 50 * kMs});
  const auto open = [&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return slow.open(inner); }, env);
  };
  End a(open), b(open);
  ASSERT_TRUE(a.send(a.connect(b), "x", std::string(1000, 'y'), 7));
  run({&a, &b}, now_ns + 49 * kMs);
  EXPECT_EQ(a.counters.link_retransmits, 0u);
  run({&a, &b}, now_ns + 200 * kMs);
  EXPECT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(a.sink.dones.size(), 1u);
}

TEST_F(LinkTest, ALostAcknowledgementCausesADuplicateThatIsDropped) {
  const auto a = linked(), b = linked("drop#1");
  ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  EXPECT_EQ(b->sink.packets.size(), 1u);
  EXPECT_EQ(b->counters.link_duplicates, 1u);
  EXPECT_EQ(a->sink.dones.size(), 1u);
}

TEST_F(LinkTest, TheWindowIsBackPressure) {
  const auto a = linked();
  const auto b = bare();
  const PeerId peer = a->connect(*b);
  uint32_t taken = 0;
  while (taken < 200 && a->send(peer, "x")) taken++;
  EXPECT_EQ(taken, link::kWindow);
}

TEST_F(LinkTest, AnIdlePairIsSilentIfTheDriverReportsDeaths) {
  SimFabric reporting({.flags = kWait | kPeerDown});
  const auto open = [&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return reporting.open(inner); }, env);
  };
  const auto a = std::make_unique<End>(open), b = std::make_unique<End>(open);
  ASSERT_TRUE(a->send(a->connect(*b), "x"));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  unsigned events = 0;
  for (int i = 0; i < 1000; i++) {
    now_ns += 10 * kMs;
    events += a->driver->poll(now_ns, 100) + b->driver->poll(now_ns, 100);
  }
  EXPECT_EQ(events, 0u);
  EXPECT_TRUE(a->sink.downs.empty()) << "silence without a question is no death";
  EXPECT_EQ(a->counters.link_probes, 0u);
  int fd;
  EXPECT_EQ(a->driver->arm(&fd), Status::ok);
}

TEST_F(LinkTest, AnIdlePairIsProbedSeldomAndLives) {
  const auto a = linked("drop=30%"), b = linked("drop=30%");
  ASSERT_TRUE(a->send(a->connect(*b), "x"));
  run({a.get(), b.get()}, now_ns + 100 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(b->sink.downs.empty());
  // One question in half a deadline, twice as many with the losses; any frame of the other counts.
  EXPECT_GE(a->counters.link_probes, 50u);
  EXPECT_LE(a->counters.link_probes, 500u);
  EXPECT_EQ(a->counters.link_corrupt, 0u);
}

// Nothing is outstanding: neither a frame nor an acknowledgement.
TEST_F(LinkTest, AQuietPeerThatDiesSilentlyIsMissed) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  ASSERT_EQ(a->sink.dones.size(), 1u);
  fabric.kill(b->address());
  const uint64_t death_ns = now_ns;
  run({a.get()}, death_ns + kDeadlineMs * kMs);
  EXPECT_TRUE(a->sink.downs.empty()) << "before the deadline has passed since the question";
  run({a.get()}, death_ns + (kDeadlineMs * 7 / 4) * kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].peer, peer);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  const uint64_t probes = a->counters.link_probes;
  EXPECT_GE(probes, 15u);
  EXPECT_LE(probes, 17u);
  run({a.get()}, now_ns + 3 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->counters.link_probes, probes) << "the dead are not asked";
}

TEST_F(LinkTest, APeerThatWasOnlyConnectedOrOnlyHeardIsMissedToo) {
  const auto a = linked(), b = linked(), c = linked();
  const PeerId silent = a->connect(*b);
  ASSERT_TRUE(c->send(c->connect(*a), "x"));
  run({a.get(), b.get(), c.get()}, now_ns + 10 * kMs);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  fabric.kill(b->address());
  fabric.kill(c->address());
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  ASSERT_EQ(a->sink.downs.size(), 2u);
  EXPECT_NE(a->sink.downs[0].peer, a->sink.downs[1].peer);
  for (const auto& down : a->sink.downs) {
    EXPECT_TRUE(down.peer == silent || down.peer == a->sink.packets[0].from);
    EXPECT_EQ(down.status, Status::peer_dead);
  }
}

TEST_F(LinkTest, DisconnectedPeersAreNotProbed) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x"));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  a->driver->disconnect(peer);
  run({a.get(), b.get()}, now_ns + 5 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->counters.link_probes, 0u);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(b->sink.downs.empty()) << "answers are given to the other side's probes";
  EXPECT_GT(b->counters.link_probes, 5u);
  // Connected again: a new watch, not one that begins in the past.
  EXPECT_EQ(a->connect(*b), peer);
  run({a.get(), b.get()}, now_ns + 5 * kDeadlineMs * kMs, kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  fabric.kill(b->address());
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->sink.downs.size(), 1u);
}

TEST_F(LinkTest, APauseBetweenPollsIsNotTakenForAQuietPeer) {
  const auto a = linked(), b = linked();
  ASSERT_TRUE(a->send(a->connect(*b), "x"));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  now_ns += 100 * kDeadlineMs * kMs;  // both compute
  run({a.get(), b.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(b->sink.downs.empty());
}

TEST_F(LinkTest, OpensOnlyOverDriversThatLackSomething) {
  for (const uint32_t missing : {0u, +kReliable, +kOrdered, +kPeerDown}) {
    SimFabric sim({.flags = (kReliable | kOrdered | kPeerDown) & ~missing});
    End end([&](const DriverEnv& env) {
      return open_with_link([&](const DriverEnv& inner) { return sim.open(inner); }, env);
    });
    EXPECT_EQ(end.driver->caps().mtu, 4096 - (missing ? link::kHeaderBytes : 0));
    const uint32_t sure = kReliable | kOrdered | kPeerDown;
    EXPECT_EQ(end.driver->caps().flags & sure, sure);
  }
}

TEST_F(LinkTest, APeerThatOwesAnAnswerDiesAtTheDeadline) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  a->driver->poll(now_ns, 100);
  ASSERT_TRUE(a->send(peer, "x", "body", 7));
  ASSERT_TRUE(a->send(peer, "x", "body", 8));
  const uint64_t start_ns = now_ns;
  run({a.get()}, start_ns + (kDeadlineMs - 10) * kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_GE(a->counters.link_retransmits, 2u * 15);
  EXPECT_LE(a->counters.link_retransmits, 2u * 30) << "the timeout does not grow";
  run({a.get()}, start_ns + (kDeadlineMs + 10) * kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(a->sink.downs[0].dones_before, 2u);
  for (const auto& d : a->sink.dones) EXPECT_EQ(d.status, Status::peer_dead);
  // Afterwards: sends complete with the reason, connecting is refused until it is forgotten.
  EXPECT_TRUE(a->send(peer, "x", {}, 9));
  run({a.get()}, now_ns + kMs);
  EXPECT_EQ(a->sink.dones.back().cookie, 9u);
  EXPECT_EQ(a->sink.dones.back().status, Status::peer_dead);
  EXPECT_EQ(a->connect(*b), kNoPeer);
  a->driver->disconnect(peer);
  EXPECT_NE(a->connect(*b), kNoPeer);
}

TEST_F(LinkTest, ALongPauseBetweenPollsIsNotSilence) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  a->driver->poll(now_ns, 100);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  now_ns += 100 * kDeadlineMs * kMs;  // computing
  run({a.get(), b.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(a->sink.dones.size(), 1u);
}

TEST_F(LinkTest, ClosingIsHeardThroughLoss) {
  const auto a = linked();
  auto b = linked("drop=50%");
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x"));
  run({a.get(), b.get()}, now_ns + 200 * kMs);
  b.reset();
  run({a.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_closed);
}

TEST_F(LinkTest, ForgedFramesAreCountedAndHaveNoEffect) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = evil->connect(*a);
  const auto inject = [&](const std::string& frame) {
    const uint64_t before = a->counters.link_corrupt;
    EXPECT_TRUE(evil->send(peer, frame));
    now_ns += kMs;
    a->driver->poll(now_ns, 100);
    return a->counters.link_corrupt - before;
  };
  EXPECT_EQ(inject("short"), 1u);
  EXPECT_EQ(inject(std::string(100, 'x')), 1u);
  EXPECT_EQ(inject(frame_of({Kind::data, 5, 12345, 0, 0, 0}, "y")), 1u) << "not my session";
  EXPECT_TRUE(a->sink.packets.empty());
  EXPECT_EQ(inject(frame_of({Kind::data, 5, 0, 0, 0, 0}, "y")), 0u);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  EXPECT_EQ(inject(frame_of({Kind::data, 6, 0, 1, 0, 0}, "y")), 1u) << "another session";
  EXPECT_EQ(inject(frame_of({Kind::bye, 6, 0, 0, 0, 0})), 1u) << "another session";
  // Acknowledgements do not count without my session, and not for what was never sent.
  evil->driver->poll(now_ns, 100);
  Header answer;
  ASSERT_TRUE(parses(evil->sink.packets.at(0).bytes, &answer));
  EXPECT_EQ(answer.ack, 1u);
  ASSERT_TRUE(a->send(a->sink.packets[0].from, "precious", {}, 7));
  EXPECT_EQ(inject(frame_of({Kind::ack, 5, 0, 0, 1, 0})), 0u);
  EXPECT_TRUE(a->sink.dones.empty());
  EXPECT_EQ(inject(frame_of({Kind::ack, 5, answer.session, 0, 2, 0})), 1u);
  EXPECT_TRUE(a->sink.dones.empty());
  EXPECT_EQ(inject(frame_of({Kind::ack, 5, answer.session, 0, 1, ~uint64_t{0}})), 0u);
  EXPECT_EQ(a->sink.dones.size(), 1u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
  EXPECT_TRUE(a->sink.downs.empty());
}

TEST_F(LinkTest, FramesFarAheadAreNotStored) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = evil->connect(*a);
  for (const uint32_t seq : {64u, 65u, 1000u, ~0u, 63u, 63u}) {
    ASSERT_TRUE(evil->send(peer, frame_of({Kind::data, 5, 0, seq, 0, 0}, "y")));
  }
  run({a.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.packets.empty());
  EXPECT_EQ(a->counters.link_duplicates, 5u);
}

TEST_F(LinkTest, FramesThatWaitedKeepToTheBudget) {
  const auto b = linked();
  const auto a = bare();
  const PeerId peer = a->connect(*b);
  for (uint32_t i = 1; i <= 64; i++)
    ASSERT_TRUE(a->send(peer, frame_of({Kind::data, 5, 0, i % 64, 0, 0}, std::to_string(i % 64))));
  for (int polls = 1; b->sink.packets.size() < 64; polls++) {
    ASSERT_LT(polls, 200);
    b->driver->poll(now_ns += 10000, 4);
    ASSERT_LE(b->sink.packets.size(), static_cast<size_t>(8 * polls));
    int fd;
    if (b->sink.packets.size() == 64) break;
    EXPECT_EQ(b->driver->arm(&fd), Status::again);
  }
  for (size_t i = 0; i < 64; i++) EXPECT_EQ(b->sink.packets[i].bytes, std::to_string(i));
}

TEST_F(LinkTest, RandomFramesDoNoHarm) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = evil->connect(*a);
  Random random(3);
  for (int i = 0; i < 20000; i++) {
    Header h{static_cast<Kind>(random.between(1, 2)),
             5,
             0,
             static_cast<uint32_t>(random.next()),
             static_cast<uint32_t>(random.next()),
             random.next()};
    if (random.chance(500000)) h.seq %= 200;
    if (random.chance(500000)) h.ack %= 100;
    if (!a->sink.packets.empty() && random.chance(100000))
      a->send(a->sink.packets[0].from, "x", {}, static_cast<uint64_t>(i + 1));
    std::string frame = frame_of(h, h.kind == Kind::data ? "payload" : "");
    if (random.chance(200000)) frame.resize(random.between(1, frame.size()));
    evil->send(peer, frame);
    now_ns += 10000;
    a->driver->poll(now_ns, 100);
    evil->driver->poll(now_ns, 100);
  }
  for (const auto& p : a->sink.packets) ASSERT_EQ(p.bytes, "payload");
  EXPECT_GT(a->counters.link_corrupt, 1000u);
  EXPECT_GT(a->counters.link_duplicates, 1000u);
}

// The answer that b gives in its upcall acknowledges the first frame only, though the others were
// here before; and any one frame of b may be lost.
TEST_F(LinkTest, NobodyWaitsForAnAcknowledgementOfWhatIsKnownToHaveArrived) {
  for (int lost = 0; lost < 10; lost++) {
    const auto a = linked("drop#1");
    const auto b = linked(lost ? "drop#" + std::to_string(lost) : "");
    b->sink.on_packet = [&](PeerId from, const std::string& bytes) {
      if (bytes == "0") {
        ASSERT_TRUE(b->send(from, "answer"));
      }
    };
    const PeerId peer = a->connect(*b);
    for (int i = 0; i < 5; i++) ASSERT_TRUE(a->send(peer, std::to_string(i), {}, 1 + uint64_t(i)));
    run({a.get(), b.get()}, now_ns + 2 * kDeadlineMs * kMs, 250000);
    EXPECT_EQ(a->sink.dones.size(), 5u) << lost;
    EXPECT_EQ(a->sink.packets.size(), 1u) << lost;
    ASSERT_TRUE(a->sink.downs.empty()) << "frame " << lost << " of b was lost";
    ASSERT_TRUE(b->sink.downs.empty()) << lost;
  }
}

// Every pattern of loss of the first 10 frames in one direction, and of the answers in the other.
TEST_F(LinkTest, EveryPatternOfLossIsRepaired) {
  for (unsigned pattern = 0; pattern < 1024; pattern++) {
    std::string forth, back;
    for (unsigned i = 0; i < 10; i++) {
      if (!(pattern >> i & 1)) continue;
      (i % 2 ? back : forth) += ",drop#" + std::to_string(1 + i / 2);
    }
    const auto a = linked(forth.empty() ? "" : forth.substr(1));
    const auto b = linked(back.empty() ? "" : back.substr(1));
    const PeerId peer = a->connect(*b);
    for (uint64_t i = 1; i <= 6; i++) ASSERT_TRUE(a->send(peer, std::to_string(i), {}, i));
    const uint64_t end_ns = now_ns + 1000 * kMs;
    while (a->sink.dones.size() < 6 && now_ns < end_ns)
      run({a.get(), b.get()}, now_ns + 500000, 250000);
    ASSERT_EQ(a->sink.dones.size(), 6u) << forth << " / " << back;
    std::string got;
    for (const auto& p : b->sink.packets) got += p.bytes;
    ASSERT_EQ(got, "123456") << forth << " / " << back;
  }
}

}  // namespace
}  // namespace torii
