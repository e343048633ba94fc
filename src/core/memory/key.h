// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The key of an export, as its owner gives it to the user and the user to peers. It comes back from
// outside, so parse() checks its form; what it says is checked by the owner of the memory, or
// against the owner's word in a driver that guards its keys.
//
//   version 1, count 1, access 2, bytes 2, 0 2, handle 8, nonce 8, size 8, then `count` times:
//   length of a driver's name 1, the name, length of its key 1, its key
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "drivers/driver.h"

namespace torii {

inline constexpr size_t kExportKeyMax = 256;
inline constexpr size_t kExportKeyName = 32;  // the handle and the nonce are in there

struct ExportKey {
  uint64_t handle = 0;  // of the export in its owner
  uint64_t nonce = 0;   // random: cannot be guessed
  uint64_t bytes = 0;
  uint32_t access = 0;                 // AccessRight bits
  std::span<const std::byte> drivers;  // driver keys; checked by parse()
  uint8_t count = 0;                   // of them

  // The key of that driver; empty if there is none.
  std::span<const std::byte> of(std::string_view driver) const;
};

// The accesses that peers may make to an export; the numbers of torii_access_t.
enum AccessRight : uint32_t { kMayRead = 1, kMayWrite = 2, kMayUpdate = 4 };
inline constexpr uint32_t kRightsAll = kMayRead | kMayWrite | kMayUpdate;

// Writes a key bit by bit; what does not fit is left out.
class KeyWriter {
 public:
  explicit KeyWriter(const ExportKey& key);
  void add(std::string_view driver, std::span<const std::byte> key);
  std::span<const std::byte> bytes();

 private:
  std::array<std::byte, kExportKeyMax> bytes_{};
  size_t used_;
};

// False: no key of this version, or broken.
bool parse_key(std::span<const std::byte> bytes, ExportKey* out);

// The proof that somebody has the key and knows the tag: both are needed to make it.
uint64_t access_label(uint64_t nonce, uint64_t tag);

}  // namespace torii
