// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Payloads that are sooner sent in frames than read: the source is asked for them, and if it does
// not look they are read after all, once, whatever comes late.
#include <algorithm>

#include "unit/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

class ProtocolAsked : public ProtocolFrames {
 protected:
  static constexpr uint64_t kBytes = 6000, kChunk = 2000;
  static constexpr int kLong = 10000;  // looks; more than anybody waits

  void SetUp() override {
    open(kGet);
    driver_->sooner_most = kBytes;
  }
  // An announced message; what it is asked for by.
  uint64_t announced(uint64_t bytes = kBytes) {
    driver_->sent.clear();
    arrive(announcement(bytes, std::string(FakeDriver::kKeyBytes, 'k')));
    return sent(wire::Kind::stream).control.sender_op;
  }
  void data(uint64_t op, uint64_t offset) {
    arrive(control(wire::Kind::data, op, offset) + std::string(kChunk, 's'));
  }
  void look(int times) {
    for (int i = 0; i < times; ++i) protocol_->progress(++now_ns_);
  }
  bool received_by(char how) const {
    return std::all_of(room_.memory.begin(), room_.memory.begin() + kBytes,
                       [&](char c) { return c == how; });
  }
  void expect_all_over() {
    EXPECT_TRUE(protocol_->drained());
    EXPECT_EQ(protocol_->ops().used(), 0u);
    EXPECT_EQ(counters_.bad_frames, 0u);
  }
  const Note received{OpEvent::received, Status::ok, kBytes};
};

TEST_F(ProtocolAsked, FramesThatComeAreTaken) {
  const uint64_t op = announced();
  EXPECT_EQ(sent(wire::Kind::stream).key.size(), 0u);
  EXPECT_FALSE(protocol_->drained()) << "somebody has to look";
  for (uint64_t at = 0; at < kBytes; at += kChunk) {
    data(op, at);
    if (at + kChunk < kBytes) look(kLong);
  }
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_TRUE(received_by('s'));
  EXPECT_EQ(driver_->accesses, 0u);
  EXPECT_EQ(sent(wire::Kind::finish).control.op, 77u);
  expect_all_over();
}

TEST_F(ProtocolAsked, WhatIsLongerIsRead) {
  arrive(announcement(kBytes + 1, std::string(FakeDriver::kKeyBytes, 'k')));
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_EQ(counters_.pulled_bytes, kBytes + 1);
  expect_all_over();
}

TEST_F(ProtocolAsked, AllThatASilentSourceHasIsRead) {
  const uint64_t first = announced(), second = announced();
  look(kLong);
  EXPECT_EQ(driver_->accesses, 2u);
  EXPECT_EQ(notes_, (Notes{received, received}));
  EXPECT_TRUE(received_by('\x5a'));
  EXPECT_EQ(counters_.streams_given_up, 2u);
  EXPECT_EQ(sent(wire::Kind::finish).control.op, 77u);
  // It was only late.
  data(first, 0);
  data(second, 0);
  EXPECT_TRUE(received_by('\x5a'));
  expect_all_over();
  data(announced(), 0);
  EXPECT_EQ(driver_->accesses, 2u) << "the next one is asked for again";
}

TEST_F(ProtocolAsked, WhoSendsOthersFirstIsNotGivenUp) {
  const uint64_t first = announced(), second = announced();
  for (uint64_t at = 0; at < kBytes; at += kChunk) {
    look(150);
    data(first, at);
  }
  look(150);
  EXPECT_EQ(driver_->accesses, 0u);
  look(kLong);
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_EQ(notes_, (Notes{received, received}));
  data(second, 0);
  expect_all_over();
}

TEST_F(ProtocolAsked, WhatCannotBeReadIsWaitedFor) {
  driver_->remote = Status::denied;
  const uint64_t op = announced();
  look(kLong);
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_TRUE(notes_.empty());
  driver_->sent.clear();
  for (uint64_t at = 0; at < kBytes; at += kChunk) data(op, at);
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_TRUE(received_by('s'));
  for (const auto& frame : driver_->sent)
    EXPECT_NE(frame.bytes[0], char(wire::Kind::stream)) << "it was asked for already";
  expect_all_over();
}

// Nobody waits for frames that have come and gone.
TEST_F(ProtocolAsked, ARefusalThatComesAfterTheFramesIsAnError) {
  driver_->remote = Status::pending;
  const uint64_t op = announced();
  look(kLong);
  data(op, 0);
  EXPECT_TRUE(notes_.empty());
  give_back(Status::denied);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].status, Status::denied);
  expect_all_over();
}

TEST_F(ProtocolAsked, ADeadSourceIsToldOnce) {
  (void)announced();
  driver_->go_down(kPeer, Status::peer_dead);
  look(kLong);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].status, Status::peer_dead);
  EXPECT_EQ(driver_->accesses, 0u);
  expect_all_over();
}

// The source comes back: it was asked for frames, and right behind that told that all is over.
TEST_F(ProtocolAsked, ASourceThatWasLateSendsNothing) {
  constexpr uint64_t kLongMessage = 60000;
  EXPECT_EQ(put(kLongMessage, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  driver_->sent.clear();
  driver_->arrive(kPeer, control(wire::Kind::stream, op, kLongMessage, Status::ok, 5));
  driver_->arrive(kPeer, control(wire::Kind::finish, op, kLongMessage));
  look(1);
  EXPECT_EQ(driver_->sent.size(), 0u);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].status, Status::ok);
  expect_all_over();
}

}  // namespace
}  // namespace torii
