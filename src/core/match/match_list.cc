// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/match/match_list.h"

#include <utility>

namespace torii {

namespace {

constexpr uint64_t kOrderStart = uint64_t{1} << 63;
constexpr uint64_t kOrderGap = uint64_t{1} << 32;
constexpr unsigned kFirstSlotsLog2 = 6;

bool same_key(const GroupLink* a, uint32_t shape, uint64_t source, uint64_t bits) {
  return a->shape == shape && a->source == source && a->bits == bits;
}

GroupLink* find_in(GroupLink* leader, uint32_t shape, uint64_t source, uint64_t bits) {
  while (leader && !same_key(leader, shape, source, bits)) leader = leader->slot_next;
  return leader;
}

}  // namespace

// Multiplicative hashing: the best bits of the product are the highest. Tags and sources differ
// in low bits, in bit 32 and above, or both.
GroupLink** GroupTable::slot(uint32_t shape, uint64_t source, uint64_t bits) const {
  uint64_t x = bits + (source + shape) * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 32;
  return &slots_[(x * 0x9e3779b97f4a7c15ull) >> shift_];
}

GroupLink* GroupTable::find(uint32_t shape, uint64_t source, uint64_t bits) const {
  if (slot_count_ == 0) return nullptr;
  return find_in(*slot(shape, source, bits), shape, source, bits);
}

void GroupTable::add_leader(GroupLink** slot, GroupLink* link) {
  link->slot_next = *slot;
  link->slot_back = slot;
  if (*slot) (*slot)->slot_back = &link->slot_next;
  *slot = link;
}

void GroupTable::replace_leader(GroupLink* old, GroupLink* link) {
  link->slot_next = old->slot_next;
  link->slot_back = old->slot_back;
  *link->slot_back = link;
  if (link->slot_next) link->slot_next->slot_back = &link->slot_next;
  old->slot_back = nullptr;
}

void GroupTable::insert(GroupLink* link) {
  if (links_ >= slot_count_) grow();
  ++links_;
  link->next = nullptr;
  GroupLink** const head = slot(link->shape, link->source, link->bits);
  GroupLink* const leader = find_in(*head, link->shape, link->source, link->bits);
  if (!leader) {
    link->prev = link;
    return add_leader(head, link);
  }
  link->slot_back = nullptr;
  GroupLink* before = leader->prev;
  if (before->order < link->order) {  // the usual place
    link->prev = before;
    before->next = link;
    leader->prev = link;
    return;
  }
  while (before != leader && before->order > link->order) before = before->prev;
  if (before->order > link->order) {
    link->next = leader;
    link->prev = leader->prev;
    replace_leader(leader, link);
    leader->prev = link;
    return;
  }
  link->next = before->next;
  link->prev = before;
  before->next->prev = link;
  before->next = link;
}

void GroupTable::remove(GroupLink* link) {
  --links_;
  GroupLink* const after = link->next;
  if (link->slot_back) {
    if (after) {
      after->prev = link->prev;
      return replace_leader(link, after);
    }
    *link->slot_back = link->slot_next;
    if (link->slot_next) link->slot_next->slot_back = link->slot_back;
    return;
  }
  link->prev->next = after;
  if (!after) {  // it was the last of its group
    find(link->shape, link->source, link->bits)->prev = link->prev;
  } else {
    after->prev = link->prev;
  }
}

void GroupTable::grow() {
  const size_t old_count = slot_count_;
  std::unique_ptr<GroupLink*[]> old = std::move(slots_);
  shift_ = old_count ? shift_ - 1 : 64 - kFirstSlotsLog2;
  slot_count_ = size_t{1} << (64 - shift_);
  slots_ = std::make_unique<GroupLink*[]>(slot_count_);
  for (size_t i = 0; i < old_count; ++i) {
    for (GroupLink* leader = old[i]; leader;) {
      GroupLink* following = leader->slot_next;
      add_leader(slot(leader->shape, leader->source, leader->bits), leader);
      leader = following;
    }
  }
}

void GroupTable::clear() {
  if (links_ == 0) return;
  for (size_t i = 0; i < slot_count_; ++i) slots_[i] = nullptr;
  links_ = 0;
}

[[gnu::hot]] MatchNode* MatchList::find(uint64_t source, uint64_t bits) {
  return find(source, bits, [](MatchNode*) { return true; });
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
    spread_labels();  // none is left between the neighbours
  }
}

void MatchList::spread_labels() {
  uint64_t next = kOrderStart - size_ / 2 * kOrderGap;
  for (MatchNode* n = head_; n; n = n->next, next += kOrderGap) n->link.order = next;
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
  spread_labels();
  for (MatchNode* n = head_; n && indexed_; n = n->next) index(n);
}

void MatchList::inserted(MatchNode* node) {
  label(node);
  index(node);
}

void MatchList::removed(MatchNode* node) {
  if (indexed_) {
    groups_.remove(&node->link);
    --shapes_[node->link.shape].members;
  }
  if (size_ == 0) {
    unindex();
    too_many_shapes_ = false;
  }
}

void ArrivalList::remove_from_index(ArrivalNode* node) {
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

// The first match among `most` messages; *rest is the one behind the last looked at.
ArrivalNode* ArrivalList::walk(ArrivalNode* from, size_t most, uint64_t source,
                               uint64_t source_ignore, uint64_t bits, uint64_t ignore,
                               ArrivalNode** rest) {
  ArrivalNode* n = from;
  for (; n && most > 0; n = n->next, --most)
    if (((n->source ^ source) & ~source_ignore) == 0 && ((n->bits ^ bits) & ~ignore) == 0) return n;
  *rest = n;
  return nullptr;
}

[[gnu::hot]] ArrivalNode* ArrivalList::find(uint64_t source, uint64_t source_ignore, uint64_t bits,
                                            uint64_t ignore) {
  ArrivalNode* rest = nullptr;
  ArrivalNode* found =
      walk(head_, shape_count_ ? kWalkIndexed : kWalk, source, source_ignore, bits, ignore, &rest);
  if (found || !rest) return found;
  const int shape = shape_for(source_ignore, ignore);
  if (shape < 0) return walk(rest, size_, source, source_ignore, bits, ignore, &rest);
  GroupLink* link = groups_.find(uint32_t(shape), source & ~source_ignore, bits & ~ignore);
  if (!link) return nullptr;
  auto* first = reinterpret_cast<std::byte*>(link - shape);
  return reinterpret_cast<ArrivalNode*>(first - offsetof(ArrivalNode, links));
}

}  // namespace torii
