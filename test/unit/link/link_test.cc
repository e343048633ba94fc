// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link against a hand-driven clock and hand-made frames.
#include "core/link/link.h"

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/link/timer.h"
#include "unit/link/link_fixture.h"

namespace torii {
namespace {

using link::Header;
using link::Kind;
using test::believed;
using test::End;
using test::frame_of;
using test::kDeadlineMs;
using test::kMs;
using test::LinkTest;

TEST_P(LinkTest, DeclaresReliabilityAndHidesWhatIsNot) {
  const auto a = linked();
  const DriverCaps& caps = a->driver->caps();
  // With a cipher the driver below copies, so bodies can be lent.
  EXPECT_EQ(caps.flags, kReliable | kPeerDown | kWait | (encrypted() ? +kDelivers : 0));
  EXPECT_EQ(caps.key_bytes, 0u);
  EXPECT_EQ(caps.mtu, 4096 - overhead());
  SimFabric reliable({.flags = kReliable | kPut, .inline_max = inline_max()});
  End b([&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return open_sim(reliable, inner); }, env);
  });
  EXPECT_EQ((b.driver->caps().flags & kPut) != 0, !encrypted()) << "what goes past the link";
}

TEST_P(LinkTest, ALostFrameGoesAgainAfterTheTimeout) {
  const auto a = linked("drop#2"), b = linked();
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

TEST_P(LinkTest, AMissedFrameGoesAgainBeforeTheTimeout) {
  const auto a = linked("drop#3"), b = linked();
  const PeerId peer = meet(*a, *b);
  for (const char* s : {"0", "1", "2", "3", "4"}) ASSERT_TRUE(a->send(peer, s, {}, 1));
  // The timeout is at least half a millisecond.
  run({a.get(), b.get()}, now_ns + 300000, 20000);
  ASSERT_EQ(b->sink.packets.size(), 5u);
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(b->sink.packets[i].bytes, std::to_string(i));
  EXPECT_EQ(a->counters.link_retransmits, 1u);
}

// Nothing overtakes the last frames of a burst: the timeout repeats one of them, whose answer tells
// of the others. They do not wait for a timeout each.
TEST_P(LinkTest, TheLostEndOfABurstCostsOneTimeout) {
  const auto a = linked("drop#14,drop#15,drop#16,drop#17,drop#18,drop#19"), b = linked();
  const PeerId peer = a->connect(*b);
  const auto send = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; i++) ASSERT_TRUE(a->send(peer, "x", {}, 1));
  };
  for (int i = 0; i < 8; i++) {
    send(1);
    run({a.get(), b.get()}, now_ns + 100000, 10000);
  }
  ASSERT_EQ(a->sink.dones.size(), 8u);
  send(10);
  run({a.get(), b.get()}, now_ns + link::RetransmitTimer::kMinNs + 200000, 10000);
  EXPECT_EQ(b->sink.packets.size(), 18u);
  EXPECT_EQ(a->sink.dones.size(), 18u);
  EXPECT_EQ(a->counters.link_retransmits, 6u);
}

// An answer to a frame that went twice says nothing about the round trip: the second loss is
// repaired after the first timeout again, not after one measured from the repetition.
TEST_P(LinkTest, RepeatedFramesAreNotMeasured) {
  const auto a = linked("drop#2,drop#4"), b = linked();
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

TEST_P(LinkTest, AFrameThatIsStillBeingReadDoesNotGoAgain) {
  SimFabric slow(
      {.flags = 0, .inline_max = 0, .latency_min_ns = 50 * kMs, .latency_max_ns = 50 * kMs});
  const auto open = [&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return open_sim(slow, inner); }, env);
  };
  End a(open), b(open);
  if (encrypted()) {
    EXPECT_EQ(a.driver, nullptr) << "what is encrypted is not kept for drivers that read it later";
    return;
  }
  ASSERT_TRUE(a.send(a.connect(b), "x", std::string(1000, 'y'), 7));
  run({&a, &b}, now_ns + 149 * kMs);
  EXPECT_EQ(a.counters.link_retransmits, 0u);
  run({&a, &b}, now_ns + 300 * kMs);
  EXPECT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(a.sink.dones.size(), 1u);
}

TEST_P(LinkTest, ALostAcknowledgementCausesADuplicateThatIsDropped) {
  const auto a = linked(), b = linked("drop#2");
  ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  EXPECT_EQ(b->sink.packets.size(), 1u);
  EXPECT_EQ(b->counters.link_duplicates, 1u);
  EXPECT_EQ(a->sink.dones.size(), 1u);
}

TEST_P(LinkTest, TheWindowIsBackPressure) {
  const auto a = linked(), c = linked();
  const PeerId peer = a->connect(*c);
  uint32_t taken = 0;
  while (taken < 1000 && a->send(peer, "x", {}, taken + 1)) taken++;
  EXPECT_EQ(taken, link::kWindow);
}

// Short frames that wait travel together, and are handed up one by one, also if they come before
// their turn.
TEST_P(LinkTest, ShortFramesShareAPacket) {
  for (const char* const faults : {"", "drop#3", "drop#4"}) {
    const auto a = linked(faults), b = linked();
    const PeerId peer = a->connect(*b);
    std::vector<std::string> frames;
    for (size_t i = 0; i < 60; i++)
      frames.push_back(std::to_string(i) + std::string(i % 7 * 20, 'x'));
    frames.push_back(std::string(150, 'h') + std::string(3000, 'b'));
    for (int i = 0; i < 5; i++) frames.push_back("behind a long one");
    for (const std::string& frame : frames) {
      const size_t head = std::min<size_t>(frame.size(), kHeadMax);
      ASSERT_TRUE(a->send(peer, frame.substr(0, head), frame.substr(head)));
    }
    run({a.get(), b.get()}, now_ns + 20 * kMs, 20000);
    ASSERT_EQ(b->sink.packets.size(), frames.size());
    for (size_t i = 0; i < frames.size(); i++) EXPECT_EQ(b->sink.packets[i].bytes, frames[i]);
    EXPECT_EQ(a->counters.link_retransmits, *faults ? 1u : 0u);
    EXPECT_EQ(b->counters.link_corrupt, 0u);
  }
}

TEST_P(LinkTest, LengthsOfFramesThatShareAPacketAreChecked) {
  const auto a = linked(), evil = bare();
  const PeerId peer = reach(*evil, *a);
  const std::string payloads[] = {std::string("\2\0ab\5\0abcd", 10), std::string("\2\0ab\5", 5),
                                  std::string("\2\0ab\xff\xff", 6)};
  for (uint64_t seq = 0; seq < 3; seq++) {
    ASSERT_TRUE(
        evil->send(peer, frame_of({Kind::several, seq, 0, 0}, payloads[seq], key_of(*evil, *a))));
    run({a.get()}, now_ns + kMs);
    ASSERT_EQ(a->sink.packets.size(), seq + 1);
    EXPECT_EQ(a->sink.packets[seq].bytes, "ab");
    EXPECT_EQ(a->counters.link_corrupt, seq + 1);
  }
}

TEST_P(LinkTest, AnIdlePairIsSilentIfTheDriverReportsDeaths) {
  SimFabric reporting({.flags = kWait | kPeerDown, .inline_max = inline_max()});
  const auto open = [&](const DriverEnv& env) {
    return wrap_link([&](const DriverEnv& inner) { return open_sim(reporting, inner); }, env);
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

TEST_P(LinkTest, AnIdlePairIsProbedSeldomAndLives) {
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
TEST_P(LinkTest, AQuietPeerThatDiesSilentlyIsMissed) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  ASSERT_EQ(a->sink.dones.size(), 1u);
  kill(*b);
  const uint64_t death_ns = now_ns;
  run({a.get()}, death_ns + (kDeadlineMs - 20) * kMs);
  EXPECT_TRUE(a->sink.downs.empty()) << "before the deadline";
  run({a.get()}, death_ns + (kDeadlineMs * 9 / 8) * kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].peer, peer);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
  const uint64_t probes = a->counters.link_probes;
  EXPECT_GE(probes, 7u);
  EXPECT_LE(probes, 9u);
  run({a.get()}, now_ns + 3 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->counters.link_probes, probes) << "the dead are not asked";
}

TEST_P(LinkTest, APeerThatWasOnlyConnectedOrOnlyHeardIsMissedToo) {
  const auto a = linked(), b = linked(), c = linked();
  const PeerId silent = a->connect(*b);
  ASSERT_TRUE(c->send(c->connect(*a), "x"));
  run({a.get(), b.get(), c.get()}, now_ns + 10 * kMs);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  kill(*b);
  kill(*c);
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  ASSERT_EQ(a->sink.downs.size(), 2u);
  EXPECT_NE(a->sink.downs[0].peer, a->sink.downs[1].peer);
  for (const auto& down : a->sink.downs) {
    EXPECT_TRUE(down.peer == silent || down.peer == a->sink.packets[0].from);
    EXPECT_EQ(down.status, Status::peer_dead);
  }
}

TEST_P(LinkTest, DisconnectedPeersAreNotProbed) {
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
  kill(*b);
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs, kMs);
  EXPECT_EQ(a->sink.downs.size(), 1u);
}

TEST_P(LinkTest, APauseBetweenPollsIsNotTakenForAQuietPeer) {
  const auto a = linked(), b = linked();
  ASSERT_TRUE(a->send(a->connect(*b), "x"));
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  now_ns += 100 * kDeadlineMs * kMs;  // both compute
  run({a.get(), b.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(b->sink.downs.empty());
}

TEST_P(LinkTest, OpensOnlyOverDriversThatLackSomething) {
  for (const uint32_t missing : {0u, +kReliable, +kPeerDown}) {
    SimFabric sim({.flags = (kReliable | kPeerDown) & ~missing, .inline_max = inline_max()});
    End end([&](const DriverEnv& env) {
      return open_with_link([&](const DriverEnv& inner) { return open_sim(sim, inner); }, env);
    });
    EXPECT_EQ(end.driver->caps().mtu, 4096 - (missing == kReliable ? overhead() : 0));
    const uint32_t sure = kReliable | kPeerDown;
    EXPECT_EQ(end.driver->caps().flags & sure, sure);
  }
}

TEST_P(LinkTest, APeerThatOwesAnAnswerDiesAtTheDeadline) {
  const auto a = linked(), b = linked();
  const PeerId peer = meet(*a, *b);
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
  EXPECT_EQ(a->connect(*b), kNoPeer) << "for this opening of it that was the end";
  EXPECT_NE(a->connect(*linked()), kNoPeer);
}

TEST_P(LinkTest, ALongPauseBetweenPollsIsNotSilence) {
  const auto a = linked(), b = linked();
  const PeerId peer = a->connect(*b);
  a->driver->poll(now_ns, 100);
  ASSERT_TRUE(a->send(peer, "x", {}, 7));
  now_ns += 100 * kDeadlineMs * kMs;  // computing
  run({a.get(), b.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(a->sink.dones.size(), 1u);
}

// After a pause answers of long ago are found. Were they measured, what was lost would wait for a
// timeout as long as the pause; a process that closes does not wait so long.
TEST_P(LinkTest, APauseOfTheProcessIsNoRoundTrip) {
  const auto a = linked("drop#5"), b = linked();
  const PeerId peer = meet(*a, *b);
  for (const char* s : {"0", "1", "2"}) ASSERT_TRUE(a->send(peer, s, {}, 1));
  a->driver->poll(now_ns, 100);
  run({b.get()}, now_ns + 1000 * kMs, kMs);
  EXPECT_EQ(b->sink.packets.size(), 2u);
  run({a.get(), b.get()}, now_ns + 2 * link::RetransmitTimer::kFirstNs);
  EXPECT_EQ(b->sink.packets.size(), 3u);
  EXPECT_EQ(a->sink.dones.size(), 3u);
}

TEST_P(LinkTest, ClosingIsHeardThroughLoss) {
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

// The sender has the key, but is wrong about what was said.
TEST_P(LinkTest, FramesOutOfPlaceAreCountedAndHaveNoEffect) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = reach(*evil, *a);
  const test::FrameKey key = key_of(*evil, *a);
  const auto inject = [&](const std::string& frame) {
    const uint64_t before = a->counters.link_corrupt;
    EXPECT_TRUE(evil->send(peer, frame));
    now_ns += kMs;
    a->driver->poll(now_ns, 100);
    return a->counters.link_corrupt - before;
  };
  EXPECT_EQ(inject("short"), 1u);
  EXPECT_EQ(inject(std::string(100, 'x')), 1u);
  EXPECT_TRUE(a->sink.packets.empty());
  EXPECT_EQ(inject(frame_of({Kind::data, 0, 0, 0}, "y", key)), 0u);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  run({evil.get()}, now_ns + kMs);
  Header answer;
  ASSERT_TRUE(believed(evil->sink.packets.at(0).bytes, &answer, key_of(*a, *evil)));
  EXPECT_EQ(answer.ack, 1u);
  // Acknowledgements do not count for what was never sent.
  ASSERT_TRUE(a->send(a->sink.packets[0].from, "precious", {}, 7));
  EXPECT_EQ(inject(frame_of({Kind::ack, 2, 2, 0}, "", key)), 1u);
  EXPECT_TRUE(a->sink.dones.empty());
  EXPECT_EQ(inject(frame_of({Kind::ack, 3, 1, ~uint64_t{0}}, "", key)), 0u);
  EXPECT_EQ(a->sink.dones.size(), 1u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_EQ(a->counters.link_forged, 0u);
}

TEST_P(LinkTest, BothSidesUnderstandEachOtherWhoeverConnects) {
  for (const bool both : {false, true}) {
    const auto a = linked(), b = linked();
    if (both) b->connect(*a);
    ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
    run({a.get(), b.get()}, now_ns + kMs);
    ASSERT_EQ(b->sink.packets.size(), 1u);
    EXPECT_EQ(a->sink.dones.size(), 1u);
    ASSERT_TRUE(b->send(b->sink.packets[0].from, "answer"));
    run({a.get(), b.get()}, now_ns + kMs);
    EXPECT_EQ(a->sink.packets.size(), 1u);
    EXPECT_EQ(a->counters.link_forged + b->counters.link_forged, 0u);
  }
}

// A link that demands whole tags takes nothing else, and speaks so itself.
TEST_P(LinkTest, WholeTagsAreDemandedIfWanted) {
  if (encrypted()) return;  // which covers all
  std::string why;
  const auto lax = linked();
  ASSERT_EQ(param_set("link_tag_payload", "yes", "test", &why), Status::ok);
  const auto a = linked(), b = linked();
  ASSERT_EQ(param_set("link_tag_payload", "no", "test", &why), Status::ok);
  ASSERT_TRUE(a->send(a->connect(*b), "x", {}, 7));
  ASSERT_TRUE(lax->send(lax->connect(*b), "y"));
  run({a.get(), b.get(), lax.get()}, now_ns + kMs);
  ASSERT_EQ(b->sink.packets.size(), 1u);
  EXPECT_EQ(b->sink.packets[0].bytes, "x");
  EXPECT_EQ(a->sink.dones.size(), 1u);
  EXPECT_GT(b->counters.link_forged, 0u);
}

TEST_P(LinkTest, FramesFarAheadAreNotStored) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = reach(*evil, *a);
  for (const uint64_t seq : {256ull, 257ull, 1000ull, ~0ull, 255ull, 255ull}) {
    ASSERT_TRUE(evil->send(peer, frame_of({Kind::data, seq, 0, 0}, "y", key_of(*evil, *a))));
  }
  run({a.get()}, now_ns + kMs);
  EXPECT_TRUE(a->sink.packets.empty());
  EXPECT_EQ(a->counters.link_duplicates, 5u);
}

TEST_P(LinkTest, FramesThatWaitedKeepToTheBudget) {
  const auto b = linked();
  const auto a = bare();
  const PeerId peer = reach(*a, *b);
  for (uint32_t i = 1; i <= 64; i++) {
    ASSERT_TRUE(a->send(
        peer, frame_of({Kind::data, i % 64, 0, 0}, std::to_string(i % 64), key_of(*a, *b))));
  }
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

TEST_P(LinkTest, RandomFramesDoNoHarm) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId peer = reach(*evil, *a);
  Random random(3);
  uint64_t words = 1;  // the hello
  for (int i = 0; i < 20000; i++) {
    Header h{static_cast<Kind>(random.between(1, 2)), static_cast<uint32_t>(random.next()),
             static_cast<uint32_t>(random.next()), random.next()};
    if (random.chance(500000)) h.seq %= 200;
    if (h.kind == Kind::ack) h.seq = random.chance(500000) ? ++words : words;
    if (random.chance(500000)) h.ack %= random.chance(500000) ? 1 : 100;
    if (!a->sink.packets.empty() && random.chance(100000))
      a->send(a->sink.packets[0].from, "x", {}, static_cast<uint64_t>(i + 1));
    std::string frame = frame_of(h, h.kind == Kind::data ? "payload" : "", key_of(*evil, *a));
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
TEST_P(LinkTest, NobodyWaitsForAnAcknowledgementOfWhatIsKnownToHaveArrived) {
  for (int lost = 0; lost < 10; lost++) {
    const auto a = linked("drop#2");
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
TEST_P(LinkTest, EveryPatternOfLossIsRepaired) {
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

TORII_WITH_CIPHERS(LinkTest);

}  // namespace
}  // namespace torii
