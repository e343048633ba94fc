// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/match/match_list.h"

namespace torii {

namespace {

constexpr uint64_t kOrderStart = uint64_t{1} << 63;
constexpr uint64_t kOrderGap = uint64_t{1} << 32;
constexpr size_t kFirstSlots = 64;

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

bool same_key(const GroupLink* a, uint32_t shape, uint64_t source, uint64_t bits) {
  return a->shape == shape && a->source == source && a->bits == bits;
}

}  // namespace

GroupLink** GroupTable::slot(uint32_t shape, uint64_t source, uint64_t bits) const {
  const uint64_t hash = mix(bits + mix(source + shape));
  return &slots_[hash & (slot_count_ - 1)];
}

GroupLink* GroupTable::find(uint32_t shape, uint64_t source, uint64_t bits) const {
  if (slot_count_ == 0) return nullptr;
  for (GroupLink* leader = *slot(shape, source, bits); leader; leader = leader->slot_next)
    if (same_key(leader, shape, source, bits)) return leader;
  return nullptr;
}

void GroupTable::add_leader(GroupLink* link) {
  GroupLink** head = slot(link->shape, link->source, link->bits);
  link->slot_prev = nullptr;
  link->slot_next = *head;
  if (*head) (*head)->slot_prev = link;
  *head = link;
}

void GroupTable::remove_leader(GroupLink* link) {
  if (link->slot_prev) {
    link->slot_prev->slot_next = link->slot_next;
  } else {
    *slot(link->shape, link->source, link->bits) = link->slot_next;
  }
  if (link->slot_next) link->slot_next->slot_prev = link->slot_prev;
}

void GroupTable::insert(GroupLink* link) {
  if (links_ >= slot_count_) grow();
  ++links_;
  link->next = link->prev = nullptr;
  GroupLink* leader = find(link->shape, link->source, link->bits);
  if (!leader) {
    link->tail = link;
    add_leader(link);
    return;
  }
  GroupLink* before = leader->tail;
  while (before && before->order > link->order) before = before->prev;
  if (before) {
    link->next = before->next;
    link->prev = before;
    before->next = link;
    if (link->next) {
      link->next->prev = link;
    } else {
      leader->tail = link;
    }
    return;
  }
  remove_leader(leader);
  link->next = leader;
  link->tail = leader->tail;
  leader->prev = link;
  add_leader(link);
}

void GroupTable::remove(GroupLink* link) {
  --links_;
  if (link->prev) {
    link->prev->next = link->next;
    if (link->next) {
      link->next->prev = link->prev;
    } else {
      find(link->shape, link->source, link->bits)->tail = link->prev;
    }
    return;
  }
  remove_leader(link);
  if (GroupLink* heir = link->next) {
    heir->prev = nullptr;
    heir->tail = link->tail;
    add_leader(heir);
  }
}

void GroupTable::grow() {
  const size_t old_count = slot_count_;
  std::unique_ptr<GroupLink*[]> old = std::move(slots_);
  slot_count_ = old_count ? old_count * 2 : kFirstSlots;
  slots_ = std::make_unique<GroupLink*[]>(slot_count_);
  for (size_t i = 0; i < old_count; ++i) {
    for (GroupLink* leader = old[i]; leader;) {
      GroupLink* following = leader->slot_next;
      add_leader(leader);
      leader = following;
    }
  }
}

void GroupTable::clear() {
  if (links_ == 0) return;
  for (size_t i = 0; i < slot_count_; ++i) slots_[i] = nullptr;
  links_ = 0;
}

void MatchList::label(MatchNode* node) {
  const MatchNode* before = node->prev;
  const MatchNode* after = node->next;
  uint64_t& order = node->link.order;
  if (!before && !after) {
    order = kOrderStart;
  } else if (!after && before->link.order <= ~uint64_t{0} - kOrderGap) {
    order = before->link.order + kOrderGap;
  } else if (!before && after->link.order >= kOrderGap) {
    order = after->link.order - kOrderGap;
  } else if (before && after && after->link.order - before->link.order >= 2) {
    order = before->link.order + (after->link.order - before->link.order) / 2;
  } else {
    // No label is left between the neighbours: spread all of them again, order unchanged.
    uint64_t next = kOrderStart - size_ / 2 * kOrderGap;
    for (MatchNode* n = head_; n; n = n->next, next += kOrderGap) n->link.order = next;
  }
}

void MatchList::index(MatchNode* node) {
  uint32_t s = 0;
  while (s < shape_count_ &&
         (shapes_[s].source_ignore != node->source_ignore || shapes_[s].ignore != node->ignore))
    ++s;
  if (s == shape_count_) {
    for (s = 0; s < shape_count_ && shapes_[s].members > 0;) ++s;  // reuse an empty shape
    if (s == kShapes) {
      unindex();
      too_many_shapes_ = true;
      return;
    }
    if (s == shape_count_) ++shape_count_;
    shapes_[s] = {node->source_ignore, node->ignore, 0};
  }
  ++shapes_[s].members;
  node->link.shape = s;
  node->link.source = node->source & ~node->source_ignore;
  node->link.bits = node->bits & ~node->ignore;
  groups_.insert(&node->link);
}

void MatchList::unindex() {
  groups_.clear();
  shape_count_ = 0;
  indexed_ = false;
}

void MatchList::build_index() {
  indexed_ = true;
  for (MatchNode* n = head_; n && indexed_; n = n->next) index(n);
}

void MatchList::insert(MatchNode* node, MatchNode* before, MatchNode* after) {
  node->prev = before;
  node->next = after;
  (before ? before->next : head_) = node;
  (after ? after->prev : tail_) = node;
  ++size_;
  label(node);
  if (indexed_) {
    index(node);
  } else if (size_ > kIndexAbove && !too_many_shapes_) {
    build_index();
  }
}

void MatchList::remove(MatchNode* node) {
  (node->prev ? node->prev->next : head_) = node->next;
  (node->next ? node->next->prev : tail_) = node->prev;
  --size_;
  if (indexed_) {
    groups_.remove(&node->link);
    --shapes_[node->link.shape].members;
  }
  if (size_ == 0) {
    unindex();
    too_many_shapes_ = false;
  }
}

void ArrivalList::append(ArrivalNode* node) {
  node->order = next_order_++;
  node->next = nullptr;
  node->prev = tail_;
  (tail_ ? tail_->next : head_) = node;
  tail_ = node;
  ++size_;
  for (uint32_t s = 0; s < shape_count_; ++s) index(node, s);
}

void ArrivalList::remove(ArrivalNode* node) {
  (node->prev ? node->prev->next : head_) = node->next;
  (node->next ? node->next->prev : tail_) = node->prev;
  --size_;
  for (uint32_t s = 0; s < shape_count_; ++s) groups_.remove(&node->links[s]);
  if (size_ == 0) shape_count_ = 0;
}

void ArrivalList::index(ArrivalNode* node, uint32_t shape) {
  GroupLink& link = node->links[shape];
  link.shape = shape;
  link.source = node->source & ~shapes_[shape].source_ignore;
  link.bits = node->bits & ~shapes_[shape].ignore;
  link.order = node->order;
  groups_.insert(&link);
}

// The index of a shape, built when it is first asked for; -1 when all places are taken.
int ArrivalList::shape_for(uint64_t source_ignore, uint64_t ignore) {
  for (uint32_t s = 0; s < shape_count_; ++s)
    if (shapes_[s].source_ignore == source_ignore && shapes_[s].ignore == ignore) return int(s);
  if (shape_count_ == ArrivalNode::kShapes) return -1;
  const uint32_t s = shape_count_++;
  shapes_[s] = {source_ignore, ignore};
  for (ArrivalNode* n = head_; n; n = n->next) index(n, s);
  return int(s);
}

ArrivalNode* ArrivalList::walk(uint64_t source, uint64_t source_ignore, uint64_t bits,
                               uint64_t ignore) const {
  for (ArrivalNode* n = head_; n; n = n->next)
    if (((n->source ^ source) & ~source_ignore) == 0 && ((n->bits ^ bits) & ~ignore) == 0) return n;
  return nullptr;
}

ArrivalNode* ArrivalList::find(uint64_t source, uint64_t source_ignore, uint64_t bits,
                               uint64_t ignore) {
  if (size_ <= kIndexAbove && shape_count_ == 0) return walk(source, source_ignore, bits, ignore);
  const int shape = shape_for(source_ignore, ignore);
  if (shape < 0) return walk(source, source_ignore, bits, ignore);
  GroupLink* link = groups_.find(uint32_t(shape), source & ~source_ignore, bits & ~ignore);
  if (!link) return nullptr;
  auto* first = reinterpret_cast<std::byte*>(link - shape);
  return reinterpret_cast<ArrivalNode*>(first - offsetof(ArrivalNode, links));
}

}  // namespace torii
