// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The udp driver over loopback: how it finds the address that answers, what becomes of datagrams of
// others. The conformance kit checks the rest.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "core/base/param.h"
#include "drivers/random.h"
#include "drivers/udp/net.h"
#include "drivers/udp/udp.h"
#include "recorder.h"
#include "unit/udp_kit.h"

namespace torii::udp {
namespace {

using test::End;

class Udp : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_EQ(param_set("udp_interfaces", "lo", "test", &why), Status::ok) << why;
    ASSERT_EQ(param_set("udp_mtu", "0", "test", &why), Status::ok) << why;
  }

  static std::unique_ptr<Driver> open(const DriverEnv& env) {
    std::string why;
    auto driver = open_udp(env, &why);
    EXPECT_TRUE(driver) << why;
    return driver;
  }

  void poll(std::initializer_list<End*> ends, int times = 50, uint64_t step_ns = 1000000) {
    for (int i = 0; i < times; i++) {
      now_ns += step_ns;
      for (End* end : ends) end->driver->poll(now_ns, 64);
    }
  }

  // Sends until a frame has arrived.
  bool reaches(End& from, PeerId to, End& target, int times = 200) {
    const size_t before = target.sink.packets.size();
    for (int i = 0; i < times && target.sink.packets.size() == before; i++) {
      from.send(to, "hello");
      poll({&from, &target}, 1);
    }
    return target.sink.packets.size() > before;
  }

  static Address parsed(const End& end) {
    Address out;
    EXPECT_TRUE(parse_address(end.address(), &out));
    return out;
  }

  static PeerId connect(End& end, const Address& address) {
    PeerId peer = kNoPeer;
    std::string why;
    EXPECT_EQ(end.driver->connect(written(address), &peer, &why), Status::ok) << why;
    return peer;
  }

  uint64_t now_ns = 1000000000;
};

// A socket of somebody else.
class Stranger {
 public:
  Stranger() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(own);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), length), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length);
    port = ntohs(own.sin_port);
  }
  ~Stranger() { close(fd_); }
  void send(uint16_t to, std::span<const std::byte> bytes) {
    sockaddr_in target{};
    target.sin_family = AF_INET;
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.sin_port = htons(to);
    sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&target),
           sizeof(target));
  }
  // The datagrams that have arrived.
  std::vector<Bytes> received() {
    std::vector<Bytes> out;
    Bytes buffer(65536);
    for (ssize_t n; (n = recv(fd_, buffer.data(), buffer.size(), 0)) >= 0;)
      out.emplace_back(buffer.begin(), buffer.begin() + n);
    return out;
  }
  uint16_t port;

 private:
  int fd_;
};

TEST_F(Udp, FindsTheAddressThatAnswers) {
  End a(open), b(open);
  // A bridge with the same address on every node: there is somebody, but not the one we want.
  Address address = parsed(b);
  Address tries = address_of(address.number, address.port, {"127.9.9.9"});
  ASSERT_TRUE(add_host(&tries, host("127.0.0.1")));
  const PeerId to = connect(a, tries);
  EXPECT_FALSE(a.send(to, "frame")) << "nobody has answered yet";
  EXPECT_EQ(a.driver->rails(to), 0u);
  EXPECT_TRUE(reaches(a, to, b));
  EXPECT_EQ(a.driver->rails(to), 1u) << "two addresses behind one interface";
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
  const PeerAddress there = a.driver->peer_addresses(b_at_a).at(0),
                    back = b.driver->peer_addresses(a_at_b).at(0);
  EXPECT_EQ(there.address, "127.0.0.1:" + std::to_string(parsed(b).port));
  EXPECT_TRUE(there.interface == "lo" && there.mtu > 1500 && there.rail == 0 && there.answers);
  EXPECT_FALSE(there.asked) << "b never tried a";
  EXPECT_TRUE(back.asked);
  const PeerId none = connect(a, address_of(5, silent.port, {"127.0.0.1"}));
  EXPECT_FALSE(a.send(none, "frame"));
  poll({&a}, 20, 10000000);
  const PeerAddress nowhere = a.driver->peer_addresses(none).at(0);
  EXPECT_FALSE(nowhere.answers || nowhere.asked || nowhere.rail >= 0);
}

TEST_F(Udp, PingsAreAsLongAsTheLongestFrame) {
  End a(open);
  Stranger other;
  const PeerId to = connect(a, address_of(77, other.port, {"127.0.0.1"}));
  a.send(to, "frame");
  const std::vector<Bytes> pings = other.received();
  ASSERT_EQ(pings.size(), 1u);
  EXPECT_EQ(pings[0].size(), a.driver->caps().mtu + kHeaderBytes);
  Header ping;
  ASSERT_TRUE(parse_header(pings[0], &ping));
  EXPECT_EQ(ping.to, 77u);
  EXPECT_EQ(ping.from, parsed(a).number);
  // Answers that do not fit: another nonce, another size, an address that was never tried.
  Header pong;
  for (const int wrong : {0, 1, 2, 3}) {
    pong = {
        Kind::pong, tag_of(ping.from), 77, ping.nonce, 0, static_cast<uint32_t>(pings[0].size())};
    if (wrong == 0) pong.nonce++;
    if (wrong == 1) pong.size--;
    if (wrong == 2) pong.candidate = 1;
    std::byte bytes[kPongBytes];
    write_header(pong, bytes);
    other.send(parsed(a).port, bytes);
    poll({&a}, 2, 1000);
    EXPECT_EQ(a.send(to, "frame"), wrong == 3) << wrong;
  }
  EXPECT_EQ(a.counters.udp_foreign, 3u);
}

TEST_F(Udp, PingsAgainUntilSomebodyAnswersButSlower) {
  End a(open);
  Stranger other;
  const PeerId to = connect(a, address_of(77, other.port, {"127.0.0.1"}));
  a.send(to, "frame");
  poll({&a}, 1000, 10000000);  // ten seconds
  const size_t pings = other.received().size();
  EXPECT_GE(pings, 8u);
  EXPECT_LE(pings, 24u);
  a.driver->disconnect(to);
  poll({&a}, 300, 10000000);
  EXPECT_EQ(other.received().size(), 0u) << "pings to a peer that was disconnected";
}

TEST_F(Udp, ForeignDatagramsAreCountedAndDropped) {
  End a(open);
  Stranger other;
  const uint16_t port = parsed(a).port;
  Random random(1);
  Header header{Kind::data, tag_of(parsed(a).number) + 1, 5, 0, 0, 0};
  Bytes bytes(200);
  write_header(header, bytes.data());
  other.send(port, bytes);  // for another process
  header.to--;
  header.from = 0;
  write_header(header, bytes.data());
  other.send(port, bytes);  // from nobody
  other.send(port, {});
  other.send(port, std::span(bytes).first(kHeaderBytes - 1));
  poll({&a}, 4);  // one datagram each
  EXPECT_EQ(a.counters.udp_foreign, 4u);
  for (int i = 0; i < 2000; i++) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
    other.send(port, std::span(bytes).first(random.between(0, bytes.size())));
    if (i % 64 == 63) poll({&a}, 64);
  }
  poll({&a}, 64);
  EXPECT_EQ(a.counters.udp_foreign, 2004u);
  EXPECT_TRUE(a.sink.packets.empty());
}

TEST_F(Udp, AGroupNamesNoStrangers) {
  End a(open), b(open);
  PeerId group_a, group_b;
  const std::byte name[] = {std::byte{1}};
  ASSERT_EQ(a.driver->join(name, &group_a), Status::ok);
  ASSERT_EQ(b.driver->join(name, &group_b), Status::ok);
  PeerId again;
  ASSERT_EQ(b.driver->join(name, &again), Status::ok);
  EXPECT_EQ(again, group_b);
  EXPECT_TRUE(a.send(group_a, "to all"));
  poll({&a, &b}, 5);
  ASSERT_EQ(b.sink.packets.size(), 1u);
  EXPECT_EQ(b.sink.packets[0].from, kNoPeer) << "a frame to a group makes no peer";
  const PeerId from = b.connect(a);
  EXPECT_TRUE(a.send(group_a, "to all"));
  poll({&a, &b}, 5);
  ASSERT_EQ(b.sink.packets.size(), 2u);
  EXPECT_EQ(b.sink.packets[1].from, from);
}

// Frames of one size travel as one buffer: what arrives are the frames.
TEST_F(Udp, LongBatchesArriveAsTheyWere) {
  End a(open), b(open);
  const PeerId to = a.connect(b);
  ASSERT_TRUE(reaches(a, to, b));
  poll({&b}, 5);  // of what reaches() sent
  const size_t before = b.sink.packets.size();
  const size_t mtu = a.driver->caps().mtu;
  std::vector<std::string> frames;
  for (const size_t size : {mtu, mtu, mtu, size_t{100}, mtu, size_t{1}, size_t{2}, mtu, mtu})
    frames.push_back(std::string(size, static_cast<char>('a' + frames.size())));
  for (int i = 0; i < 40; i++) frames.push_back(std::string(700, static_cast<char>('A' + i)));
  std::vector<iovec> pieces;
  for (std::string& frame : frames) pieces.push_back({frame.data() + 1, frame.size() - 1});
  std::vector<Tx> batch;
  for (size_t i = 0; i < frames.size(); i++) {
    Tx tx{to, 1, frames[i].data(), &pieces[i], 1, static_cast<uint32_t>(pieces[i].iov_len), i + 1};
    batch.push_back(tx);
  }
  ASSERT_EQ(a.driver->send(batch), batch.size());
  poll({&a, &b}, 50);
  ASSERT_EQ(b.sink.packets.size(), before + frames.size());
  for (size_t i = 0; i < frames.size(); i++)
    ASSERT_EQ(b.sink.packets[before + i].bytes, frames[i]) << i;
  EXPECT_EQ(a.sink.dones.size(), frames.size());
}

// Frames of nearly one length travel in one buffer, made equal; what arrives is what was sent.
TEST_F(Udp, FramesOfNearlyOneLengthArriveAsTheyWere) {
  End a(open), b(open);
  const PeerId to = a.connect(b);
  ASSERT_TRUE(reaches(a, to, b));
  poll({&b}, 5);  // of what reaches() sent
  const size_t before = b.sink.packets.size();
  std::vector<std::string> frames;
  for (const size_t size : {400, 399, 400, 369, 368, 400, 400, 1, 30, 31, 32, 62, 0})
    frames.push_back(std::string(size, static_cast<char>('a' + frames.size())) + "end");
  std::vector<Tx> batch;
  for (const std::string& frame : frames) {
    Tx tx;
    tx.peer = to;
    tx.head = frame.data();
    tx.head_bytes = static_cast<uint32_t>(std::min<size_t>(frame.size(), 100));
    batch.push_back(tx);
  }
  std::vector<iovec> pieces(frames.size());
  for (size_t i = 0; i < frames.size(); i++) {
    pieces[i] = {frames[i].data() + batch[i].head_bytes, frames[i].size() - batch[i].head_bytes};
    batch[i].pieces = &pieces[i];
    batch[i].piece_count = pieces[i].iov_len ? 1 : 0;
    batch[i].body_bytes = static_cast<uint32_t>(pieces[i].iov_len);
  }
  ASSERT_EQ(a.driver->send(batch), batch.size());
  poll({&a, &b}, 50);
  ASSERT_EQ(b.sink.packets.size(), before + frames.size());
  for (size_t i = 0; i < frames.size(); i++)
    EXPECT_EQ(b.sink.packets[before + i].bytes, frames[i]) << i;
}

// A peer that the test plays, at two addresses; it was heard from both.
class UdpTwoWays : public Udp {
 protected:
  void SetUp() override {
    Udp::SetUp();
    a = std::make_unique<End>(open);
    to = connect(*a, address_of(77, first.port, {"127.0.0.1"}));
    a->send(to, "frame");
    pings(first);
    answer(first);
    EXPECT_TRUE(a->send(to, "by the first"));
    // It asks from elsewhere, as a process does whose way to us has broken.
    Bytes ping(a->driver->caps().mtu + kHeaderBytes);
    write_header({Kind::ping, tag_of(parsed(*a).number), 77, 1, 0, 0}, ping.data());
    second.send(parsed(*a).port, ping);
    poll({a.get()}, 300);
    first.received();
    second.received();
  }

  // Answers what was asked there last.
  void answer(Stranger& at) {
    const Header& ping = asked.at(&at);
    std::byte bytes[kPongBytes];
    const auto size = static_cast<uint32_t>(a->driver->caps().mtu + kHeaderBytes);
    write_header({Kind::pong, tag_of(ping.from), 77, ping.nonce, ping.candidate, size}, bytes);
    at.send(parsed(*a).port, bytes);
    poll({a.get()}, 1);
  }

  // How many have arrived there.
  unsigned pings(Stranger& at) {
    unsigned count = 0;
    for (const Bytes& datagram : at.received()) {
      Header ping;
      if (!parse_header(datagram, &ping) || ping.kind != Kind::ping) continue;
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
  Stranger first, second;
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

// --- connected sockets
// ----------------------------------------------------------------------------

// As many as make a peer one that is talked to a lot.
void send_many(End& from, PeerId to) {
  for (int i = 0; i < 40; i++) EXPECT_TRUE(from.send(to, "frame"));
}

bool readable(int fd) {
  pollfd set{fd, POLLIN, 0};
  return ::poll(&set, 1, 0) == 1;
}

// Ends the inbox of what is there, and sleeps.
int asleep(End& end, uint64_t now_ns) {
  int fd = -1;
  for (int i = 0; i < 1000 && end.driver->arm(&fd) == Status::again; i++)
    end.driver->poll(now_ns, 64);
  EXPECT_GE(fd, 0);
  EXPECT_FALSE(readable(fd));
  return fd;
}

TEST_F(Udp, WhoIsTalkedToAloneIsHeardLikeEverybody) {
  End a(open), b(open), c(open);
  const PeerId ab = a.connect(b), ba = b.connect(a), ca = c.connect(a);
  ASSERT_TRUE(reaches(a, ab, b));
  ASSERT_TRUE(reaches(b, ba, a));
  ASSERT_TRUE(reaches(c, ca, a));
  send_many(a, ab);
  poll({&a, &b, &c}, 100, 1000);  // what was sent until then
  const auto takes_one = [&](End& from, PeerId to) {
    const size_t before = a.sink.packets.size();
    EXPECT_TRUE(from.send(to, "hello"));
    poll({&a}, 4, 1000);
    EXPECT_EQ(a.sink.packets.size(), before + 1);
  };
  for (int i = 0; i < 20; i++) {
    takes_one(b, ba);
    takes_one(c, ca);
  }
  for (int i = 0; i < 20; i++) {
    for (const bool known : {true, false}) {
      const int fd = asleep(a, now_ns);
      EXPECT_TRUE(known ? b.send(ba, "wake up") : c.send(ca, "wake up"));
      EXPECT_TRUE(readable(fd)) << i << (known ? " connected" : " not connected");
      int ignored;
      EXPECT_EQ(a.driver->arm(&ignored), Status::again);
      const size_t before = a.sink.packets.size();
      poll({&a}, 1, 1000);
      EXPECT_EQ(a.sink.packets.size(), before + 1) << "who was woken does not look elsewhere";
    }
  }
}

bool port_is_free(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_port = htons(port);
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), 0);
  const bool free = bind(fd, reinterpret_cast<sockaddr*>(&here), sizeof(here)) == 0;
  close(fd);
  return free;
}

// There are fewer connected sockets than peers: those that are talked to less give theirs away.
TEST_F(Udp, ManyPeersTakeTurnsWithConnectedSockets) {
  End a(open);
  std::vector<std::unique_ptr<End>> others;
  std::vector<PeerId> to, back;
  for (int i = 0; i < 20; i++) {
    End& other = *others.emplace_back(std::make_unique<End>(open));
    to.push_back(connect(a, address_of(parsed(other).number, parsed(other).port, {"127.0.0.1"})));
    back.push_back(connect(other, address_of(parsed(a).number, parsed(a).port, {"127.0.0.1"})));
    ASSERT_TRUE(reaches(a, to.back(), other));
    ASSERT_TRUE(reaches(other, back.back(), a));
  }
  const auto sockets = [] {
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
      sockaddr_storage peer;
      socklen_t length = sizeof(peer);
      count += getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
    }
    return count;
  };
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < others.size(); i++) {
      // What has come by the socket that is given away is not lost.
      const size_t oldest = (i + 12) % others.size();
      ASSERT_TRUE(others[oldest]->send(back[oldest], "kept"));
      send_many(a, to[i]);
      poll({&a, others[i].get(), others[oldest].get()}, 100, 1000);
      poll({&a}, 1, 120000000);
    }
    EXPECT_EQ(sockets(), 8u);
    EXPECT_FALSE(port_is_free(parsed(a).port)) << "for other processes";
    for (size_t i = 0; i < others.size(); i++)
      EXPECT_TRUE(reaches(*others[i], back[i], a, 60)) << "round " << round << ", peer " << i;
  }
  size_t kept = 0;
  for (const auto& packet : a.sink.packets) kept += packet.bytes == "kept";
  EXPECT_EQ(kept, 3 * others.size());
  for (const PeerId peer : to) a.driver->disconnect(peer);
  EXPECT_EQ(sockets(), 0u);
}

// The system tells the sender when nobody has the port any more; that is no reason to stop.
TEST_F(Udp, FramesForAPeerThatHasGoneAreTaken) {
  End a(open);
  auto b = std::make_unique<End>(open);
  const PeerId ab = a.connect(*b);
  ASSERT_TRUE(reaches(a, ab, *b));
  send_many(a, ab);
  b.reset();
  for (int i = 0; i < 10; i++) {
    EXPECT_TRUE(a.send(ab, "frame")) << i;
    poll({&a}, 1);
  }
}

// What a peer sent before it went is received, whatever the system tells of it afterwards.
TEST_F(Udp, LastWordsOfAPeerThatHasGoneAreReceived) {
  End a(open);
  auto b = std::make_unique<End>(open);
  const PeerId ab = a.connect(*b), ba = b->connect(a);
  ASSERT_TRUE(reaches(a, ab, *b));
  ASSERT_TRUE(reaches(*b, ba, a));
  send_many(a, ab);  // by a socket of its own
  poll({&a, b.get()}, 5);
  const size_t before = a.sink.packets.size();
  for (int i = 0; i < 8; i++) ASSERT_TRUE(b->send(ba, "last words"));
  b.reset();
  for (int i = 0; i < 6; i++) ASSERT_TRUE(a.send(ab, "refused"));
  poll({&a}, 50);
  EXPECT_EQ(a.sink.packets.size(), before + 8);
}

// A frame longer than a datagram: the kernel cuts it, and joins it again.
TEST_F(Udp, LongFramesArriveWhole) {
  End a(open), b(open);
  const PeerId to = a.connect(b);
  ASSERT_TRUE(reaches(a, to, b));
  poll({&b}, 5);
  const DriverCaps& caps = a.driver->caps();
  if (!caps.long_max) GTEST_SKIP() << "this kernel cuts no datagrams";
  const size_t before = b.sink.packets.size(), mtu = caps.mtu;
  std::vector<std::string> frames;
  for (const size_t size : {size_t{caps.long_max}, mtu + 1, size_t{100}, 2 * mtu, mtu, 3 * mtu - 1,
                            3 * (mtu + kHeaderBytes) - kLongerBytes, size_t{caps.long_max}, mtu})
    frames.push_back(std::string(size, static_cast<char>('a' + frames.size())));
  std::vector<iovec> pieces;
  for (std::string& frame : frames) pieces.push_back({frame.data() + 9, frame.size() - 9});
  std::vector<Tx> batch;
  for (size_t i = 0; i < frames.size(); i++) {
    Tx tx{to, 9, frames[i].data(), &pieces[i], 1, static_cast<uint32_t>(pieces[i].iov_len), i + 1};
    batch.push_back(tx);
  }
  ASSERT_EQ(a.driver->send(batch), batch.size());
  poll({&a, &b}, 50);
  ASSERT_EQ(b.sink.packets.size(), before + frames.size());
  for (size_t i = 0; i < frames.size(); i++)
    EXPECT_TRUE(b.sink.packets[before + i].bytes == frames[i]) << i;
  EXPECT_EQ(a.sink.dones.size(), frames.size());
  EXPECT_EQ(b.counters.udp_cut, 0u);
}

// One of which only the beginning comes, or more than is there is said to come.
TEST_F(Udp, CutFramesAreCountedAndDropped) {
  End a(open);
  Stranger stranger;
  const Address address = parsed(a);
  Header header;
  header.kind = Kind::longer;
  header.to = tag_of(address.number);
  header.from = 99;
  for (const uint32_t size : {5000u, 65001u, ~0u, 99u}) {
    header.size = size;
    Bytes bytes(kLongerBytes + 100);
    write_header(header, bytes.data());
    stranger.send(address.port, bytes);
    poll({&a}, 3);
  }
  EXPECT_EQ(a.counters.udp_cut, 4u);
  EXPECT_TRUE(a.sink.packets.empty());
  header.size = 100;  // all of it
  Bytes bytes(kLongerBytes + 100);
  write_header(header, bytes.data());
  stranger.send(address.port, bytes);
  poll({&a}, 3);
  EXPECT_EQ(a.sink.packets.size(), 1u);
}

TEST_F(Udp, TheSystemTellsByWhichInterfaceItSends) {
  for (const char* text : {"127.0.0.1", "127.7.7.7", "::1"}) {
    Route route;
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(9);
    to.sin6_addr = host(text);
    if (!find_route(to, &route)) {
      EXPECT_EQ(text[0], ':') << "loopback may be without IPv6 only";
      continue;
    }
    EXPECT_EQ(route.interface, if_nametoindex("lo")) << text;
    EXPECT_GE(route.path_mtu, 1280u);
  }
}

TEST_F(Udp, InterfacesAndSizesAreChecked) {
  const auto refused = [](const char* name, const char* value, const char* expected) {
    std::string why;
    ASSERT_EQ(param_set(name, value, "test", &why), Status::ok) << why;
    DriverEnv env;
    test::Recorder sink;
    Counters counters;
    env.sink = &sink;
    env.counters = &counters;
    EXPECT_FALSE(open_udp(env, &why));
    EXPECT_NE(why.find(expected), std::string::npos) << why;
  };
  refused("udp_mtu", "500", "udp: packets of 500 bytes (interface lo) are too small");
  std::string why;
  ASSERT_EQ(param_set("udp_mtu", "1000", "test", &why), Status::ok);
  EXPECT_EQ(End(open).driver->caps().mtu, 1000 - 48 - kHeaderBytes);
  refused("udp_interfaces", "lo,no-such", "udp: no interface 'no-such' is up");
}

}  // namespace
}  // namespace torii::udp
