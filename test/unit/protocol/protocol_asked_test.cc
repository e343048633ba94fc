// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Payloads that are sooner sent in frames than read: the source is asked for them, and if it does
// not look they are read after all, once, whatever comes late.
#include <algorithm>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

class ProtocolAsked : public ProtocolFrames {
 protected:
  static constexpr uint64_t kBytes = 6000, kChunk = 2000;
  static constexpr uint64_t kMoment = 75000, kLong = 300000;  // less and more than anybody waits

  void SetUp() override { open_asking(); }
  void open_asking() {
    open(kGet, [](FakeDriver& driver) { driver.advise_frames_below(kBytes + 1); });
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
  void data_from(uint64_t op, uint64_t at) {
    for (; at < kBytes; at += kChunk) data(op, at);
  }
  bool asked_for() const {
    return std::any_of(driver_->sent.begin(), driver_->sent.end(), [](const auto& frame) {
      return frame.bytes[0] == char(wire::Kind::stream);
    });
  }
  void look(uint64_t ns) {
    for (uint64_t end = now_ns_ + ns; now_ns_ < end;) protocol_->progress(now_ns_ += 1000);
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
    look(kMoment);
    data(op, at);
  }
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_TRUE(received_by('s'));
  EXPECT_EQ(driver_->accesses, 0u);
  EXPECT_EQ(sent(wire::Kind::finish).control.op, 77u);
  expect_all_over();
}

TEST_F(ProtocolAsked, WhatIsMissingOfAStreamIsRead) {
  const uint64_t op = announced();
  data(op, 0);
  look(kLong);
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_EQ(counters_.pulled_bytes, kBytes - kChunk);
  EXPECT_EQ(room_.memory[kChunk - 1], 's');
  EXPECT_EQ(room_.memory[kChunk], '\x5a');
  data(op, kChunk);
  EXPECT_EQ(counters_.late_replies, 1u);
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
  const uint64_t third = announced();
  EXPECT_EQ(driver_->accesses, 2u) << "the next one is asked for again";
  look(kMoment);
  data_from(third, 0);
  expect_all_over();
}

TEST_F(ProtocolAsked, WhoSendsOthersFirstIsNotGivenUp) {
  const uint64_t first = announced(), second = announced();
  for (uint64_t at = 0; at < kBytes; at += kChunk) {
    look(kMoment);
    data(first, at);
  }
  look(kMoment);
  EXPECT_EQ(driver_->accesses, 0u);
  look(kLong);
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_EQ(notes_, (Notes{received, received}));
  data(second, 0);
  expect_all_over();
}

// Frames that are wrong end the wait, and nothing is read of a source that sends them.
TEST_F(ProtocolAsked, AWrongFrameEndsTheWait) {
  const std::string long_one(kBytes + 1, 'x');
  for (unsigned i = 0; i < 5; ++i) {
    SetUp();
    notes_.clear();
    const uint64_t op = announced();
    look(kMoment);
    const std::string frames[] = {
        control(wire::Kind::data, op, 1) + "x", control(wire::Kind::data, op, 0),
        control(wire::Kind::data, op + 1, 0) + "x", control(wire::Kind::data_end, op, 0) + "x",
        control(wire::Kind::data, op, 0) + long_one};
    constexpr const char* kFaults[] = {
        "payload of no message (offset 1)", "malformed header (kind 11)",
        "payload of no message (offset 0)", "end of a stream that goes on (offset 0)",
        "payload of no message (offset 0)"};
    expect_cut(frames[i], kFaults[i]);
    look(kLong);
    EXPECT_EQ(driver_->accesses, 0u);
    EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::peer_dead, 0}})) << i;
  }
}

TEST_F(ProtocolAsked, WhereTheRequestCannotLeaveAllIsRead) {
  constexpr uint32_t kCredit = 3;
  peer_->owed = kCredit;
  driver_->sent.clear();
  driver_->takes = 0;
  arrive(announcement(kBytes, std::string(FakeDriver::kKeyBytes, 'k')));
  EXPECT_EQ(driver_->accesses, 1u);
  driver_->takes = ~0u;
  look(kMoment);
  EXPECT_EQ(sent(wire::Kind::finish).control.credit, kCredit) << "none is lost";
  EXPECT_FALSE(asked_for()) << "nothing is asked for any more";
  expect_all_over();
}

TEST_F(ProtocolAsked, WhatCannotBeReadIsWaitedFor) {
  driver_->remote = Status::denied;
  const uint64_t op = announced();
  data(op, 0);
  driver_->sent.clear();
  look(kLong);
  EXPECT_EQ(driver_->accesses, 1u);
  EXPECT_TRUE(notes_.empty());
  data_from(op, kChunk);
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_TRUE(received_by('s'));
  EXPECT_FALSE(asked_for()) << "it was asked for already";
  expect_all_over();
}

// Frames that came while it was to be read are gone: they are asked for once more.
TEST_F(ProtocolAsked, AStreamOfWhichFramesWerePassedOverBeginsAnew) {
  driver_->remote = Status::pending;
  const uint64_t op = announced();
  data(op, 0);
  look(kLong);
  data(op, kChunk);
  driver_->sent.clear();
  give_back(Status::denied);
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(sent(wire::Kind::stream).control.sender_op, op);
  data(op, 2 * kChunk);  // of the first stream
  data_from(op, 0);
  EXPECT_EQ(notes_, Notes{received});
  EXPECT_TRUE(received_by('s'));
  expect_all_over();
}

// While it is waited for, while its memory is read, and while that waits for room.
TEST_F(ProtocolAsked, ADeadSourceIsToldOnce) {
  for (const unsigned reads : {0u, 1u, 2u}) {
    open_asking();
    driver_->remote = Status::pending;
    notes_.clear();
    (void)announced();
    driver_->refusals = reads == 2 ? 1000 : 0;
    if (reads) look(kLong);
    driver_->go_down(kPeer, Status::peer_dead);
    look(kLong);
    EXPECT_EQ(driver_->accesses > 0, reads > 0);
    ASSERT_EQ(notes_.size(), 1u) << reads;
    EXPECT_EQ(notes_[0].status, Status::peer_dead) << reads;
    expect_all_over();
  }
}

TEST_F(ProtocolAsked, ManySilentOnesAreReadInAFewRounds) {
  for (int i = 0; i < 20; ++i) (void)announced();
  look(kLong);
  EXPECT_EQ(driver_->accesses, 20u);
  EXPECT_EQ(notes_.size(), 20u);
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
  look(1000);
  EXPECT_EQ(driver_->sent.size(), 0u);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].status, Status::ok);
  expect_all_over();
}

// The source of that stream.
TEST_F(ProtocolAsked, ASourceBeginsAnew) {
  constexpr uint64_t kLongMessage = 60000;
  EXPECT_EQ(put(kLongMessage, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  const std::string ask = control(wire::Kind::stream, op, kLongMessage, Status::ok, 5);
  for (const unsigned taken : {3u, ~0u, ~0u}) {  // in the middle, at the end
    driver_->sent.clear();
    driver_->takes = taken;
    driver_->arrive(kPeer, ask);
    look(kLong);
    EXPECT_EQ(sent(wire::Kind::data).control.op, 5u);
    wire::Frame first;
    EXPECT_TRUE(wire::parse(std::as_bytes(std::span(driver_->sent[0].bytes)), &first));
    EXPECT_EQ(first.control.length, 0u);
    EXPECT_TRUE(notes_.empty());
  }
  arrive(control(wire::Kind::finish, op, kLongMessage));
  while (driver_->lent()) give_back();
  EXPECT_EQ(notes_.size(), 1u);
  expect_all_over();
}

TEST_F(ProtocolAsked, ASecondRequestIsTheSameAsTheFirst) {
  EXPECT_EQ(put(60000, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  arrive(control(wire::Kind::stream, op, 60000, Status::ok, 5));
  expect_cut(control(wire::Kind::stream, op, 59999, Status::ok, 5),
             "request for the payload of no message (operation " + std::to_string(op) + ")");
}

}  // namespace
}  // namespace torii
