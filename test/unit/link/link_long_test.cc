// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames of the core's that are longer than the MTU of the driver below: together where they arrive
// so, part by part where they do not.
#include <deque>
#include <set>

#include "core/base/random.h"
#include "drivers/decorator.h"
#include "unit/link/link_fixture.h"

namespace torii::test {
namespace {

constexpr uint32_t kMtu = 1000;
constexpr size_t kLong = 12000;

// Below the link: writes down how long frames are, and drops some of those longer than the MTU.
class Way final : public Decorator {
 public:
  Way(const OpenBelow& open_below, const DriverEnv& env) : Decorator(env) {
    EXPECT_TRUE(open(open_below, env));
  }
  size_t send(std::span<const Tx> batch) override {
    size_t taken = 0;
    for (const Tx& tx : batch) {
      const size_t bytes = tx.head_bytes + tx.body_bytes;
      const bool drop = bytes > kMtu && random_.chance(drop_ppm);
      if (!drop && below_->send({&tx, 1}) == 0) break;
      sizes.push_back(bytes);
      taken++;
    }
    return taken;
  }

  std::vector<size_t> sizes;
  uint32_t drop_ppm = 0;

 private:
  Random random_{1};
};

class LinkLongTest : public LinkTest {
 protected:
  std::unique_ptr<End> open(Way** way, const std::string& faults = "") {
    return std::make_unique<End>([&](const DriverEnv& env) {
      return wrap_link(
          [&](const DriverEnv& inner) {
            auto out = std::make_unique<Way>(
                [&](const DriverEnv& middle) {
                  return wrap_fault([&](const DriverEnv& bare) { return open_sim(longer, bare); },
                                    middle, plan_of(faults));
                },
                inner);
            *way = out.get();
            return out;
          },
          env);
    });
  }
  bool lend(End& from, PeerId to, const std::string& frame, uint64_t cookie) {
    const iovec piece{const_cast<char*>(frame.data()) + 16, frame.size() - 16};
    Tx tx;
    tx.peer = to;
    tx.head = frame.data();
    tx.head_bytes = 16;
    tx.pieces = &piece;
    tx.piece_count = 1;
    tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
    tx.cookie = cookie;
    tx.lent = true;
    return from.driver->send({&tx, 1}) == 1;
  }
  static std::string text(size_t size, uint64_t seed) {
    Random random(seed);
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random.next());
    return out;
  }
  static size_t longest(const Way& way) {
    return *std::max_element(way.sizes.begin(), way.sizes.end());
  }

  SimFabric longer{{.flags = kWait,
                    .mtu = kMtu,
                    .long_max = 20000,
                    .inline_max = kMtu,
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000}};
};

TEST_P(LinkLongTest, LongFramesLeaveAsOne) {
  Way *at_a, *at_b;
  auto a = open(&at_a), b = open(&at_b);
  const PeerId to_b = meet(*a, *b);
  at_a->sizes.clear();
  ASSERT_GE(a->driver->caps().long_max, kLong);
  ASSERT_EQ(a->driver->paths()->long_max(to_b), a->driver->caps().long_max);
  std::vector<std::string> frames;
  for (uint64_t i = 1; i <= 40; i++) {
    frames.push_back(text(i % 3 ? kLong : 50, i));
    ASSERT_TRUE(lend(*a, to_b, frames.back(), i));
    run({a.get(), b.get()}, now_ns + kMs);
  }
  ASSERT_EQ(b->sink.packets.size(), frames.size());
  for (size_t i = 0; i < frames.size(); i++) EXPECT_EQ(b->sink.packets[i].bytes, frames[i]) << i;
  EXPECT_EQ(a->sink.dones.size(), frames.size());
  EXPECT_EQ(at_a->sizes.size(), frames.size());
  EXPECT_GT(longest(*at_a), kLong);
  EXPECT_EQ(a->counters.link_retransmits, 0u);
}

// A way on which no long frame ever arrives: the first one is a trial, and goes again in parts.
TEST_P(LinkLongTest, WhatIsTooLongForTheWayArrivesInParts) {
  Way *at_a, *at_b;
  auto a = open(&at_a), b = open(&at_b);
  at_a->drop_ppm = 1000000;
  const PeerId to_b = a->connect(*b);
  std::vector<std::string> frames;
  for (uint64_t i = 1; i <= 60; i++) {
    frames.push_back(text(kLong, i));
    ASSERT_TRUE(lend(*a, to_b, frames.back(), i));
    for (int tries = 0; b->sink.packets.size() < i && tries < 1000; tries++)
      run({a.get(), b.get()}, now_ns + kMs);
    ASSERT_EQ(b->sink.packets.size(), i);
    EXPECT_EQ(b->sink.packets.back().bytes, frames.back());
    if (i == 1) {
      EXPECT_EQ(a->driver->paths()->long_max(to_b), 0u) << "there is a pause";
    }
  }
  run({a.get(), b.get()}, now_ns + 10 * kMs);
  EXPECT_EQ(a->sink.dones.size(), frames.size());
  const auto trials = static_cast<size_t>(std::count_if(at_a->sizes.begin(), at_a->sizes.end(),
                                                        [](size_t size) { return size > kMtu; }));
  EXPECT_GE(trials, 1u);
  EXPECT_LE(trials, 12u);
  // The way changes; after the pause somebody notices.
  at_a->drop_ppm = 0;
  at_a->sizes.clear();
  for (uint64_t i = 61; i <= 70; i++) {
    run({a.get(), b.get()}, now_ns + 1000 * kMs, 5 * kMs);
    frames.push_back(text(kLong, i));
    ASSERT_TRUE(lend(*a, to_b, frames.back(), i));
    run({a.get(), b.get()}, now_ns + 20 * kMs);
  }
  EXPECT_EQ(b->sink.packets.size(), frames.size());
  EXPECT_GT(longest(*at_a), kLong);
  EXPECT_EQ(a->driver->paths()->long_max(to_b), a->driver->caps().long_max);
}

// Where one in five is lost, parts are better; where one in fifty is, they are not.
TEST_P(LinkLongTest, HowManyAreLostDecides) {
  for (const uint32_t ppm : {20000u, 400000u}) {
    Way *at_a, *at_b;
    auto a = open(&at_a), b = open(&at_b);
    const PeerId to_b = a->connect(*b);
    std::vector<std::string> frames;
    for (uint64_t i = 1; i <= 300; i++) {
      if (i == 10) at_a->drop_ppm = ppm;  // it has been proven by then
      frames.push_back(text(kLong, i));
      ASSERT_TRUE(lend(*a, to_b, frames.back(), i));
      for (int tries = 0; b->sink.packets.size() < i && tries < 1000; tries++)
        run({a.get(), b.get()}, now_ns + kMs);
      ASSERT_EQ(b->sink.packets.size(), i);
      ASSERT_EQ(b->sink.packets.back().bytes, frames.back());
    }
    const auto together = std::count_if(at_a->sizes.begin(), at_a->sizes.end(),
                                        [](size_t size) { return size > kMtu; });
    if (ppm < 100000) {
      EXPECT_GT(together, 250) << ppm;
    } else {
      EXPECT_LT(together, 150) << ppm;
    }
  }
}

// Everything that can happen to frames, with short ones in between.
TEST_P(LinkLongTest, BadNetworksChangeNothing) {
  for (const uint64_t seed : {1, 2, 3}) {
    const std::string faults =
        "drop=5%,duplicate=5%,reorder=5%,corrupt=3%,truncate=2%,seed=" + std::to_string(seed);
    Way *at_a, *at_b;
    auto a = open(&at_a, faults), b = open(&at_b, faults);
    const PeerId to_b = a->connect(*b), to_a = b->connect(*a);
    Random random(seed);
    std::vector<std::string> frames;
    for (uint64_t i = 1; i <= 200; i++) frames.push_back(text(random.between(16, kLong), i));
    size_t sent = 0;
    for (int round = 0; round < 20000 && b->sink.packets.size() < frames.size(); round++) {
      while (sent < frames.size() && lend(*a, to_b, frames[sent], sent + 1)) sent++;
      if (round % 5 == 0) b->send(to_a, "answer");
      run({a.get(), b.get()}, now_ns + kMs / 4, kMs / 20);
    }
    ASSERT_EQ(b->sink.packets.size(), frames.size());
    for (size_t i = 0; i < frames.size(); i++) ASSERT_EQ(b->sink.packets[i].bytes, frames[i]) << i;
    run({a.get(), b.get()}, now_ns + 200 * kMs);
    std::set<uint64_t> done;
    for (const auto& one : a->sink.dones) EXPECT_TRUE(done.insert(one.cookie).second);
    EXPECT_EQ(done.size(), frames.size());
  }
}

// The memory is the lender's again when all of it has arrived, and not before.
TEST_P(LinkLongTest, TheMemoryIsKeptUntilAllPartsHaveArrived) {
  Way *at_a, *at_b;
  auto a = open(&at_a), b = open(&at_b);
  at_a->drop_ppm = 1000000;
  const PeerId to_b = a->connect(*b);
  for (uint64_t i = 1; i <= 5; i++) {
    const std::string frame = text(kLong, i);
    std::string lent = frame;
    ASSERT_TRUE(lend(*a, to_b, lent, i));
    for (int steps = 0; a->sink.dones.size() < i && steps < 10000; steps++)
      run({a.get(), b.get()}, now_ns + 10000, 10000);
    ASSERT_EQ(a->sink.dones.size(), i);
    lent.assign(lent.size(), '!');
    run({a.get(), b.get()}, now_ns + kMs);
    ASSERT_EQ(b->sink.packets.size(), i);
    EXPECT_EQ(b->sink.packets.back().bytes, frame);
  }
  const std::string frame = text(kLong, 9);
  ASSERT_TRUE(lend(*a, to_b, frame, 9));
  run({a.get()}, now_ns + 2 * kDeadlineMs * kMs);
  ASSERT_EQ(a->sink.dones.size(), 6u);
  EXPECT_EQ(a->sink.dones.back().status, Status::peer_dead);
}

// Parts by hand, of somebody who does not keep to the rules: nothing of them is handed up.
TEST_P(LinkLongTest, UnfinishedFramesAreDiscarded) {
  auto a = bare(), b = linked();
  const PeerId to_b = reach(*a, *b);
  const FrameKey key = key_of(*a, *b);
  std::deque<std::string> frames, bodies;
  const auto part = [&](uint64_t seq, link::Parts parts, const std::string& payload) {
    link::Header header;
    header.kind = link::Kind::part;
    header.seq = seq;
    std::byte head[link::kPartsBytes];
    link::write_parts(parts, head);
    const std::string bytes(reinterpret_cast<const char*>(head), sizeof(head));
    frames.push_back(frame_of(header, bytes + payload, key));
    bodies.push_back(frames.back().substr(link::kHeaderBytes));
    frames.back().resize(link::kHeaderBytes);
    ASSERT_TRUE(a->send(to_b, frames.back(), bodies.back(), frames.size()));
    run({a.get(), b.get()}, now_ns + kMs);
  };
  part(0, {1, false, true}, "the end of nothing");
  EXPECT_EQ(b->counters.link_corrupt, 1u);
  part(1, {2, true, false}, "a begin");
  part(3, {1, true, true}, "whole");
  EXPECT_EQ(b->counters.link_corrupt, 2u);
  part(4, {1, true, false}, "a");
  part(5, {3, false, false}, "b");
  part(8, {1, false, true}, "c");
  ASSERT_EQ(b->sink.packets.size(), 2u);
  EXPECT_EQ(b->sink.packets[0].bytes, "whole");
  EXPECT_EQ(b->sink.packets[1].bytes, "abc");
  part(9, {64, true, false}, std::string(100, 'x'));
  for (uint64_t seq = 73; seq < 73 + 64; seq++)
    part(seq, {1, false, false}, std::string(2000, 'x'));
  EXPECT_GT(b->counters.link_corrupt, 2u) << "too long";
  EXPECT_EQ(b->sink.packets.size(), 2u);
}

TEST(LinkParts, AreReadAsTheyWereWritten) {
  for (const uint8_t count : {1, 2, 64}) {
    for (const bool begins : {false, true}) {
      for (const bool ends : {false, true}) {
        link::Header header, read;
        header.kind = link::Kind::part;
        std::byte head[link::kPartsBytes];
        link::write_parts({count, begins, ends}, head);
        const std::string bytes(reinterpret_cast<const char*>(head), sizeof(head));
        ASSERT_TRUE(parses(frame_of(header, bytes + "x"), &read));
        EXPECT_TRUE(read.parts.count == count && read.parts.begins == begins &&
                    read.parts.ends == ends);
        EXPECT_FALSE(parses(frame_of(header, bytes), &read)) << "nothing follows";
        EXPECT_FALSE(parses(frame_of(header, bytes.substr(1)), &read)) << "cut";
        for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
          std::string bad = bytes;
          bad[at] = at ? '\x44' : '\x41';
          EXPECT_FALSE(parses(frame_of(header, bad + "x"), &read)) << "byte " << at;
        }
      }
    }
  }
}

TORII_WITH_CIPHERS(LinkLongTest);

}  // namespace
}  // namespace torii::test
