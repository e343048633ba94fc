// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Others on the network, who know all addresses and numbers and hear everything, but have no key,
// can do nothing to the udp driver.
#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/random.h"
#include "core/link/link.h"
#include "unit/link/link_kit.h"
#include "unit/udp/udp_ends.h"

namespace torii::udp {
namespace {

TEST(UdpNumbers, ComeOnce) {
  Numbers numbers;
  EXPECT_FALSE(numbers.add(0));
  EXPECT_TRUE(numbers.add(1));
  EXPECT_FALSE(numbers.add(1));
  EXPECT_TRUE(numbers.add(64));
  EXPECT_TRUE(numbers.add(2)) << "it was overtaken";
  EXPECT_FALSE(numbers.add(2));
  EXPECT_TRUE(numbers.add(66));
  EXPECT_FALSE(numbers.add(1));
  EXPECT_FALSE(numbers.add(66 - Numbers::kKept)) << "too late";
  EXPECT_TRUE(numbers.add(3));
  EXPECT_TRUE(numbers.add(~uint64_t{0}));
  EXPECT_FALSE(numbers.add(66)) << "far behind";
}

// Processes that have the same secret for all of them.
struct Secret final : Trust {
  static uint64_t of(std::span<const std::byte> text) { return siphash(test::kKey, text); }
  bool tag(PeerId, std::span<const std::byte> text, uint64_t* out) const override {
    *out = of(text);
    return true;
  }
  bool is_right(PeerId, std::span<const std::byte> text, uint64_t tag) const override {
    return of(text) == tag;
  }
};

// Believes frames that begin with "good", as a link does those with a tag.
struct Judge final : Sink {
  void packet(PeerId, std::span<const std::byte>) override {}
  void packets(std::span<Packet> all) override {
    for (Packet& one : all) {
      const std::string text(reinterpret_cast<const char*>(one.frame.data()), one.frame.size());
      one.genuine = text.starts_with("good");
      from.push_back(one.from);
    }
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}
  std::vector<PeerId> from;
};

// The driver under attack, and a peer of it that the test plays at two addresses of one port.
class UdpTrust : public Udp {
 protected:
  static constexpr uint64_t kPeer = 77;

  void SetUp() override {
    Udp::SetUp();
    DriverEnv env;
    env.sink = &sink;
    env.counters = &counters;
    env.trust = &secret;
    driver = open(env);
    ASSERT_TRUE(driver);
    std::byte bytes[kAddressBytes];
    driver->address(bytes);
    ASSERT_TRUE(parse_address(bytes, &own));
    std::string why;
    ASSERT_EQ(driver->connect(written(address_of(kPeer, first.port, {"127.0.0.1", "127.0.0.2"})),
                              &peer, &why),
              Status::ok);
  }

  void run(int times = 4, uint64_t step_ns = 1000000) {
    for (int i = 0; i < times; i++) driver->poll(now_ns += step_ns, 64);
  }
  bool send(const std::string& text, bool anywhere = false) {
    Tx tx;
    tx.peer = peer;
    tx.head = text.data();
    tx.head_bytes = static_cast<uint32_t>(text.size());
    tx.anywhere = anywhere;
    return driver->send({&tx, 1}) == 1;
  }
  bool has_path() { return driver->paths()->rails(peer) != 0; }

  Header header(Kind kind) const { return {kind, tag_of(own.number), kPeer, 0, 0, 0}; }
  Bytes data(const std::string& text, uint64_t from = kPeer) const {
    Bytes out(kHeaderBytes + text.size());
    Header head = header(Kind::data);
    head.from = from;
    write_header(head, out.data());
    std::memcpy(out.data() + kHeaderBytes, text.data(), text.size());
    return out;
  }
  Bytes tagged(Header head, size_t bytes = kPingBytes) const {
    Bytes out(bytes);
    if (head.kind == Kind::ping) head.size = static_cast<uint32_t>(bytes);
    write_header(head, out.data());
    write_tag(Secret::of(std::span(out).first(kTaggedBytes)), out.data());
    return out;
  }
  Bytes answer_to(const Bytes& datagram) const {
    Header ping, pong = header(Kind::pong);
    EXPECT_TRUE(parse_header(datagram, &ping));
    pong.number = ping.number;
    pong.candidate = ping.candidate;
    pong.size = static_cast<uint32_t>(datagram.size());
    return tagged(pong);
  }
  // The datagrams of a kind that have arrived there.
  static std::vector<Bytes> received(Stranger& at, Kind kind) {
    std::vector<Bytes> out = at.received();
    std::erase_if(out, [&](const Bytes& one) {
      Header head;
      return !parse_header(one, &head) || head.kind != kind;
    });
    return out;
  }
  void find_path() {
    send("good");
    for (const Bytes& ping : received(first, Kind::ping)) first.send(own.port, answer_to(ping));
    run();
    ASSERT_TRUE(has_path());
  }

  Secret secret;
  Judge sink;
  Counters counters;
  std::unique_ptr<Driver> driver;
  Address own;
  PeerId peer = kNoPeer;
  Stranger first, second{2, first.port}, evil;
};

TEST_F(UdpTrust, AnAnswerWithATagIsAPath) {
  find_path();
  EXPECT_TRUE(send("good"));
  EXPECT_EQ(received(first, Kind::data).size(), 1u);
  EXPECT_TRUE(received(second, Kind::data).empty());
}

TEST_F(UdpTrust, NobodyElseBecomesThePathBeforeTheFirstAnswer) {
  EXPECT_FALSE(send("secret"));
  const std::vector<Bytes> pings = received(first, Kind::ping);
  ASSERT_FALSE(pings.empty());
  Bytes forged = answer_to(pings[0]);
  forged.back() ^= std::byte{1};
  for (Stranger* at : {&evil, &first}) {
    at->send(own.port, data("good"));
    at->send(own.port, data("evil"));
    at->send(own.port, forged);
    Bytes ping = tagged(header(Kind::ping), 100);
    ping[kTaggedBytes] ^= std::byte{1};
    at->send(own.port, ping);
    run();
    EXPECT_FALSE(has_path());
    EXPECT_FALSE(send("secret"));
  }
  EXPECT_EQ(counters.udp_refused, 4u);
  EXPECT_TRUE(evil.received().empty());
  for (const Bytes& datagram : first.received())
    EXPECT_GT(datagram.size(), 1000u) << "nothing but pings";
}

// The peer computes: what it has said before is all that there is to hear of it.
TEST_F(UdpTrust, APathStaysWhereItIsWhileThePeerComputes) {
  const Bytes ping = tagged(header(Kind::ping), 1000);
  send("good");
  std::vector<Bytes> heard = {ping, data("good"), data("evil")};
  for (const Bytes& one : received(first, Kind::ping)) {
    heard.push_back(answer_to(one));
    first.send(own.port, heard.back());
  }
  run();
  ASSERT_TRUE(has_path());
  for (int i = 0; i < 2000; i++) {
    run(1);
    if (i % 10 == 0) {
      EXPECT_TRUE(send("good"));
    }
    evil.send(own.port, heard[static_cast<size_t>(i) % heard.size()]);
    for (const Bytes& one : received(evil, Kind::data)) ADD_FAILURE() << one.size();
    ASSERT_TRUE(received(evil, Kind::ping).empty()) << "its address is none of the peer's";
  }
  EXPECT_GE(received(first, Kind::data).size(), 10u);
  EXPECT_EQ(driver->paths()->addresses(peer).size(), 2u);
}

// Recorded answers are no sign of life: the other address takes over when it answers.
TEST_F(UdpTrust, RecordedAnswersKeepNoPathAlive) {
  send("good");
  std::vector<Bytes> recorded;
  for (const Bytes& one : received(first, Kind::ping)) recorded.push_back(answer_to(one));
  for (const Bytes& one : recorded) first.send(own.port, one);
  run();
  ASSERT_TRUE(has_path());
  for (int i = 0; i < 1000; i++) {
    first.send(own.port, recorded[static_cast<size_t>(i) % recorded.size()]);
    first.send(own.port, data("evil"));
    for (const Bytes& one : received(second, Kind::ping)) second.send(own.port, answer_to(one));
    EXPECT_TRUE(send("good"));
    run(1);
  }
  first.received();
  second.received();
  EXPECT_TRUE(send("good"));
  EXPECT_TRUE(received(first, Kind::data).empty());
  EXPECT_EQ(received(second, Kind::data).size(), 1u);
}

TEST_F(UdpTrust, AnAnswerIsNoLongerThanTheQuestion) {
  size_t sent = 0, back = 0;
  const auto count = [&](const Bytes& datagram) {
    sent += datagram.size();
    evil.send(own.port, datagram);
    run(1);
    for (const Bytes& one : evil.received()) back += one.size();
  };
  for (uint32_t i = 0; i < 500; i++) {
    Bytes ping(kPingBytes + i);
    Header head = header(Kind::ping);
    head.from = i % 2 ? kPeer : 1000 + i;
    head.size = static_cast<uint32_t>(ping.size());
    write_header(head, ping.data());
    count(ping);
    count(data("evil", head.from));
  }
  EXPECT_EQ(back, 0u) << "who has no key is not answered";
  sent = 0;
  Header again = header(Kind::ping);
  again.number = 5;
  for (uint32_t i = 0; i < 500; i++) count(tagged(again));
  EXPECT_GT(back, 0u);
  EXPECT_LE(back, sent);
  EXPECT_GE(counters.udp_refused, 500u);
}

// The next peer that is connected has the next number.
TEST_F(UdpTrust, StrangersLeaveNoPeers) {
  Random random(1);
  for (uint32_t i = 0; i < 5000; i++) {
    const std::string noise(random.between(0, 40), static_cast<char>(i));
    evil.send(own.port, data(noise, i + 1000));
    if (i % 64 == 63) run(16);
  }
  run(100);
  EXPECT_GE(sink.from.size(), 4000u);
  EXPECT_EQ(std::count(sink.from.begin(), sink.from.end(), kNoPeer),
            static_cast<ptrdiff_t>(sink.from.size()));
  PeerId next = kNoPeer;
  std::string why;
  EXPECT_EQ(driver->connect(written(address_of(5, 9, {"127.0.0.1"})), &next, &why), Status::ok);
  EXPECT_EQ(next, peer + 1);
}

TEST_F(UdpTrust, TheFirstWordsGoToAllAddresses) {
  EXPECT_TRUE(send("hello", true));
  for (Stranger* at : {&first, &second}) {
    const std::vector<Bytes> all = at->received();
    ASSERT_EQ(all.size(), 4u);
    Header head;
    ASSERT_TRUE(parse_header(all[0], &head));
    EXPECT_EQ(head.kind, Kind::data) << "and pings behind them";
    EXPECT_EQ(all[0].size(), kHeaderBytes + 5);
    first.send(own.port, answer_to(all[1]));
  }
  EXPECT_FALSE(send("not these"));
  run();
  EXPECT_TRUE(send("hello", true));
  EXPECT_EQ(received(first, Kind::data).size() + received(second, Kind::data).size(), 1u);
}

// Links over the driver, as processes have them.
class UdpLinks : public Udp {
 protected:
  static std::unique_ptr<Driver> linked(const DriverEnv& env) { return wrap_link(open, env); }
  static std::vector<std::byte> published(const End& end) {
    auto out = end.address();
    out.resize(kAddressBytes);
    return out;
  }
  static Address own(const End& end) {
    Address out;
    EXPECT_TRUE(parse_address(published(end), &out));
    return out;
  }
  bool delivers(End& from, PeerId to, End& target, int polls) {
    const size_t before = target.sink.packets.size();
    EXPECT_TRUE(from.send(to, "frame"));
    for (int i = 0; i < polls && target.sink.packets.size() == before; i++)
      poll({&from, &target}, 1, 100000);
    return target.sink.packets.size() > before;
  }

  End a{linked}, b{linked};
};

TEST_F(UdpLinks, MeetAtOnceThoughOneHasNotConnectedTheOther) {
  EXPECT_TRUE(delivers(a, a.connect(b), b, 50)) << "5 ms";
  EXPECT_TRUE(delivers(b, b.sink.packets[0].from, a, 50));
  EXPECT_EQ(a.counters.link_forged + b.counters.link_forged, 0u);
}

TEST_F(UdpLinks, StrangersLeaveNothingBehind) {
  Stranger evil;
  const Address victim = own(b);
  Random random(1);
  for (uint32_t i = 0; i < 5000; i++) {
    Bytes datagram(kHeaderBytes + 1 + i % 200);
    for (std::byte& byte : datagram) byte = static_cast<std::byte>(random.next());
    Header head;
    head.to = tag_of(victim.number);
    head.from = i + 1;
    write_header(head, datagram.data());
    evil.send(victim.port, datagram);
    if (i % 64 == 63) poll({&b}, 16);
  }
  poll({&b}, 100);
  EXPECT_GE(b.counters.link_corrupt, 4000u);
  EXPECT_TRUE(evil.received().empty());
  EXPECT_EQ(b.connect(a), 0u) << "numbers of peers are not used up";
}

// From elsewhere, to a process that has not heard it yet, and to one that has.
TEST_F(UdpLinks, ARecordedHelloMovesNothing) {
  Stranger evil;
  const std::string hello = test::hello_of(published(a), a.keys, b.keys);
  Bytes datagram(kHeaderBytes + hello.size());
  Header head;
  head.to = tag_of(own(b).number);
  head.from = own(a).number;
  write_header(head, datagram.data());
  std::memcpy(datagram.data() + kHeaderBytes, hello.data(), hello.size());
  const PeerId at_a = a.connect(b);
  for (int i = 0; i < 3; i++) {
    evil.send(own(b).port, datagram);
    poll({&b}, 5);
    EXPECT_TRUE(evil.received().empty()) << "it leads to the address that its maker has published";
  }
  EXPECT_EQ(b.counters.link_duplicates, 2u);
  ASSERT_TRUE(delivers(a, at_a, b, 100));
  EXPECT_EQ(b.sink.packets[0].from, 0u);
  evil.send(own(b).port, datagram);
  poll({&a, &b}, 5);
  ASSERT_TRUE(delivers(b, 0, a, 100));
  EXPECT_TRUE(evil.received().empty());
}

}  // namespace
}  // namespace torii::udp
