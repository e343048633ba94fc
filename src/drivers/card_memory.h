// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shared by the drivers of cards that reach memory by a page table: registrations of this process,
// and keys.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <unordered_map>

#include "drivers/card_keys.h"
#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

class CardMemory {
 public:
  static constexpr uint32_t kPageBytes = 4096;
  struct Key {
    uint64_t check;  // see CardKeys
    nic::Name owner;
    uint32_t serial;
    uint32_t page, offset;  // where the region begins in its owner's page table
    uint64_t bytes;
    // Of that byte of it, in that page table.
    uint64_t address_of(uint64_t at) const { return uint64_t{page} * kPageBytes + offset + at; }
  };
  // Enters pages that are at that address of the bus, one behind the other, for that Access;
  // address 0: they are no longer reached.
  using SetPages =
      std::function<Status(uint64_t page, uint64_t pages, uint64_t address, uint32_t access)>;

  // Uses the pages from `first` on, up to `end`, for regions with any Access of `entered`.
  CardMemory(nic::Card& card, uint64_t first, uint64_t end, uint32_t entered, SetPages set_pages)
      : card_(card),
        first_(first),
        end_(end),
        entered_(entered),
        next_(first),
        set_pages_(std::move(set_pages)),
        keys_(card.info().fabric) {}

  // As in Driver. Region::driver_data is the address of its first byte on the bus.
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out);
  void dereg(Region& region);
  CardKeys<Key>& keys() { return keys_; }
  // Where a byte of an entered region of this process is in its page table.
  static uint64_t address_of(const Region& region, const void* at) {
    Key key;
    std::memcpy(&key, region.key.data(), sizeof(key));
    return key.address_of(static_cast<uint64_t>(static_cast<const std::byte*>(at) -
                                                static_cast<const std::byte*>(region.base)));
  }
  // Memory that this process has exported; null: it has not.
  std::byte* exported(uint32_t serial, uint64_t offset, uint64_t bytes) const;

 private:
  struct Exported {
    std::byte* base;
    uint64_t bytes;
    uint64_t page, pages;
  };
  bool find_pages(uint64_t pages, uint64_t* page);

  nic::Card& card_;
  const uint64_t first_, end_;
  const uint32_t entered_;
  uint64_t next_;
  const SetPages set_pages_;
  std::unordered_map<uint32_t, Exported> exported_;  // by serial
  CardKeys<Key> keys_;
  uint32_t next_serial_ = 1;
};

}  // namespace torii
