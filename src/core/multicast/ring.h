// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The last part of the stream of a group, as one node has it. A position of the stream has one
// place in the ring, so bytes are put there as they come, whoever wrote them and in any order. A
// bit for each granule tells what is there. The ring holds [base, base + size); it moves on when
// bytes behind its end come, over what this node does not need any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/multicast/header.h"

namespace torii::multicast {

class Ring {
 public:
  enum class Place : uint8_t { fresh, duplicate, outside };

  // The memory stays the caller's; a power of 2 of at least 4096 bytes.
  explicit Ring(std::span<std::byte> memory);

  uint64_t size() const { return memory_.size(); }
  // All bytes before it have been placed.
  uint64_t placed() const { return placed_; }

  // Puts bytes at a position, a multiple of kGranule. This node needs nothing that lies before
  // `done`. `outside`: there is no place for them, and nothing was changed.
  Place place(uint64_t pos, std::span<const std::byte> bytes, uint64_t done);

  // Whether the granule at this position is here.
  bool has(uint64_t pos) const;
  // The longest part of [pos, pos + bytes) that lies in one piece; of what has been placed.
  std::span<const std::byte> at(uint64_t pos, uint64_t bytes) const;
  // Copies what has been placed.
  void copy_out(uint64_t pos, std::byte* to, uint64_t bytes) const;

  // Fills `out`, 64 granules a word, with a bit for each granule of [from, to) that is missing;
  // returns the bytes of the bitmap that have a bit, a multiple of 8, and counts the bits.
  size_t missing(uint64_t from, uint64_t to, std::span<std::byte> out, uint32_t* count) const;

 private:
  uint64_t index_of(uint64_t pos) const { return pos / kGranule & (memory_.size() / kGranule - 1); }
  bool marked(uint64_t pos) const {
    const uint64_t i = index_of(pos);
    return marks_[i / 64] >> (i % 64) & 1;
  }
  void move_base(uint64_t to);
  void advance();

  std::span<std::byte> memory_;
  std::vector<uint64_t> marks_;
  uint64_t base_ = 0;
  uint64_t placed_ = 0;
};

}  // namespace torii::multicast
