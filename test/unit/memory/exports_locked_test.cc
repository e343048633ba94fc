// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Atomic operations on remote memory under a lock that is remote memory, too.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/atomics.h"
#include "unit/memory/exports_kit.h"

namespace torii {
namespace {

using test::kAll;
using test::kNetworks;
using test::kTag;
using test::Memory;
using test::note;
using test::Outcome;
using test::Pair;
using test::pub;

TEST_P(Memory, AnAtomicOperationUnderALock) {
  Pair p(GetParam(), kAll, 4096);
  constexpr uint64_t kHeld = uint64_t{1} << 63;
  const torii_lock_word_t lock{p.import, 128, kHeld};
  for (const unsigned width : {4u, 8u}) {
    const uint64_t start[3] = {0, 40, 7}, done[3] = {0, 42, 7};
    uint64_t old = 0;
    std::memcpy(p.bytes() + 128, start, sizeof(start));
    ASSERT_EQ(p.atomic_locked(136, TORII_ATOMIC_ADD, width, 2, 0, &old, lock), TORII_OK);
    EXPECT_EQ(old, 40u);
    EXPECT_EQ(std::memcmp(p.bytes() + 128, done, sizeof(done)), 0);
    ASSERT_EQ(p.atomic_locked(136, TORII_ATOMIC_CSWAP, width, 1, 41, nullptr, lock), TORII_OK);
    EXPECT_EQ(std::memcmp(p.bytes() + 128, done, sizeof(done)), 0);
    // Somebody holds it, or has a share of it.
    for (const uint64_t word : {kHeld, uint64_t{1}}) {
      const uint64_t busy[3] = {word, 40, 7};
      std::memcpy(p.bytes() + 128, busy, sizeof(busy));
      old = 99;
      EXPECT_EQ(p.atomic_locked(136, TORII_ATOMIC_ADD, width, 2, 0, &old, lock), TORII_EMPTY);
      EXPECT_EQ(old, 99u);
      EXPECT_EQ(std::memcmp(p.bytes() + 128, busy, sizeof(busy)), 0);
    }
  }
  Outcome flushed;
  EXPECT_EQ(p.end(torii_flush(p.world.handle(0), nullptr, note, &flushed), flushed), TORII_OK);
  EXPECT_EQ(p.counters(0).accesses_refused + p.counters(1).exports_refused, 0u);
}

// Neither the integer nor the lock is touched unless both may be.
TEST_P(Memory, TheLockOfAnAtomicOperationIsCheckedToo) {
  Pair p(GetParam(), kAll, 4096);
  const std::vector<uint8_t> zeros(4096);
  std::memset(p.memory, 0, 4096);
  uint64_t readable = 0;
  torii_export_t* sealed = nullptr;
  ASSERT_EQ(torii_export(p.world.handle(1), &readable, 8, TORII_MAY_READ, kTag, &sealed), TORII_OK);
  char key[TORII_KEY_MAX];
  const size_t key_bytes = torii_export_key(sealed, key, sizeof(key));
  torii_import_t* const no_right = p.make_import({key, key_bytes}, kTag);
  torii_import_t* const other_tag = p.make_import(p.key(), kTag + 1);
  const struct {
    torii_lock_word_t lock;
    uint64_t offset;
    int expected;
  } cases[] = {
      {{no_right, 0, 1}, 8, TORII_ERR_DENIED},     {{other_tag, 0, 1}, 8, TORII_ERR_DENIED},
      {{p.import, 4, 1}, 8, TORII_ERR_INVALID},    {{p.import, 4092, 1}, 8, TORII_ERR_INVALID},
      {{p.import, ~0ul, 1}, 8, TORII_ERR_INVALID}, {{p.import, 0, 1}, 4096, TORII_ERR_INVALID},
      {{p.import, 0, 1}, 12, TORII_ERR_INVALID},
  };
  unsigned refusals = 0;
  for (const auto& c : cases) {
    EXPECT_EQ(p.atomic_locked(c.offset, TORII_ATOMIC_ADD, 8, 1, 0, nullptr, c.lock), c.expected);
    EXPECT_EQ(p.counters(0).accesses_refused, ++refusals);
    EXPECT_EQ(p.counters(1).exports_refused, refusals);
    EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), p.bytes()));
    EXPECT_EQ(readable, 0u);
  }
  torii_import_drop(no_right);
  torii_import_drop(other_tag);
  Outcome o;
  EXPECT_EQ(torii_unexport(sealed, note, &o), TORII_OK);
}

// Each finds the lock free, because the one before has given it back.
TEST_P(Memory, LockedOperationsOfManyAreAllCarriedOut) {
  Pair p(GetParam(), kAll, 4096);
  const torii_lock_word_t lock{p.import, 0, 1};
  std::memset(p.memory, 0, 4096);
  std::vector<Outcome> outcomes(40);
  unsigned done = 0;
  for (Outcome& o : outcomes) {
    const int code =
        torii_atomic_locked(p.import, 8, TORII_ATOMIC_ADD, 8, 3, 0, nullptr, &lock, note, &o);
    done += code == TORII_OK;
    ASSERT_TRUE(code == TORII_OK || code == TORII_PENDING) << code;
  }
  p.world.run();
  for (const Outcome& o : outcomes) done += o.calls == 1 && o.result.code == TORII_OK;
  const uint64_t expected[2] = {0, 120};
  EXPECT_EQ(done, outcomes.size());
  EXPECT_EQ(std::memcmp(p.memory, expected, sizeof(expected)), 0);
}

TEST_P(Memory, ALockedOperationEndsWithThePeer) {
  Pair p(GetParam(), kAll, 4096);
  const torii_lock_word_t lock{p.import, 64, 1};
  std::memset(p.memory, 0, 4096);
  p.world.run();
  Outcome o;
  const int code =
      torii_atomic_locked(p.import, 0, TORII_ATOMIC_ADD, 8, 1, 0, nullptr, &lock, note, &o);
  p.world.kill(1);
  p.world.run();
  EXPECT_EQ(o.calls, code == TORII_PENDING);
  if (code == TORII_PENDING) {
    EXPECT_EQ(o.result.code, TORII_ERR_PEER_DEAD);
  }
  EXPECT_EQ(p.atomic_locked(0, TORII_ATOMIC_ADD, 8, 1, 0, nullptr, lock), TORII_ERR_PEER_DEAD);
}

TEST(LockedOperations, ArgumentsAreChecked) {
  Pair p(kNetworks[0], kAll, 4096);
  Pair other(kNetworks[0], kAll, 4096);
  Outcome o;
  const auto code = [&](torii_import_t* import, const torii_lock_word_t* lock, unsigned width) {
    return torii_atomic_locked(import, 8, TORII_ATOMIC_ADD, width, 1, 0, nullptr, lock, note, &o);
  };
  torii_lock_word_t lock{p.import, 0, 1};
  EXPECT_EQ(code(nullptr, &lock, 8), TORII_ERR_INVALID);
  EXPECT_EQ(code(p.import, nullptr, 8), TORII_ERR_INVALID);
  EXPECT_EQ(code(p.import, &lock, 2), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("on 2 bytes"), std::string::npos);
  lock.import = nullptr;
  EXPECT_EQ(code(p.import, &lock, 8), TORII_ERR_INVALID);
  lock.import = other.import;
  EXPECT_EQ(code(p.import, &lock, 8), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("another peer's"), std::string::npos);
  lock = {p.import, 0, 0};
  EXPECT_EQ(code(p.import, &lock, 8), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("0 while it is held"), std::string::npos);
}

TEST(LockedOperations, SharesThatOthersTakeMeanwhileStay) {
  uint64_t lock = 0, old = 99;
  // The share is the operation's own here: one word is both.
  EXPECT_TRUE(apply_locked(&lock, 8, AtomicOp::add, 1, 0, &lock, uint64_t{1} << 63, &old));
  EXPECT_EQ(lock, 1u);
  EXPECT_FALSE(apply_locked(&lock, 8, AtomicOp::add, 1, 0, &lock, uint64_t{1} << 63, &old));
  EXPECT_EQ(old, 1u);
  EXPECT_EQ(lock, 1u);
}

}  // namespace
}  // namespace torii
