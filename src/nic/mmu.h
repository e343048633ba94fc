// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Translation and protection on a card: a page table for each slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "nic/card.h"

namespace torii::nic {

class Mmu {
 public:
  struct Entry {
    uint64_t address = 0;  // bus address of the page
    uint32_t rights = 0;   // 0: not valid
  };

  // Slots of so many pages, of a power of two of bytes.
  Mmu(uint32_t slots, uint32_t pages, uint32_t page_bytes)
      : pages_(pages), page_bytes_(page_bytes), tables_(slots) {}
  // `invalid`: there is no such page. The page that was there before is no longer reached.
  Status set(uint32_t slot, uint64_t page, const Entry& entry) {
    if (slot >= tables_.size() || page >= pages_) return Status::invalid;
    if (tables_[slot].empty()) tables_[slot].resize(pages_);
    tables_[slot][page] = entry;
    return Status::ok;
  }
  void clear(uint32_t slot) { tables_[slot].clear(); }  // all pages
  // Where that is on the bus. False: there is no such slot or page, or it has not those rights. The
  // bytes must not cross a page: see in_page().
  bool find(uint32_t slot, uint64_t at, uint32_t rights, uint64_t* address) const {
    const uint64_t page = at / page_bytes_;
    if (slot >= tables_.size() || page >= tables_[slot].size()) return false;
    const Entry& entry = tables_[slot][page];
    *address = entry.address + at % page_bytes_;
    return entry.rights != 0 && (entry.rights & rights) == rights;
  }
  // How many of the bytes from there are in one page.
  size_t in_page(uint64_t at, size_t bytes) const {
    return std::min<uint64_t>(bytes, page_bytes_ - at % page_bytes_);
  }

 private:
  const uint64_t pages_, page_bytes_;
  std::vector<std::vector<Entry>> tables_;  // by slot; made when the first page is set
};

}  // namespace torii::nic
