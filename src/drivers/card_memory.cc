// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/card_memory.h"

#include <cstring>

namespace torii {

// The next pages that no region has, in turn: old keys stay wrong for long.
bool CardMemory::find_pages(uint64_t pages, uint64_t* page) {
  uint64_t at = next_;
  for (size_t tried = 0; tried <= 2 * exported_.size() + 2; tried++) {
    if (at + pages > end_) at = first_;
    if (at + pages > end_) return false;
    uint64_t after = at;
    for (const auto& [serial, other] : exported_)
      if (at < other.page + other.pages && other.page < at + pages)
        after = other.page + other.pages;
    if (after == at) {
      *page = at;
      next_ = at + pages;
      return true;
    }
    at = after;
  }
  return false;
}

Status CardMemory::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (access & kGuarded) return Status::unsupported;
  if (!base || bytes == 0) return Status::invalid;
  *out = Region{base, bytes, access, {}, 0, out->label};
  Status status = card_.map(base, bytes, nic::kCardReads | nic::kCardWrites, &out->driver_data);
  if (status != Status::ok || !(access & entered_)) return status;
  const uint64_t in_page = out->driver_data % kPageBytes;
  const uint64_t pages = (in_page + bytes + kPageBytes - 1) / kPageBytes;
  uint64_t page = 0;
  status = find_pages(pages, &page) ? set_pages_(page, pages, out->driver_data - in_page, access)
                                    : Status::no_memory;
  if (status != Status::ok) {
    card_.unmap(out->driver_data);
    return status;
  }
  const Key key{0,
                card_.info().name,
                next_serial_++,
                static_cast<uint32_t>(page),
                static_cast<uint32_t>(in_page),
                bytes};
  keys_.fill(key, out);
  exported_[key.serial] = {static_cast<std::byte*>(base), bytes, page, pages};
  return Status::ok;
}

void CardMemory::dereg(Region& region) {
  Key key;
  std::memcpy(&key, region.key.data(), sizeof(key));
  if (const auto it = exported_.find(key.serial); it != exported_.end()) {
    static_cast<void>(set_pages_(it->second.page, it->second.pages, 0, 0));
    exported_.erase(it);
  }
  card_.unmap(region.driver_data);
  region = Region{};
}

std::byte* CardMemory::exported(uint32_t serial, uint64_t offset, uint64_t bytes) const {
  const auto it = exported_.find(serial);
  if (it == exported_.end()) return nullptr;
  const Exported& e = it->second;
  return offset <= e.bytes && bytes <= e.bytes - offset ? e.base + offset : nullptr;
}

}  // namespace torii
