// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Registrations of this process's memory with its drivers. Where they cost much (kNeedsReg), those
// of memory that the core handed out are kept until it is given back, and those of other memory if
// the driver can tell whether it is still the same. All others last for one operation. If a driver
// has no room for another one, kept ones that nobody uses go first. The caller holds the
// interface's lock.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "drivers/interfaces.h"

namespace torii {

struct Registration {
  Region region;
  Driver* driver = nullptr;
  uint32_t users = 0;
  bool kept = false;
};

class Registrations {
 public:
  static constexpr size_t kKeptMost = 64;
  // Allocations of at most so many bytes are registered whole for the own card.
  static constexpr uint64_t kWholeMost = 1 << 20;

  explicit Registrations(Counters& counters);
  Registrations(const Registrations&) = delete;

  // A registration of the range with this access, for its user until put(): of the range itself, or
  // of more where no key travels (kLocal). Null: the driver has no room for it, or refuses.
  Registration* get(Driver& driver, void* base, uint64_t bytes, uint32_t access);
  // `good`: the operation ended well. After a failure a peer may still use its key: it ends.
  void put(Registration* registration, bool good);
  // As Driver::reg(), for an owner who keeps the region himself.
  Status reg(Driver& driver, void* base, uint64_t bytes, uint32_t access, Region* out);
  // A registration of this range costs nothing now, or will not the next time.
  bool keeps(Driver& driver, const void* base, uint64_t bytes, uint32_t access);

  // Memory that the core hands out stays the same from own() to disown().
  void own(const void* base, uint64_t bytes);
  void disown(const void* base);
  // Before the drivers close.
  void clear();
  // A driver is going to be used.
  void add_driver(const Driver& driver) { costly_ |= (driver.caps().flags & kNeedsReg) != 0; }

 private:
  using Owned = std::map<const std::byte*, uint64_t>;  // bytes by address
  Owned::const_iterator owned(const std::byte* base, uint64_t bytes) const;
  Registration* find(Driver& driver, const std::byte* base, uint64_t bytes, uint32_t access);
  void keep(Registration* registration);
  bool evict(const Driver& driver);
  void forget(size_t index);
  void end(Registration* registration);
  void notice_forks();

  Counters& counters_;
  SlotPool<Registration> pool_;
  std::vector<Registration*> kept_;  // the one that was used longest ago first
  Owned owned_;
  bool costly_ = false;           // for one of the drivers
  const Driver* full_ = nullptr;  // has no room before another one is given back
  uint32_t in_use_ = 0;           // registrations with users
  uint64_t forks_;
};

}  // namespace torii
