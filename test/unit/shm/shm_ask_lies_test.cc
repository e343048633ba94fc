// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts and gets that another process is asked for, when either of the two lies.
#include <cstring>
#include <vector>

#include "unit/shm/shm_ask_kit.h"

namespace torii::test {
namespace {

using shm::Request;
using shm::RequestKind;

// Writes a frame of one line by hand, of which the head is this and all else is 0xee.
void forge(const Mapping& ring, uint32_t lines, uint32_t at, const Request& ask, uint32_t length) {
  std::byte* const line = ring.base() + size_t{at & (lines - 1)} * shm::kLine;
  std::memset(line + 8, 0xee, shm::kFirstBytes);
  std::memcpy(line + 8, &ask, shm::head_bytes(ask.kind));
  reinterpret_cast<std::atomic<uint64_t>*>(line)->store(
      shm::control_word(shm::kKindRequest, length, at), std::memory_order_release);
}

// A hostile user may write these into its ring; they never touch anything outside of the region.
TEST_F(ShmAsk, InventedAsks) {
  ::testing::internal::CaptureStderr();
  uint64_t valid = 0;
  {
    ASSERT_EQ(put(0, 0, 8, 1), Status::pending);
    ASSERT_TRUE(together(1));
    shm::ArenaKey guard;  // the last words of the key
    std::memcpy(&guard, region.key.data() + owner.driver->caps().key_bytes - sizeof(guard),
                sizeof(guard));
    valid = guard.serial;
  }
  std::fill(memory.begin(), memory.end(), std::byte{});
  Region small;  // in the midst of memory that is nobody's business
  owner.driver->dereg(region);
  ASSERT_EQ(owner.driver->reg(memory.data() + 4096, 4096, kRemoteRead | kGuarded, &small),
            Status::ok);
  const uint64_t numbers[] = {0,
                              1,
                              8,
                              4095,
                              4096,
                              4097,
                              8193,
                              32768,
                              valid,
                              valid + 1,
                              valid + 2,
                              ~uint64_t{0},
                              uint64_t{1} << 63};
  for (uint64_t seed = 1; seed <= 300; seed++) {
    Random random(seed);
    End liar(open_shm_end);
    ASSERT_TRUE(liar.driver);
    const PeerId to = connect_to(liar, owner.address());
    ASSERT_NE(to, kNoPeer);
    // The liar's claim is the one with its address; its ring is written by hand.
    uint32_t number = 0;
    while (!(segment.claim(number).sender == parse(liar.address())) ||
           segment.claim(number).state.load() != uint32_t(shm::ClaimState::live))
      ASSERT_LT(++number, segment.claims);
    Mapping ring;
    std::string why;
    shm::Segment again;
    ASSERT_EQ(shm::open_segment(parse(owner.address()), parse(liar.address()), &again, &why),
              Status::ok);
    ASSERT_TRUE(again.map_ring(number, &ring));
    uint32_t at = segment.claim(number).start + shm::kFirstPosition;
    const uint32_t lines = static_cast<uint32_t>(again.ring_bytes / shm::kLine);
    uint64_t count = segment.claim(number).seen.load();
    for (int n = 0; n < 4; n++) {
      Request ask;
      const auto pick = [&] { return numbers[random.between(0, std::size(numbers) - 1)]; };
      ask.valid = pick();
      ask.offset = pick();
      ask.slot = static_cast<uint32_t>(random.chance(700000) ? random.between(0, 3 - 1) : pick());
      ask.bytes = static_cast<uint32_t>(random.chance(700000) ? random.between(0, 25 - 1) : pick());
      ask.number = static_cast<uint32_t>(++count + (random.chance(50000) ? 1 : 0));
      ask.kind = static_cast<RequestKind>(random.between(0, 5 - 1));
      ask.of_many = random.chance(300000);
      const uint32_t head = shm::head_bytes(ask.kind);
      const bool data = ask.kind == RequestKind::put || ask.kind == RequestKind::answer;
      const bool atomic = ask.kind == RequestKind::atomic;
      const uint32_t length =
          random.chance(800000) && data     ? std::min<uint32_t>(shm::kFirstBytes, head + ask.bytes)
          : atomic && random.chance(800000) ? head + uint32_t(sizeof(shm::AtomicRequest))
          : random.chance(800000)           ? head
                                            : random.between(0, shm::kFirstBytes);
      forge(ring, lines, at++, ask, length);
      owner.driver->poll(1, 64);
    }
  }
  EXPECT_FALSE(::testing::internal::GetCapturedStderr().empty());
  for (size_t i = 0; i < kBytes; i++) ASSERT_EQ(memory[i], std::byte{}) << "byte " << i;
  owner.driver->dereg(small);
}

// An owner that counts what it was not asked for is cut off.
TEST_F(ShmAsk, AnOwnerThatCountsWrongly) {
  ASSERT_EQ(put(0, 0, 8, 1), Status::pending);
  claim().applied.store(77);
  ASSERT_TRUE(alone(1));
  EXPECT_EQ(status_of(1), Status::peer_dead);
  EXPECT_EQ(user.sink.downs.size(), 1u);
}

// So is one whose claim is in a state that does not exist.
TEST_F(ShmAsk, AClaimInNoState) {
  test::send_surely(user, peer, "first");
  ASSERT_TRUE(test::poll_until(owner, [&] { return !owner.sink.packets.empty(); }));
  claim().state.store(77);
  segment.header().news.fetch_add(1);
  ASSERT_TRUE(test::poll_until(owner, [&] { return !owner.sink.downs.empty(); }));
  EXPECT_EQ(owner.sink.downs.size(), 1u);
}

class ShmAnswerLies : public ShmAsk {
 protected:
  // The owner's next frame to the user is this answer, to a get of 8 bytes, and so many bytes more
  // or less than its head says.
  void answer(int number, uint32_t bytes, int more) {
    const PeerId back = connect_to(owner, user.address());
    ASSERT_NE(back, kNoPeer);
    test::send_surely(owner, back, "first");
    ASSERT_TRUE(test::poll_until(user, [&] { return !user.sink.packets.empty(); }));
    shm::Segment users;
    Mapping ring;
    std::string why;
    ASSERT_EQ(shm::open_segment(parse(user.address()), parse(owner.address()), &users, &why),
              Status::ok);
    ASSERT_TRUE(users.claim(0).sender == parse(owner.address()));
    ASSERT_TRUE(users.map_ring(0, &ring));
    const uint32_t lines = static_cast<uint32_t>(users.ring_bytes / shm::kLine);
    const uint32_t at = users.claim(0).start + shm::kFirstPosition + 1;
    ASSERT_EQ(get(3, got, 8, 1), Status::pending);
    const auto right = static_cast<uint32_t>(claim().seen.load() + 1);
    const auto which = right + static_cast<uint32_t>(number);
    const Request ask{RequestKind::answer, 0, which, bytes, 1, 0, 0};
    forge(ring, lines, at, ask, shm::head_bytes(ask.kind) + bytes + static_cast<uint32_t>(more));
    user.driver->advice()->look(peer);
  }
  void expect_cut_off() {
    ASSERT_TRUE(alone(1));
    EXPECT_EQ(status_of(1), Status::peer_dead);
    for (const std::byte b : got) EXPECT_EQ(b, std::byte{});
  }
  std::byte got[16] = {};
};

TEST_F(ShmAnswerLies, MoreThanWasAskedFor) {
  answer(0, 9, 0);
  expect_cut_off();
}

TEST_F(ShmAnswerLies, LessThanWasAskedFor) {
  answer(0, 7, 0);
  expect_cut_off();
}

TEST_F(ShmAnswerLies, FramesThatAreTooLong) {
  answer(0, 8, 1);
  expect_cut_off();
}

TEST_F(ShmAnswerLies, FramesThatAreTooShort) {
  answer(0, 8, -1);
  expect_cut_off();
}

// It may be the answer to what was cancelled.
TEST_F(ShmAnswerLies, OfSomethingElse) {
  answer(1, 8, 0);
  EXPECT_FALSE(done(1));
  ASSERT_TRUE(alone(1));
  EXPECT_EQ(status_of(1), Status::ok);
  for (const std::byte b : got) EXPECT_EQ(b, std::byte{});  // as in the owner's memory
}

TEST_F(ShmAnswerLies, None) {
  answer(0, 8, 0);
  EXPECT_EQ(status_of(1), Status::ok);
  for (size_t i = 0; i < sizeof(got); i++) EXPECT_EQ(got[i], std::byte(i < 8 ? 0xee : 0));
}

}  // namespace
}  // namespace torii::test
