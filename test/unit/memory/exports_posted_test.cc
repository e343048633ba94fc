// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Reads and writes of remote memory whose end nobody is called for: torii_import_test and the flush
// tell.
#include <algorithm>
#include <string>
#include <vector>

#include "unit/memory/exports_kit.h"

namespace torii::test {
namespace {

struct Posted : Pair {
  using Pair::Pair;
  int post_write(uint64_t offset, const void* from, uint64_t bytes,
                 torii_completion_t when = TORII_COMPLETE_REMOTE) {
    return torii_write(import, offset, from, bytes, when, nullptr, nullptr);
  }
  int post_read(uint64_t offset, void* to, uint64_t bytes) {
    return torii_read(import, offset, to, bytes, nullptr, nullptr);
  }
  int test() { return torii_import_test(import); }
  int wait() {
    world.run();
    return test();
  }
};

bool begun(int code) { return code == TORII_OK || code == TORII_PENDING; }

// Also more than a driver takes at a time, of lengths that go different ways.
TEST_P(Memory, PostedAccessesAreOverWhenTheTestSaysSo) {
  Posted p(GetParam());
  EXPECT_EQ(p.test(), TORII_OK) << "nothing was begun";
  const auto data = pattern(kBytes, 5);
  for (const size_t each : {1ul, 8ul, 100ul, 3000ul, 20000ul}) {
    const size_t many = std::min<size_t>(kBytes / each, 200);
    std::fill_n(p.bytes(), kBytes, '.');
    bool pending = false;
    for (size_t i = 0; i < many; ++i) {
      const int code = p.post_write(i * each, &data[i * each], each);
      ASSERT_TRUE(begun(code)) << i << " of " << each << ": " << code;
      pending = pending || code == TORII_PENDING;
    }
    if (pending) {
      EXPECT_EQ(p.test(), TORII_PENDING) << each;
    }
    ASSERT_EQ(p.wait(), TORII_OK) << each;
    EXPECT_TRUE(std::equal(&data[0], &data[many * each], p.bytes())) << each;
    EXPECT_TRUE(std::all_of(p.bytes() + many * each, p.bytes() + kBytes,
                            [](uint8_t byte) { return byte == '.'; }));
    std::vector<uint8_t> back(many * each);
    for (size_t i = 0; i < many; ++i)
      ASSERT_TRUE(begun(p.post_read(i * each, &back[i * each], each))) << i << " of " << each;
    ASSERT_EQ(p.wait(), TORII_OK) << each;
    EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin())) << each;
  }
  EXPECT_EQ(p.counters(0).accesses_refused, 0u);
}

// Those of several epochs end in any order, and a flush waits for its own.
TEST_P(Memory, FlushesWaitForPostedAccesses) {
  Posted p(GetParam());
  const auto data = pattern(kBytes, 6);
  Outcome flushed[4];
  int due = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 10; ++k) {
      const size_t at = (i * 10 + k) * 1000;
      ASSERT_TRUE(begun(p.post_write(at, &data[at], 1000)));
    }
    const int code = torii_flush(p.world.handle(0), pub(p.world.peer(0, 1)), note, &flushed[i]);
    ASSERT_TRUE(begun(code));
    due += code == TORII_PENDING;
  }
  p.world.run();
  int calls = 0;
  for (const Outcome& o : flushed) {
    calls += o.calls;
    EXPECT_EQ(o.result.code, TORII_OK);
  }
  EXPECT_EQ(calls, due);
  EXPECT_EQ(p.test(), TORII_OK);
  EXPECT_TRUE(std::equal(&data[0], &data[40000], p.bytes()));
}

// The test tells of a failure once, and the flush of its epoch, too.
TEST_P(Memory, PostedAccessesThatAreRefused) {
  Posted p(GetParam(), TORII_MAY_READ);
  char word[8] = "1234567";
  ASSERT_EQ(p.post_write(0, word, 8), TORII_PENDING) << "the target has to be asked";
  EXPECT_EQ(p.wait(), TORII_ERR_DENIED);
  EXPECT_EQ(p.test(), TORII_OK);
  EXPECT_EQ(p.flush(), TORII_ERR_DENIED);
  EXPECT_EQ(p.flush(), TORII_OK);
  EXPECT_EQ(p.bytes()[0], '.');
  ASSERT_EQ(p.post_read(kBytes - 4, word, 8), TORII_PENDING);
  EXPECT_EQ(p.wait(), TORII_ERR_INVALID) << "out of bounds";
  EXPECT_STREQ(word, "1234567");
  EXPECT_EQ(p.counters(0).accesses_refused, 2u);
  EXPECT_EQ(p.counters(1).exports_refused, 2u);
}

// An access that the driver took and then refuses is asked of the target, which refuses, too.
TEST_P(Memory, PostedAccessesToWhatHasEnded) {
  Posted p(GetParam());
  std::vector<char> data(1000, 'x');
  ASSERT_EQ(p.unexport(), TORII_OK);
  const int code = p.post_write(0, data.data(), data.size());
  ASSERT_TRUE(code == TORII_PENDING || code == TORII_ERR_DENIED) << code;
  if (code == TORII_PENDING) {
    EXPECT_EQ(p.wait(), TORII_ERR_DENIED);
  }
  EXPECT_EQ(p.bytes()[0], '.');
  EXPECT_EQ(p.counters(1).exports_refused, 1u);
}

// An import that was given back lasts until they are over.
TEST_P(Memory, ImportsAreDroppedBesidePostedAccesses) {
  Posted p(GetParam());
  const auto data = pattern(kBytes, 7);
  torii_import_t* const other = p.make_import(p.key(), kTag);
  for (size_t i = 0; i < 20; ++i)
    ASSERT_TRUE(begun(
        torii_write(other, i * 100, &data[i * 100], 100, TORII_COMPLETE_REMOTE, nullptr, nullptr)));
  ASSERT_EQ(torii_import_drop(other), TORII_OK);
  EXPECT_EQ(p.flush(), TORII_OK);
  EXPECT_TRUE(std::equal(&data[0], &data[2000], p.bytes()));
}

// They end with their peer.
TEST_P(Memory, PostedAccessesToOneWhoDies) {
  if (GetParam().mapped) GTEST_SKIP() << "mapped memory outlives its owner";
  Posted p(GetParam());
  std::vector<char> data(100000, 'x');
  bool pending = false;
  for (int i = 0; i < 10; ++i) {
    const int code = p.post_write(0, data.data(), data.size());
    ASSERT_TRUE(begun(code));
    pending = pending || code == TORII_PENDING;
  }
  p.world.kill(1);
  const int code = p.wait();
  EXPECT_EQ(code, pending ? TORII_ERR_PEER_DEAD : TORII_OK);
  torii_import_drop(std::exchange(p.import, nullptr));
  p.exported = nullptr;
}

TEST(Posted, WritesShareFrames) {
  Posted p(kNetworks[0]);
  const auto data = pattern(kBytes, 8);
  const uint64_t before = p.counters(0).frames_sent;
  for (size_t i = 0; i < 100; ++i)
    ASSERT_EQ(p.post_write(i * 64, &data[i * 64], 40,
                           i % 2 ? TORII_COMPLETE_LOCAL : TORII_COMPLETE_REMOTE),
              TORII_PENDING);
  ASSERT_EQ(p.wait(), TORII_OK);
  EXPECT_LE(p.counters(0).frames_sent, before + 5);
  EXPECT_EQ(p.counters(1).exports_written, 100u);
}

// After one flush of all, the data for the living is there, and the death is told once.
TEST(Posted, AFlushOfAllWhileOneOfThemDies) {
  for (const Network& network : kNetworks) {
    if (network.mapped) continue;
    SCOPED_TRACE(network.name);
    World world(options_of(network), 3, 64);
    const auto data = pattern(kBytes, 9);
    std::vector<uint8_t> memory[2] = {std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
    torii_export_t* exported[2] = {};
    torii_import_t* imports[2] = {};
    int codes[2];
    for (unsigned i = 0; i < 2; ++i) {
      uint8_t key[TORII_KEY_MAX];
      ASSERT_EQ(
          torii_export(world.handle(i + 1), memory[i].data(), kBytes, kAll, kTag, &exported[i]),
          TORII_OK);
      const size_t bytes = torii_export_key(exported[i], key, sizeof(key));
      ASSERT_EQ(
          torii_import(world.handle(0), pub(world.peer(0, i + 1)), key, bytes, kTag, &imports[i]),
          TORII_OK);
    }
    world.run();
    for (unsigned i = 0; i < 2; ++i)
      codes[i] =
          torii_write(imports[i], 0, data.data(), kBytes, TORII_COMPLETE_REMOTE, nullptr, nullptr);
    Outcome flushed, again;
    const int flush = torii_flush(world.handle(0), nullptr, note, &flushed);
    ASSERT_TRUE(begun(flush)) << flush;
    world.kill(2);
    world.run();
    EXPECT_EQ(flushed.calls, flush == TORII_PENDING);
    if (codes[1] == TORII_PENDING) {
      EXPECT_EQ(flushed.result.code, TORII_ERR_PEER_DEAD);
    }
    EXPECT_EQ(std::memcmp(memory[0].data(), data.data(), kBytes), 0);
    EXPECT_EQ(torii_flush(world.handle(0), nullptr, note, &again), TORII_OK);
    for (torii_import_t* import : imports) torii_import_drop(import);
    EXPECT_EQ(torii_unexport(exported[0], note, &again), TORII_OK);
  }
}

TEST(Posted, NobodyAsksAboutNothing) { EXPECT_EQ(torii_import_test(nullptr), TORII_ERR_INVALID); }

}  // namespace
}  // namespace torii::test
