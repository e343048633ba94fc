// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A member of a team whose segment holds anything: it must stay in its memory, and never wait
// inside a call. The others are a random writer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "core/collective/team.h"
#include "sanitized.h"

namespace torii::team {
namespace {

constexpr uint64_t kRing = 16 << 10;
constexpr uint32_t kMembers = 4;

void add_bytes(void*, const void* in, void* inout, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(inout)[i] = static_cast<unsigned char>(
        static_cast<unsigned char*>(inout)[i] + static_cast<const unsigned char*>(in)[i]);
}

// Memory of exactly the segment's size, so that the address sanitizer sees what goes beyond, and
// marks around it otherwise.
struct Fixture {
  static constexpr size_t kMark = 4096;
  const uint64_t bytes = Segment::bytes(kMembers, kRing);
  std::byte* const whole =
      static_cast<std::byte*>(std::aligned_alloc(kMark, (bytes + 3 * kMark) / kMark * kMark));
  std::byte* const base = whole + kMark;
  Segment segment{base, kMembers, kRing};

  Fixture() {
    std::memset(whole, 0x5a, (bytes + 3 * kMark) / kMark * kMark);
    segment.clear();
  }
  ~Fixture() { std::free(whole); }
  bool marks_are_there() const {
    for (size_t i = 0; i < kMark; ++i)
      if (whole[i] != std::byte{0x5a} || base[bytes + i] != std::byte{0x5a}) return false;
    return true;
  }
};

// Garbage that a member may find: a plausible number of a step more often than noise.
void scribble(Fixture& fixture, std::mt19937_64& random, uint64_t step) {
  switch (random() % 10) {
    case 0:
    case 1:
    case 2:
    case 3: {
      Line& line = fixture.segment.line(uint32_t(random() % kMembers), step);
      line.call.store(fixture.segment.line(uint32_t(random() % kMembers), step).call.load());
      line.step.store(step + random() % 3, std::memory_order_relaxed);
      break;
    }
    case 4:
    case 5:
      fixture.segment.member(uint32_t(random() % kMembers))
          .read.store(random() % 2 ? random() : step + random() % 3, std::memory_order_relaxed);
      break;
    case 6:
    case 7: {
      Shares& shares = fixture.segment.head().shares[step % kWindow];
      (random() % 2 ? shares.taken : shares.done)
          .store(step << 16 | random() % 70000, std::memory_order_relaxed);
      break;
    }
    case 8:
      fixture.segment.line(uint32_t(random() % kMembers), step).call.store(uint32_t(random()));
      break;
    default:
      fixture.base[random() % fixture.bytes] = std::byte(random());
  }
}

TEST(TeamSegment, WhatItHoldsLeadsNobodyAstray) {
  const unsigned seeds = test::in_short() ? 300 : 3000;
  unsigned over = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    Fixture fixture;
    Team team;
    team.open(fixture.segment, kMembers, uint32_t(random() % kMembers), random() % 2);
    uint64_t step = 0;
    for (int operation = 0; operation < 20; ++operation) {
      const uint64_t bytes = random() % (random() % 2 ? 5000 : 60);
      std::vector<unsigned char> in(bytes * kMembers), out(bytes * kMembers);
      CollectiveCall call;
      call.what = Collective(random() % kCollectives);
      call.root = uint32_t(random() % kMembers);
      call.bytes = call.what == Collective::barrier ? 0 : bytes;
      call.in = reinterpret_cast<std::byte*>(in.data());
      call.out = reinterpret_cast<std::byte*>(out.data());
      call.data = Data(in.data(), bytes);
      call.reduction = {add_bytes, nullptr, 1};
      ASSERT_TRUE(team.serves(call));
      team.begin(call);
      Status status = Status::pending;
      for (int turn = 0; turn < 400 && status == Status::pending; ++turn) {
        scribble(fixture, random, step + random() % 4);
        status = team.advance();
        (void)team.take_sleepers();
      }
      over += status == Status::ok;
      step += status == Status::ok;
      ASSERT_TRUE(fixture.marks_are_there()) << seed;
      if (status != Status::ok) break;
    }
  }
  EXPECT_GT(over, seeds / 8) << "the scribbler never lets an operation end: this tests nothing";
}

}  // namespace
}  // namespace torii::team
