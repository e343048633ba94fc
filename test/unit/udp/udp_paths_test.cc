// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the udp driver finds the addresses that answer, and when it gives one up.
#include <map>

#include "unit/udp/udp_ends.h"

namespace torii::udp {
namespace {

TEST_F(Udp, FindsTheAddressThatAnswers) {
  End a(open), b(open);
  // A bridge with the same address on every node: there is somebody, but not the one we want.
  Address address = parsed(b);
  Address tries = address_of(address.number, address.port, {"127.9.9.9"});
  ASSERT_TRUE(add_host(&tries, host("127.0.0.1")));
  const PeerId to = connect(a, tries);
  EXPECT_FALSE(a.send(to, "frame")) << "nobody has answered yet";
  EXPECT_EQ(a.driver->paths()->rails(to), 0u);
  EXPECT_TRUE(reaches(a, to, b));
  EXPECT_EQ(a.driver->paths()->rails(to), 1u) << "two addresses behind one interface";
  // Another process at the same place: nothing is sent to it.
  const PeerId wrong = connect(a, address_of(address.number + 1, address.port, {"127.0.0.1"}));
  for (int i = 0; i < 20; i++) {
    EXPECT_FALSE(a.send(wrong, "frame"));
    poll({&a, &b}, 1, 50000000);
  }
  EXPECT_GT(b.counters.udp_foreign, 0u) << "pings for another process";
}

TEST_F(Udp, TellsWhichAddressesAnswer) {
  End a(open), b(open);
  Stranger silent;
  const PeerId a_at_b = connect(b, parsed(a)), b_at_a = connect(a, parsed(b));
  EXPECT_TRUE(reaches(a, b_at_a, b));
  const PeerAddress there = a.driver->paths()->addresses(b_at_a).at(0),
                    back = b.driver->paths()->addresses(a_at_b).at(0);
  EXPECT_EQ(there.address, "127.0.0.1:" + std::to_string(parsed(b).port));
  EXPECT_TRUE(there.interface == "lo" && there.mtu > 1500 && there.rail == 0 && there.answers);
  EXPECT_FALSE(there.asked) << "b never tried a";
  EXPECT_TRUE(back.asked);
  const PeerId none = connect(a, address_of(5, silent.port, {"127.0.0.1"}));
  EXPECT_FALSE(a.send(none, "frame"));
  poll({&a}, 20, 10000000);
  const PeerAddress nowhere = a.driver->paths()->addresses(none).at(0);
  EXPECT_FALSE(nowhere.answers || nowhere.asked || nowhere.rail >= 0);
}

TEST_F(Udp, PingsHaveTheLengthsThatFramesMayHave) {
  End a(open);
  Stranger other;
  const PeerId to = connect(a, address_of(77, other.port, {"127.0.0.1"}));
  a.send(to, "frame");
  const std::vector<Bytes> pings = other.received();
  ASSERT_EQ(pings.size(), 3u);
  EXPECT_EQ(pings[0].size(), a.driver->caps().mtu + kHeaderBytes);
  EXPECT_EQ(pings[1].size(), 1500u - 48);
  EXPECT_EQ(pings[2].size(), 1280u - 48);
  Header ping;
  ASSERT_TRUE(parse_header(pings[0], &ping));
  EXPECT_EQ(ping.to, 77u);
  EXPECT_EQ(ping.from, parsed(a).number);
  // Answers that do not fit: another number, another size, an address that was never tried.
  Header pong;
  for (const int wrong : {0, 1, 2, 3}) {
    pong = {
        Kind::pong, tag_of(ping.from), 77, ping.number, 0, static_cast<uint32_t>(pings[0].size())};
    if (wrong == 0) pong.number += pings.size();
    if (wrong == 1) pong.size--;
    if (wrong == 2) pong.candidate = 1;
    std::byte bytes[kPingBytes];
    write_header(pong, bytes);
    other.send(parsed(a).port, bytes);
    poll({&a}, 2, 1000);
    EXPECT_EQ(a.send(to, "frame"), wrong == 3) << wrong;
  }
  EXPECT_EQ(a.counters.udp_refused, 3u);
}

TEST_F(Udp, PingsAgainUntilSomebodyAnswersButSlower) {
  End a(open);
  Stranger other;
  const PeerId to = connect(a, address_of(77, other.port, {"127.0.0.1"}));
  a.send(to, "frame");
  poll({&a}, 1000, 10000000);  // ten seconds
  const size_t pings = other.received().size();
  EXPECT_GE(pings, 3 * 8u);
  EXPECT_LE(pings, 3 * 24u);
  poll({&a}, 300, 10000000);
  EXPECT_EQ(other.received().size(), 0u) << "nobody wants to send there any more";
  a.send(to, "frame");
  EXPECT_GE(other.received().size(), 3u);
  a.driver->disconnect(to);
  poll({&a}, 300, 10000000);
  EXPECT_EQ(other.received().size(), 0u) << "pings to a peer that was disconnected";
}

// A peer that the test plays, at two addresses; it was heard from both, and the first is used.
class UdpTwoWays : public Udp {
 protected:
  void SetUp() override {
    Udp::SetUp();
    a = std::make_unique<End>(open);
    to = connect(*a, address_of(77, first.port, {"127.0.0.1", "127.0.0.2"}));
    a->send(to, "frame");
    for (Stranger* at : {&first, &second}) EXPECT_EQ(pings(*at), 1u);
    for (Stranger* at : {&first, &second}) answer(*at);
    EXPECT_TRUE(a->send(to, "by the first"));
    poll({a.get()}, 300);
    first.received();
    second.received();
  }

  // Answers what was asked there last.
  void answer(Stranger& at) {
    const Header& ping = asked.at(&at);
    std::byte bytes[kPingBytes];
    const auto size = static_cast<uint32_t>(a->driver->caps().mtu + kHeaderBytes);
    write_header({Kind::pong, tag_of(ping.from), 77, ping.number, ping.candidate, size}, bytes);
    at.send(parsed(*a).port, bytes);
    poll({a.get()}, 1);
  }

  // How many of the longest have arrived there.
  unsigned pings(Stranger& at) {
    unsigned count = 0;
    for (const Bytes& datagram : at.received()) {
      Header ping;
      if (!parse_header(datagram, &ping) || ping.kind != Kind::ping) continue;
      if (datagram.size() != a->driver->caps().mtu + kHeaderBytes) continue;
      asked[&at] = ping;
      count++;
    }
    return count;
  }

  // The second address answers, and the first has its time to do so, too.
  void round() {
    EXPECT_TRUE(a->send(to, "by the first, which may be slow"));
    EXPECT_GE(pings(first), 1u);
    ASSERT_EQ(pings(second), 1u) << "no frame, and a question";
    answer(second);
    EXPECT_EQ(pings(second), 0u) << "that has been answered";
    poll({a.get()}, 55);
  }

  std::unique_ptr<End> a;
  PeerId to = kNoPeer;
  Stranger first, second{2, first.port};
  std::map<Stranger*, Header> asked;
};

TEST_F(UdpTwoWays, AnotherAddressIsFoundWhenOneGoesSilent) {
  for (int i = 0; i < 3; i++) round();
  second.received();
  EXPECT_TRUE(a->send(to, "by the second"));
  const auto arrived = second.received();
  ASSERT_FALSE(arrived.empty());
  EXPECT_EQ(arrived.back().size(), kHeaderBytes + 13);
}

TEST_F(UdpTwoWays, AnAddressIsNotGivenUpForALateAnswer) {
  round();
  const Header late = asked.at(&first);
  round();
  asked[&first] = late;
  answer(first);
  round();
  EXPECT_TRUE(a->send(to, "by the first"));
  EXPECT_TRUE(second.received().empty());
  EXPECT_GE(first.received().size(), 1u);
}

}  // namespace
}  // namespace torii::udp
