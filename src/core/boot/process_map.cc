// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/boot/process_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace torii {

ProcessMap::ProcessMap(std::vector<uint32_t> node_of_rank)
    : node_of_rank_(std::move(node_of_rank)), by_node_(node_of_rank_.size()) {
  std::iota(by_node_.begin(), by_node_.end(), 0u);
  std::sort(by_node_.begin(), by_node_.end(), [this](uint32_t a, uint32_t b) {
    return std::pair(node_of_rank_[a], a) < std::pair(node_of_rank_[b], b);
  });
}

uint32_t ProcessMap::first_of_node(uint32_t node) const {
  auto at = std::lower_bound(by_node_.begin(), by_node_.end(), node,
                             [this](uint32_t rank, uint32_t n) { return node_of_rank_[rank] < n; });
  return static_cast<uint32_t>(at - by_node_.begin());
}

uint32_t ProcessMap::local_rank(uint32_t rank) const {
  auto first = by_node_.begin() + first_of_node(node_of_rank_[rank]);
  auto at = std::lower_bound(first, by_node_.end(), rank, [this, rank](uint32_t a, uint32_t b) {
    return node_of_rank_[a] == node_of_rank_[rank] && a < b;
  });
  return static_cast<uint32_t>(at - first);
}

uint32_t ProcessMap::local_size(uint32_t node) const {
  if (node == UINT32_MAX) return size() - first_of_node(node);
  return first_of_node(node + 1) - first_of_node(node);
}

bool ProcessMap::rank_at(uint32_t node, uint32_t local_rank, uint32_t* rank) const {
  const uint32_t first = first_of_node(node);
  if (local_rank >= size() - first) return false;
  const uint32_t found = by_node_[first + local_rank];
  if (node_of_rank_[found] != node) return false;
  *rank = found;
  return true;
}

}  // namespace torii
