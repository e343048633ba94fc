// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The udp driver over loopback: datagrams of others, long batches and frames, connected sockets,
// peers that have gone. The conformance kit checks the rest.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/base/param.h"
#include "core/base/random.h"
#include "drivers/udp/net.h"
#include "drivers/udp/udp.h"
#include "refused_calls.h"
#include "unit/udp/udp_ends.h"

namespace torii::udp {
namespace {

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

// A group for one of two, whose number is the first part of its key.
PeerId join(End& end, uint64_t number, uint32_t own, bool hears = true) {
  LossyMember membership;
  std::memcpy(membership.key.data(), &number, sizeof(number));
  membership.number = own;
  membership.members = 2;
  membership.hears = hears;
  PeerId group = kNoPeer;
  EXPECT_EQ(end.driver->lossy_groups()->join_lossy(membership, &group), Status::ok);
  return group;
}

TEST_F(Udp, FramesToAGroupComeFromIt) {
  End a(open), b(open);
  const uint64_t number = parsed(a).number;
  const PeerId group_a = join(a, number, 0), group_b = join(b, number, 1);
  // Each as long as a datagram can be: a buffer for the kernel to cut.
  std::vector<std::string> frames(10, std::string(a.driver->caps().mtu, 'L'));
  std::vector<Tx> batch(frames.size());
  std::vector<iovec> pieces(frames.size());
  for (size_t i = 0; i < frames.size(); i++) {
    frames[i][0] = static_cast<char>(i);
    pieces[i] = {frames[i].data(), frames[i].size()};
    batch[i].peer = group_a;
    batch[i].head = "";
    batch[i].pieces = &pieces[i];
    batch[i].piece_count = 1;
    batch[i].body_bytes = static_cast<uint32_t>(frames[i].size());
  }
  ASSERT_EQ(a.driver->send(batch), batch.size());
  poll({&a, &b}, 10);
  ASSERT_EQ(b.sink.packets.size(), frames.size());
  for (size_t i = 0; i < frames.size(); i++) {
    EXPECT_EQ(b.sink.packets[i].from, group_b);
    EXPECT_EQ(b.sink.packets[i].bytes, frames[i]) << i;
  }
  EXPECT_TRUE(a.sink.packets.empty());
  EXPECT_EQ(a.counters.udp_own, frames.size()) << "over loopback all members share an address";
  EXPECT_EQ(a.counters.udp_foreign + b.counters.udp_foreign, 0u);
}

// A datagram for a group comes to its socket, one for a process to the other one.
TEST_F(Udp, GroupsAndProcessesHearNothingOfEachOthers) {
  End a(open);
  const uint64_t number = parsed(a).number;
  join(a, number, 0);
  const sockaddr_in6 where = group_address(number, false);
  Stranger other;
  const auto send = [&](bool to_group, Kind kind, uint32_t to) {
    Header header;
    header.kind = kind;
    header.to = to;
    header.from = 5;
    Bytes bytes(100);
    write_header(header, bytes.data());
    if (to_group) {
      other.send(where, bytes);
    } else {
      other.send(parsed(a).port, bytes);
    }
    poll({&a}, 8);
  };
  send(true, Kind::data, tag_of(number));
  send(true, Kind::group, tag_of(number) + 1);
  send(false, Kind::group, tag_of(number));
  EXPECT_EQ(a.counters.udp_foreign, 3u);
  EXPECT_TRUE(a.sink.packets.empty());
  send(true, Kind::group, tag_of(number));
  EXPECT_EQ(a.sink.packets.size(), 1u);
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
      // A frame that has come by the socket that is given away is not lost.
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

class UdpLife : public Udp {
 protected:
  // Asks until the answer is not `unknown`.
  Life life_of(End& end, PeerId peer) {
    Life life = Life::unknown;
    for (int i = 0; i < 1000 && life == Life::unknown; i++) {
      poll({&end}, 1);
      life = end.driver->paths()->life(peer);
      if (life == Life::unknown) usleep(1000);
    }
    return life;
  }
};

TEST_F(UdpLife, TheKernelTellsWhetherAPeerIsThere) {
  End a(open), b(open), c(open);
  const PeerId ab = a.connect(b), ac = a.connect(c);
  EXPECT_EQ(a.driver->paths()->life(ab), Life::unknown) << "no way to it is known";
  ASSERT_TRUE(reaches(a, ab, b));
  ASSERT_TRUE(reaches(a, ac, c));
  EXPECT_EQ(life_of(a, ab), Life::there) << "it makes no calls";
  EXPECT_EQ(life_of(a, ab), Life::there);
  c.driver.reset();
  EXPECT_EQ(life_of(a, ac), Life::gone) << "its port is closed";
  b.driver.reset();
  EXPECT_EQ(life_of(a, ab), Life::gone) << "the connection was reset";
  EXPECT_EQ(life_of(a, ab), Life::gone) << "a new one is refused";
}

TEST_F(UdpLife, APeerThatSpokeFirstIsWatched) {
  End a(open), b(open);
  ASSERT_TRUE(reaches(b, b.connect(a), a));
  const PeerId ab = a.sink.packets[0].from;
  ASSERT_TRUE(reaches(a, ab, b));
  EXPECT_EQ(life_of(a, ab), Life::there) << "nobody told its address";
  b.driver.reset();
  EXPECT_EQ(life_of(a, ab), Life::gone);
}

TEST_F(UdpLife, SixteenPeersAreWatchedInTurn) {
  constexpr size_t kMost = 16;
  End a(open);
  std::vector<std::unique_ptr<End>> others;
  std::vector<PeerId> peers;
  for (size_t i = 0; i <= kMost; i++) {
    others.push_back(std::make_unique<End>(open));
    peers.push_back(a.connect(*others.back()));
    ASSERT_TRUE(reaches(a, peers.back(), *others.back()));
  }
  for (size_t i = 0; i < kMost; i++) EXPECT_EQ(life_of(a, peers[i]), Life::there) << i;
  for (size_t i = 0; i < kMost; i++) EXPECT_EQ(a.driver->paths()->life(peers[i]), Life::there) << i;
  EXPECT_EQ(a.driver->paths()->life(peers[kMost]), Life::unknown)
      << "the others were asked about just now";
  poll({&a}, 3, 1'000'000'000);
  EXPECT_EQ(life_of(a, peers[kMost]), Life::there);
  a.driver->disconnect(peers[kMost]);
  EXPECT_EQ(a.driver->paths()->life(peers[1]), Life::there);
}

// Frames that a peer sent before it went are received, whatever the system tells afterwards.
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

// Its child has ten seconds.
TEST_F(Udp, ASystemWithoutRandomNumbersIsAnError) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    if (!test::refuse_call(SYS_getrandom)) _exit(77);
    std::string why;
    const End end([&](const DriverEnv& env) { return open_udp(env, &why); });
    _exit(!end.driver && why.find("udp: getrandom failed") == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "seccomp filters are not allowed here";
  EXPECT_EQ(status, 0);
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
