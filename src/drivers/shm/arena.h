// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory for the user that peers map: one sealed memfd for each process that asks for some, as
// large as the machine's memory and empty until it is used.
//
//   +-------------+-----------+---------------+------------------------------
//   | ArenaHeader | an alloc. | free: no page | ...
//   +-------------+-----------+---------------+------------------------------
//
// The owner reserves addresses for all of it and maps what it hands out. Memory it takes back has
// no page any more, in nobody's mapping, so peers need not be told: the slot that a key names has
// another serial by then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/status.h"
#include "drivers/driver.h"
#include "drivers/shm/layout.h"
#include "drivers/shm/segment.h"

namespace torii::shm {

inline constexpr uint32_t kArenaMagic = 0x33616873;  // changes with anything in ArenaHeader
inline constexpr uint32_t kArenaSlots = 16384;       // most allocations and guarded regions

// An allocation, or a region whose key ends when its owner says so (guarded): what peers rely on
// instead of what the key says.
struct ArenaSlot {
  alignas(kLine) std::atomic<uint64_t> word;  // its serial, unique in the arena; 0: free, or ended
  std::atomic<uint64_t> base;                 // address in the owner
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> access;  // 0: it is an allocation, and the rest is 0
  std::atomic<uint64_t> label;
  std::atomic<uint64_t> allocation;  // slot of the allocation in which the region lies
  std::atomic<uint64_t> serial;      // and its serial; 0: it lies in none
};

struct ArenaHeader {
  uint32_t magic;
  uint32_t reserved;
  Cookie cookie;       // of the owner's driver
  uint64_t self_base;  // address of the arena in its owner
  uint64_t bytes;      // of the arena
  ArenaSlot slots[kArenaSlots];
};
inline constexpr uint64_t kArenaHead = (sizeof(ArenaHeader) + kPage - 1) / kPage * kPage;

// This process's arena.
class Arena {
 public:
  // Reserves it; null with the reason and the remedy in *why.
  static std::unique_ptr<Arena> make(const Cookie& cookie, std::string* why);
  ~Arena();
  Arena(const Arena&) = delete;

  // Memory of whole pages, zero; null if there is none left.
  void* alloc(uint64_t bytes, uint64_t alignment);
  void dealloc(void* base);
  // The address is one of the arena's. Costs next to nothing.
  bool contains(const void* at) const {
    return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(base_) < bytes_;
  }
  // The name of the allocation in which all `bytes` bytes lie.
  ArenaKey key(const void* base, uint64_t bytes) const;
  bool empty() const { return live_.empty(); }
  // Guards a region, in an allocation or not, until clear_slot(). Serial 0: all slots are in use.
  ArenaKey guard(const void* base, uint64_t bytes, uint32_t access, uint64_t label);
  void clear_slot(uint32_t slot);
  // Where that range of the guarded region is, if its guard still has the value `valid` and it
  // gives these rights; else null.
  std::byte* guarded(uint32_t slot, uint64_t valid, uint32_t access, uint64_t offset,
                     uint64_t bytes) const {
    if (slot >= slots_.size() || valid == 0) return nullptr;
    const Slot& region = slots_[slot];
    if (region.serial != valid || (region.access & access) != access || offset > region.bytes ||
        bytes > region.bytes - offset)
      return nullptr;
    return region.base + offset;
  }

 private:
  // The content of an ArenaSlot, where no peer can write.
  struct Slot {
    uint64_t serial;
    std::byte* base;
    uint64_t bytes;
    uint32_t access;
  };

  Arena() { slots_.reserve(kArenaSlots); }
  bool reserve(std::string* why);
  bool back(uint64_t first, uint64_t bytes);
  void unback(uint64_t first, uint64_t bytes);
  bool take(uint64_t bytes, uint64_t alignment, uint64_t* first);
  void give(uint64_t first, uint64_t bytes);
  ArenaKey fill_slot(const void* base, uint64_t bytes, uint32_t access, uint64_t label,
                     const ArenaKey& allocation);
  static void after_fork();

  Descriptor fd_;
  std::byte* base_ = nullptr;  // of the reserved addresses
  uint64_t bytes_ = 0;
  ArenaHeader* header_ = nullptr;
  bool commit_ = false;  // the system counts memory when it is promised: claim it at once
  uint64_t last_serial_ = 0;
  std::map<uint64_t, uint64_t> free_;  // ranges by offset
  std::map<uint64_t, uint32_t> live_;  // slots of allocations, by their offset
  std::vector<Slot> slots_;            // never moves
  std::vector<uint32_t> free_slots_;
};

// Its owner's word has the value `valid` until an export ends.
struct ExportWord {
  const std::atomic<uint64_t>* word = nullptr;  // null: it does not tell
  uint64_t valid = 0;
  bool ended(std::memory_order order = acquire) const { return word && word->load(order) != valid; }
};

class ArenaView;

// A peer's guarded region, as the owner says: what the key says does not count.
struct Guarded {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t label = 0;
  uint32_t access = 0;
  uint32_t slot = 0;
  ArenaKey allocation{};  // serial 0: it lies in none
  ExportWord word;
  std::byte* at = nullptr;          // where it is mapped here; null: nowhere
  std::shared_ptr<ArenaView> view;  // what holds `at` and the word; also when the peer has ended
};

// A peer's arena. Its beginning is mapped with the first key into it, and more of it when that is
// used. Nothing that is read there is relied on, but for the decision that a key is stale.
class ArenaView {
 public:
  // Where the memory [base, base + bytes) of the process at `owner` is mapped here, for as long as
  // this lives. `invalid`: the key is stale or makes no sense. `unsupported`: this process cannot
  // map it, use other ways.
  Status find(const Address& owner, const ArenaKey& key, uint64_t base, uint64_t bytes,
              std::byte** at);
  // Everything of a guarded region as its owner describes it, but for `at`; results as of find().
  Status guarded(const Address& owner, const ArenaKey& key, Guarded* out);

 private:
  static constexpr uint64_t kMappedMin = 64 << 20;

  bool map(const Address& owner, uint32_t fd, uint64_t bytes);
  bool map_more(const Address& owner, uint64_t bytes);
  const ArenaHeader& header() const {
    return *reinterpret_cast<const ArenaHeader*>(mapped_.back().base());
  }
  bool live(const ArenaKey& key, uint64_t base, uint64_t bytes) const;

  // The beginning of the arena, each time at least twice as much of it. Earlier ones are in use.
  std::vector<Mapping> mapped_;
  uint64_t mapped_bytes_ = 0;  // of the last one
  bool refused_ = false;       // no more can be mapped
  uint32_t fd_ = 0;
  uint64_t bytes_ = 0;
  uint64_t self_base_ = 0;
};

// The wire form of a memory key.
struct Key {
  uint64_t base;
  uint64_t bytes;
  uint32_t access;
  uint32_t owner;  // part of the owner's cookie
  ArenaKey arena;
};

// Memory of this process that peers may reach: registered regions, and memory of the arena.
class Exports {
 public:
  // `self`: this process's address.
  explicit Exports(const Address& self) : self_(self) {}
  // Memory that was handed out of the arena stays usable for ever.
  ~Exports() {
    if (arena_ && !arena_->empty()) std::ignore = arena_.release();
  }

  // As of Driver.
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out);
  void dereg(Region& region);
  Status alloc(uint64_t bytes, uint64_t alignment, void** base);
  void dealloc(void* base);

  // Is this memory of alloc()?
  bool allocated(const void* at) const { return arena_ && arena_->contains(at); }
  // The name of the allocation in which all of it lies; serial 0: none.
  ArenaKey arena_key(const void* base, uint64_t bytes) const;
  // All of it is registered for reading, guarded or not.
  bool readable(uint64_t base, uint64_t bytes) const;
  // As Arena::guarded().
  std::byte* guarded(uint32_t slot, uint64_t valid, uint32_t access, uint64_t offset,
                     uint64_t bytes) const {
    return arena_ ? arena_->guarded(slot, valid, access, offset, bytes) : nullptr;
  }

 private:
  struct Range {
    uint64_t base;
    uint64_t bytes;
  };

  bool make_arena();
  bool forked() const;  // this is the child of one that opened the driver

  std::unique_ptr<Arena> arena_;  // made when memory is asked for
  const Address& self_;
  bool no_arena_ = false;        // that was not possible
  std::vector<Range> readable_;  // by Region::driver_data
  std::vector<uint32_t> free_;
};

}  // namespace torii::shm
