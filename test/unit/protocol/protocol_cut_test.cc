// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Peers that send what no correct one does are cut off: nobody waits for them for ever.
#include <functional>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

using ProtocolCut = ProtocolFrames;

// A thread that waits for such a peer gets an error, once.
TEST_F(ProtocolCut, AMalformedFrameEndsAllWithItsSender) {
  const auto after_put = [&](const std::function<std::string(uint64_t op)>& frame) {
    open(0);
    notes_.clear();
    EXPECT_EQ(put(10, true), Status::pending);
    EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 10}}));
    return frame(sent(wire::Kind::put).request.op);
  };
  const struct {
    std::function<std::string(uint64_t op)> frame;
    const char* fault;
  } kBad[] = {
      {[](uint64_t) { return std::string(); }, "malformed header (kind 0)"},
      {[](uint64_t) { return std::string(64, char(wire::kKindLast + 1)); },
       "malformed header (kind 22)"},
      {[](uint64_t op) { return control(wire::Kind::finish, op, 0, Status::again); },
       "finish that is none (status 2)"},
      {[](uint64_t op) { return control(wire::Kind::finish, op, 11); },
       "unexpected finish of a message (bytes 11)"},
      {[](uint64_t op) { return control(wire::Kind::ack, op, 11); },
       "unexpected acknowledgement (bytes 11)"},
      {[](uint64_t) { return control(wire::Kind::ack, 5, 10); },
       "answer to no operation (operation 5)"},
      {[](uint64_t) { return control(wire::Kind::more, 0, 7) + "lost"; },
       "continuation of no message (offset 7)"},
      {[](uint64_t) { return control(wire::Kind::stream, 5, 7, Status::ok, 9); },
       "request for the payload of no message (operation 5)"},
      {[](uint64_t) { return request(wire::Kind::getput, 300, 0) + std::string(300, 'x'); },
       "getput that is too long (bytes 300)"},
      {[](uint64_t) { return hello(); }, "unexpected hello (rank 1)"},
  };
  for (const auto& [frame, fault] : kBad) {
    expect_cut(after_put(frame), fault);
    ASSERT_EQ(notes_.size(), 2u) << fault;
    EXPECT_EQ(notes_[1], (Note{OpEvent::acked, Status::peer_dead, 0})) << fault;
    EXPECT_EQ(put(10, true), Status::peer_dead) << fault;
  }
}

// The one that is cut off hears of it, even if something else was to leave before.
TEST_F(ProtocolCut, WhoIsCutOffEndsAllAsWell) {
  open(0);
  ASSERT_EQ(put(10, true), Status::pending);
  arrive(control(wire::Kind::bye, 0, 0, Status::corrupt));
  EXPECT_EQ(room_.downs, std::vector{Status::peer_dead});
  EXPECT_NE(peer_->fault, "");
  EXPECT_EQ(notes_.back(), (Note{OpEvent::acked, Status::peer_dead, 0}));
  EXPECT_EQ(counters_.bad_frames, 0u);
  open(0);
  driver_->refusals = 1;
  EXPECT_EQ(put(10, false), Status::pending);
  expect_cut("", "malformed header (kind 0)");
}

// A message of a process that has not said who it is may be lost with its frame.
TEST_F(ProtocolCut, AStrangerIsCutOffBeforeItIsKnown) {
  open(0);
  constexpr PeerId kStranger = 2;
  driver_->arrive(kStranger, control(wire::Kind::credit, 0, 0));
  driver_->arrive(kStranger, hello(kStranger));
  driver_->arrive(kNoPeer, "nobody");
  protocol_->progress(++now_ns_);
  EXPECT_EQ(counters_.bad_frames, 2u);
  EXPECT_EQ(room_.downs, std::vector{Status::peer_dead});
  EXPECT_EQ(driver_->sent.back().peer, kStranger);
  const std::string address = hello(kStranger).substr(0, offsetof(wire::Hello, host)) + '\0' +
                              '\1' + '\4' + "fake" + '\4' + FakeDriver::address_of(kStranger);
  Peer* peer = nullptr;
  std::string why;
  EXPECT_EQ(protocol_->connect(std::as_bytes(std::span(address)), &peer, &why),
            Status::unreachable);
  EXPECT_NE(why.find("cut off: frame before hello (kind 14)"), std::string::npos) << why;
}

}  // namespace
}  // namespace torii
