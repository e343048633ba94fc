// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For tests of remote memory through torii.h over simulated networks.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "world.h"

namespace torii::test {
inline constexpr unsigned kAll = TORII_MAY_READ | TORII_MAY_WRITE | TORII_MAY_UPDATE;
inline constexpr uint64_t kTag = 0x1234567890abcdef;
inline constexpr size_t kBytes = 300000;

struct Network {
  const char* name;
  uint32_t flags;
  bool mapped;  // memory of torii_memory_alloc
  bool pending;
  uint32_t again;
  uint32_t depth;
  bool denied = false;  // puts and gets turn out to be forbidden
};

inline constexpr uint32_t kDirect = kPut | kGet | kGuard;
inline constexpr Network kNetworks[] = {
    {"frames", 0, false, false, 0, 64},
    {"unguarded", kPut | kGet, false, false, 0, 64},
    {"driver", kDirect, false, false, 0, 64},
    {"driver_atomics", kDirect | kAtomic, false, false, 0, 64},
    {"driver_pending", kDirect, false, true, 0, 64},
    {"driver_refusing", kDirect | kAtomic, false, true, 200000, 64},
    {"registers", kDirect | kAtomic | kNeedsReg, false, true, 0, 64},
    {"get_only", kGet | kGuard, false, false, 0, 64},
    {"put_only", kPut | kGuard, false, true, 0, 64},
    {"mapped", kDirect, true, false, 0, 64},
    {"denied", kDirect | kAtomic, false, false, 0, 64, true},
    {"denied_late", kDirect | kAtomic, false, true, 0, 64, true},
    {"backpressure", 0, false, false, 300000, 2},
};

inline SimOptions options_of(const Network& n) {
  SimOptions o;
  o.flags = kReliable | kPeerDown | n.flags;
  o.allocates = n.mapped;
  o.pending_rma = n.pending;
  o.denied_rma = n.denied;
  o.again_ppm = n.again;
  o.depth = n.depth;
  o.registers_local = (n.flags & kNeedsReg) != 0;
  o.once_min = 1;
  o.regions_max = 20;
  o.latency_min_ns = 100;
  o.latency_max_ns = 5000;
  return o;
}

// Rank 1 exports, rank 0 imports.
struct Pair {
  explicit Pair(const Network& n, unsigned access = kAll, size_t bytes = kBytes)
      : network(n), world(options_of(n), 2, 64), size(bytes) {
    if (n.mapped) {
      EXPECT_EQ(torii_memory_alloc(world.handle(1), bytes, 0, &memory), TORII_OK);
    } else {
      memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    }
    std::memset(memory, '.', bytes);
    EXPECT_EQ(torii_export(world.handle(1), memory, bytes, access, kTag, &exported), TORII_OK);
    import = make_import(key(), kTag);
  }
  ~Pair() {
    if (import) torii_import_drop(import);
    if (exported) {
      EXPECT_EQ(unexport(), TORII_OK);
    }
    if (!network.mapped) std::free(memory);
  }
  std::string key() const {
    char text[TORII_KEY_MAX];
    const size_t n = torii_export_key(exported, text, sizeof(text));
    EXPECT_LE(n, sizeof(text));
    return {text, n};
  }
  torii_import_t* make_import(const std::string& key, uint64_t tag) {
    torii_import_t* made = nullptr;
    const int code =
        torii_import(world.handle(0), pub(world.peer(0, 1)), key.data(), key.size(), tag, &made);
    EXPECT_EQ(code, TORII_OK) << torii_error();
    return made;
  }
  int unexport() {
    Outcome o;
    int code = torii_unexport(std::exchange(exported, nullptr), note, &o);
    if (code == TORII_PENDING) {
      world.run();
      EXPECT_EQ(o.calls, 1);
      code = o.result.code;
    }
    return code;
  }
  // Ends an operation: the code of the call, or of its callback.
  int end(int code, const Outcome& o) {
    if (code != TORII_PENDING) {
      EXPECT_EQ(o.calls, 0);
      return code;
    }
    world.run();
    EXPECT_EQ(o.calls, 1);
    return o.result.code;
  }
  int read(uint64_t offset, void* to, uint64_t bytes, torii_import_t* of = nullptr) {
    Outcome o;
    return end(torii_read(of ? of : import, offset, to, bytes, note, &o), o);
  }
  int write(uint64_t offset, const void* from, uint64_t bytes, torii_import_t* of = nullptr) {
    Outcome o;
    return end(torii_write(of ? of : import, offset, from, bytes, TORII_COMPLETE_REMOTE, note, &o),
               o);
  }
  int atomic(uint64_t offset, torii_atomic_op_t op, unsigned width, uint64_t operand,
             uint64_t compare, void* old, torii_import_t* of = nullptr) {
    Outcome o;
    return end(torii_atomic(of ? of : import, offset, op, width, operand, compare, old, note, &o),
               o);
  }
  int atomic_locked(uint64_t offset, torii_atomic_op_t op, unsigned width, uint64_t operand,
                    uint64_t compare, void* old, const torii_lock_word_t& lock) {
    Outcome o;
    return end(
        torii_atomic_locked(import, offset, op, width, operand, compare, old, &lock, note, &o), o);
  }
  int flush() {
    Outcome o;
    return end(torii_flush(world.handle(0), pub(world.peer(0, 1)), note, &o), o);
  }
  uint8_t* bytes() const { return static_cast<uint8_t*>(memory); }
  const Counters& counters(unsigned i) { return world.ni(i).counters(); }

  const Network& network;
  World world;
  size_t size;
  void* memory = nullptr;
  torii_export_t* exported = nullptr;
  torii_import_t* import = nullptr;
};

class Memory : public testing::TestWithParam<Network> {};

}  // namespace torii::test
