// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which process of the job runs where: rank -> (node, local rank) and back, in eight bytes per
// rank. The local rank is the position among the ranks of the node in ascending order, so every
// process computes the same map from the same list of nodes, whatever the launcher.
#pragma once

#include <cstdint>
#include <vector>

namespace torii {

class ProcessMap {
 public:
  // node_of_rank[r] is the node of rank r; node numbers need not be dense.
  explicit ProcessMap(std::vector<uint32_t> node_of_rank);

  uint32_t size() const { return static_cast<uint32_t>(node_of_rank_.size()); }
  // `rank` must be below size().
  uint32_t node(uint32_t rank) const { return node_of_rank_[rank]; }
  uint32_t local_rank(uint32_t rank) const;
  // Processes on a node; 0 for a node without any.
  uint32_t local_size(uint32_t node) const;
  // The rank at (node, local_rank); false if there is none.
  bool rank_at(uint32_t node, uint32_t local_rank, uint32_t* rank) const;

 private:
  uint32_t first_of_node(uint32_t node) const;  // index into by_node_

  std::vector<uint32_t> node_of_rank_;
  std::vector<uint32_t> by_node_;  // all ranks, sorted by (node, rank)
};

}  // namespace torii
