// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/allocations.h"

#include <algorithm>
#include <cstdlib>

namespace torii {
namespace {

constexpr uint64_t kLine = 64;  // of a cache
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMost = 1ull << 47;  // no processor has more addresses for a program

void* ordinary(uint64_t bytes, uint64_t alignment) {
  void* base = nullptr;
  if (bytes > kMost) return nullptr;
  alignment = std::max(alignment, bytes >= kPage ? kPage : kLine);
  return posix_memalign(&base, alignment, bytes) == 0 ? base : nullptr;
}

}  // namespace

Status Allocations::alloc(uint64_t bytes, uint64_t alignment, void** address) {
  for (const auto& driver : drivers_) {
    if (!(driver->caps().flags & kAlloc)) continue;
    void* base = nullptr;
    if (driver->alloc(bytes, std::max(alignment, kLine), &base) != Status::ok) continue;
    counters_.allocated_bytes += bytes;
    given_[*address = base] = {driver.get(), bytes};
    return Status::ok;
  }
  void* const base = ordinary(bytes, alignment);
  if (!base) return Status::no_memory;
  given_[*address = base] = {nullptr, bytes};
  return Status::ok;
}

uint64_t Allocations::bytes(void* address) const {
  const auto it = given_.find(address);
  return it == given_.end() ? 0 : it->second.bytes;
}

bool Allocations::free(void* address) {
  const auto it = given_.find(address);
  if (it == given_.end()) return false;
  if (it->second.driver) {
    it->second.driver->dealloc(address);
  } else {
    std::free(address);
  }
  given_.erase(it);
  return true;
}

}  // namespace torii
