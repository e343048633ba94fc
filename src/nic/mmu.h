// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Translation and protection on a card: a page table for each slot, tags, and a buffer of recent
// translations whose misses cost time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "nic/card.h"

namespace torii::nic {

struct MmuOptions {
  uint32_t slots = 1;
  uint32_t pages = 1 << 14;    // of each slot
  uint32_t page_bytes = 4096;  // a power of two
  uint32_t buffered = 0;       // entries of the buffer, a power of two; 0: every access is a hit
  uint64_t miss_ns = 0;
};

enum class MmuFault : uint8_t { none, no_slot, no_page, rights, tag };
const char* mmu_fault_text(MmuFault fault);

class Mmu {
 public:
  struct Entry {
    uint64_t address = 0;  // bus address of the page
    uint32_t rights = 0;   // 0: not valid
    uint32_t tag = 0;
  };
  struct Found {
    MmuFault fault = MmuFault::none;
    uint64_t address = 0;  // on the bus
    uint64_t ns = 0;       // that it took
  };

  explicit Mmu(const MmuOptions& options);
  // `invalid`: there is no such page. The page that was there before is no longer reached.
  Status set(uint32_t slot, uint64_t page, const Entry& entry);
  void clear(uint32_t slot);  // all pages
  // `rights`: what the access needs. The bytes must not cross a page: see in_page().
  Found find(uint32_t slot, uint64_t at, uint32_t rights, uint32_t tag = 0);
  // How many of the bytes from there are in one page.
  size_t in_page(uint64_t at, size_t bytes) const;
  const MmuOptions& options() const { return options_; }
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  const MmuOptions options_;
  std::vector<std::vector<Entry>> tables_;  // by slot; made when the first page is set
  std::vector<uint64_t> buffer_;            // slot and page, + 1; 0: empty
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace torii::nic
