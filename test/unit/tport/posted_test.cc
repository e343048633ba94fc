// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The short way of receives: torii_post, and receives that end at once by a port's prompt.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "world.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::pattern;
using test::pub;
using test::World;

SimOptions options() {
  SimOptions o;
  o.flags = kReliable | kPeerDown | kWait;
  return o;
}

// Two interfaces that have spoken with each other.
class Posted : public ::testing::Test {
 protected:
  Posted() : world_(options(), 2, 2), in_(world_.port(1)) {
    to_ = pub(world_.peer(0, 1));
    from_ = pub(world_.peer(1, 0));
    torii_port_open(world_.handle(0), 0, &out_);
    Outcome first;
    EXPECT_NE(torii_post(in_, from_, 0, 0, nullptr, 0, note, &first), 0u);
    send(0, 0);
    EXPECT_EQ(first.calls, 1);
  }
  void send(uint64_t tag, size_t bytes) {
    const auto source = pattern(bytes, unsigned(tag));
    torii_data_t data = flat(const_cast<uint8_t*>(source.data()), bytes);
    Outcome sent;
    const int code = torii_send(out_, to_, TORII_STANDARD, tag, 7, &data, note, &sent, nullptr);
    ASSERT_GE(code, 0);
    world_.run();
    ASSERT_EQ(sent.calls, code == TORII_PENDING);
  }

  World world_;
  torii_port_t* in_;
  torii_port_t* out_ = nullptr;
  torii_peer_t* to_;
  torii_peer_t* from_;
};

TEST_F(Posted, TakesPlainMemoryWhileNothingWaits) {
  uint8_t target[100];
  Outcome received;
  EXPECT_EQ(torii_post(nullptr, from_, 5, 0, target, 100, note, &received), 0u);
  EXPECT_EQ(torii_post(in_, from_, 5, 0, target, 100, nullptr, &received), 0u);
  EXPECT_EQ(torii_post(in_, from_, 5, 0, nullptr, 100, note, &received), 0u);
  const torii_request_t anyone = torii_post(in_, nullptr, 5, 0, target, 100, note, &received);
  ASSERT_NE(anyone, 0u);
  send(5, 100);
  EXPECT_EQ(received.calls, 1);
  EXPECT_EQ(received.result.code, TORII_OK);
  EXPECT_EQ(received.result.user, 7u);
  EXPECT_EQ(received.result.source, from_);
  EXPECT_EQ(0, std::memcmp(target, pattern(100, 5).data(), 100));
  EXPECT_EQ(torii_cancel(world_.handle(1), anyone), TORII_EMPTY) << "it is over";

  Outcome withdrawn;
  const torii_request_t request = torii_post(in_, from_, 5, 0, target, 100, note, &withdrawn);
  EXPECT_EQ(torii_cancel(world_.handle(1), request), TORII_OK);
  EXPECT_EQ(withdrawn.result.code, TORII_ERR_CANCELED);
}

TEST_F(Posted, LeavesWhatIsHereToReceive) {
  send(5, 10);
  uint8_t target[10];
  Outcome received;
  EXPECT_EQ(torii_post(in_, from_, 6, 0, target, 10, note, &received), 0u);
  EXPECT_EQ(torii_post(in_, from_, 5, 0, target, 10, note, &received), 0u);
  torii_data_t data = flat(target, 10);
  torii_result_t result;
  EXPECT_EQ(torii_recv(in_, from_, 5, 0, &data, note, &received, nullptr, &result), TORII_OK);
  EXPECT_EQ(received.calls, 0);
  EXPECT_NE(torii_post(in_, from_, 6, 0, target, 10, note, &received), 0u);
}

// --- prompts ------------------------------------------------------------------------------------

struct Prompted {
  bool takes = true;
  int offers = 0;
  torii_result_t offered{};
  Outcome outcome;
};

int prompt(void* arg, const torii_result_t* result) {
  auto* p = static_cast<Prompted*>(arg);
  ++p->offers;
  p->offered = *result;
  return p->takes;
}

void late(void* arg, const torii_result_t* result) {
  note(&static_cast<Prompted*>(arg)->outcome, result);
}

TEST_F(Posted, APromptEndsAReceiveOrLeavesItToItsCallback) {
  EXPECT_EQ(torii_port_prompt(nullptr, late, prompt), TORII_ERR_INVALID);
  EXPECT_EQ(torii_port_prompt(in_, nullptr, prompt), TORII_ERR_INVALID);
  ASSERT_EQ(torii_port_prompt(in_, late, prompt), TORII_OK);
  uint8_t target[20];
  Prompted taken, left;
  Outcome other;
  left.takes = false;
  ASSERT_NE(torii_post(in_, from_, 1, 0, target, 20, late, &taken), 0u);
  ASSERT_NE(torii_post(in_, from_, 2, 0, target, 10, late, &left), 0u);
  ASSERT_NE(torii_post(in_, from_, 3, 0, target, 20, note, &other), 0u);
  send(1, 20);
  send(2, 20);
  send(3, 20);
  EXPECT_EQ(taken.offers, 1);
  EXPECT_EQ(taken.outcome.calls, 0);
  EXPECT_EQ(taken.offered.code, TORII_OK);
  EXPECT_EQ(taken.offered.bytes, 20u);
  EXPECT_EQ(taken.offered.tag, 1u);
  EXPECT_EQ(taken.offered.user, 7u);
  EXPECT_EQ(taken.offered.source, from_);
  EXPECT_EQ(left.offers, 1);
  EXPECT_EQ(left.outcome.calls, 1);
  EXPECT_EQ(left.outcome.result.code, TORII_ERR_TRUNCATED);
  EXPECT_EQ(left.outcome.result.sent_bytes, 20u);
  EXPECT_EQ(other.calls, 1);
}

TEST_F(Posted, ManyPromptsLoseNothing) {
  ASSERT_EQ(torii_port_prompt(in_, late, prompt), TORII_OK);
  constexpr unsigned kCount = 3000;
  std::vector<Prompted> receives(kCount);
  std::vector<uint32_t> targets(kCount);
  for (unsigned i = 0; i < kCount; ++i) {
    receives[i].takes = i % 3 != 0;
    ASSERT_NE(torii_post(in_, from_, i, 0, &targets[i], 4, late, &receives[i]), 0u);
  }
  for (unsigned i = 0; i < kCount; ++i) send(i, 4);
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_EQ(receives[i].offers, 1);
    ASSERT_EQ(receives[i].outcome.calls, receives[i].takes ? 0 : 1);
    ASSERT_EQ(0, std::memcmp(&targets[i], pattern(4, i).data(), 4));
  }
}

TEST_F(Posted, PromptsEndWithNullAndWithThePort) {
  uint8_t target[4];
  Prompted first, second;
  ASSERT_EQ(torii_port_prompt(in_, late, prompt), TORII_OK);
  ASSERT_NE(torii_post(in_, from_, 1, 0, target, 4, late, &first), 0u);
  ASSERT_EQ(torii_port_prompt(in_, nullptr, nullptr), TORII_OK);
  send(1, 4);
  EXPECT_EQ(first.offers, 0);
  EXPECT_EQ(first.outcome.calls, 1);

  ASSERT_EQ(torii_port_prompt(in_, late, prompt), TORII_OK);
  ASSERT_EQ(torii_port_close(in_), TORII_OK);
  in_ = world_.port(1);
  ASSERT_NE(torii_post(in_, from_, 2, 0, target, 4, late, &second), 0u);
  send(2, 4);
  EXPECT_EQ(second.offers, 0);
  EXPECT_EQ(second.outcome.calls, 1);
}

}  // namespace
}  // namespace torii
