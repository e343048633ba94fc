// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The two ordered queues of matching, both O(1) in their length:
//   MatchList     entries with wildcards (posted receives, match entries), searched with the
//                 exact source and bits of an arriving message;
//   ArrivalList   messages with exact source and bits that nobody has matched yet, searched
//                 with the wildcards of a new receive.
// The first entry in list order that matches and is accepted wins, as Portals and MPI demand.
//
// A search walks along the list first: most messages match one of the first entries, however many
// there are. The first search that has to walk further than kWalk entries indexes the queue by
// hash: entries with the same wildcard shape and the same remaining key form a group in list order;
// a search probes one group per shape and takes the earliest candidate. The index is given up when
// the queue is empty. The nodes are intrusive and owned by the caller; nothing is allocated for
// queues that were never indexed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace torii {

// Membership of an entry in a hash group. One cache line; nothing is set before insertion.
struct GroupLink {
  GroupLink* next;        // in the group, by order
  GroupLink* prev;        // the leader's: the last of the group
  GroupLink* slot_next;   // group leaders of one hash slot
  GroupLink** slot_back;  // what points to this leader; null: no leader
  uint64_t source;        // key, masked by the shape
  uint64_t bits;
  uint64_t order;
  uint32_t shape;
};
static_assert(sizeof(GroupLink) == 64);

// Groups of links by (shape, source, bits); grows by doubling.
class GroupTable {
 public:
  void insert(GroupLink* link);
  void remove(GroupLink* link);
  GroupLink* find(uint32_t shape, uint64_t source, uint64_t bits) const;  // leader or null
  void clear();  // forgets all links without touching them

 private:
  GroupLink** slot(uint32_t shape, uint64_t source, uint64_t bits) const;
  void grow();
  static void add_leader(GroupLink** slot, GroupLink* link);
  static void replace_leader(GroupLink* old, GroupLink* link);

  std::unique_ptr<GroupLink*[]> slots_;
  size_t slot_count_ = 0;  // a power of two
  unsigned shift_ = 0;     // leaves that many slots of a 64-bit hash
  size_t links_ = 0;
};

// An entry of a MatchList; the caller sets the first four fields. Bits set in an ignore mask are
// wildcards.
struct MatchNode {
  uint64_t source;
  uint64_t source_ignore;
  uint64_t bits;
  uint64_t ignore;

  MatchNode* prev;  // list
  MatchNode* next;
  GroupLink link;  // link.order is the order label; nothing is set while the list is not indexed

  bool matches(uint64_t from, uint64_t with) const {
    return ((bits ^ with) & ~ignore) == 0 && ((source ^ from) & ~source_ignore) == 0;
  }
};

class MatchList {
 public:
  static constexpr unsigned kWalk = 16;        // entries looked at before there is an index
  static constexpr unsigned kWalkIndexed = 2;  // and with one
  static constexpr uint32_t kShapes = 16;

  MatchNode* first() const { return head_; }
  size_t size() const { return size_; }

  void append(MatchNode* node) { insert(node, tail_, nullptr); }
  void prepend(MatchNode* node) { insert(node, nullptr, head_); }
  void insert_before(MatchNode* base, MatchNode* node) { insert(node, base->prev, base); }
  void insert_after(MatchNode* base, MatchNode* node) { insert(node, base, base->next); }
  void remove(MatchNode* node) {
    (node->prev ? node->prev->next : head_) = node->next;
    (node->next ? node->next->prev : tail_) = node->prev;
    unlinked(node);
  }
  // The same for the first of all.
  void remove_first() {
    MatchNode* const node = head_;
    head_ = node->next;
    (head_ ? head_->prev : tail_) = nullptr;
    unlinked(node);
  }

  // The first node in list order with matches(source, bits).
  MatchNode* find(uint64_t source, uint64_t bits);
  // The same if it is the first of all, which most are; else null.
  MatchNode* find_first(uint64_t source, uint64_t bits) const {
    return head_ && head_->matches(source, bits) ? head_ : nullptr;
  }
  // The first node in list order with matches(source, bits) and accept(node).
  template <typename Accept>
  MatchNode* find(uint64_t source, uint64_t bits, Accept accept) {
    unsigned left = __builtin_expect(indexed_, 0) ? kWalkIndexed : kWalk;
    MatchNode* n = head_;
    for (; n && left > 0; n = n->next, --left)
      if (n->matches(source, bits) && accept(n)) return n;
    if (!n) return nullptr;
    if (!indexed_ && !too_many_shapes_) build_index();
    if (indexed_) return find_indexed(source, bits, accept);
    for (; n; n = n->next)
      if (n->matches(source, bits) && accept(n)) return n;
    return nullptr;
  }

 private:
  struct Shape {
    uint64_t source_ignore = 0;
    uint64_t ignore = 0;
    size_t members = 0;
  };

  template <typename Accept>
  MatchNode* find_indexed(uint64_t source, uint64_t bits, Accept accept) const {
    MatchNode* best = nullptr;
    for (uint32_t s = 0; s < shape_count_; ++s) {
      const Shape& shape = shapes_[s];
      if (shape.members == 0) continue;
      GroupLink* link = groups_.find(s, source & ~shape.source_ignore, bits & ~shape.ignore);
      for (; link; link = link->next) {
        if (best && link->order > best->link.order) break;
        MatchNode* node = node_of(link);
        if (accept(node)) {
          best = node;
          break;
        }
      }
    }
    return best;
  }

  static MatchNode* node_of(GroupLink* link) {
    return reinterpret_cast<MatchNode*>(reinterpret_cast<std::byte*>(link) -
                                        offsetof(MatchNode, link));
  }
  void insert(MatchNode* node, MatchNode* before, MatchNode* after) {
    node->prev = before;
    node->next = after;
    (before ? before->next : head_) = node;
    (after ? after->prev : tail_) = node;
    ++size_;
    if (__builtin_expect(indexed_, 0)) inserted(node);
  }
  void unlinked(MatchNode* node) {
    --size_;
    if (__builtin_expect(indexed_ || too_many_shapes_, 0)) removed(node);
  }
  void inserted(MatchNode* node);
  void removed(MatchNode* node);
  void label(MatchNode* node);
  void spread_labels();
  void index(MatchNode* node);
  void unindex();
  void build_index();

  MatchNode* head_ = nullptr;
  MatchNode* tail_ = nullptr;
  size_t size_ = 0;
  bool indexed_ = false;
  bool too_many_shapes_ = false;
  uint32_t shape_count_ = 0;
  Shape shapes_[kShapes];
  GroupTable groups_;
};

// A message waiting in an ArrivalList.
struct ArrivalNode {
  static constexpr uint32_t kShapes = 4;
  uint64_t source;  // these two are set by the caller
  uint64_t bits;
  uint64_t order;
  ArrivalNode* prev;
  ArrivalNode* next;
  GroupLink links[kShapes];
};

class ArrivalList {
 public:
  static constexpr unsigned kWalk = 16;  // as in MatchList
  static constexpr unsigned kWalkIndexed = 2;

  ArrivalNode* first() const { return head_; }
  size_t size() const { return size_; }
  void append(ArrivalNode* node) {
    node->order = next_order_++;
    node->next = nullptr;
    node->prev = tail_;
    (tail_ ? tail_->next : head_) = node;
    tail_ = node;
    ++size_;
    for (uint32_t s = 0; s < shape_count_; ++s) index(node, s);
  }
  void remove(ArrivalNode* node) {
    (node->prev ? node->prev->next : head_) = node->next;
    (node->next ? node->next->prev : tail_) = node->prev;
    --size_;
    if (__builtin_expect(shape_count_ != 0, 0)) remove_from_index(node);
  }
  // The earliest message with equal source and bits outside the ignore masks, or null.
  ArrivalNode* find(uint64_t source, uint64_t source_ignore, uint64_t bits, uint64_t ignore);

 private:
  struct Shape {
    uint64_t source_ignore = 0;
    uint64_t ignore = 0;
  };

  void remove_from_index(ArrivalNode* node);
  void index(ArrivalNode* node, uint32_t shape);
  int shape_for(uint64_t source_ignore, uint64_t ignore);
  static ArrivalNode* walk(ArrivalNode* from, size_t most, uint64_t source, uint64_t source_ignore,
                           uint64_t bits, uint64_t ignore, ArrivalNode** rest);

  ArrivalNode* head_ = nullptr;
  ArrivalNode* tail_ = nullptr;
  size_t size_ = 0;
  uint64_t next_order_ = 1;
  uint32_t shape_count_ = 0;  // shapes indexed now
  Shape shapes_[ArrivalNode::kShapes];
  GroupTable groups_;
};

}  // namespace torii
