// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/allocations.h"

#include <algorithm>
#include <cstdlib>

namespace torii {
namespace {

constexpr uint64_t kLine = 64;  // of a cache
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlab = 16 * kPage;  // what short pieces are cut from
constexpr uint64_t kMost = 1ull << 47;  // no processor has more addresses for a program

void* ordinary(uint64_t bytes, uint64_t alignment) {
  void* base = nullptr;
  if (bytes > kMost) return nullptr;
  alignment = std::max(alignment, bytes >= kPage ? kPage : kLine);
  return posix_memalign(&base, alignment, bytes) == 0 ? base : nullptr;
}

}  // namespace

// A short piece of that size of the driver's memory; null: it has none.
void* Allocations::cut(Driver& driver, unsigned size) {
  auto& pieces = free_[size];
  const auto usable = [&](const Pieces& p) { return p.driver == &driver; };
  auto it = std::find_if(pieces.rbegin(), pieces.rend(), usable);
  if (it == pieces.rend()) {
    void* slab = nullptr;
    if (driver.alloc(kSlab, kPage, &slab) != Status::ok) return nullptr;
    for (uint64_t at = kSlab; at > 0; at -= kLine << size)
      pieces.push_back({&driver, static_cast<std::byte*>(slab) + at - (kLine << size)});
    it = pieces.rbegin();
  }
  void* const base = it->base;
  pieces.erase(std::next(it).base());
  return base;
}

Status Allocations::alloc(uint64_t bytes, uint64_t alignment, void** address) {
  unsigned size = 0;
  while (size < kSizes && kLine << size < bytes) ++size;
  if (alignment > kLine) size = kSizes;
  for (const auto& driver : drivers_) {
    if (!(driver->caps().flags & kAlloc)) continue;
    void* base = nullptr;
    if (size < kSizes) {
      base = cut(*driver, size);
    } else if (driver->alloc(bytes, std::max(alignment, kLine), &base) != Status::ok) {
      base = nullptr;
    }
    if (!base) continue;
    counters_.allocated_bytes += bytes;
    given_[*address = base] = {driver.get(), bytes, size};
    return Status::ok;
  }
  void* const base = ordinary(bytes, alignment);
  if (!base) return Status::no_memory;
  given_[*address = base] = {nullptr, bytes, kSizes};
  return Status::ok;
}

uint64_t Allocations::bytes(void* address) const {
  const auto it = given_.find(address);
  if (it == given_.end()) return 0;
  const Given& given = it->second;
  if (given.size < kSizes) return kLine << given.size;
  return given.driver ? (given.bytes + kPage - 1) / kPage * kPage : given.bytes;
}

bool Allocations::free(void* address) {
  const auto it = given_.find(address);
  if (it == given_.end()) return false;
  take_back(it->first, it->second);
  given_.erase(it);
  return true;
}

void Allocations::retire(void* address) { retired_.insert(given_.extract(address)); }

void Allocations::release(void* address) {
  const auto it = retired_.find(address);
  take_back(it->first, it->second);
  retired_.erase(it);
}

void Allocations::take_back(void* address, const Given& given) {
  if (given.size < kSizes) {
    free_[given.size].push_back({given.driver, address});
  } else if (given.driver) {
    given.driver->dealloc(address);
  } else {
    std::free(address);
  }
}

}  // namespace torii
