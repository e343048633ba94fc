// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The parts of the link: checksum, tag, header, timer and window.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/link/congestion.h"
#include "core/link/link_driver.h"
#include "core/link/timer.h"
#include "unit/link/link_kit.h"

namespace torii {
namespace {

using link::Header;
using link::Kind;
using test::believed;
using test::frame_of;
using test::kKey;
using test::kMs;
using test::parses;
using test::tag_is_right;

TEST(Crc32c, KnownValues) {
  // RFC 3720, B.4.
  const std::string zeros(32, '\0'), ones(32, '\xff');
  std::string rising;
  for (char c = 0; c < 32; c++) rising += c;
  for (const auto& [name, crc] : crc32c_ways()) {
    EXPECT_EQ(crc(0, zeros.data(), 32), 0x8a9136aau) << name;
    EXPECT_EQ(crc(0, ones.data(), 32), 0x62a8ab43u) << name;
    EXPECT_EQ(crc(0, rising.data(), 32), 0x46dd794eu) << name;
    EXPECT_EQ(crc(0, "123456789", 9), 0xe3069283u) << name;
  }
}

TEST(Crc32c, AllWaysAgreeAndContinue) {
  Random random(1);
  std::string data(9000, '\0');
  for (char& c : data) c = static_cast<char>(random.next());
  const auto table = crc32c_ways().back().sum;
  for (size_t size = 0; size < data.size(); size += size < 1500 ? 1 : 61) {
    const uint32_t whole = table(0, data.data(), size);
    const size_t cut = size / 3;
    EXPECT_EQ(crc32c(0, data.data(), size), whole);
    for (const auto& [name, crc] : crc32c_ways()) {
      EXPECT_EQ(crc(0, data.data(), size), whole) << name << ", " << size;
      EXPECT_EQ(crc(crc(0, data.data(), cut), data.data() + cut, size - cut), whole) << name;
    }
  }
}

TEST(LinkHeader, GoldenBytes) {
  const std::string frame =
      frame_of({Kind::data, 0x090a0b0c, 0x0d0e0f10, 0x1112131415161718}, "payload");
  std::string hex;
  for (const unsigned char c : frame.substr(0, link::kHeaderBytes)) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  EXPECT_EQ(hex.substr(0, 8), "4c4b0901");
  EXPECT_EQ(hex.substr(16, 32), "0c0b0a09100f0e0d1817161514131211");
}

TEST(LinkHeader, EveryFlippedBitAndEveryCutIsNoticed) {
  for (const bool whole : {false, true}) {
    Header in{Kind::data, 3, 4, 5};
    in.whole = whole;
    const std::string frame = frame_of(in, "payload");
    Header header;
    ASSERT_TRUE(believed(frame, &header));
    EXPECT_EQ(header.sack, 5u);
    for (size_t bit = 0; bit < frame.size() * 8; bit++) {
      std::string bad = frame;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(believed(bad, &header)) << bit;
    }
    for (size_t size = 0; size < frame.size(); size++)
      EXPECT_FALSE(believed(frame.substr(0, size), &header)) << size;
  }
  Header header;
  EXPECT_FALSE(parses(frame_of({static_cast<Kind>(9), 0, 0, 0}), &header));
  EXPECT_FALSE(parses(frame_of({Kind::ack, 0, 0, 0}, "x"), &header)) << "payload after ack";
  Header hello{Kind::hello, 1, 0, 0};
  EXPECT_FALSE(parses(frame_of(hello, std::string(100, 'a')), &header)) << "not under the tag";
  hello.whole = true;
  EXPECT_TRUE(parses(frame_of(hello, std::string(100, 'a')), &header));
  EXPECT_FALSE(parses(frame_of(hello, std::string(link::kHelloBytes, 'a')), &header))
      << "without an address";
}

TEST(LinkHeader, TheTagNeedsTheKeyAndTheHighHalves) {
  const std::string frame = frame_of({Kind::data, 3ull << 32 | 5, 7ull << 32 | 9, 0});
  Header header;
  ASSERT_TRUE(parses(frame, &header));
  EXPECT_EQ(header.seq, 5u);
  EXPECT_FALSE(believed(frame, &header)) << "a frame of 2^32 numbers ago";
  header.seq = link::whole_number(3ull << 32 | 60, 5);
  header.ack = link::whole_number(8ull << 32 | 1, ~0u);
  EXPECT_EQ(header.ack, 7ull << 32 | 0xffffffff);
  header.ack = link::whole_number(7ull << 32, 9);
  EXPECT_TRUE(tag_is_right(frame, header, kKey));
  TagKey other = kKey;
  for (std::byte& b : other) {
    b ^= std::byte{1};
    EXPECT_FALSE(tag_is_right(frame, header, other));
    b ^= std::byte{1};
  }
}

TEST(LinkHeader, TagsSideBySideAreThoseOfEachAlone) {
  std::vector<std::string> frames;
  std::vector<Opening> openings;
  std::array<SealKey, kSipLanes> keys;
  Random random(2);
  for (size_t i = 0; i < kSipLanes; i++) {
    Header header{Kind::data, random.next(), random.next(), random.next()};
    header.ask = i % 2;
    keys[i].tag[0] = static_cast<std::byte>(i);
    frames.push_back(frame_of(header, std::string(i, 'x'), keys[i].tag));
    openings.push_back({nullptr, link::unsent_of(header), &keys[i], {}, false, nullptr});
  }
  for (size_t i = 0; i < frames.size(); i++)
    openings[i].head = reinterpret_cast<const std::byte*>(frames[i].data());
  for (size_t count = 1; count <= kSipLanes; count++) {
    uint64_t tags[kSipLanes];
    TagSeal::expect({openings.data(), count}, tags);
    for (size_t i = 0; i < count; i++) {
      EXPECT_TRUE(TagSeal::has(openings[i].head, tags[i])) << i << " of " << count;
      EXPECT_FALSE(TagSeal::has(openings[i].head, tags[i] ^ 1));
    }
  }
}

TEST(SipHash, SideBySideInAllWays) {
  Random random(3);
  constexpr size_t kWords = 3;
  std::array<std::array<std::byte, 8 * kWords>, kSipLanes> texts;
  std::array<const std::byte*, kSipLanes> begins;
  SipWords more;
  std::array<TagKey, kSipLanes> own{};
  SipKeys keys;
  for (size_t lane = 0; lane < kSipLanes; lane++) {
    for (std::byte& b : texts[lane]) b = static_cast<std::byte>(random.next());
    begins[lane] = texts[lane].data();
    more[lane] = random.next();
    own[lane][lane] = static_cast<std::byte>(random.next());
    keys[lane] = &own[lane];
  }
  SipWords best;
  std::vector<SipWords> found(siphash_lanes_ways().size());
  siphash_lanes(keys, begins, kWords, more, &best);
  for (size_t way = 0; way < found.size(); way++)
    siphash_lanes_ways()[way].tags(keys, begins, kWords, more, &found[way]);
  for (size_t lane = 0; lane < kSipLanes; lane++) {
    SipHash alone(own[lane]);
    std::byte last[8];
    store_little<uint64_t>(last, more[lane]);
    alone.add(texts[lane]);
    alone.add(last);
    const uint64_t tag = alone.finish();
    EXPECT_EQ(best[lane], tag);
    for (size_t way = 0; way < found.size(); way++)
      EXPECT_EQ(found[way][lane], tag) << siphash_lanes_ways()[way].name;
  }
}

// Without the whole tag somebody who mends the checksum can change a payload; with it nobody can.
TEST(LinkHeader, AWholeTagCoversThePayload) {
  for (const bool whole : {false, true}) {
    Header in{Kind::data, 3, 4, 5};
    in.whole = whole;
    const std::string one = frame_of(in, "one payload"), two = frame_of(in, "two"), tail = "\0\0";
    const auto tag = [](const std::string& frame) {
      return frame.substr(link::kHeaderBytes - 8, 8);
    };
    std::string same_checksum = one;
    same_checksum[one.size() - 1] ^= 1;
    Header header;
    ASSERT_TRUE(parses(same_checksum, &header));
    EXPECT_EQ(tag_is_right(same_checksum, header, kKey), !whole);
    EXPECT_NE(tag(one), tag(two));
  }
}

// The values of the paper's reference implementation: key 00 01 .. 0f, message 00 01 .. (n-1).
TEST(SipHash, KnownValues) {
  TagKey key;
  std::byte message[16];
  for (size_t i = 0; i < 16; i++) key[i] = message[i] = static_cast<std::byte>(i);
  const auto hash = [&](size_t bytes) {
    SipHash h(key);
    h.add(std::span(message).first(bytes));
    return h.finish();
  };
  EXPECT_EQ(hash(0), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(hash(15), 0xa129ca6149be45e5u);
  SipHash parts(key);
  parts.add(std::span(message).first(8));
  parts.add(std::span(message).subspan(8, 7));
  EXPECT_EQ(parts.finish(), 0xa129ca6149be45e5u);
}

TEST(CongestionWindow, GrowsUntilALossAndGivesWayOnceForAWindow) {
  link::CongestionWindow window(64);
  EXPECT_EQ(window.frames(), link::CongestionWindow::kFirst);
  window.arrived(16);
  EXPECT_EQ(window.frames(), 32u);
  window.arrived(1000);
  EXPECT_EQ(window.frames(), 64u) << "never more than fits";
  window.lost(100, 164);
  EXPECT_EQ(window.frames(), 44u);
  window.lost(163, 170);
  EXPECT_EQ(window.frames(), 44u) << "the same loss";
  uint32_t trips = 0;
  for (; window.frames() < 48; trips++) window.arrived(window.frames());
  EXPECT_GE(trips, 5u) << "careful after a loss";
  EXPECT_LE(trips, 10u);
  window.lost(164, 200);
  EXPECT_EQ(window.frames(), 33u);
  window.stalled(300);
  EXPECT_EQ(window.frames(), link::CongestionWindow::kLeast);
  for (uint64_t i = 1; i < 20; i++) window.lost(300 * i, 300 * (i + 1));
  EXPECT_EQ(window.frames(), link::CongestionWindow::kLeast);
  window.arrived(2);
  EXPECT_GE(window.frames(), link::CongestionWindow::kLeast);
}

// All was taken for lost, but then something is acknowledged that was not sent again.
TEST(CongestionWindow, IsAsItWasIfThePeerWasOnlyLate) {
  link::CongestionWindow window(64);
  window.arrived(48);
  window.stalled(100);
  EXPECT_EQ(window.frames(), link::CongestionWindow::kLeast);
  window.stalled(110);
  window.was_late();
  EXPECT_EQ(window.frames(), 64u);
  window.stalled(200);
  window.arrived(1);
  window.was_late();
  EXPECT_LT(window.frames(), 10u) << "something has arrived meanwhile: a real loss";
}

TEST(LinkSlots, HoldAWindowOfFramesAndNameSome) {
  link::Slots slots;
  const std::byte one[1] = {};
  for (const uint64_t first : {uint64_t{0}, uint64_t{63}, uint64_t{200}, uint64_t{1} << 33}) {
    EXPECT_EQ(slots.bits(first), 0u);
    for (const uint64_t distance : {0u, 1u, 62u, 63u, 64u, 255u}) {
      EXPECT_FALSE(slots.has(first + distance));
      slots.put(first + distance, distance == 63 ? Kind::several : Kind::data, {}, one);
      EXPECT_TRUE(slots.has(first + distance));
    }
    EXPECT_EQ(slots.bits(first), uint64_t{3} << 62 | 3);
    const link::Slots::Frame frame = slots.take(first + 63);
    EXPECT_EQ(frame.payload.size(), 1u);
    EXPECT_EQ(frame.kind, Kind::several);
    EXPECT_EQ(slots.take(first + 64).kind, Kind::data);
    EXPECT_EQ(slots.bits(first), uint64_t{1} << 62 | 3);
    EXPECT_TRUE(slots.any());
    slots.clear();
    EXPECT_FALSE(slots.any());
  }
}

TEST(SentFrames, StayInOrderWhileTheRingGrows) {
  link::SentFrames frames;
  uint64_t in = 0, out = 0;
  for (const int step : {5, -3, 20, -20, 100, -50, 200, -252}) {
    for (int i = 0; i < step; i++) frames.emplace_back().cookie = in++;
    for (int i = 0; i > step; i--) {
      EXPECT_EQ(frames.front().cookie, out++);
      frames.pop_front();
    }
    for (size_t i = 0; i < frames.size(); i++) ASSERT_EQ(frames[i].cookie, out + i);
  }
  EXPECT_TRUE(frames.empty());
  frames.release();
  frames.emplace_back().cookie = 7;
  EXPECT_EQ(frames.front().cookie, 7u);
}

TEST(RetransmitTimer, FollowsTheRoundTripAndBacksOff) {
  link::RetransmitTimer timer(link::RetransmitTimer::kMinNs, 100 * kMs);
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

}  // namespace
}  // namespace torii
