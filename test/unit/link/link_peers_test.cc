// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Ten thousand peers of one process: what the link keeps of each, and for how long.
#include <malloc.h>

#include <algorithm>

#include "sanitized.h"
#include "unit/link/link_fixture.h"

namespace torii::test {
namespace {

// Bytes of the heap in use; always 0 under a sanitizer with an allocator of its own.
size_t heap() { return mallinfo2().uordblks; }

class LinkPeers : public LinkTest {
 protected:
  void connect(size_t count, const std::string& faults = "") {
    hub = linked(faults);
    for (size_t i = 0; i < count; i++) others.push_back(linked());
    before = heap();
    for (const auto& other : others) peers.push_back(hub->connect(*other));
  }
  // In use since `before`, for each peer.
  size_t bytes() const { return (heap() - before) / others.size(); }
  void pass(int steps, uint64_t step_ns) {
    for (int i = 0; i < steps; i++, fabric.advance(step_ns)) {
      for (const auto& other : others) other->driver->poll(fabric.now_ns(), 64);
      for (size_t k = 0; k <= others.size() / 64; k++) hub->driver->poll(fabric.now_ns(), 64);
    }
  }
  // As long as it takes until quiet peers are asked whether they live.
  void be_quiet() { pass(12, kDeadlineMs * kMs / 16); }

  std::unique_ptr<End> hub;
  std::vector<std::unique_ptr<End>> others;
  std::vector<PeerId> peers;
  size_t before = 0;
};

TEST_P(LinkPeers, OfTenThousandAreKeptInLittleMemory) {
  connect(test::in_short() ? 1000 : 10000);
  const size_t silent = bytes();
  EXPECT_LE(silent, 704u) << "bytes for a peer that was connected";
  for (const PeerId peer : peers) ASSERT_TRUE(hub->send(peer, "first frame"));
  const size_t active = bytes() - silent;
  EXPECT_LE(active, 1024 + hub->driver->caps().mtu) << "bytes more while a frame is under way";
  const uint64_t begin = fabric.now_ns();
  pass(4, kMs / 5);
  EXPECT_LE(fabric.now_ns() - begin, kMs);
  for (const auto& other : others) ASSERT_EQ(other->sink.packets.size(), 1u);
  for (const auto& other : others) other->sink.packets = {};
  const size_t acknowledged = bytes() - silent;
  be_quiet();
  // Both ends know each other now, and the other one is a whole driver.
  const size_t quiet = bytes() / 2;
  EXPECT_LE(quiet, 1104u) << "bytes for a peer that was quiet for long";
  ::printf("bytes for a peer: silent %zu, %zu more with a frame under way; quiet for long %zu\n",
           silent, active, quiet);
  EXPECT_GE(acknowledged + silent, 2 * quiet);
}

// Three in ten of 2000 times 16 frames get lost, and as many of those that go again. A frame that
// later ones have overtaken goes again after a round trip; only the last ones depend on a timeout,
// which doubles.
TEST_P(LinkPeers, LossesAreRepairedSoonAndTheirMemoryIsGivenBack) {
  const int count = test::in_short() ? 500 : 2000;
  connect(static_cast<size_t>(count), "drop=30%");
  for (int i = 0; i < 16; i++)
    for (const PeerId peer : peers) ASSERT_TRUE(hub->send(peer, "some frame", {}, 1));
  const auto complete = [&] {
    return std::count_if(others.begin(), others.end(),
                         [](const auto& other) { return other->sink.packets.size() == 16; });
  };
  pass(30, kMs);
  EXPECT_GE(complete(), count * 37 / 40) << "peers that have all after 30 ms";
  pass(270, kMs);
  EXPECT_EQ(complete(), count) << "peers that have all after 300 ms";
  for (const auto& other : others) other->sink.packets = {};
  be_quiet();
  EXPECT_LE(bytes(), 6656u);
}

TORII_WITHOUT_CIPHERS(LinkPeers);

}  // namespace
}  // namespace torii::test
