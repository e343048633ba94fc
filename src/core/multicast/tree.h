// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A tree of nodes 0 to n - 1 in which the nodes under each one follow it in order, so that results
// of subtrees can be combined in the order of nodes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torii::multicast {

// Children of a node, at most, in the tree under node 0.
inline constexpr uint32_t kTreeArity = 16;

class Tree {
 public:
  // The place of node `self`; node 0 is the root, and no node has more than `arity` children.
  Tree(uint32_t nodes, uint32_t self, uint32_t arity) : self_(self), end_(nodes) {
    uint32_t at = 0;
    while (at != self) {
      const uint32_t share = share_of(end_ - at - 1, arity);
      parent_ = at;
      at += 1 + (self - at - 1) / share * share;
      end_ = std::min(end_, at + share);
    }
    share_ = share_of(end_ - self - 1, arity);
  }

  // Node 0 has none, and says 0.
  uint32_t parent() const { return parent_; }
  uint32_t children() const { return share_ ? (end_ - self_ - 1 + share_ - 1) / share_ : 0; }
  uint32_t child(uint32_t index) const { return self_ + 1 + index * share_; }
  // The index of a child; children() for any other node.
  uint32_t index_of(uint32_t node) const {
    if (node <= self_ || node >= end_ || (node - self_ - 1) % share_) return children();
    return (node - self_ - 1) / share_;
  }

 private:
  static uint32_t share_of(uint32_t nodes, uint32_t arity) { return (nodes + arity - 1) / arity; }

  uint32_t self_;
  uint32_t end_;  // the first node behind the subtree
  uint32_t parent_ = 0;
  uint32_t share_ = 0;  // nodes under each child, and the child
};

}  // namespace torii::multicast
