// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The protocol over a driver that does what the test says, frame by frame.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/protocol/protocol.h"
#include "fake_driver.h"

namespace torii::test {

inline constexpr PeerId kPeer = 1;

// Accepts every put into its memory, or holds it.
struct Room final : Upper {
  void on_put(Arrival& a) override {
    ++puts;
    if (!protocol) return;
    const uint64_t accepted = std::min<uint64_t>(a.env.length, memory.size());
    Op* op = nullptr;
    (void)protocol->accept(a, Data(memory.data(), memory.size()), accepted, false, owner, &op);
  }
  void on_get(Arrival& a) override {
    if (a.env.space != Space::memory) return protocol->drop(a);
    (void)protocol->reply(a, Data(memory.data(), memory.size()), a.env.length, owner, nullptr);
  }
  void on_update(Arrival& a) override {
    if (a.update->operation == 0) return protocol->updated(a, 41, false);
    protocol->refuse(a, Status::denied);
  }
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
inline void PrintTo(const Note& n, std::ostream* out) {
  *out << "event " << int(n.event) << " " << status_text(n.status) << " " << n.bytes;
}

inline ProtocolConfig config() {
  ProtocolConfig c;
  c.self.job = 5;
  c.self.rank = 0;
  c.eager_window = 1 << 16;
  return c;
}

class ProtocolFrames : public ::testing::Test {
 protected:
  void open(uint32_t flags, void (*prepare)(FakeDriver&) = nullptr) {
    ProtocolConfig config = test::config();
    config.clock = [](void* now_ns) { return *static_cast<uint64_t*>(now_ns); };
    config.clock_context = &now_ns_;
    protocol_ = std::make_unique<Protocol>(config, &room_, &counters_);
    auto driver = std::make_unique<FakeDriver>(protocol_->next_sink(), flags);
    driver_ = driver.get();
    if (prepare) prepare(*driver_);
    protocol_->add_driver("fake", std::move(driver));
    room_.protocol = protocol_.get();
    room_.owner = owner();
    peer_ = connect(kPeer);
    arrive(hello());
  }
  Peer* connect(PeerId number) {
    // As a hello up to its host, which has no letters here.
    const std::string address = hello(number).substr(0, offsetof(wire::Hello, host)) + '\0' + '\1' +
                                '\4' + "fake" + '\4' + FakeDriver::address_of(number);
    Peer* peer = nullptr;
    std::string why;
    EXPECT_EQ(protocol_->connect(std::as_bytes(std::span(address)), &peer, &why), Status::ok);
    return peer;
  }
  static std::string hello(PeerId number = kPeer) {
    wire::Hello h{};
    h.kind = wire::Kind::hello;
    h.version = wire::kVersion;
    h.eager_window = 1 << 16;
    h.job = 5;
    h.rank = h.nid = h.pid = number;
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
  static std::string request(wire::Kind kind, uint64_t length, uint8_t flags) {
    wire::Request r{};
    r.kind = kind;
    r.flags = flags;
    r.length = length;
    r.op = 77;
    return encoded(r);
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
  // A frame that a correct peer never sends: its sender is cut off and told so, and whatever comes
  // of it afterwards is ignored.
  void expect_cut(const std::string& frame, const std::string& fault) {
    const uint64_t before = counters_.bad_frames;
    room_.downs.clear();
    arrive(frame);
    EXPECT_EQ(peer_->state, PeerState::dead) << fault;
    EXPECT_EQ(peer_->fault, fault);
    EXPECT_EQ(sent(wire::Kind::bye).control.status, uint8_t(Status::corrupt));
    arrive(frame);
    EXPECT_EQ(counters_.bad_frames, before + 1) << fault;
    EXPECT_EQ(room_.downs, std::vector{Status::peer_dead}) << fault;
    while (driver_->lent()) give_back();
    EXPECT_EQ(protocol_->ops().used(), 0u) << fault;
    EXPECT_TRUE(protocol_->drained()) << fault;
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
  FakeDriver* driver_ = nullptr;
  Peer* peer_ = nullptr;
  uint64_t now_ns_ = 1;
  std::vector<Note> notes_;
  std::vector<char> source_ = std::vector<char>(100000);
};

using Notes = std::vector<Note>;

inline AccessOwner access_owner(Notes* notes) {
  const auto note = [](const RemoteAccess& over, Status status) {
    static_cast<Notes*>(over.owner.object)->push_back({OpEvent::moved, status, 0});
  };
  return {note, notes, 0};
}

// Accesses the first `bytes` bytes, now or later, as there is room in the driver.
inline Status access_any(Protocol& protocol, Peer& peer, uint32_t remote, void* base,
                         uint64_t bytes, bool reading, Notes* notes) {
  const AccessOwner owner = access_owner(notes);
  const Status tried = protocol.try_access(peer, remote, 0, base, bytes, reading, owner);
  if (tried != Status::again) return tried;
  return protocol.access_later(peer, remote, 0, base, bytes, reading, owner);
}

}  // namespace torii::test
