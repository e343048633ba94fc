// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// FNV-1a (Fowler, Noll and Vo): a quick hash of short texts. A change of one byte always changes
// it, but texts with a given hash are easily made: it guards from mistakes only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace torii {

constexpr uint64_t fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint8_t>(b)) * 0x100000001b3;
  return hash;
}
inline uint64_t fnv1a(std::string_view text) {
  return fnv1a(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace torii
