// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii.h over a card that reaches only registered memory: what torii_memory_alloc gave stays
// registered until it is given back, and all data arrives.
#include <cstring>

#include "world.h"

namespace torii {
namespace {

using test::World;

constexpr size_t kMessageBytes = 200000;

SimOptions card_with(uint32_t regions_max) {
  SimOptions o;
  o.flags = kReliable | kPeerDown | kGet | kNeedsReg;
  o.registers_local = o.pending_rma = true;
  o.regions_max = regions_max;
  o.latency_max_ns = 5000;
  return o;
}

struct Registering {
  explicit Registering(uint32_t regions_max) : world(card_with(regions_max), 2, 64) {
    for (unsigned i = 0; i < 2; ++i) {
      peer[i] = world.peer(i, 1 - i);
      port[i] = world.port(i);
    }
  }
  void* alloc(unsigned i) {
    void* memory = nullptr;
    EXPECT_EQ(torii_memory_alloc(world.handle(i), kMessageBytes, 0, &memory), TORII_OK);
    return memory;
  }
  // A message from 0 to 1.
  void send(void* from, void* to, unsigned seed) {
    const auto content = test::pattern(kMessageBytes, seed);
    std::memcpy(from, content.data(), kMessageBytes);
    torii_data_t s = test::flat(from, kMessageBytes), t = test::flat(to, kMessageBytes);
    test::Outcome sent, received;
    torii_result_t now{};
    ASSERT_EQ(
        torii_recv(port[1], test::pub(peer[1]), 5, 0, &t, test::note, &received, nullptr, &now),
        TORII_PENDING);
    ASSERT_GE(torii_send(port[0], test::pub(peer[0]), TORII_STANDARD, 5, 0, &s, test::note, &sent,
                         nullptr),
              0);
    world.run();
    EXPECT_EQ(received.calls, 1);
    EXPECT_EQ(received.result.code, TORII_OK);
    EXPECT_EQ(std::memcmp(to, content.data(), kMessageBytes), 0);
  }
  uint64_t made(unsigned i) { return world.ni(i).counters().registrations_made; }

  World world;
  Peer* peer[2];
  torii_port_t* port[2];
};

TEST(RegisteredAllocations, StayRegisteredUntilTheyAreGivenBack) {
  Registering r(10);
  void* const from = r.alloc(0);
  void* const to = r.alloc(1);
  for (unsigned i = 0; i < 4; ++i) r.send(from, to, i);
  EXPECT_EQ(r.made(0), 1u);
  EXPECT_EQ(r.made(1), 1u);
  EXPECT_EQ(r.world.ni(1).counters().registrations_reused, 3u);
  EXPECT_EQ(r.world.ni(1).counters().payloads_read, 4u);
  ASSERT_EQ(torii_memory_free(r.world.handle(1), to), TORII_OK);
  void* const again = r.alloc(1);
  r.send(from, again, 5);
  EXPECT_EQ(r.made(0), 1u);
  EXPECT_EQ(r.made(1), 2u);
}

TEST(RegisteredAllocations, AreCopiedWhereNothingCanBeRegistered) {
  Registering r(0);
  for (unsigned i = 0; i < 2; ++i) r.send(r.alloc(0), r.alloc(1), i);
  EXPECT_EQ(r.made(0) + r.made(1), 0u);
  EXPECT_EQ(r.world.ni(1).counters().payloads_framed, 2u);
}

}  // namespace
}  // namespace torii
