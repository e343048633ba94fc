// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/little_endian.h"

namespace torii::multicast {

Ring::Ring(std::span<std::byte> memory) : memory_(memory), marks_(memory.size() / kGranule / 64) {}

void Ring::move_base(uint64_t to) {
  for (uint64_t pos = base_; pos < to; pos += kGranule) {
    const uint64_t i = index_of(pos);
    marks_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
  base_ = to;
}

Ring::Place Ring::place(uint64_t pos, std::span<const std::byte> bytes, uint64_t done) {
  const uint64_t end = pos + whole_granules(bytes.size());
  if (end <= placed_ || pos < base_) return Place::duplicate;
  if (end - base_ > size()) {
    if (bytes.size() > size() || end - size() > done) return Place::outside;
    move_base(end - size());
  }
  bool fresh = false;
  for (uint64_t at = pos; at < end && !fresh; at += kGranule) fresh = !marked(at);
  if (!fresh) return Place::duplicate;
  const uint64_t offset = pos & (size() - 1);
  const uint64_t first = std::min<uint64_t>(bytes.size(), size() - offset);
  std::memcpy(memory_.data() + offset, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(memory_.data(), bytes.data() + first, bytes.size() - first);
  for (uint64_t at = pos; at < end; at += kGranule) {
    const uint64_t i = index_of(at);
    marks_[i / 64] |= uint64_t{1} << (i % 64);
  }
  advance();
  return Place::fresh;
}

void Ring::advance() {
  while (placed_ < base_ + size()) {
    const uint64_t i = index_of(placed_);
    const auto ones = static_cast<unsigned>(std::countr_one(marks_[i / 64] >> (i % 64)));
    const auto here = std::min(ones, 64 - static_cast<unsigned>(i % 64));
    placed_ = std::min(placed_ + here * kGranule, base_ + size());
    if (i % 64 + here < 64) return;
  }
}

bool Ring::has(uint64_t pos) const { return pos >= base_ && pos - base_ < size() && marked(pos); }

std::span<const std::byte> Ring::at(uint64_t pos, uint64_t bytes) const {
  const uint64_t offset = pos & (size() - 1);
  return memory_.subspan(offset, std::min(bytes, size() - offset));
}

void Ring::copy_out(uint64_t pos, std::byte* to, uint64_t bytes) const {
  while (bytes) {
    const auto part = at(pos, bytes);
    std::memcpy(to, part.data(), part.size());
    pos += part.size();
    to += part.size();
    bytes -= part.size();
  }
}

size_t Ring::missing(uint64_t from, uint64_t to, std::span<std::byte> out, uint32_t* count) const {
  *count = 0;
  size_t used = 0;
  for (size_t at = 0; at + 8 <= out.size() && from < to; at += 8) {
    uint64_t word = 0;
    for (unsigned bit = 0; bit < 64 && from < to; bit++, from += kGranule)
      if (!has(from)) word |= uint64_t{1} << bit;
    store_little<uint64_t>(out.data() + at, word);
    *count += static_cast<uint32_t>(std::popcount(word));
    if (word) used = at + 8;
  }
  return used;
}

}  // namespace torii::multicast
