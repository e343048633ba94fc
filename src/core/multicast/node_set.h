// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A set of nodes of a group.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace torii::multicast {

class NodeSet {
 public:
  explicit NodeSet(uint32_t nodes) : nodes_(nodes), words_((nodes + 63) / 64) {}

  bool has(uint32_t node) const { return words_[node / 64] >> (node % 64) & 1; }
  uint32_t count() const { return count_; }
  void add(uint32_t node) {
    count_ += !has(node);
    words_[node / 64] |= uint64_t{1} << (node % 64);
  }
  void remove(uint32_t node) {
    count_ -= has(node);
    words_[node / 64] &= ~(uint64_t{1} << (node % 64));
  }
  // The first one from `node` on; the number of nodes if there is none.
  uint32_t next(uint32_t node) const {
    while (node < nodes_) {
      const uint64_t word = words_[node / 64] >> (node % 64);
      if (word) return node + static_cast<uint32_t>(std::countr_zero(word));
      node = (node / 64 + 1) * 64;
    }
    return nodes_;
  }
  std::span<const uint64_t> words() const { return words_; }

 private:
  uint32_t nodes_;
  uint32_t count_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace torii::multicast
