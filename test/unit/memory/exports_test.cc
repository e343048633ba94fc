// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Remote memory through torii.h over simulated networks: by frames alone, by drivers that read and
// write, and where the memory is mapped. A right access looks the same over all of them, and so
// does one that is refused.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "core/memory/key.h"
#include "unit/memory/exports_kit.h"

namespace torii {
namespace {

using test::kAll;
using test::kBytes;
using test::kDirect;
using test::kNetworks;
using test::kTag;
using test::Memory;
using test::Network;
using test::note;
using test::Outcome;
using test::Pair;
using test::pattern;
using test::pub;
using test::World;

TEST_P(Memory, ReadsAndWritesOfAllLengths) {
  Pair p(GetParam());
  for (const size_t n : {0ul, 1ul, 3ul, 4ul, 8ul, 100ul, 1024ul, 5000ul, 100000ul, 250000ul}) {
    for (const size_t offset : {0ul, 8ul, 333ul}) {
      const auto data = pattern(n, unsigned(n + offset));
      std::memset(p.memory, '.', p.size);
      ASSERT_EQ(p.write(offset, data.data(), n), TORII_OK) << n;
      ASSERT_TRUE(std::equal(data.begin(), data.end() - 1, p.bytes() + offset)) << n;
      ASSERT_TRUE(offset == 0 || p.bytes()[offset - 1] == '.');
      ASSERT_EQ(p.bytes()[offset + n], '.');
      std::vector<uint8_t> back(n + 1, 0xee);
      ASSERT_EQ(p.read(offset, back.data(), n), TORII_OK) << n;
      ASSERT_TRUE(std::equal(data.begin(), data.end() - 1, back.begin())) << n;
      ASSERT_EQ(back[n], 0xee);
    }
  }
  EXPECT_EQ(p.counters(1).exports_refused, 0u);
  const bool asked = !(GetParam().flags & kGuard) || GetParam().denied;
  EXPECT_EQ(p.counters(0).direct_accesses > 0, !asked);
  EXPECT_EQ(p.counters(0).asked_accesses > 0, asked || !(GetParam().flags & kPut) ||
                                                  !(GetParam().flags & kGet) || !GetParam().mapped);
  EXPECT_EQ(torii_import_address(p.import), GetParam().mapped ? p.memory : nullptr);
}

TEST_P(Memory, AtomicOperations) {
  Pair p(GetParam());
  struct {
    torii_atomic_op_t op;
    uint64_t before, operand, compare, after;
  } const cases[] = {
      {TORII_ATOMIC_ADD, 0xfffffffffffffff0, 0x21, 0, 0x11},
      {TORII_ATOMIC_AND, 0xff00ff00ff00ff00, 0x0ff00ff00ff00ff0, 0, 0x0f000f000f000f00},
      {TORII_ATOMIC_OR, 0x1000000010000001, 0x0200000002000002, 0, 0x1200000012000003},
      {TORII_ATOMIC_XOR, 0xff, 0x1111111111111111, 0, 0x11111111111111ee},
      {TORII_ATOMIC_SWAP, 7, 0x8888888899999999, 0, 0x8888888899999999},
      {TORII_ATOMIC_CSWAP, 5, 6, 5, 6},
      {TORII_ATOMIC_CSWAP, 5, 6, 4, 5},
  };
  for (const auto& c : cases) {
    for (const unsigned width : {4u, 8u}) {
      for (const bool fetch : {true, false}) {
        const uint64_t mask = width == 8 ? ~uint64_t{0} : 0xffffffffu;
        uint64_t words[3] = {~uint64_t{0}, c.before, ~uint64_t{0}}, got[3];
        std::memcpy(p.bytes() + 56, words, sizeof(words));
        uint8_t old[12];
        std::memset(old, 0xee, sizeof(old));
        ASSERT_EQ(p.atomic(64, c.op, width, c.operand, c.compare, fetch ? old : nullptr), TORII_OK);
        std::memcpy(got, p.bytes() + 56, sizeof(got));
        EXPECT_EQ(got[0], ~uint64_t{0});
        EXPECT_EQ(got[2], ~uint64_t{0});
        EXPECT_EQ(got[1] & mask, c.after & mask) << c.op << " " << width;
        EXPECT_EQ(got[1] & ~mask, c.before & ~mask) << c.op << " " << width;
        uint64_t value = 0;
        std::memcpy(&value, old, width);
        if (fetch) {
          EXPECT_EQ(value, c.before & mask) << c.op << " " << width;
        }
        EXPECT_EQ(old[fetch ? width : 0], 0xee);
      }
    }
  }
}

// Both ends learn of what is refused, and nothing is moved.
TEST_P(Memory, WhatIsNotAllowedIsRefused) {
  for (const unsigned access :
       {unsigned(TORII_MAY_READ), unsigned(TORII_MAY_WRITE), unsigned(TORII_MAY_UPDATE), kAll}) {
    Pair p(GetParam(), access, 4096);
    torii_import_t* const other_tag = p.make_import(p.key(), kTag + 1);
    const std::vector<uint8_t> before(p.bytes(), p.bytes() + 4096);
    uint8_t local[8192];
    std::memset(local, 'x', sizeof(local));
    unsigned refusals = 0;
    const auto refused = [&](const char* what, int code, int expected) {
      ++refusals;
      EXPECT_EQ(code, expected) << what;
      EXPECT_TRUE(std::equal(before.begin(), before.end(), p.bytes()))
          << what << ": memory changed";
      EXPECT_EQ(std::count(local, local + sizeof(local), 'x'), long(sizeof(local))) << what;
      EXPECT_EQ(p.counters(0).accesses_refused, refusals) << what;
      EXPECT_EQ(p.counters(1).exports_refused, refusals) << what;
    };
    const bool reads = access & TORII_MAY_READ, writes = access & TORII_MAY_WRITE;
    const bool updates = access & TORII_MAY_UPDATE;
    if (!reads) refused("read", p.read(0, local, 64), TORII_ERR_DENIED);
    if (!writes) refused("write", p.write(0, local, 64), TORII_ERR_DENIED);
    if (!writes) refused("long write", p.write(0, local, 4096), TORII_ERR_DENIED);
    if (!updates)
      refused("atomic", p.atomic(0, TORII_ATOMIC_ADD, 8, 1, 0, local), TORII_ERR_DENIED);
    for (const uint64_t at : {4089ul, 4097ul, ~0ul - 3, ~0ul}) {
      if (reads) refused("read outside", p.read(at, local, 8), TORII_ERR_INVALID);
      if (writes) refused("write outside", p.write(at, local, 8), TORII_ERR_INVALID);
    }
    if (reads) refused("too long a read", p.read(0, local, 4097), TORII_ERR_INVALID);
    if (writes) refused("too long a write", p.write(0, local, 8192), TORII_ERR_INVALID);
    if (updates) {
      refused("atomic outside", p.atomic(4096, TORII_ATOMIC_ADD, 8, 1, 0, local),
              TORII_ERR_INVALID);
      refused("atomic across", p.atomic(4092, TORII_ATOMIC_ADD, 8, 1, 0, local), TORII_ERR_INVALID);
      refused("atomic askew", p.atomic(4, TORII_ATOMIC_ADD, 8, 1, 0, local), TORII_ERR_INVALID);
    }
    refused("tag", p.read(0, local, 8, other_tag), TORII_ERR_DENIED);
    refused("tag", p.write(0, local, 8, other_tag), TORII_ERR_DENIED);
    refused("tag", p.atomic(0, TORII_ATOMIC_ADD, 4, 1, 0, local, other_tag), TORII_ERR_DENIED);
    torii_import_drop(other_tag);
    p.unexport();
    refused("stale", p.read(0, local, 8), TORII_ERR_DENIED);
    refused("stale", p.write(0, local, 8), TORII_ERR_DENIED);
    refused("stale", p.atomic(0, TORII_ATOMIC_ADD, 8, 1, 0, local), TORII_ERR_DENIED);
  }
}

// Every bit of a key that is another one: no key, or a key that opens nothing.
TEST_P(Memory, InventedKeysOpenNothing) {
  Pair p(GetParam(), kAll, 4096);
  const std::string key = p.key();
  const std::vector<uint8_t> before(p.bytes(), p.bytes() + 4096);
  uint64_t word = 0x7878787878787878;
  for (size_t bit = 0; bit < 8 * key.size(); ++bit) {
    std::string forged = key;
    forged[bit / 8] = char(forged[bit / 8] ^ (1 << (bit % 8)));
    torii_import_t* import = nullptr;
    if (torii_import(p.world.handle(0), pub(p.world.peer(0, 1)), forged.data(), forged.size(), kTag,
                     &import) != TORII_OK)
      continue;
    // The rights and length in the key are not believed. The handle is for the target, the driver's
    // key for the short way: one of them is enough, the nonce must be right for both.
    const bool nonce = bit / 8 >= 16 && bit / 8 < 24, handle = bit / 8 >= 8 && bit / 8 < 16;
    const int code = p.write(4088, &word, 8, import);
    if (code == TORII_OK) {
      EXPECT_FALSE(nonce || (handle && !(GetParam().flags & kGuard))) << "bit " << bit;
      std::memset(p.bytes() + 4088, '.', 8);
    } else {
      EXPECT_EQ(code, TORII_ERR_DENIED) << "bit " << bit;
    }
    EXPECT_NE(p.write(4089, &word, 8, import), TORII_OK) << "bit " << bit;
    EXPECT_TRUE(std::equal(before.begin(), before.end(), p.bytes())) << "bit " << bit;
    torii_import_drop(import);
  }
  for (size_t n = 0; n < key.size(); ++n) {
    torii_import_t* import = nullptr;
    EXPECT_EQ(
        torii_import(p.world.handle(0), pub(p.world.peer(0, 1)), key.data(), n, kTag, &import),
        TORII_ERR_INVALID);
  }
}

TEST_P(Memory, ManyAtOnceAndAFlush) {
  Pair p(GetParam());
  std::mt19937 random(5);
  for (int round = 0; round < 3; ++round) {
    std::vector<Outcome> outcomes(200);
    std::vector<uint8_t> sent = pattern(kBytes, unsigned(round)), expected(kBytes, '.');
    std::memset(p.memory, '.', kBytes);
    unsigned due = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const size_t at = i * 1500, n = random() % 1500;
      std::copy_n(sent.begin() + long(at), n, expected.begin() + long(at));
      const auto when = i % 2 ? TORII_COMPLETE_LOCAL : TORII_COMPLETE_REMOTE;
      const int code = torii_write(p.import, at, &sent[at], n, when, note, &outcomes[i]);
      ASSERT_TRUE(code == TORII_OK || code == TORII_PENDING);
      due += code == TORII_PENDING;
    }
    Outcome flushed;
    const int code = torii_flush(p.world.handle(0), round == 1 ? nullptr : pub(p.world.peer(0, 1)),
                                 note, &flushed);
    for (int i = 0; i < 100000 && code == TORII_PENDING && !flushed.calls; ++i) p.world.step();
    ASSERT_EQ(flushed.calls, code == TORII_PENDING);
    EXPECT_EQ(flushed.result.code, TORII_OK);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), p.bytes()));
    p.world.run();
    unsigned done = 0;
    for (const Outcome& o : outcomes) {
      done += unsigned(o.calls);
      EXPECT_EQ(o.result.code, TORII_OK);
    }
    EXPECT_EQ(done, due);
    Outcome again;
    EXPECT_EQ(torii_flush(p.world.handle(0), nullptr, note, &again), TORII_OK);
  }
}

// A write that was over for its caller and is refused afterwards: the flush says so, once.
TEST_P(Memory, AFlushTellsOfWhatFailedSilently) {
  Pair p(GetParam(), TORII_MAY_READ);
  char text[] = "some text";
  Outcome o, flushed;
  const int code = torii_write(p.import, 0, text, 9, TORII_COMPLETE_LOCAL, note, &o);
  const int flush = torii_flush(p.world.handle(0), pub(p.world.peer(0, 1)), note, &flushed);
  p.world.run();
  EXPECT_EQ(flush, TORII_PENDING);
  EXPECT_EQ(flushed.calls, 1);
  const bool told = o.calls && o.result.code != TORII_OK;
  EXPECT_EQ(flushed.result.code, told ? TORII_OK : TORII_ERR_DENIED);
  EXPECT_TRUE(code == TORII_OK || o.calls == 1);
  EXPECT_EQ(torii_flush(p.world.handle(0), pub(p.world.peer(0, 1)), note, &flushed), TORII_OK);
}

// A failure is told by the flush that waits for the operation, not by one before.
TEST_P(Memory, EachFlushTellsOfWhatWasBegunBeforeIt) {
  Pair good(GetParam());
  torii_export_t* sealed = nullptr;
  std::vector<uint8_t> memory(64);
  ASSERT_EQ(torii_export(good.world.handle(1), memory.data(), memory.size(), TORII_MAY_READ, kTag,
                         &sealed),
            TORII_OK);
  uint8_t key[TORII_KEY_MAX];
  const size_t bytes = torii_export_key(sealed, key, sizeof(key));
  torii_import_t* import = nullptr;
  torii_peer_t* const peer = pub(good.world.peer(0, 1));
  ASSERT_EQ(torii_import(good.world.handle(0), peer, key, bytes, kTag, &import), TORII_OK);
  std::vector<uint8_t> local(kBytes);
  Outcome o[3], flushed[2];
  int codes[3], flushes[2];
  codes[0] = torii_write(good.import, 0, local.data(), kBytes, TORII_COMPLETE_REMOTE, note, &o[0]);
  flushes[0] = torii_flush(good.world.handle(0), peer, note, &flushed[0]);
  codes[1] = torii_write(import, 0, local.data(), 9, TORII_COMPLETE_LOCAL, note, &o[1]);
  codes[2] = torii_write(good.import, 0, local.data(), 9, TORII_COMPLETE_LOCAL, note, &o[2]);
  flushes[1] = torii_flush(good.world.handle(0), peer, note, &flushed[1]);
  good.world.run();
  EXPECT_TRUE(codes[0] == TORII_OK || o[0].result.code == TORII_OK);
  EXPECT_TRUE(flushes[0] == TORII_OK || flushed[0].result.code == TORII_OK);
  const bool told = o[1].calls && o[1].result.code != TORII_OK;
  EXPECT_EQ(flushes[1], TORII_PENDING);
  EXPECT_EQ(flushed[1].result.code, told ? TORII_OK : TORII_ERR_DENIED);
  EXPECT_EQ(torii_import_drop(import), TORII_OK);
  EXPECT_EQ(torii_unexport(sealed, note, &o[0]), TORII_OK);
}

TEST_P(Memory, APeerThatDiesEndsWhatIsUnderWay) {
  for (const unsigned victim : {0u, 1u}) {
    Pair p(GetParam());
    std::vector<uint8_t> local(kBytes);
    Outcome outcomes[3], flushed;
    p.world.run();
    int codes[3];
    codes[0] =
        torii_write(p.import, 0, local.data(), kBytes, TORII_COMPLETE_REMOTE, note, &outcomes[0]);
    codes[1] = torii_read(p.import, 0, local.data(), 100000, note, &outcomes[1]);
    codes[2] =
        torii_atomic(p.import, 0, TORII_ATOMIC_ADD, 8, 1, 0, local.data(), note, &outcomes[2]);
    const int flush = torii_flush(p.world.handle(0), nullptr, note, &flushed);
    p.world.kill(victim);
    p.world.run();
    if (victim == 0) continue;  // only the living tell
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(outcomes[i].calls, codes[i] == TORII_PENDING) << i;
      if (codes[i] == TORII_PENDING) {
        EXPECT_EQ(outcomes[i].result.code, TORII_ERR_PEER_DEAD) << i;
      }
    }
    EXPECT_EQ(flushed.calls, flush == TORII_PENDING);
    EXPECT_EQ(p.write(0, local.data(), 8), TORII_ERR_PEER_DEAD);
    EXPECT_EQ(p.read(0, local.data(), 8), TORII_ERR_PEER_DEAD);
    EXPECT_EQ(p.atomic(0, TORII_ATOMIC_SWAP, 8, 1, 0, nullptr), TORII_ERR_PEER_DEAD);
    EXPECT_EQ(torii_import_address(p.import), nullptr);
    torii_import_t* import = nullptr;
    const std::string key = p.key();
    EXPECT_EQ(torii_import(p.world.handle(0), pub(p.world.peer(0, 1)), key.data(), key.size(), kTag,
                           &import),
              TORII_ERR_PEER_DEAD);
  }
}

// An export whose memory is in use by operations of a peer ends when they do.
TEST_P(Memory, TheEndOfAnExportWaitsForItsOperations) {
  Pair p(GetParam());
  std::vector<uint8_t> local(kBytes, 7);
  Outcome o, ended;
  const int code = torii_write(p.import, 0, local.data(), kBytes, TORII_COMPLETE_REMOTE, note, &o);
  bool waited = false;
  for (int i = 0; i < 2000 && !waited && !o.calls; ++i) {
    p.world.step();
    if (p.bytes()[0] != 7) continue;
    const int end = torii_unexport(std::exchange(p.exported, nullptr), note, &ended);
    waited = end == TORII_PENDING;
    break;
  }
  p.world.run();
  EXPECT_EQ(ended.calls, waited);
  EXPECT_EQ(o.calls, code == TORII_PENDING);
  if (waited) {
    EXPECT_EQ(o.result.code, TORII_OK);
    EXPECT_EQ(p.bytes()[kBytes - 1], 7);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Memory, testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Exports, MemoryThatIsGivenBackIsReachedNoMore) {
  for (const bool mapped : {true, false}) {
    const Network network{"mapped", mapped ? kDirect : 0u, true, false, 0, 64};
    Pair p(network, kAll, 10000);
    uint64_t word = 1;
    EXPECT_EQ(p.write(5000, &word, 8), TORII_OK);
    EXPECT_EQ(torii_memory_free(p.world.handle(1), p.memory), TORII_OK);
    EXPECT_EQ(p.write(5000, &word, 8), TORII_ERR_DENIED);
    EXPECT_EQ(p.read(0, &word, 8), TORII_ERR_DENIED);
    EXPECT_EQ(p.atomic(0, TORII_ATOMIC_ADD, 8, 1, 0, &word), TORII_ERR_DENIED);
    EXPECT_EQ(torii_import_address(p.import), nullptr);
    EXPECT_EQ(p.counters(1).exports_refused, 3u);
  }
}

// Peers that are still at it do not write into memory that is somebody else's.
TEST(Exports, MemoryThatIsGivenBackIsKeptWhilePeersUseIt) {
  for (const bool exports_end_first : {true, false}) {
    const Network network{"frames", 0, true, false, 300000, 2};
    Pair p(network);
    std::vector<uint8_t> local(kBytes, 7);
    Outcome o, ended;
    ASSERT_EQ(torii_write(p.import, 0, local.data(), kBytes, TORII_COMPLETE_REMOTE, note, &o),
              TORII_PENDING);
    while (p.bytes()[0] != 7) p.world.step();
    ASSERT_NE(p.bytes()[kBytes - 1], 7) << "it was too fast for this test";
    if (exports_end_first) {
      ASSERT_EQ(torii_unexport(std::exchange(p.exported, nullptr), note, &ended), TORII_PENDING);
    }
    EXPECT_EQ(torii_memory_free(p.world.handle(1), p.memory), TORII_OK);
    EXPECT_EQ(torii_memory_free(p.world.handle(1), p.memory), TORII_ERR_INVALID) << "twice";
    void* other = nullptr;
    ASSERT_EQ(torii_memory_alloc(p.world.handle(1), kBytes, 0, &other), TORII_OK);
    EXPECT_NE(other, p.memory);
    std::memset(other, 'o', kBytes);
    p.world.run();
    EXPECT_EQ(o.calls, 1);
    EXPECT_EQ(o.result.code, TORII_OK);
    EXPECT_EQ(ended.calls, exports_end_first);
    EXPECT_EQ(std::count(static_cast<char*>(other), static_cast<char*>(other) + kBytes, 'o'),
              int64_t(kBytes));
    uint64_t word = 1;
    EXPECT_EQ(p.write(0, &word, 8), TORII_ERR_DENIED);
    EXPECT_EQ(torii_memory_free(p.world.handle(1), other), TORII_OK);
  }
}

// Short pieces share pages, and are given out again; the export of a page lasts while they go.
TEST(Exports, ShortPiecesOfMemory) {
  const Network network{"mapped", kDirect, true, false, 0, 64};
  Pair p(network, kAll, 10000);
  torii_ni_t* const ni = p.world.handle(1);
  std::set<std::byte*> pieces;
  for (int i = 0; i < 200; ++i) {
    void* piece = nullptr;
    ASSERT_EQ(torii_memory_alloc(ni, 24, 0, &piece), TORII_OK);
    std::memset(piece, i, 24);
    EXPECT_TRUE(pieces.insert(static_cast<std::byte*>(piece)).second) << "given out twice";
  }
  EXPECT_LT(*pieces.rbegin() - *pieces.begin(), 16 * 4096) << "a page for each";
  const std::byte* last = nullptr;
  for (const std::byte* piece : pieces) {
    if (last) {
      EXPECT_GE(piece - last, 64);
    }
    last = piece;
  }
  std::byte* const first = *pieces.begin();
  torii_export_t *page = nullptr, *own = nullptr;
  ASSERT_EQ(torii_export(ni, first, 4096, kAll, 1, &page), TORII_OK);
  ASSERT_EQ(torii_export(ni, first, 24, kAll, 1, &own), TORII_OK);
  char key[TORII_KEY_MAX];
  torii_import_t* imports[2] = {};
  for (int i = 0; i < 2; ++i) {
    const size_t bytes = torii_export_key(i == 0 ? page : own, key, sizeof(key));
    ASSERT_EQ(torii_import(p.world.handle(0), pub(p.world.peer(0, 1)), key, bytes, 1, &imports[i]),
              TORII_OK);
    EXPECT_EQ(torii_import_address(imports[i]), first);
  }
  EXPECT_EQ(torii_memory_free(ni, first), TORII_OK);
  EXPECT_EQ(torii_memory_free(ni, first), TORII_ERR_INVALID);
  EXPECT_EQ(torii_import_address(imports[0]), first) << "others are on this page";
  EXPECT_EQ(torii_import_address(imports[1]), nullptr);
  void* again = nullptr;
  ASSERT_EQ(torii_memory_alloc(ni, 60, 0, &again), TORII_OK);
  EXPECT_EQ(again, first);
  void* aligned = nullptr;
  ASSERT_EQ(torii_memory_alloc(ni, 24, 4096, &aligned), TORII_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
  for (torii_import_t* import : imports) EXPECT_EQ(torii_import_drop(import), TORII_OK);
  Outcome o;
  EXPECT_EQ(torii_unexport(page, note, &o), TORII_OK);
  EXPECT_EQ(torii_unexport(own, note, &o), TORII_OK);
}

// A process is its own peer; nothing travels, and the same is refused.
TEST(Exports, OfThisProcessItself) {
  World world(options_of(kNetworks[0]), 1, 1, [](unsigned, const OpenBelow&, const DriverEnv& env) {
    std::string why;
    return open_driver("self", env, &why);
  });
  alignas(8) char memory[64] = "memory";
  torii_export_t* exported = nullptr;
  ASSERT_EQ(torii_export(world.handle(0), memory, 64, kAll, 1, &exported), TORII_OK);
  char key[TORII_KEY_MAX];
  const size_t bytes = torii_export_key(exported, key, sizeof(key));
  torii_peer_t* const self = pub(world.peer(0, 0));
  torii_import_t *good = nullptr, *bad = nullptr;
  ASSERT_EQ(torii_import(world.handle(0), self, key, bytes, 1, &good), TORII_OK);
  ASSERT_EQ(torii_import(world.handle(0), self, key, bytes, 2, &bad), TORII_OK);
  EXPECT_EQ(torii_import_address(good), memory);
  EXPECT_EQ(torii_import_address(bad), nullptr);
  Outcome o;
  uint32_t word = 5, old = 0;
  EXPECT_EQ(torii_write(good, 8, &word, 4, TORII_COMPLETE_REMOTE, note, &o), TORII_OK);
  EXPECT_EQ(torii_atomic(good, 8, TORII_ATOMIC_ADD, 4, 3, 0, &old, note, &o), TORII_OK);
  EXPECT_EQ(old, 5u);
  EXPECT_EQ(torii_read(good, 8, &word, 4, note, &o), TORII_OK);
  EXPECT_EQ(word, 8u);
  EXPECT_EQ(o.calls, 0);
  EXPECT_EQ(torii_read(bad, 8, &word, 4, note, &o), TORII_PENDING);
  world.run();
  EXPECT_EQ(o.calls, 1);
  EXPECT_EQ(o.result.code, TORII_ERR_DENIED);
  EXPECT_EQ(torii_unexport(exported, note, &o), TORII_OK);
  EXPECT_EQ(torii_write(good, 8, &word, 4, TORII_COMPLETE_REMOTE, note, &o), TORII_PENDING);
  world.run();
  EXPECT_EQ(o.calls, 2);
  EXPECT_EQ(o.result.code, TORII_ERR_DENIED);
  torii_import_drop(good);
  torii_import_drop(bad);
}

TEST(Exports, BadArguments) {
  World world(options_of(kNetworks[0]), 1, 1);
  torii_ni_t* const ni = world.handle(0);
  torii_export_t* e = nullptr;
  torii_import_t* i = nullptr;
  char memory[8];
  Outcome o;
  EXPECT_EQ(torii_export(nullptr, memory, 8, kAll, 0, &e), TORII_ERR_INVALID);
  EXPECT_EQ(torii_export(ni, nullptr, 8, kAll, 0, &e), TORII_ERR_INVALID);
  EXPECT_EQ(torii_export(ni, memory, 8, kAll, 0, nullptr), TORII_ERR_INVALID);
  EXPECT_EQ(torii_export(ni, memory, 8, 0, 0, &e), TORII_ERR_INVALID);
  EXPECT_EQ(torii_export(ni, memory, 8, 8, 0, &e), TORII_ERR_INVALID);
  EXPECT_EQ(torii_export(ni, memory, ~size_t{0}, kAll, 0, &e), TORII_ERR_INVALID);
  EXPECT_EQ(torii_unexport(nullptr, note, &o), TORII_ERR_INVALID);
  EXPECT_EQ(torii_import(ni, nullptr, memory, 8, 0, &i), TORII_ERR_INVALID);
  EXPECT_EQ(torii_import(ni, pub(world.peer(0, 0)), memory, 8, 0, &i), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("8 bytes that are no key"), std::string::npos);
  EXPECT_EQ(torii_import_drop(nullptr), TORII_ERR_INVALID);
  EXPECT_EQ(torii_read(nullptr, 0, memory, 8, note, &o), TORII_ERR_INVALID);
  ASSERT_EQ(torii_export(ni, memory, 8, kAll, 0, &e), TORII_OK);
  char key[TORII_KEY_MAX];
  EXPECT_GT(torii_export_key(e, key, 3), 3u);
  const size_t n = torii_export_key(e, key, sizeof(key));
  ASSERT_EQ(torii_import(ni, pub(world.peer(0, 0)), key, n, 0, &i), TORII_OK);
  EXPECT_EQ(torii_read(i, 0, nullptr, 8, note, &o), TORII_ERR_INVALID);
  EXPECT_EQ(torii_write(i, 0, nullptr, 8, TORII_COMPLETE_LOCAL, note, &o), TORII_ERR_INVALID);
  EXPECT_EQ(torii_atomic(i, 0, TORII_ATOMIC_ADD, 2, 1, 0, memory, note, &o), TORII_ERR_INVALID);
  EXPECT_EQ(torii_atomic(i, 0, torii_atomic_op_t(6), 8, 1, 0, memory, note, &o), TORII_ERR_INVALID);
  EXPECT_EQ(torii_flush(ni, nullptr, nullptr, &o), TORII_ERR_INVALID);
  torii_import_drop(i);
  EXPECT_EQ(torii_unexport(e, note, &o), TORII_OK);
}

// A peer may send any frame for the memory space.
TEST(ExportKeys, FormIsChecked) {
  ExportKey head;
  head.handle = 5;
  head.nonce = 6;
  head.bytes = 7;
  head.access = kMayRead;
  KeyWriter writer(head);
  const std::vector<std::byte> one(3, std::byte{1}), long_one(250, std::byte{2});
  writer.add("one", one);
  writer.add("long", long_one);  // has no room
  writer.add("two", {});
  const auto bytes = writer.bytes();
  ExportKey out;
  ASSERT_TRUE(parse_key(bytes, &out));
  EXPECT_EQ(out.handle, 5u);
  EXPECT_EQ(out.nonce, 6u);
  EXPECT_EQ(out.bytes, 7u);
  EXPECT_EQ(out.access, uint32_t{kMayRead});
  EXPECT_EQ(out.count, 2);
  EXPECT_TRUE(std::ranges::equal(out.of("one"), one));
  EXPECT_TRUE(out.of("long").empty());
  EXPECT_TRUE(out.of("on").empty());
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_key(bytes.first(n), &out)) << n;
  EXPECT_NE(access_label(6, 0), access_label(6, 1));
  EXPECT_NE(access_label(6, 0), access_label(7, 0));
}

}  // namespace
}  // namespace torii
