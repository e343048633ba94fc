// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory handed out to the user: a driver's that peers reach cheaply, where one has any, else
// ordinary memory. A driver gives whole pages, so short pieces are cut from a larger one, which
// stays until the end. Some freed memory is kept for the next call, because the system takes long
// to map pages and to clear them. The caller holds the interface's lock.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/counters.h"
#include "core/base/status.h"
#include "core/protocol/registrations.h"
#include "drivers/driver.h"

namespace torii {

class Allocations {
 public:
  // `drivers`, in order of preference, may grow; they outlive what is asked of this class.
  Allocations(const std::vector<std::unique_ptr<Driver>>& drivers, Registrations& registrations,
              Counters& counters)
      : drivers_(drivers), registrations_(registrations), counters_(counters) {}
  ~Allocations();
  Allocations(const Allocations&) = delete;

  // `alignment` is a power of two or 0. `no_memory` is the only error.
  Status alloc(uint64_t bytes, uint64_t alignment, void** address);
  // The length of what alloc() gave and free() did not take back, with all that belongs to it
  // alone; 0: there is none at this address.
  uint64_t bytes(void* address) const;
  // False: not an address that alloc() gave, or given back already.
  bool free(void* address);
  // From now on it counts as given back, but stays as it is until release().
  void retire(void* address);
  void release(void* address);

 private:
  static constexpr uint64_t kLine = 64;             // of a cache
  static constexpr unsigned kSizes = 6;             // of short pieces: powers of two from 64 on
  static constexpr uint64_t kKeptBytes = 16 << 20;  // most that is kept, in all
  static constexpr size_t kKeptBlocks = 64;

  struct Given {
    Driver* driver;  // null: ordinary memory
    uint64_t bytes;
    unsigned size;  // of a short piece: its list; kSizes: it is none
  };
  static uint64_t length(const Given& given) {
    return given.size < kSizes ? kLine << given.size : given.bytes;
  }
  void give(void* address, const Given& given);
  void take_back(void* address, const Given& given);
  void* cut(Driver& driver, unsigned size);
  void* pages(Driver& driver, uint64_t* bytes, uint64_t alignment);
  void keep(Driver& driver, void* base, uint64_t bytes);

  const std::vector<std::unique_ptr<Driver>>& drivers_;
  Registrations& registrations_;
  Counters& counters_;
  std::unordered_map<void*, Given> given_;
  std::unordered_map<void*, Given> retired_;
  struct Pieces {
    Driver* driver;
    void* base;
  };
  std::array<std::vector<Pieces>, kSizes> free_;  // by size
  struct Kept {
    Driver* driver;
    void* base;
    uint64_t bytes;
  };
  std::vector<Kept> kept_;  // the oldest first
  uint64_t kept_bytes_ = 0;
};

}  // namespace torii
