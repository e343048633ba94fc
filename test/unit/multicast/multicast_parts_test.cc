// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The parts of reliable multicast that need no network: header, tree, ring.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/base/random.h"
#include "core/multicast/header.h"
#include "core/multicast/ring.h"
#include "core/multicast/tree.h"
#include "sanitized.h"

namespace torii::multicast {
namespace {

using Bytes = std::vector<std::byte>;

Bytes datagram_of(const Header& header, const Bytes& payload) {
  HeaderBytes head;
  encode(header, &head);
  Bytes bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

TEST(MulticastHeader, ComesBackWithItsPositionFarIntoTheStream) {
  Header header;
  header.kind = Kind::data;
  header.node = 300;
  header.flags = kAsk | kForward;
  header.pos = (uint64_t{3} << 38) + 64 * 1000;  // its granule needs more than 32 bits
  const Bytes bytes = datagram_of(header, Bytes(100, std::byte{7}));
  for (const int64_t away : {-1000000, 0, 1000000}) {
    Header read;
    ASSERT_TRUE(decode(bytes, header.pos + static_cast<uint64_t>(away * 64), &read));
    EXPECT_EQ(read.pos, header.pos);
    EXPECT_EQ(read.node, 300);
    EXPECT_EQ(read.flags, kAsk | kForward);
  }
}

TEST(MulticastHeader, OfAnotherVersionOrKindOrCutShortIsDiscarded) {
  for (const Kind kind : {Kind::data, Kind::nack, Kind::result, Kind::hello}) {
    Header header;
    header.kind = kind;
    const Bytes good = datagram_of(header, Bytes(16, std::byte{7}));
    Header read;
    ASSERT_TRUE(decode(good, 0, &read));
    for (size_t bit = 0; bit < 8 * 3; bit++) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_FALSE(decode(bad, 0, &read)) << "kind " << int(kind) << ", bit " << bit;
    }
    for (const unsigned unknown : {0u, kKinds + 1, 255u}) {
      Bytes bad = good;
      bad[3] = static_cast<std::byte>(unknown);
      EXPECT_FALSE(decode(bad, 0, &read)) << unknown;
    }
    for (size_t size = 0; size < kHeaderBytes; size++)
      EXPECT_FALSE(decode(std::span(good).first(size), 0, &read));
  }
}

TEST(MulticastHeader, WithAFieldThatItsKindDoesNotHaveIsDiscarded) {
  Header read, header;
  header.kind = Kind::status;
  EXPECT_TRUE(decode(datagram_of(header, {}), 0, &read));
  EXPECT_FALSE(decode(datagram_of(header, Bytes(1)), 0, &read));
  header.check = 1;
  EXPECT_FALSE(decode(datagram_of(header, {}), 0, &read));
  header.check = 0;
  header.flags = kAsk;
  EXPECT_FALSE(decode(datagram_of(header, {}), 0, &read));
  header = {};
  header.kind = Kind::contribution;
  EXPECT_TRUE(decode(datagram_of(header, Bytes(kSmallMax)), 0, &read));
  EXPECT_FALSE(decode(datagram_of(header, Bytes(kSmallMax + 1)), 0, &read));
  header.kind = Kind::nack;
  EXPECT_TRUE(decode(datagram_of(header, Bytes(8)), 0, &read));
  EXPECT_FALSE(decode(datagram_of(header, Bytes(9)), 0, &read));
  EXPECT_FALSE(decode(datagram_of(header, {}), 0, &read));
  header.flags = kPart;
  EXPECT_TRUE(decode(datagram_of(header, {}), 0, &read));
}

TEST(MulticastTree, HasEachNodeOnceAndSubtreesInOrder) {
  for (const uint32_t arity : {2u, 4u, 16u}) {
    for (const uint32_t nodes : {1u, 2u, 3u, 16u, 17u, 18u, 100u, 1024u}) {
      std::set<uint32_t> seen;
      for (uint32_t self = 0; self < nodes; self++) {
        const Tree tree(nodes, self, arity);
        ASSERT_LE(tree.children(), arity);
        for (uint32_t i = 0; i < tree.children(); i++) {
          const uint32_t child = tree.child(i);
          ASSERT_LT(child, nodes);
          EXPECT_GT(child, self);
          EXPECT_TRUE(seen.insert(child).second) << child << " has two parents";
          EXPECT_EQ(Tree(nodes, child, arity).parent(), self);
          EXPECT_EQ(tree.index_of(child), i);
        }
        EXPECT_EQ(tree.index_of(self), tree.children());
      }
      EXPECT_EQ(seen.size(), nodes - 1);
    }
  }
}

TEST(MulticastTree, OfAThousandNodesHasFewLevels) {
  for (uint32_t self = 0; self < 1024; self++) {
    unsigned levels = 0;
    for (uint32_t at = self; at != 0; at = Tree(1024, at, kTreeArity).parent()) levels++;
    EXPECT_LE(levels, 3u);
  }
}

// Pieces of a stream in any order, some twice, against an array of what has come.
TEST(MulticastRing, HoldsWhatAnArrayHolds) {
  constexpr uint64_t kSize = 8192;
  const uint64_t seeds = test::in_long() ? 200 : test::in_short() ? 4 : 20;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    Random random(seed);
    Bytes memory(kSize), stream(40 * kSize);
    for (auto& byte : stream) byte = static_cast<std::byte>(random.next());
    std::vector<bool> here(stream.size() / kGranule);
    Ring ring(memory);
    uint64_t done = 0, base = 0;
    for (int i = 0; i < 1500; i++) {
      const uint64_t pos =
          ring.placed() +
          (random.chance(500000) ? 0 : random.between(0, kSize / kGranule) * kGranule);
      const uint64_t bytes = random.between(1, 700);
      if (pos + bytes > stream.size()) break;
      const uint64_t end = pos + whole_granules(bytes);
      bool fresh = false;
      for (uint64_t at = pos; at < end; at += kGranule) fresh |= !here[at / kGranule];
      // The last granule is full, as other pieces may begin in it.
      const auto piece = std::span(stream).subspan(pos, end - pos);
      const auto place = ring.place(pos, piece, done);
      if (end > base + kSize && end > done + kSize) {
        EXPECT_EQ(place, Ring::Place::outside);
      } else {
        base = std::max(base, end > kSize ? end - kSize : 0);
        ASSERT_EQ(place, fresh ? Ring::Place::fresh : Ring::Place::duplicate) << "seed " << seed;
        for (uint64_t at = pos; at < end; at += kGranule) here[at / kGranule] = true;
      }
      uint64_t placed = 0;
      while (placed < here.size() && here[placed]) placed++;
      ASSERT_EQ(ring.placed(), placed * kGranule) << "seed " << seed;
      if (random.chance(300000) && ring.placed() > done) {
        const uint64_t to = done + random.between(1, (ring.placed() - done) / kGranule) * kGranule;
        Bytes out(to - done);
        ring.copy_out(done, out.data(), out.size());
        ASSERT_TRUE(std::equal(out.begin(), out.end(), stream.begin() + long(done)));
        done = to;
      }
      std::byte holes[512];
      uint32_t count = 0, model = 0;
      ring.missing(ring.placed(), ring.placed() + kSize, holes, &count);
      for (uint64_t at = ring.placed(); at < ring.placed() + kSize; at += kGranule)
        model += at / kGranule >= here.size() || !here[at / kGranule];
      ASSERT_EQ(count, model);
    }
    EXPECT_GT(done, 2 * kSize) << "the ring has gone round";
  }
}

}  // namespace
}  // namespace torii::multicast
