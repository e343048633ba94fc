// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link hears members of the job, by frames that were never heard before.
#include <gtest/gtest.h>

#include "unit/link/link_fixture.h"

namespace torii::test {
namespace {

using link::Kind;

class LinkTrustTest : public LinkTest {
 protected:
  // Sends a frame to the link of `a`; how many frames `a` counted as forged.
  uint64_t forged(End& from, PeerId peer, const std::string& frame) {
    const uint64_t before = a->counters.link_forged;
    EXPECT_TRUE(from.send(peer, frame));
    run({a.get(), &from}, now_ns + kMs);
    return a->counters.link_forged - before;
  }
  PeerId connect(End& from) {
    PeerId peer = kNoPeer;
    std::string why;
    EXPECT_EQ(from.driver->connect(below(*a), &peer, &why), Status::ok) << why;
    return peer;
  }
  std::string hello(const End& from, uint64_t number = 1) {
    return hello_of(from.address(), from.keys, a->keys, number);
  }

  std::unique_ptr<End> a = linked();
  std::unique_ptr<End> evil = bare();
  PeerId to_a = connect(*evil);
};

TEST_P(LinkTrustTest, WithoutAKeyNothingIsHeardNorAnswered) {
  EXPECT_EQ(forged(*evil, to_a, frame_of({Kind::data, 0, 0, 0}, "y")), 1u);
  EXPECT_EQ(forged(*evil, to_a, frame_of({Kind::bye, 1, 0, 0})), 1u);
  EXPECT_EQ(forged(*evil, to_a, frame_of({Kind::data, 0, 0, 0}, "y", key_of(*evil, *a))), 1u)
      << "before its hello";
  PlainKeys others;
  EXPECT_EQ(forged(*evil, to_a, hello_of(evil->address(), others, evil->keys)), 1u)
      << "tagged for another process";
  EXPECT_EQ(forged(*evil, to_a, hello_of(evil->address(), a->keys, others)), 1u)
      << "this process's own key";
  EXPECT_TRUE(a->sink.packets.empty());
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(evil->sink.packets.empty()) << "a forgery is answered";
}

TEST_P(LinkTrustTest, WhoIsNoMemberIsNotHeard) {
  a->members.admit = false;
  EXPECT_EQ(forged(*evil, to_a, hello(*evil)), 1u);
  EXPECT_EQ(forged(*evil, to_a, frame_of({Kind::data, 0, 0, 0}, "y", key_of(*evil, *a))), 1u);
  EXPECT_TRUE(evil->sink.packets.empty());
  a->members.admit = true;
  EXPECT_EQ(forged(*evil, to_a, hello(*evil, 2)), 0u);
  EXPECT_EQ(forged(*evil, to_a, frame_of({Kind::data, 0, 0, 0}, "y", key_of(*evil, *a))), 0u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
}

// A process that this one has connected needs no word of the launcher.
TEST_P(LinkTrustTest, WhoWasConnectedIsHeard) {
  a->members.admit = false;
  const auto b = linked();
  b->members.admit = false;
  const PeerId to_b = a->connect(*b);
  ASSERT_TRUE(a->send(to_b, "not yet"));
  run({a.get(), b.get()}, now_ns + 50 * kMs);
  EXPECT_TRUE(b->sink.packets.empty());
  EXPECT_NE(b->connect(*a), kNoPeer);
  run({a.get(), b.get()}, now_ns + 500 * kMs);
  ASSERT_EQ(b->sink.packets.size(), 1u);
  EXPECT_EQ(b->sink.packets[0].bytes, "not yet");
}

// Frames are recorded on their way, and sent again from where they came or from elsewhere.
TEST_P(LinkTrustTest, RecordedFramesHaveNoEffect) {
  const auto good = bare();
  const PeerId to_a_of_good = connect(*good);
  const std::string hello_frame = hello(*good);
  const std::string data = frame_of({Kind::data, 0, 0, 0}, "y", key_of(*good, *a));
  EXPECT_EQ(forged(*good, to_a_of_good, hello_frame), 0u);
  for (int i = 0; i < 5; i++) EXPECT_EQ(forged(*good, to_a_of_good, data), 0u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
  EXPECT_EQ(a->counters.link_duplicates, 4u);
  EXPECT_EQ(forged(*good, to_a_of_good, hello_frame), 0u);
  EXPECT_EQ(a->counters.link_duplicates, 5u);
  const auto around = frame_of({Kind::data, 1ull << 32 | 1, 0, 0}, "y", key_of(*good, *a));
  EXPECT_EQ(forged(*good, to_a_of_good, around), 1u) << "from before its numbers came round";
  EXPECT_EQ(forged(*evil, to_a, hello_frame), 1u) << "a second way to a peer that has one";
  EXPECT_EQ(forged(*evil, to_a, data), 1u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
  EXPECT_TRUE(a->sink.downs.empty());
  EXPECT_TRUE(evil->sink.packets.empty());
}

// A frame of this process's own, sent back to it.
TEST_P(LinkTrustTest, EachDirectionHasAKeyOfItsOwn) {
  const PeerId peer = reach(*evil, *a);
  EXPECT_EQ(forged(*evil, peer, frame_of({Kind::data, 0, 0, 0}, "x", key_of(*a, *evil))), 1u);
  EXPECT_TRUE(a->sink.packets.empty());
}

TEST_P(LinkTrustTest, AProcessThatHasEndedDoesNotComeBack) {
  auto b = linked();
  ASSERT_TRUE(b->send(b->connect(*a), "x"));
  run({a.get(), b.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.packets.size(), 1u);
  const auto address = b->address();
  const std::string hello_frame = hello_of(below(*b), b->keys, a->keys);
  const std::string data = frame_of({Kind::data, 0, 0, 0}, "x", key_of(*b, *a));
  b.reset();
  run({a.get()}, now_ns + kMs);
  ASSERT_EQ(a->sink.downs.size(), 1u);
  a->driver->disconnect(a->sink.downs[0].peer);
  EXPECT_EQ(forged(*evil, to_a, hello_frame), 1u);
  EXPECT_EQ(forged(*evil, to_a, data), 1u);
  EXPECT_EQ(a->sink.packets.size(), 1u);
  PeerId peer = kNoPeer;
  std::string why;
  EXPECT_EQ(a->driver->connect(address, &peer, &why), Status::unreachable);
  EXPECT_NE(why.find("has ended"), std::string::npos) << why;
}

// Else a recording would keep a dead process alive for those who wait for it.
TEST_P(LinkTrustTest, RecordedFramesAreNoSignOfLife) {
  const PeerId peer = reach(*evil, *a);
  const std::string data = frame_of({Kind::data, 0, 0, 0}, "y", key_of(*evil, *a));
  const std::string ack = frame_of({Kind::ack, 2, 0, 0}, "", key_of(*evil, *a));
  for (uint64_t ms = 0; ms < 2 * kDeadlineMs && a->sink.downs.empty(); ms += 10) {
    ASSERT_TRUE(evil->send(peer, data));
    ASSERT_TRUE(evil->send(peer, ack));
    run({a.get(), evil.get()}, now_ns + 10 * kMs, kMs);
  }
  ASSERT_EQ(a->sink.downs.size(), 1u);
  EXPECT_EQ(a->sink.downs[0].status, Status::peer_dead);
}

TEST_P(LinkTrustTest, AddressesWithoutAKeyAreRefused) {
  auto address = linked()->address();
  PeerId peer = kNoPeer;
  std::string why;
  std::fill(address.end() - kPublicKeyBytes, address.end(), std::byte{0});
  EXPECT_EQ(a->driver->connect(address, &peer, &why), Status::invalid);
  EXPECT_NE(why.find("no key"), std::string::npos) << why;
  address.pop_back();
  EXPECT_EQ(a->driver->connect(address, &peer, &why), Status::invalid);
  // The key of one process at the address of another one.
  const auto b = linked(), c = linked();
  meet(*a, *b);
  auto mixed = c->address();
  const auto of_b = b->address();
  std::copy(of_b.end() - kPublicKeyBytes, of_b.end(), mixed.end() - kPublicKeyBytes);
  EXPECT_EQ(a->driver->connect(mixed, &peer, &why), Status::invalid);
  EXPECT_NE(a->connect(*c), kNoPeer);
}

TORII_WITH_CIPHERS(LinkTrustTest);

}  // namespace
}  // namespace torii::test
