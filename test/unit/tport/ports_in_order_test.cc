// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A port in order: what a peer sent ends in the order of its matches, however long each message
// takes on its way.
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <utility>
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

constexpr uint64_t kLong = 300000;  // announced, and read or streamed in many pieces
constexpr uint64_t kAny = ~uint64_t{0};

SimOptions network(uint32_t flags, bool pending) {
  SimOptions options;
  options.flags = kReliable | kPeerDown | kWait | flags;
  options.pending_rma = pending;
  options.latency_min_ns = 100;
  options.latency_max_ns = 5000;
  return options;
}

// Port 0 of interface 0 is in order; all others send to it, with the tags 0, 1, 2 and so on.
class InOrder : public ::testing::TestWithParam<std::pair<uint32_t, bool>> {
 protected:
  struct Receive {
    InOrder* test;
    std::vector<uint8_t> memory;
    int ends = 0;
    torii_result_t result{};
  };

  InOrder() : world_(network(GetParam().first, GetParam().second), 3, 64) {
    in_ = world_.port(0);
    EXPECT_EQ(torii_port_in_order(in_), TORII_OK);
    for (unsigned i = 1; i < 3; ++i) {
      from_[i] = pub(world_.peer(0, i));
      to_[i] = pub(world_.peer(i, 0));
      out_[i] = world_.port(i);
    }
  }
  void post(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      receives_.push_back({this, std::vector<uint8_t>(kLong), 0, {}});
      Receive& r = receives_.back();
      torii_data_t data = flat(r.memory.data(), r.memory.size());
      torii_result_t now{};
      EXPECT_EQ(torii_recv(in_, nullptr, 0, kAny, &data, ended, &r, nullptr, &now), TORII_PENDING);
    }
  }
  static void ended(void* arg, const torii_result_t* result) {
    auto* r = static_cast<Receive*>(arg);
    ++r->ends;
    r->result = *result;
    r->test->ended_.push_back(r);
  }
  void send(unsigned from, uint64_t bytes) {
    const uint64_t tag = next_tag_[from]++;
    sent_.push_back(pattern(bytes, unsigned(tag)));
    torii_data_t data = flat(sent_.back().data(), bytes);
    outcomes_.emplace_back();
    EXPECT_GE(torii_send(out_[from], to_[from], TORII_STANDARD, tag, 0, &data, note,
                         &outcomes_.back(), nullptr),
              0);
  }
  // The tags that came from this one, in the order of their ends.
  std::vector<uint64_t> tags(unsigned from) const {
    std::vector<uint64_t> out;
    for (const Receive* r : ended_)
      if (r->result.source == from_[from] && r->result.code == TORII_OK)
        out.push_back(r->result.tag);
    return out;
  }
  static std::vector<uint64_t> up_to(uint64_t end) {
    std::vector<uint64_t> out;
    for (uint64_t i = 0; i < end; ++i) out.push_back(i);
    return out;
  }
  void expect_right_bytes() const {
    for (const Receive* r : ended_) {
      const auto wanted = pattern(r->result.bytes, unsigned(r->result.tag));
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end() - 1, r->memory.begin()));
    }
  }

  World world_;
  torii_port_t* in_;
  torii_port_t* out_[3];
  torii_peer_t* from_[3];
  torii_peer_t* to_[3];
  uint64_t next_tag_[3] = {};
  std::list<Receive> receives_;
  std::list<std::vector<uint8_t>> sent_;
  std::list<Outcome> outcomes_;
  std::vector<const Receive*> ended_;
};

constexpr uint64_t kSizes[] = {kLong, 1, 40, 20000, 0, 70000, 8, 4096, 64, kLong, 100};
constexpr unsigned kMessages = 2 * std::size(kSizes);

TEST_P(InOrder, PostedReceives) {
  post(2 * kMessages);
  for (unsigned i = 0; i < kMessages; ++i)
    for (unsigned from = 1; from < 3; ++from) send(from, kSizes[i % std::size(kSizes)]);
  world_.run();
  EXPECT_EQ(tags(1), up_to(kMessages));
  EXPECT_EQ(tags(2), up_to(kMessages));
  expect_right_bytes();
}

// No receive may end in its call then: callbacks of others are due.
TEST_P(InOrder, UnexpectedMessages) {
  for (unsigned i = 0; i < kMessages; ++i) send(1, kSizes[i % std::size(kSizes)]);
  world_.run();
  post(kMessages / 2);
  for (unsigned i = 0; i < 3; ++i) world_.step();
  post(kMessages / 2);
  world_.run();
  EXPECT_EQ(tags(1), up_to(kMessages));
  expect_right_bytes();
}

// The long message of one who does nothing any more holds up what he sent after it, until he is
// dead, but nobody else.
TEST_P(InOrder, EachPeerHasAnOrderOfItsOwn) {
  if (GetParam().first & kGet) GTEST_SKIP() << "what is read needs nobody";
  post(6);
  send(1, kLong);
  send(1, 8);
  const auto step_others = [&] {
    for (int i = 0; i < 200; ++i) {
      world_.advance(1000);
      torii_progress(world_.handle(0));
      torii_progress(world_.handle(2));
    }
  };
  torii_progress(world_.handle(1));
  step_others();
  for (int i = 0; i < 3; ++i) send(2, i == 1 ? kLong : 8);
  step_others();
  EXPECT_EQ(tags(1), up_to(0));
  EXPECT_EQ(tags(2), up_to(3));
  world_.kill(1);
  world_.run();
  EXPECT_EQ(tags(2), up_to(3));
  ASSERT_EQ(ended_.size(), 6u);
  unsigned dead = 0;
  for (const Receive* r : ended_) {
    EXPECT_EQ(r->ends, 1);
    dead += r->result.code == TORII_ERR_PEER_DEAD;
    if (r->result.code == TORII_OK && r->result.source == from_[1]) {
      EXPECT_EQ(r->result.tag, 1u);
      EXPECT_GE(dead, 1u) << "the short one was here, but behind the long one";
    }
  }
  EXPECT_EQ(dead, 2u) << "the long message and the receive that nothing matched";
  EXPECT_EQ(tags(1).size(), 1u);
}

// A receive that is held when the port is closed is given up like any other.
TEST_P(InOrder, ClosingEndsIt) {
  if (GetParam().first & kGet) GTEST_SKIP() << "what is read needs nobody";
  post(3);
  send(1, kLong);
  send(1, 8);
  torii_progress(world_.handle(1));
  for (int i = 0; i < 20; ++i) {
    world_.advance(1000);
    torii_progress(world_.handle(0));
  }
  EXPECT_EQ(torii_port_close(in_), TORII_OK);
  in_ = world_.port(0);
  send(2, 8);
  world_.run();
  EXPECT_EQ(tags(1), up_to(1)) << "what was under way ends as before";
  receives_.push_back({this, std::vector<uint8_t>(8), 0, {}});
  torii_data_t data = flat(receives_.back().memory.data(), 8);
  torii_result_t now{};
  EXPECT_EQ(torii_recv(in_, nullptr, 0, kAny, &data, ended, &receives_.back(), nullptr, &now),
            TORII_OK)
      << "the order was that of the port before";
}

INSTANTIATE_TEST_SUITE_P(Ways, InOrder,
                         ::testing::Values(std::pair{0u, false}, std::pair{uint32_t{kGet}, false},
                                           std::pair{uint32_t{kGet}, true},
                                           std::pair{uint32_t{kPut}, false},
                                           std::pair{uint32_t{kPut}, true}));

}  // namespace
}  // namespace torii
