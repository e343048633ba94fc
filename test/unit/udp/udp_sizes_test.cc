// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How long datagrams of the udp driver are: what was proved, and pieces of frames that are longer.
#include <algorithm>
#include <cstring>

#include "drivers/udp/path_size.h"
#include "drivers/udp/pieces.h"
#include "unit/udp/udp_ends.h"

namespace torii::udp {
namespace {

constexpr uint64_t kMs = 1000000;
constexpr uint32_t kMost = 8952, kUsual = 1452, kLeast = 1232;

TEST(UdpPathSize, CountsWhatWasAnswered) {
  PathSize size(kMost);
  EXPECT_EQ(size.bytes(), kLeast);
  EXPECT_TRUE(size.is_due(1000 * kMs));
  EXPECT_EQ(size.ask(1000 * kMs, 0), kMost);
  EXPECT_FALSE(size.is_due(1000 * kMs + 1));
  size.answered(kUsual);
  EXPECT_EQ(size.bytes(), kUsual);
  size.answered(kLeast);
  EXPECT_EQ(size.bytes(), kUsual) << "answers overtake each other";
  size.answered(kMost);
  EXPECT_EQ(size.bytes(), kMost);
  const PathSize small(1100);
  EXPECT_EQ(small.bytes(), 1100u);
  EXPECT_FALSE(small.is_due(~uint64_t{0})) << "there is nothing longer";
}

TEST(UdpPathSize, GivesUpWhatIsNotAnsweredWhileOtherThingsAre) {
  PathSize size(kMost);
  uint64_t now = 1000 * kMs;
  const auto ask = [&](bool heard) {
    now += PathSize::kProofNs;
    EXPECT_TRUE(size.is_due(now));
    return size.ask(now, heard ? now - 1 : 0);
  };
  ask(true);
  size.answered(kMost);
  for (int i = 0; i < 9; i++) ask(false);
  EXPECT_EQ(size.bytes(), kMost) << "a peer that says nothing may be computing";
  size.answered(kMost);
  for (int i = 0; i < PathSize::kTries; i++) ask(true);
  EXPECT_EQ(size.bytes(), kMost);
  EXPECT_EQ(ask(true), kMost) << "and begins again with all of them";
  EXPECT_EQ(size.bytes(), kLeast);
  size.answered(kUsual);
  // Longer ones are tried less and less often, this one is proved all the time.
  int longer = 0;
  for (int i = 0; i < 100; i++) {
    longer += ask(true) == kMost;
    size.answered(kUsual);
  }
  EXPECT_EQ(size.bytes(), kUsual);
  EXPECT_GE(longer, 3);
  EXPECT_LE(longer, 12);
  size.shorten();
  EXPECT_EQ(size.bytes(), kLeast);
  EXPECT_TRUE(size.is_due(now)) << "another one may be right";
}

// The frames of one sender, cut as the driver does.
class UdpPieces : public testing::Test {
 protected:
  std::string add(uint32_t number, uint8_t index, const std::string& frame, uint64_t from = 7) {
    Header header;
    header.kind = Kind::piece;
    header.from = from;
    header.number = number;
    header.size = static_cast<uint32_t>(frame.size());
    header.index = index;
    header.count = 3;
    const size_t each = piece_bytes(frame.size(), 3);
    std::string piece = frame.substr(index * each, each);
    piece.resize(each);
    const auto whole = pieces.add(header, std::as_bytes(std::span(piece)));
    return {reinterpret_cast<const char*>(whole.data()), whole.size()};
  }

  Pieces pieces;
};

TEST_F(UdpPieces, MakeAFrameInAnyOrder) {
  const std::string a = std::string(1000, 'a') + "bc" + std::string(998, 'd'), b(1999, 'x');
  EXPECT_EQ(add(1, 2, a), "");
  EXPECT_EQ(add(1, 2, a), "") << "the same again";
  EXPECT_EQ(add(2, 0, b), "");
  EXPECT_EQ(add(1, 0, b, 8), "") << "another sender's";
  EXPECT_EQ(add(1, 0, a), "");
  EXPECT_EQ(add(2, 1, b), "");
  EXPECT_EQ(add(1, 1, a), a);
  EXPECT_EQ(add(1, 1, a), "") << "it is over";
  EXPECT_EQ(add(2, 2, b), b);
}

TEST_F(UdpPieces, TheOldestGivesWay) {
  const std::string frame(2000, 'f');
  for (uint32_t i = 0; i < Pieces::kFrames; i++) add(i, 0, frame);
  add(0, 1, frame);
  add(1000, 0, frame);  // takes the place of 1
  EXPECT_EQ(add(0, 2, frame), frame);
  add(1, 1, frame);
  EXPECT_EQ(add(1, 2, frame), "");
}

// A peer that the test plays, which hears no datagrams longer than `carried`.
class UdpSizes : public Udp {
 protected:
  void SetUp() override {
    Udp::SetUp();
    a = std::make_unique<End>(open);
    to = connect(*a, address_of(77, other.port, {"127.0.0.1"}));
    a->send(to, "frame");
    hear();
    ASSERT_TRUE(a->send(to, "frame"));
    hear();
  }

  // Answers pings; what else was carried is in `heard`.
  void hear() {
    heard.clear();
    for (const Bytes& datagram : other.received()) {
      Header header;
      ASSERT_TRUE(parse_header(datagram, &header));
      if (datagram.size() > carried) continue;
      if (header.kind != Kind::ping) {
        heard.push_back(datagram);
        continue;
      }
      std::byte bytes[kPingBytes];
      write_header({Kind::pong, tag_of(header.from), 77, header.number, header.candidate,
                    static_cast<uint32_t>(datagram.size())},
                   bytes);
      other.send(parsed(*a).port, bytes);
    }
    poll({a.get()}, 2);
  }

  // Sends the longest frame. True: it has arrived, by how many datagrams.
  size_t send() {
    const std::string frame(a->driver->caps().mtu - 5, 'f');
    iovec pieces[3] = {{const_cast<char*>(frame.data()), 1500},
                       {const_cast<char*>(frame.data()), 1},
                       {const_cast<char*>(frame.data()), frame.size() - 1501}};
    const Tx tx{to, 5, "head:", pieces, 3, static_cast<uint32_t>(frame.size())};
    EXPECT_EQ(a->driver->send({&tx, 1}), 1u);
    hear();
    std::string arrived;
    for (const Bytes& datagram : heard) {
      Header header;
      if (!parse_header(datagram, &header)) continue;
      if (header.kind == Kind::data)
        arrived.append(reinterpret_cast<const char*>(&datagram[kHeaderBytes]),
                       datagram.size() - kHeaderBytes);
      if (header.kind != Kind::piece) continue;
      const auto whole = pieces_.add(header, std::span(datagram).subspan(kPieceBytes));
      arrived.append(reinterpret_cast<const char*>(whole.data()), whole.size());
    }
    return arrived == "head:" + frame ? heard.size() : 0;
  }

  size_t carried = kUsual;
  std::unique_ptr<End> a;
  PeerId to = kNoPeer;
  Stranger other;
  std::vector<Bytes> heard;
  Pieces pieces_;
};

TEST_F(UdpSizes, LongFramesGoInPiecesThatArrive) {
  EXPECT_EQ(send(), (a->driver->caps().mtu + kUsual - kPieceBytes - 1) / (kUsual - kPieceBytes));
  for (const Bytes& datagram : heard) EXPECT_EQ(datagram.size(), heard[0].size());
  EXPECT_EQ(a->counters.udp_pieced, 1u);
}

// A path becomes worse while it is used, without a word, and better again.
TEST_F(UdpSizes, WhatBecomesOfAPathIsNoticed) {
  const auto sends_until = [&](size_t datagrams) {
    int sends = 0;
    for (; sends < 40 && send() != datagrams; sends++) poll({a.get()}, 100);
    return sends;
  };
  carried = 65536;
  EXPECT_LT(sends_until(1), 40);
  const size_t mtu = a->driver->caps().mtu;
  for (const size_t size : {kUsual, kLeast}) {
    carried = size;
    EXPECT_LT(sends_until((mtu + size - kPieceBytes - 1) / (size - kPieceBytes)), 12) << size;
  }
  carried = 65536;
  EXPECT_LT(sends_until(1), 40);
}

}  // namespace
}  // namespace torii::udp
