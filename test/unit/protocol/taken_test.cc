// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Bodies that the driver moves to their place itself, after the match. The driver in the test traps
// if it is asked for other bytes than those of the frame that it is handing up.
#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

class TakenBodies : public ProtocolFrames {
 protected:
  void SetUp() override {
    open(0, [](FakeDriver& d) { d.take_bodies_from(300); });
    for (size_t i = 0; i < body_.size(); ++i) body_[i] = char(i * 7);
  }
  std::string part(size_t first, size_t bytes) const { return body_.substr(first, bytes); }
  bool placed(size_t bytes) const {
    return std::memcmp(room_.memory.data(), body_.data(), bytes) == 0;
  }
  std::string body_ = std::string(20000, 0);
};

TEST_F(TakenBodies, WithOneFrame) {
  arrive(request(wire::Kind::put, 299, 0) + part(0, 299));
  EXPECT_TRUE(placed(299));
  EXPECT_EQ(driver_->taken, 0u) << "the processor is as quick";
  arrive(request(wire::Kind::put, 3000, 0) + part(0, 3000));
  EXPECT_TRUE(placed(3000));
  EXPECT_EQ(driver_->taken, 3000u);
}

TEST_F(TakenBodies, WithSeveralFrames) {
  arrive(request(wire::Kind::put, 6000, 0) + part(0, 3500));
  arrive(control(wire::Kind::more, 0, 3500) + part(3500, 2500));
  EXPECT_TRUE(placed(6000));
  EXPECT_EQ(driver_->taken, 6000u);
}

TEST_F(TakenBodies, AfterTheMatchOfAnAnnouncement) {
  arrive(announcement(5000));
  const uint64_t op = sent(wire::Kind::stream).control.sender_op;
  arrive(control(wire::Kind::data, op, 0) + part(0, 4000));
  arrive(control(wire::Kind::data, op, 4000) + part(4000, 1000));
  EXPECT_TRUE(placed(5000));
  EXPECT_EQ(driver_->taken, 5000u);
  EXPECT_EQ(sent(wire::Kind::finish).control.length, 5000u);
}

}  // namespace
}  // namespace torii
