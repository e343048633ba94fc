// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The protocol, frame by frame, over a driver that does what the test says: orders of events that
// simulated networks do not produce.
#include "core/protocol/protocol.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_driver.h"

namespace torii {
namespace {

constexpr PeerId kPeer = 1;

// Accepts every put into its memory, or holds it.
struct Room final : Upper {
  void on_put(Arrival& a) override {
    ++puts;
    if (!protocol) return;
    const uint64_t accepted = std::min<uint64_t>(a.env.length, memory.size());
    Op* op = nullptr;
    (void)protocol->accept(a, Data(memory.data(), memory.size()), accepted, false, owner, &op);
  }
  void on_get(Arrival& a) override { protocol->drop(a); }
  void on_peer_down(Peer&, Status why) override { downs.push_back(why); }
  void on_joined(Peer&, uint64_t group, bool asks) override { joined.push_back({group, asks}); }

  Protocol* protocol = nullptr;
  Owner owner;
  std::vector<char> memory = std::vector<char>(100000);
  unsigned puts = 0;
  std::vector<Status> downs;
  std::vector<std::pair<uint64_t, bool>> joined;
};

struct Note {
  OpEvent event;
  Status status;
  uint64_t bytes;
  bool operator==(const Note& o) const {
    return event == o.event && status == o.status && bytes == o.bytes;
  }
};
void PrintTo(const Note& n, std::ostream* out) {
  *out << "event " << int(n.event) << " " << status_text(n.status) << " " << n.bytes;
}

ProtocolConfig config() {
  ProtocolConfig c;
  c.self.job = 5;
  c.self.rank = 0;
  c.eager_window = 1 << 16;
  return c;
}

class ProtocolFrames : public ::testing::Test {
 protected:
  void open(uint32_t flags) {
    protocol_ = std::make_unique<Protocol>(config(), &room_, &counters_);
    auto driver = std::make_unique<test::FakeDriver>(protocol_->next_sink(), flags);
    driver_ = driver.get();
    protocol_->add_driver("fake", std::move(driver));
    room_.protocol = protocol_.get();
    room_.owner = owner();
    // As a hello up to its host, which has no letters here.
    const std::string address = hello().substr(0, offsetof(wire::Hello, host)) + '\0' + '\1' +
                                '\4' + "fake" + '\4' + test::FakeDriver::address_of(kPeer);
    std::string why;
    ASSERT_EQ(protocol_->connect(std::as_bytes(std::span(address)), &peer_, &why), Status::ok);
    arrive(hello());
  }
  static std::string hello() {
    wire::Hello h{};
    h.kind = wire::Kind::hello;
    h.version = wire::kVersion;
    h.eager_window = 1 << 16;
    h.job = 5;
    h.rank = h.nid = 1;
    h.pid = 1;
    return encoded(h);
  }
  template <typename H>
  static std::string encoded(const H& header) {
    std::string out(sizeof(H), 0);
    wire::encode(header, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  static std::string control(wire::Kind kind, uint64_t op, uint64_t length,
                             Status status = Status::ok, uint64_t sender_op = 0) {
    wire::Control c{};
    c.kind = kind;
    c.status = uint8_t(status);
    c.op = op;
    c.sender_op = sender_op;
    c.length = length;
    return encoded(c);
  }
  static std::string announcement(uint64_t length, const std::string& key = {}) {
    wire::Request r{};
    r.kind = wire::Kind::put_announce;
    r.length = length;
    r.key_bytes = uint16_t(key.size());
    r.op = 77;
    return encoded(r) + key;
  }
  void arrive(const std::string& frame) {
    driver_->arrive(kPeer, frame);
    protocol_->progress(++now_ns_);
  }
  // The last frame of this kind that was sent.
  wire::Frame sent(wire::Kind kind) {
    wire::Frame found;
    for (const auto& s : driver_->sent) {
      wire::Frame f;
      EXPECT_TRUE(wire::parse(std::as_bytes(std::span(s.bytes)), &f));
      if (f.kind == kind) found = f;
    }
    EXPECT_EQ(found.kind, kind) << "no such frame was sent";
    return found;
  }
  Owner owner() {
    Owner o;
    o.object = this;
    o.notify = [](Op* op, OpEvent event, Status status, uint64_t bytes) {
      static_cast<ProtocolFrames*>(op->owner.object)->notes_.push_back({event, status, bytes});
    };
    return o;
  }
  Status put(uint64_t bytes, bool want_ack) {
    Envelope env;
    env.want_ack = want_ack;
    env.length = bytes;
    return protocol_->put(*peer_, env, Data(source_.data(), bytes), owner(), nullptr);
  }
  void give_back(Status status = Status::ok) {
    ASSERT_TRUE(driver_->finish(status));
    protocol_->progress(++now_ns_);
  }

  Counters counters_;
  Room room_;
  std::unique_ptr<Protocol> protocol_;
  test::FakeDriver* driver_ = nullptr;
  Peer* peer_ = nullptr;
  uint64_t now_ns_ = 1;
  std::vector<Note> notes_;
  std::vector<char> source_ = std::vector<char>(100000);
};

using Notes = std::vector<Note>;

TEST_F(ProtocolFrames, AnAcknowledgementMayOvertakeTheDriver) {
  open(0);
  ASSERT_EQ(put(1000, true), Status::pending);
  ASSERT_EQ(driver_->lent(), 1u);
  arrive(control(wire::Kind::ack, sent(wire::Kind::put).request.op, 1000));
  EXPECT_EQ(notes_, Notes{}) << "the driver still reads the memory";
  EXPECT_EQ(counters_.bad_frames, 0u);
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 1000}, {OpEvent::acked, Status::ok, 1000}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, ARefusalMayOvertakeTheDriver) {
  open(0);
  ASSERT_EQ(put(1000, true), Status::pending);
  arrive(control(wire::Kind::finish, sent(wire::Kind::put).request.op, 0, Status::dropped));
  EXPECT_EQ(notes_, Notes{});
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 1000}, {OpEvent::dropped, Status::ok, 0}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, AStreamThatHasArrivedIsOverWhenTheDriverIsThrough) {
  open(0);
  ASSERT_EQ(put(60000, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  arrive(control(wire::Kind::stream, op, 60000, Status::ok, 9));
  while (!protocol_->drained()) protocol_->progress(++now_ns_);
  ASSERT_GT(driver_->lent(), 1u);
  arrive(control(wire::Kind::finish, op, 60000));
  EXPECT_EQ(notes_, Notes{});
  while (driver_->lent() > 1) give_back();
  EXPECT_EQ(notes_, Notes{});
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 60000}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// Streams take turns of many frames, also if the driver takes them one by one, and all get theirs.
TEST_F(ProtocolFrames, StreamsTakeTurnsOfManyFrames) {
  open(0);
  uint64_t ops[2];
  for (uint64_t& op : ops) {
    ASSERT_EQ(put(100000, false), Status::pending);
    op = sent(wire::Kind::put_announce).request.op;
  }
  driver_->refusals = 1000;
  for (const uint64_t op : ops) arrive(control(wire::Kind::stream, op, 100000, Status::ok, op));
  driver_->sent.clear();
  for (int i = 0; !protocol_->drained(); i++) {
    ASSERT_LT(i, 1000);
    driver_->refusals = i % 2;
    protocol_->progress(++now_ns_);
  }
  std::vector<unsigned> runs;
  uint64_t last = 0;
  for (const auto& s : driver_->sent) {
    wire::Frame f;
    ASSERT_TRUE(wire::parse(std::as_bytes(std::span(s.bytes)), &f));
    if (f.control.op != std::exchange(last, f.control.op)) runs.push_back(0);
    runs.back()++;
  }
  EXPECT_EQ(runs, (std::vector<unsigned>{16, 16, 9, 9}));
}

// A frame that was packed and refused is kept until it is taken, no longer: a driver that reads it
// again would find other bytes.
TEST_F(ProtocolFrames, WhatWasPackedIsNotLent) {
  open(0);
  driver_->want_lent_from(100);
  const auto pack = [](void*, uint64_t, void* buffer, size_t bytes) {
    std::memset(buffer, 1, bytes);
  };
  const Data packed(pack, nullptr, nullptr, 60000), plain(source_.data(), 60000);
  for (const bool packs : {true, false}) {
    const Data& data = packs ? packed : plain;
    Envelope env;
    env.length = data.bytes();
    ASSERT_EQ(protocol_->put(*peer_, env, data, owner(), nullptr), Status::pending);
    const uint64_t op = sent(wire::Kind::put_announce).request.op;
    driver_->sent.clear();
    arrive(control(wire::Kind::stream, op, 60000, Status::ok, op));
    for (int i = 0; !protocol_->drained(); i++) {
      ASSERT_LT(i, 1000);
      driver_->refusals = i % 2;
      protocol_->progress(++now_ns_);
    }
    ASSERT_GT(driver_->sent.size(), 4u);
    for (const auto& frame : driver_->sent) EXPECT_EQ(frame.lent, !packs);
    driver_->sent.clear();
  }
}

// An error in the target's last word must not leave a synchronous send without an end.
TEST_F(ProtocolFrames, AnErrorInsteadOfAnAcknowledgementIsTold) {
  open(0);
  ASSERT_EQ(put(10, true), Status::pending);
  ASSERT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 10}}));
  const uint64_t op = sent(wire::Kind::put).request.op;
  arrive(control(wire::Kind::finish, op, 0, Status::again));
  EXPECT_EQ(counters_.bad_frames, 1u);
  arrive(control(wire::Kind::finish, op, 0, Status::io_error));
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_EQ(notes_[1].event, OpEvent::acked);
  EXPECT_EQ(notes_[1].status, Status::io_error);
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, MemoryIsTheDriversUntilDoneEvenIfThePeerLeaves) {
  open(kGet);
  driver_->remote = Status::pending;
  arrive(announcement(50000, "a valid!"));
  ASSERT_EQ(driver_->lent(), 1u);
  arrive(control(wire::Kind::bye, 0, 0));
  EXPECT_EQ(room_.downs, std::vector<Status>{Status::peer_closed});
  EXPECT_EQ(notes_, Notes{}) << "the driver still writes into the memory";
  give_back(Status::peer_closed);
  EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::peer_closed, 0}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, NothingCountsAfterAPeersEnd) {
  open(0);
  arrive(control(wire::Kind::bye, 0, 0));
  ASSERT_EQ(room_.downs.size(), 1u);
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  for (const std::string& frame : {announcement(50000), encoded(tagged), hello(),
                                   announcement(50000), control(wire::Kind::bye, 0, 0)})
    arrive(frame);
  EXPECT_EQ(counters_.bad_frames, 5u);
  EXPECT_EQ(room_.puts, 0u);
  EXPECT_EQ(room_.downs.size(), 1u);
  EXPECT_EQ(protocol_->ops().used(), 0u) << "an operation that would never end";
}

TEST_F(ProtocolFrames, WhoHasJoinedIsToldAndHeard) {
  open(0);
  protocol_->tell_joined(*peer_, 0x1122334455667788, true);
  const std::string& frame = driver_->sent.back().bytes;
  const unsigned char expected[32] = {16,   0,    0,    0,    0,    0,    0,    0,  //
                                      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                                      0,    0,    0,    0,    0,    0,    0,    0,  //
                                      1};
  EXPECT_EQ(frame, std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
  arrive(frame);
  arrive(control(wire::Kind::joined, 5, 0));
  EXPECT_EQ(room_.joined,
            (std::vector<std::pair<uint64_t, bool>>{{0x1122334455667788, true}, {5, false}}));
  arrive(control(wire::Kind::joined, 5, 0) + "payload");
  arrive(std::string(1, char(wire::kKindLast + 1)) + control(wire::Kind::joined, 5, 0).substr(1));
  EXPECT_EQ(counters_.bad_frames, 2u);
  EXPECT_EQ(room_.joined.size(), 2u);
}

// Credit is owed to one peer, and a frame for several must not give it to all.
TEST_F(ProtocolFrames, AFrameForAGroupGivesNoCreditBack) {
  open(0);
  constexpr PeerId kGroup = 3;
  Peer* peers[] = {peer_};
  Envelope env;
  env.index = 2;
  env.bits = 7;
  env.hdr_data = 9;
  const Data five(source_.data(), 5);
  EXPECT_FALSE(protocol_->multicast_now(kGroup, peers, env, five)) << "before the hello";
  ASSERT_EQ(put(1, false), Status::ok);
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  arrive(encoded(tagged));
  const uint32_t owed = peer_->owed;
  ASSERT_GT(owed, 0u);
  const uint64_t credit = peer_->credit;
  ASSERT_TRUE(protocol_->multicast_now(kGroup, peers, env, five));
  EXPECT_EQ(driver_->sent.back().peer, kGroup);
  const wire::Tagged h = sent(wire::Kind::tagged).tagged;
  EXPECT_EQ(h.credit, 0u);
  EXPECT_EQ(h.port, 2u);
  EXPECT_EQ(h.bits, 7u);
  EXPECT_EQ(h.user, 9u);
  EXPECT_EQ(peer_->owed, owed);
  EXPECT_EQ(peer_->credit, credit - wire::credit_units(5));
  // A driver without room leaves everything as it was.
  driver_->refusals = 1;
  EXPECT_FALSE(protocol_->multicast_now(kGroup, peers, env, five));
  EXPECT_EQ(peer_->credit, credit - wire::credit_units(5));
}

}  // namespace
}  // namespace torii
