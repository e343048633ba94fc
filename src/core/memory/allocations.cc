// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/allocations.h"

#include <algorithm>
#include <cstdlib>

namespace torii {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlab = 16 * kPage;  // what short pieces are cut from
constexpr uint64_t kMost = 1ull << 47;  // no processor has more addresses for a program

void* ordinary(uint64_t bytes, uint64_t alignment, uint64_t line) {
  void* base = nullptr;
  if (bytes > kMost) return nullptr;
  alignment = std::max(alignment, bytes >= kPage ? kPage : line);
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

Allocations::~Allocations() {
  for (const Kept& kept : kept_) kept.driver->dealloc(kept.base);
}

// Whole pages of the driver's: those that were freed last, if they fit. *bytes becomes their
// length. Null: it has none.
void* Allocations::pages(Driver& driver, uint64_t* bytes, uint64_t alignment) {
  if (*bytes > kMost) return nullptr;
  const uint64_t least = (*bytes + kPage - 1) / kPage * kPage;
  for (size_t n = kept_.size(); n-- > 0;) {
    const Kept kept = kept_[n];
    if (kept.driver != &driver || kept.bytes < least || kept.bytes > least + least / 4 ||
        reinterpret_cast<uintptr_t>(kept.base) % alignment != 0)
      continue;
    kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(n));
    kept_bytes_ -= kept.bytes;
    *bytes = kept.bytes;
    return kept.base;
  }
  void* base = nullptr;
  if (driver.alloc(least, alignment, &base) != Status::ok) return nullptr;
  *bytes = least;
  return base;
}

// Keeps what was freed, and gives the driver back what was kept longest.
void Allocations::keep(Driver& driver, void* base, uint64_t bytes) {
  if (bytes > kKeptBytes / 4) return driver.dealloc(base);
  kept_.push_back({&driver, base, bytes});
  kept_bytes_ += bytes;
  while (kept_bytes_ > kKeptBytes || kept_.size() > kKeptBlocks) {
    const Kept oldest = kept_.front();
    kept_.erase(kept_.begin());
    kept_bytes_ -= oldest.bytes;
    oldest.driver->dealloc(oldest.base);
  }
}

Status Allocations::alloc(uint64_t bytes, uint64_t alignment, void** address) {
  unsigned size = 0;
  while (size < kSizes && kLine << size < bytes) ++size;
  if (alignment > kLine) size = kSizes;
  for (const auto& driver : drivers_) {
    uint64_t length = bytes;
    void* const base =
        size < kSizes ? cut(*driver, size) : pages(*driver, &length, std::max(alignment, kLine));
    if (!base) continue;
    counters_.allocated_bytes += bytes;
    give(*address = base, {driver.get(), length, size});
    return Status::ok;
  }
  void* const base = ordinary(bytes, alignment, kLine);
  if (!base) return Status::no_memory;
  give(*address = base, {nullptr, bytes, kSizes});
  return Status::ok;
}

void Allocations::give(void* address, const Given& given) {
  given_[address] = given;
  registrations_.own(address, length(given));
}

uint64_t Allocations::bytes(void* address) const {
  const auto it = given_.find(address);
  return it == given_.end() ? 0 : length(it->second);
}

bool Allocations::free(void* address) {
  const auto it = given_.find(address);
  if (it == given_.end()) return false;
  take_back(it->first, it->second);
  given_.erase(it);
  return true;
}

void Allocations::retire(void* address) {
  registrations_.disown(address);
  retired_.insert(given_.extract(address));
}

void Allocations::release(void* address) {
  const auto it = retired_.find(address);
  take_back(it->first, it->second);
  retired_.erase(it);
}

void Allocations::take_back(void* address, const Given& given) {
  registrations_.disown(address);
  if (given.size < kSizes) {
    free_[given.size].push_back({given.driver, address});
  } else if (given.driver) {
    keep(*given.driver, address, given.bytes);
  } else {
    std::free(address);
  }
}

}  // namespace torii
