// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The bytes in the pipe between torii-check and its parts: a greeting, since remote shells print
// all sorts of things before it, then blocks, each with its length (4 bytes, little-endian).
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "core/tools/check/check_data.h"

namespace torii::check {

inline constexpr std::string_view kGreeting = "\x02torii-check 1\n";
inline constexpr uint32_t kBlockMax = 64 << 20;

inline void append_number(Bytes* out, uint32_t value) {
  for (int i = 0; i < 4; i++) out->push_back(static_cast<std::byte>(value >> (8 * i)));
}
inline void append_block(Bytes* out, std::span<const std::byte> block) {
  append_number(out, static_cast<uint32_t>(block.size()));
  out->insert(out->end(), block.begin(), block.end());
}

// Takes a number, or a block, from the front. False: it is not there, and *from is as it was.
inline bool take_number(std::span<const std::byte>* from, uint32_t* value) {
  if (from->size() < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; i++)
    *value |= uint32_t{static_cast<uint8_t>((*from)[static_cast<size_t>(i)])} << (8 * i);
  *from = from->subspan(4);
  return true;
}
inline bool take_block(std::span<const std::byte>* from, std::span<const std::byte>* block) {
  std::span<const std::byte> rest = *from;
  uint32_t bytes;
  if (!take_number(&rest, &bytes) || bytes > rest.size()) return false;
  *block = rest.first(bytes);
  *from = rest.subspan(bytes);
  return true;
}

// The first message to a part.
struct Orders {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t deadline_ms = 0;
  uint32_t multicast_ms = 0;
  std::map<std::string, std::string> variables;  // TORII_*
};
Bytes encode(const Orders& orders);
bool decode(std::span<const std::byte> bytes, Orders* out);
// The contributions of all. False: these bytes do not hold `count`.
Bytes encode(const std::vector<Bytes>& given);
bool decode(std::span<const std::byte> bytes, size_t count, std::vector<Bytes>* out);

}  // namespace torii::check
