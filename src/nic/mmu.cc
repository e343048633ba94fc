// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/mmu.h"

#include <algorithm>

namespace torii::nic {

const char* mmu_fault_text(MmuFault fault) {
  switch (fault) {
    case MmuFault::none:
      return "none";
    case MmuFault::no_slot:
      return "no such slot";
    case MmuFault::no_page:
      return "page not mapped";
    case MmuFault::rights:
      return "no such right";
    case MmuFault::tag:
      return "another tag";
  }
  return "unknown";
}

Mmu::Mmu(const MmuOptions& options)
    : options_(options), tables_(options.slots), buffer_(options.buffered) {}

Status Mmu::set(uint32_t slot, uint64_t page, const Entry& entry) {
  if (slot >= options_.slots || page >= options_.pages) return Status::invalid;
  std::vector<Entry>& table = tables_[slot];
  if (table.empty()) table.resize(options_.pages);
  table[page] = entry;
  const uint64_t name = uint64_t{slot} * options_.pages + page;
  if (!buffer_.empty() && buffer_[name % buffer_.size()] == name + 1)
    buffer_[name % buffer_.size()] = 0;
  return Status::ok;
}

void Mmu::clear(uint32_t slot) {
  tables_[slot].clear();
  std::fill(buffer_.begin(), buffer_.end(), 0);
}

size_t Mmu::in_page(uint64_t at, size_t bytes) const {
  return std::min<uint64_t>(bytes, options_.page_bytes - at % options_.page_bytes);
}

Mmu::Found Mmu::find(uint32_t slot, uint64_t at, uint32_t rights, uint32_t tag) {
  const uint64_t page = at / options_.page_bytes;
  if (slot >= options_.slots) return {MmuFault::no_slot};
  if (page >= options_.pages || tables_[slot].empty()) return {MmuFault::no_page};
  Found found;
  const uint64_t name = uint64_t{slot} * options_.pages + page;
  if (buffer_.empty() || buffer_[name % buffer_.size()] == name + 1) {
    hits_++;
  } else {
    misses_++;
    buffer_[name % buffer_.size()] = name + 1;
    found.ns = options_.miss_ns;
  }
  const Entry& entry = tables_[slot][page];
  if (entry.rights == 0)
    found.fault = MmuFault::no_page;
  else if ((entry.rights & rights) != rights)
    found.fault = MmuFault::rights;
  else if (entry.tag != tag)
    found.fault = MmuFault::tag;
  else
    found.address = entry.address + at % options_.page_bytes;
  return found;
}

}  // namespace torii::nic
