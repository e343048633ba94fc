// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Cases that the conformance kit cannot ask of every driver: many processes at once, sudden death
// in the middle of traffic, forged memory, refused system calls, sleep.
#include "drivers/shm/shm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "refused_calls.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using test::bytes_of;
using test::Child;
using test::connect_to;
using test::End;
using test::number_text;
using test::open_shm_end;
using test::parse;
using test::poll_until;
using test::readable;
using test::send_surely;

constexpr uint64_t kCheck = 60'000'000;  // more than the interval at which peers are checked
constexpr auto open_one = open_shm_end;

TEST(Shm, ManyProcessesClaimAtOnce) {
  constexpr uint32_t kChildren = 24, kFrames = 400;
  End target(open_one);
  const auto address = target.address();
  std::vector<std::unique_ptr<Child>> children;
  for (uint32_t c = 0; c < kChildren; c++) {
    children.push_back(std::make_unique<Child>([&, c](Child& self) {
      self.wait_gate();
      End end(open_one);
      const PeerId peer = connect_to(end, address);
      if (peer == kNoPeer) return 1;
      for (uint32_t i = 0; i < kFrames; i++)
        send_surely(end, peer, number_text(c) + number_text(i),
                    std::string(i % 500, static_cast<char>(i)));
      return 0;
    }));
  }
  for (auto& child : children) child->open_gate();
  EXPECT_TRUE(poll_until(target, [&] { return target.sink.downs.size() == kChildren; }));
  for (auto& child : children) EXPECT_EQ(child->finish(), 0);
  std::map<PeerId, uint32_t> next;
  std::map<PeerId, uint32_t> child_of;
  for (const auto& packet : target.sink.packets) {
    uint32_t who, number;
    std::memcpy(&who, packet.bytes.data(), 4);
    std::memcpy(&number, packet.bytes.data() + 4, 4);
    ASSERT_EQ(number, next[packet.from]++);
    ASSERT_EQ(packet.bytes.substr(8), std::string(number % 500, static_cast<char>(number)));
    ASSERT_EQ(child_of.try_emplace(packet.from, who).first->second, who);
  }
  EXPECT_EQ(next.size(), kChildren);
  for (const auto& [peer, count] : next) EXPECT_EQ(count, kFrames);
  for (const auto& down : target.sink.downs) EXPECT_EQ(down.status, Status::peer_closed);
}

TEST(Shm, ASenderKilledInTheMiddleOfTraffic) {
  End target(open_one);
  const auto address = target.address();
  for (int round = 0; round < 3; round++) {
    target.sink = {};
    Child child([&](Child&) {
      End end(open_one);
      const PeerId peer = connect_to(end, address);
      for (uint32_t i = 0; peer != kNoPeer; i++)
        send_surely(end, peer, number_text(i), std::string(i % 3000, 'x'));
      return 1;
    });
    EXPECT_TRUE(poll_until(target, [&] { return target.sink.packets.size() > 2000; }));
    child.kill_now();
    EXPECT_EQ(child.finish(), 128 + SIGKILL);
    EXPECT_TRUE(poll_until(target, [&] { return !target.sink.downs.empty(); }));
    ASSERT_EQ(target.sink.downs.size(), 1u);
    EXPECT_EQ(target.sink.downs[0].status, Status::peer_dead);
    EXPECT_EQ(target.sink.downs[0].peer, target.sink.packets[0].from);
    for (uint32_t i = 0; i < target.sink.packets.size(); i++) {
      ASSERT_EQ(target.sink.packets[i].bytes.substr(0, 4), number_text(i));
      ASSERT_EQ(target.sink.packets[i].bytes.size(), 4 + i % 3000);
    }
    EXPECT_EQ(target.counters.bad_frames, 0u);
    target.driver->disconnect(target.sink.downs[0].peer);
  }
}

TEST(Shm, WhatADeadProcessSentArrivesFirst) {
  End target(open_one);
  const auto address = target.address();
  for (const bool in_order : {true, false}) {
    target.sink = {};
    Child child([&](Child&) {
      auto end = std::make_unique<End>(open_one);
      const PeerId peer = connect_to(*end, address);
      for (uint32_t i = 0; i < 100; i++) send_surely(*end, peer, number_text(i));
      if (!in_order) _exit(7);
      end.reset();
      return 7;
    });
    EXPECT_EQ(child.finish(), 7);  // before the target has looked even once
    size_t packets_before = 0;
    target.sink.on_packet = [&](PeerId from, const std::string&) {
      packets_before += target.sink.downs.empty();
      target.send(from, "nobody reads the answer");
    };
    EXPECT_TRUE(poll_until(target, [&] { return !target.sink.downs.empty(); }));
    EXPECT_EQ(packets_before, 100u);
    EXPECT_EQ(target.sink.downs[0].status, in_order ? Status::peer_closed : Status::peer_dead);
  }
}

// Each claim is used again, by a sender that knows nothing of what its predecessor left: lines
// that look like the control words of the next lap.
TEST(Shm, MoreSendersOneAfterAnotherThanClaims) {
  constexpr uint32_t kSmall = shm::kRingMin / shm::kLine, kFrames = kSmall / 128;
  std::string why;
  ASSERT_EQ(param_set("shm_ring", "32k", "test", &why), Status::ok) << why;
  End target(open_one);
  const uint32_t claims = shm::claims_for(1);
  for (uint32_t i = 0; i < claims + 80; i++) {
    target.sink = {};
    End sender(open_one);
    const PeerId peer = sender.connect(target);
    ASSERT_NE(peer, kNoPeer) << i;
    uint32_t position = shm::kFirstPosition + i / claims * (kSmall + 1);
    for (uint32_t n = 0; n < kFrames; n++, position += 128) {
      std::string forged(shm::kMtu, '\0');
      for (uint32_t at = 0; at < shm::kMtu; at += 8) {
        const uint32_t lap_on = position + (at + 8) / shm::kLine + kSmall;
        const uint64_t word = shm::control_word(shm::kKindFrame, 3, lap_on);
        std::memcpy(&forged[at], &word, sizeof(word));
      }
      send_surely(sender, peer, "", forged);
      ASSERT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == n + 1; })) << i;
      ASSERT_EQ(target.sink.packets[n].bytes, forged);
    }
    send_surely(sender, peer, "b");
    sender.driver.reset();
    ASSERT_TRUE(poll_until(target, [&] { return !target.sink.downs.empty(); })) << i;
    ASSERT_EQ(target.sink.packets.size(), kFrames + 1) << i;
    ASSERT_EQ(target.sink.packets[kFrames].bytes, "b");
    target.driver->disconnect(target.sink.downs[0].peer);
  }
  EXPECT_EQ(target.counters.bad_frames, 0u);
  ASSERT_EQ(param_set("shm_ring", "0", "test", &why), Status::ok) << why;
}

TEST(Shm, ARingThatMakesNoSenseCutsItsSenderOffOnly) {
  set_log_level(LogLevel::error);
  End target(open_one), bad(open_one), good(open_one);
  const PeerId from_bad = bad.connect(target), from_good = good.connect(target);
  ASSERT_TRUE(bad.send(from_bad, "one"));
  ASSERT_TRUE(good.send(from_good, "two"));
  ASSERT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == 2; }));
  shm::Segment segment;
  Mapping ring;
  std::string why;
  const shm::Address address = parse(target.address());
  ASSERT_EQ(shm::open_segment(address, address, &segment, &why), Status::ok) << why;
  ASSERT_TRUE(segment.map_ring(0, &ring));
  const uint32_t next = shm::kFirstPosition + 1;
  const auto lines = static_cast<uint32_t>(segment.ring_bytes / shm::kLine);
  shm::control_at(ring.base(), next & (lines - 1))
      .store(shm::control_word(shm::kKindFrame, 0xffff, next));
  ASSERT_TRUE(poll_until(target, [&] { return !target.sink.downs.empty(); }));
  EXPECT_EQ(target.sink.downs[0].peer, target.sink.packets[0].from);
  EXPECT_EQ(target.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(target.counters.bad_frames, 1u);
  ASSERT_TRUE(good.send(from_good, "three"));
  EXPECT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == 3; }));
}

TEST(Shm, ForgedClaimsAreIgnored) {
  set_log_level(LogLevel::error);
  End target(open_one), good(open_one);
  shm::Segment segment;
  std::string why;
  const shm::Address address = parse(target.address());
  ASSERT_EQ(shm::open_segment(address, address, &segment, &why), Status::ok) << why;
  segment.header().hint.store(3);
  segment.claim(0).state.store(77);
  // A process that never was: it goes as quietly as it came.
  segment.claim(1).sender = address;
  segment.claim(1).sender.pid = 4194303;
  segment.claim(1).sender.cookie.words[0]++;
  segment.claim(1).state.store(static_cast<uint32_t>(shm::ClaimState::live));
  // Abandoned by a process that was killed while claiming.
  segment.claim(2).state.store(static_cast<uint32_t>(shm::ClaimState::claiming));
  segment.header().news.fetch_add(1);
  for (int i = 0; i < 10; i++) target.driver->poll(1 + i * kCheck, 64);
  EXPECT_EQ(target.counters.bad_frames, 1u);
  EXPECT_TRUE(target.sink.downs.empty());
  const PeerId peer = good.connect(target);
  ASSERT_NE(peer, kNoPeer);
  ASSERT_TRUE(good.send(peer, "hello"));
  EXPECT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == 1; }));
}

TEST(Shm, AReceiverThatLiesAboutItsRoomIsCutOff) {
  set_log_level(LogLevel::error);
  End target(open_one), sender(open_one);
  const PeerId peer = sender.connect(target);
  shm::Segment segment;
  std::string why;
  const shm::Address address = parse(target.address());
  ASSERT_EQ(shm::open_segment(address, address, &segment, &why), Status::ok) << why;
  segment.claim(0).released.store(1u << 30);
  while (sender.send(peer, "x")) {
  }
  ASSERT_TRUE(poll_until(sender, [&] { return !sender.sink.downs.empty(); }));
  EXPECT_EQ(sender.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(sender.counters.bad_frames, 1u);
}

TEST(Shm, WhyAProcessIsNotReachedIsSaid) {
  End here(open_one), there(open_one);
  const shm::Address good = parse(there.address());
  const auto refused = [&](auto change, const char* word, Status status = Status::unreachable) {
    shm::Address address = good;
    change(address);
    PeerId peer;
    std::string why;
    EXPECT_EQ(here.driver->connect(bytes_of(address), &peer, &why), status) << why;
    EXPECT_NE(why.find(word), std::string::npos) << why;
  };
  refused([](shm::Address& a) { a.magic++; }, "version");
  refused([](shm::Address& a) { a.boot++; }, "another host");
  refused([](shm::Address& a) { a.pid_space++; }, "PID namespace");
  refused([](shm::Address& a) { a.pid = 4194303; }, "has ended", Status::peer_dead);
  refused([](shm::Address& a) { a.start_time++; }, "has ended", Status::peer_dead);
  refused([](shm::Address& a) { a.fd = 0; }, "has closed", Status::peer_closed);
  refused([](shm::Address& a) { a.fd = 60000; }, "has closed", Status::peer_closed);
  refused([](shm::Address& a) { a.cookie.words[1]++; }, "has closed", Status::peer_closed);
}

// --- cross-memory attach -----------------------------------------------------------------------

bool forbid_attach() { return test::refuse_call(SYS_process_vm_readv); }

enum class Moment { before_open, before_connect, before_get };

// In a child: the number of the check that failed, 0 if none did.
int attach_refused(const std::vector<std::byte>& address, const Region& region, Moment moment) {
  if (moment == Moment::before_open && !forbid_attach()) return 1;
  End end(open_one);
  if (moment == Moment::before_open) {
    if (end.driver->caps().flags & (kPut | kGet)) return 2;
  }
  if (moment == Moment::before_connect && !forbid_attach()) return 3;
  PeerId peer;
  std::string why;
  if (end.driver->connect(address, &peer, &why) != Status::ok) return 4;
  if ((moment != Moment::before_get) != (why.find("refused") != why.npos)) return 5;
  uint32_t remote = 0;
  const auto key = std::span(region.key).first(end.driver->caps().key_bytes);
  const Status imported = end.driver->import(peer, key, &remote);
  if (imported != (moment == Moment::before_open ? Status::unsupported : Status::ok)) return 6;
  char text[6] = {};
  const iovec piece{text, sizeof(text)};
  Rma rma;
  rma.peer = peer;
  rma.remote = remote;
  rma.pieces = &piece;
  rma.piece_count = 1;
  rma.bytes = sizeof(text);
  if (moment == Moment::before_get) {
    if (end.driver->get(rma) != Status::ok || memcmp(text, "secret", 6) != 0) return 7;
    if (!forbid_attach()) return 8;
  }
  const Status expected = moment == Moment::before_open ? Status::unsupported : Status::denied;
  for (int i = 0; i < 2; i++) {
    if (end.driver->get(rma) != expected || end.driver->put(rma) != expected) return 9;
  }
  if (end.counters.remote_read_fallback != 1) return 10;
  if (end.driver->connect(address, &peer, &why) != Status::ok) return 11;
  if (why.find("refused") == why.npos) return 12;
  return end.send(peer, "by frames") ? 0 : 13;
}

// The reason of a driver that cannot open, if `forbid` has come before; "open" if it can.
std::string opening(const std::function<bool()>& forbid) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  Child child([&](Child&) {
    if (!forbid()) return 77;
    std::string why;
    End end([&](const DriverEnv& env) { return open_shm(env, &why); });
    if (end.driver) why = "open";
    return write(ends[1], why.data(), why.size()) < 0 ? 1 : 0;
  });
  close(ends[1]);
  std::string text(1000, '\0');
  const ssize_t n = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return child.finish() == 77 ? "no filters" : text;
}

TEST(Shm, WhatASystemRefusesIsNamed) {
  if (opening([] { return true; }) != "open" ||
      opening([] { return test::refuse_call(SYS_getsid); }) == "no filters")
    GTEST_SKIP() << "no shared memory or no seccomp filters here";
  const auto refused = [](const char* word, uint32_t number, auto... second) {
    const std::string why = opening([&] { return test::refuse_call(number, second...); });
    EXPECT_NE(why.find(word), std::string::npos) << why;
    EXPECT_NE(why.find("seccomp profile"), std::string::npos) << why;
  };
  refused("memfd_create", SYS_memfd_create);
  refused("F_ADD_SEALS", SYS_fcntl, uint32_t{F_ADD_SEALS});
  refused("getrandom failed", SYS_getrandom);
}

TEST(Shm, RefusedAttachIsReportedAndFramesGoOn) {
  set_log_level(LogLevel::error);
  End target(open_one);
  if (!(target.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
  char secret[] = "secret";
  Region region;
  ASSERT_EQ(target.driver->reg(secret, 6, kRemoteRead | kRemoteWrite, &region), Status::ok);
  const auto address = target.address();
  size_t frames = 0;
  for (const Moment m : {Moment::before_open, Moment::before_connect, Moment::before_get}) {
    Child child([&](Child&) { return attach_refused(address, region, m); });
    EXPECT_EQ(child.finish(), 0) << "moment " << static_cast<int>(m);
    frames++;
    EXPECT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == frames; }));
  }
}

TEST(Shm, PutAndGetMoveManyPiecesAndStayInBounds) {
  End a(open_one), b(open_one);
  if (!(a.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
  const PeerId peer = a.connect(b);
  std::string memory(100000, '.');
  Region region;
  ASSERT_EQ(b.driver->reg(memory.data() + 1000, 90000, kRemoteRead | kRemoteWrite, &region),
            Status::ok);
  uint32_t remote;
  ASSERT_EQ(
      a.driver->import(peer, std::span(region.key).first(a.driver->caps().key_bytes), &remote),
      Status::ok);
  std::string local(90000, '\0');
  for (size_t i = 0; i < local.size(); i++) local[i] = static_cast<char>(i * 7 % 251);
  std::vector<iovec> pieces;
  for (size_t at = 0; at < local.size();) {
    const size_t n = std::min<size_t>(pieces.size() % 2 ? 3300 : 33, local.size() - at);
    pieces.push_back({&local[at], n});
    at += n;
  }
  ASSERT_LE(pieces.size(), a.driver->caps().pieces_max);
  Rma rma{peer, remote, 0, pieces.data(), static_cast<uint32_t>(pieces.size()), 90000, 1};
  ASSERT_EQ(a.driver->put(rma), Status::ok);
  EXPECT_EQ(memory, std::string(1000, '.') + local + std::string(9000, '.'));
  const std::string sent = local;
  std::fill(local.begin(), local.end(), 0);
  ASSERT_EQ(a.driver->get(rma), Status::ok);
  EXPECT_EQ(local, sent);
  rma.remote_offset = 1;
  EXPECT_EQ(a.driver->get(rma), Status::invalid);
  rma.remote_offset = ~uint64_t{0};
  EXPECT_EQ(a.driver->put(rma), Status::invalid);
  b.driver.reset();
  rma.remote_offset = 0;
  EXPECT_EQ(a.driver->get(rma), Status::peer_dead) << "the cookie has gone with the driver";
  EXPECT_EQ(a.driver->put(rma), Status::peer_dead);
}

// --- sent or read -------------------------------------------------------------------------------

// Short of TORII_SHM_REMOTE_MIN, unless it is mapped or its owner sleeps.
TEST(Shm, SaysWhatIsSoonerSentThanRead) {
  constexpr uint64_t kLeast = 1 << 20;
  std::string why;
  ASSERT_EQ(param_set("shm_remote_min", "1m", "test", &why), Status::ok) << why;
  End owner(open_one), user(open_one);
  ASSERT_EQ(param_set("shm_remote_min", "0", "test", &why), Status::ok) << why;
  if (!(user.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
  const PeerId peer = connect_to(user, owner.address());
  ASSERT_NE(peer, kNoPeer);
  const auto imported = [&](void* base) {
    Region region;
    uint32_t remote = 0;
    EXPECT_EQ(owner.driver->reg(base, 2 * kLeast, kRemoteRead, &region), Status::ok);
    EXPECT_EQ(user.driver->import(peer, std::span(region.key).first(owner.driver->caps().key_bytes),
                                  &remote),
              Status::ok);
    return remote;
  };
  std::vector<char> plain(2 * kLeast);
  void* mapped = nullptr;
  ASSERT_EQ(owner.driver->alloc(2 * kLeast, 64, &mapped), Status::ok);
  const uint32_t remote = imported(plain.data());
  EXPECT_EQ(user.driver->advice()->sent_below, kLeast);
  EXPECT_TRUE(user.driver->advice()->sooner_sent(remote));
  EXPECT_FALSE(user.driver->advice()->sooner_sent(imported(mapped)));
  int fd = -1;
  ASSERT_TRUE(poll_until(owner, [&] { return owner.driver->arm(&fd) == Status::ok; }));
  EXPECT_FALSE(user.driver->advice()->sooner_sent(remote)) << "who sleeps does not look";
}

// --- sleep -------------------------------------------------------------------------------------

TEST(Shm, AFrameOfAnotherProcessWakesTheSleeper) {
  constexpr int kRounds = 200;
  End target(open_one);
  const auto address = target.address();
  Child child([&](Child& self) {
    End end(open_one);
    const PeerId peer = connect_to(end, address);
    if (peer == kNoPeer) return 1;
    for (uint32_t i = 0; i < kRounds; i++) {
      self.wait_gate();
      send_surely(end, peer, number_text(i));
    }
    self.wait_gate();
    return 0;
  });
  ASSERT_TRUE(poll_until(target, [&] { return target.sink.packets.empty(); }));
  for (uint32_t i = 0; i < kRounds; i++) {
    // The gate opens early or late, so that the frame comes before, while and after falling asleep.
    if (i % 2) child.open_gate();
    while (target.sink.packets.size() == i) {
      int fd = -1;
      const Status status = target.driver->arm(&fd);
      if (status == Status::ok) {
        if (i % 2 == 0 && target.sink.packets.size() == i) child.open_gate();
        ASSERT_TRUE(readable(fd, 10000)) << "round " << i << ": slept on";
      } else {
        ASSERT_EQ(status, Status::again);
      }
      target.driver->poll(1, 64);
      if (status == Status::ok && i % 2 == 0) break;
    }
    ASSERT_TRUE(poll_until(target, [&] { return target.sink.packets.size() == i + 1; }));
  }
  child.open_gate();
  EXPECT_EQ(child.finish(), 0);
}

TEST(Shm, RoomForARefusedFrameWakesTheSleeper) {
  End a(open_one), b(open_one);
  const PeerId peer = a.connect(b);
  size_t sent = 0;
  while (a.send(peer, "x", std::string(1000, 'y'))) sent++;
  int fd = -1;
  ASSERT_EQ(a.driver->arm(&fd), Status::ok);
  EXPECT_FALSE(readable(fd, 0));
  ASSERT_TRUE(poll_until(b, [&] { return b.sink.packets.size() == sent; }));
  EXPECT_TRUE(readable(fd, 0));
  EXPECT_TRUE(a.send(peer, "x"));
}

TEST(Shm, RoomForARefusedFrameIsWork) {
  End a(open_one), b(open_one);
  const PeerId peer = a.connect(b);
  size_t sent = 0;
  while (a.send(peer, "x", std::string(1000, 'y'))) sent++;
  ASSERT_TRUE(poll_until(b, [&] { return b.sink.packets.size() == sent; }));
  int fd = -1;
  EXPECT_EQ(a.driver->arm(&fd), Status::again);
  EXPECT_EQ(a.driver->arm(&fd), Status::ok) << "said once is enough";
}

TEST(Shm, ClosingWakesTheSleeper) {
  End a(open_one);
  auto b = std::make_unique<End>(open_one);
  ASSERT_NE(b->connect(a), kNoPeer);
  a.driver->poll(1, 64);
  int fd = -1;
  ASSERT_EQ(a.driver->arm(&fd), Status::ok);
  b.reset();
  EXPECT_TRUE(readable(fd, 0));
}

TEST(Shm, BusySendersTakeTurns) {
  End target(open_one);
  std::vector<std::unique_ptr<End>> senders;
  std::map<PeerId, size_t> heard;
  target.sink.on_packet = [&](PeerId from, const std::string&) { heard[from]++; };
  for (size_t i = 0; i < 6; i++) {
    senders.push_back(std::make_unique<End>(open_one));
    const PeerId to = senders[i]->connect(target);
    while (senders[i]->send(to, "x")) {
    }
  }
  for (int i = 0; i < 12; i++) target.driver->poll(1, 16);
  EXPECT_EQ(heard.size(), 6u);
}

// Rings in every state of hot and idle get their turn.
TEST(Shm, ManySendersAreAllHeard) {
  constexpr size_t kSenders = 40;
  End target(open_one);
  std::vector<std::unique_ptr<End>> senders;
  std::vector<PeerId> to;
  for (size_t i = 0; i < kSenders; i++) {
    senders.push_back(std::make_unique<End>(open_one));
    to.push_back(senders.back()->connect(target));
  }
  std::map<PeerId, size_t> heard;
  target.sink.on_packet = [&](PeerId from, const std::string&) { heard[from]++; };
  for (size_t n = 1; n <= 5; n++) {
    for (size_t i = 0; i < kSenders; i++) ASSERT_TRUE(senders[i]->send(to[i], "x"));
    for (int i = 0; i < 100; i++) target.driver->poll(1, 3);
    ASSERT_EQ(heard.size(), kSenders);
    for (const auto& [peer, count] : heard) ASSERT_EQ(count, n);
  }
  // Senders that never stop do not silence the others.
  const auto flood = [&] {
    for (size_t i = 0; i < 10; i++)
      while (senders[i]->send(to[i], "x")) {
      }
  };
  flood();
  for (int i = 0; i < 40; i++) target.driver->poll(1, 16);  // they are the hot ones now
  ASSERT_TRUE(senders[39]->send(to[39], "y"));
  heard.clear();
  for (int i = 0; i < 1000; i++) {
    flood();
    target.driver->poll(1, 16);
  }
  EXPECT_EQ(heard.size(), 11u);
  EXPECT_EQ(std::count_if(target.sink.packets.begin(), target.sink.packets.end(),
                          [](const auto& p) { return p.bytes == "y"; }),
            1);
}

}  // namespace
}  // namespace torii
