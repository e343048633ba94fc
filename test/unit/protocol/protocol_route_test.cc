// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A driver that makes no contact with a peer: the next one carries what has waited.
#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

class ProtocolRoute : public ProtocolFrames {
 protected:
  // Two drivers for networks; the first one takes no frame before it is told to.
  void open_two() {
    ProtocolConfig config = test::config();
    config.clock = [](void* now_ns) { return *static_cast<uint64_t*>(now_ns); };
    config.clock_context = &now_ns_;
    protocol_ = std::make_unique<Protocol>(config, &room_, &counters_);
    driver_ = add("ucx", kPut | kGet, 4096);
    second_ = add("udp", 0, 1024);
    driver_->takes = 0;
  }
  FakeDriver* add(const char* name, uint32_t flags, uint32_t mtu) {
    auto driver = std::make_unique<FakeDriver>(protocol_->next_sink(), flags, mtu);
    FakeDriver* const out = driver.get();
    protocol_->add_driver(name, std::move(driver));
    return out;
  }
  void connect_by(const std::vector<std::string>& names) {
    std::string address =
        hello().substr(0, offsetof(wire::Hello, host)) + '\0' + char(names.size());
    for (const std::string& name : names)
      address += char(name.size()) + name + '\4' + FakeDriver::address_of(kPeer);
    std::string why;
    ASSERT_EQ(protocol_->connect(std::as_bytes(std::span(address)), &peer_, &why), Status::ok);
  }
  void give_up() {
    driver_->go_down(kPeer, Status::unreachable);
    protocol_->progress(++now_ns_);
    protocol_->progress(++now_ns_);
  }
  std::vector<wire::Kind> kinds(const FakeDriver& driver) {
    std::vector<wire::Kind> out;
    for (const auto& sent : driver.sent) {
      wire::Frame frame;
      EXPECT_TRUE(wire::parse(std::as_bytes(std::span(sent.bytes)), &frame));
      out.push_back(frame.kind);
    }
    return out;
  }

  FakeDriver* second_ = nullptr;
};

TEST_F(ProtocolRoute, WhatHasWaitedGoesByTheNextDriver) {
  open_two();
  connect_by({"udp", "ucx"});
  EXPECT_EQ(put(3000, false), Status::pending);
  EXPECT_EQ(put(50000, false), Status::pending);
  EXPECT_TRUE(driver_->sent.empty());
  EXPECT_EQ(driver_->registered(), 0u) << "a key of one driver is nothing to the next";
  give_up();
  EXPECT_EQ(room_.downs, std::vector<Status>{});
  EXPECT_TRUE(driver_->sent.empty());
  const std::vector<wire::Kind> sent = kinds(*second_);
  ASSERT_GE(sent.size(), 5u) << "a hello, a put in frames of 1024 bytes, an announcement";
  EXPECT_EQ(sent[0], wire::Kind::hello);
  EXPECT_EQ(sent[1], wire::Kind::put);
  EXPECT_EQ(sent.back(), wire::Kind::put_announce);
  EXPECT_EQ(counters_.peers_connected, 1u);
  EXPECT_EQ(protocol_->describe(*peer_), "rank 1 on an unknown host (pid 0) by udp");
  EXPECT_EQ(peer_->path_note, " ucx: no contact was made by it;");
}

// A peer that comes by another driver has given up the first one.
TEST_F(ProtocolRoute, WhoComesByTheNextDriverIsAnsweredByIt) {
  open_two();
  connect_by({"ucx", "udp"});
  EXPECT_EQ(put(3000, false), Status::pending);
  second_->arrive(kPeer, hello());
  protocol_->progress(++now_ns_);
  protocol_->progress(++now_ns_);
  EXPECT_TRUE(driver_->sent.empty());
  ASSERT_GE(kinds(*second_).size(), 2u);
  EXPECT_EQ(kinds(*second_)[1], wire::Kind::put);
  EXPECT_EQ(peer_->path_note, " ucx: no contact was made by it;");
  driver_->go_down(kPeer, Status::unreachable);
  protocol_->progress(++now_ns_);
  EXPECT_EQ(room_.downs, std::vector<Status>{}) << "it is reached by the other one";
}

TEST_F(ProtocolRoute, ItIsDeadWhereNoOtherReachesIt) {
  open_two();
  connect_by({"ucx"});
  EXPECT_EQ(put(10, true), Status::pending);
  give_up();
  EXPECT_EQ(room_.downs, std::vector{Status::peer_dead});
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// Frames that the driver has taken may have arrived.
TEST_F(ProtocolRoute, ADriverThatHasTakenAFrameIsTheOnlyOne) {
  open_two();
  connect_by({"ucx", "udp"});
  driver_->takes = ~0u;
  EXPECT_EQ(put(10, false), Status::ok);
  give_up();
  EXPECT_EQ(room_.downs, std::vector{Status::peer_dead});
  EXPECT_TRUE(second_->sent.empty());
}

// Longer frames and keys come back with the first frame.
TEST_F(ProtocolRoute, WhoIsHeardIsReachedAsEver) {
  open_two();
  connect_by({"ucx", "udp"});
  arrive(hello());
  driver_->takes = ~0u;
  EXPECT_EQ(put(3000, false), Status::pending);
  EXPECT_EQ(kinds(*driver_), (std::vector{wire::Kind::hello, wire::Kind::put}));
  EXPECT_EQ(put(50000, false), Status::pending);
  EXPECT_EQ(driver_->registered(), 1u);
}

}  // namespace
}  // namespace torii
