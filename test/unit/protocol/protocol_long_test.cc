// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A driver that copies, and takes frames longer than its MTU: which messages go in them.
#include <algorithm>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

class ProtocolLong : public ProtocolFrames {
 protected:
  static constexpr uint32_t kMtu = 4096, kLong = 16384;

  void SetUp() override {
    open(0, [](FakeDriver& driver) { driver.advise(40000, kNoSize, 0); });
    driver_->take_long_frames_of(kLong);
    driver_->advise_batches_of(16);
  }
  // The lengths of its frames, which are given back.
  std::vector<size_t> lengths_of(uint64_t bytes) {
    driver_->sent.clear();
    EXPECT_EQ(put(bytes, false), Status::pending);
    return lengths();
  }
  std::vector<size_t> lengths() {
    std::vector<size_t> out;
    for (const auto& frame : driver_->sent) out.push_back(frame.bytes.size());
    while (driver_->lent()) give_back();
    return out;
  }
  void expect_short(const std::vector<size_t>& lengths) {
    EXPECT_GT(lengths.size(), 1u);
    for (const size_t length : lengths) EXPECT_LE(length, kMtu);
  }
};

TEST_F(ProtocolLong, OneOfManyGoesInThemAndOneThatIsAloneDoesNot) {
  protocol_->progress(++now_ns_);
  expect_short(lengths_of(10000));
  EXPECT_EQ(lengths_of(10000).size(), 1u) << "the second in a row";
  EXPECT_EQ(lengths_of(30000).size(), 2u);
  arrive(control(wire::Kind::credit, 0, 0));
  expect_short(lengths_of(10000));
  (void)lengths_of(1000);
  EXPECT_EQ(lengths_of(10000).size(), 1u) << "a short one between them";
}

TEST_F(ProtocolLong, TheFramesOfAStreamAreShortAtItsEnd) {
  ASSERT_EQ(put(90000, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  driver_->sent.clear();
  arrive(control(wire::Kind::stream, op, 90000, Status::ok, 9));
  while (!protocol_->drained()) protocol_->progress(++now_ns_);
  const std::vector<size_t> frames = lengths();
  ASSERT_GT(frames.size(), 6u);
  EXPECT_GT(frames.front(), size_t{kLong} / 4 * 3);
  EXPECT_LE(*(frames.end() - 2), size_t{kLong} / 2);
  EXPECT_LE(frames.back(), size_t{kLong} / 2);
  size_t bytes = 0;
  for (const size_t length : frames) bytes += length - sizeof(wire::Control);
  EXPECT_EQ(bytes, 90000u);
  arrive(control(wire::Kind::finish, op, 90000));
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 90000}}));
}

}  // namespace
}  // namespace torii
