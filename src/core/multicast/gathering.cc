// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/gathering.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace torii::multicast {

Gathering::Gathering(Outgoing& outgoing, Silence& silence, uint64_t seed)
    : outgoing_(outgoing),
      silence_(silence),
      tree_(outgoing.nodes(), outgoing.self(), kTreeArity),
      sources_(flat() ? outgoing.nodes() : 1 + tree_.children()),
      random_(seed),
      memory_(2 * (sources_ + 1) * kSmallMax) {}

std::byte* Gathering::part(const Slot& slot, uint32_t source) {
  const auto index = static_cast<size_t>(&slot - slots_);
  return memory_.data() + (index * (sources_ + 1) + source) * kSmallMax;
}

const std::byte* Gathering::result_of(const Slot& slot) const {
  const auto index = static_cast<size_t>(&slot - slots_);
  return memory_.data() + (index * (sources_ + 1) + sources_) * kSmallMax;
}

std::span<const std::byte> Gathering::result() const {
  const Slot& slot = slots_[op_ % 2];
  return {result_of(slot), slot.bytes};
}

// The slot of an operation that may be known here: the last one begun, the one before, or the next
// one. A node in the next one has seen that all are in the last one, so the one before is over.
Gathering::Slot* Gathering::slot_of(uint32_t op) {
  Slot& slot = slots_[op % 2];
  if (slot.used && slot.op == op) return &slot;
  if (op != op_ + 1) return nullptr;
  slot = {};
  slot.op = op;
  slot.used = true;
  return &slot;
}

// False: it is not what this node has called, or another one has.
bool Gathering::accept(Slot* slot, const Header& header, size_t bytes) {
  if (!slot->known) {
    slot->known = true;
    slot->check = header.check;
    slot->bytes = static_cast<uint32_t>(bytes);
  }
  if (slot->check == header.check && slot->bytes == bytes) return true;
  if (slot->op == op_ || slot->op == op_ + 1) mismatch_ = true;
  return false;
}

Header Gathering::header_of(const Slot& slot, Kind kind) const {
  Header header;
  header.kind = kind;
  header.op = slot.op;
  header.check = slot.check;
  return header;
}

void Gathering::begin(uint32_t check, std::span<const std::byte> in, const Reduction& reduction,
                      uint64_t now) {
  Slot* const slot = slot_of(op_ + 1);
  op_++;
  complete_ = false;
  reduction_ = reduction;
  attempts_ = 0;
  repeat_at_ = now + repeat_ns();
  Header header;
  header.check = check;
  if (!accept(slot, header, in.size())) return;
  if (!in.empty()) std::memcpy(part(*slot, own_source()), in.data(), in.size());
  slot->parts |= 1u << own_source();
  if (flat()) owe(Owed::part, now);
  advance(slot, now);
}

// To be sent now, or when the channel has room.
void Gathering::owe(Owed what, uint64_t now) {
  owed_ = what;
  owed_op_ = op_;
  if (!pay()) repeat_at_ = now + kRefusedNs;
}

bool Gathering::pay() {
  const Slot& slot = slots_[owed_op_ % 2];
  bool paid = true;
  switch (owed_) {
    case Owed::nothing:
      break;
    case Owed::part: {
      Header mine = header_of(slot, Kind::contribution);
      mine.arg = outgoing_.self();
      paid = outgoing_.to_all(mine, {part(slot, mine.arg), slot.bytes});
      break;
    }
    case Owed::subtree:
      paid = send_contribution(slot, tree_.parent(), outgoing_.self(), 0);
      break;
    case Owed::result:
      paid = outgoing_.to_all(header_of(slot, Kind::result), {result_of(slot), slot.bytes});
      break;
  }
  if (paid) owed_ = Owed::nothing;
  return paid;
}

// Something has come for it.
void Gathering::advance(Slot* slot, uint64_t now) {
  if (slot->op != op_ || complete_ || mismatch_) return;
  const bool had_result = slot->has_result;
  if (!had_result) {
    if (slot->parts != all_parts()) return;
    fold(slot);
    if (!flat() && outgoing_.self() != 0) return owe(Owed::subtree, now);
    slot->has_result = true;
  }
  complete_ = true;
  // A part that is still owed is tried again.
  if (owed_ == Owed::nothing) repeat_at_ = UINT64_MAX;
  if (!flat() && !had_result) owe(Owed::result, now);
}

// The parts become one, from the last to the first, where the result is kept.
void Gathering::fold(Slot* slot) {
  if (!slot->bytes) return;
  std::byte* const to = part(*slot, sources_);
  std::memcpy(to, part(*slot, sources_ - 1), slot->bytes);
  for (uint32_t i = sources_ - 1; i-- > 0;)
    reduction_.combine(reduction_.context, part(*slot, i), to, slot->bytes);
}

// Sends what all nodes up to `owner`'s subtree have contributed, or what `owner` has.
bool Gathering::send_contribution(const Slot& slot, uint32_t node, uint32_t owner, uint16_t flags) {
  Header header = header_of(slot, Kind::contribution);
  header.flags = flags | kUnicast;
  header.arg = owner;
  const std::byte* const bytes = flat() ? part(slot, owner) : result_of(slot);
  return outgoing_.to_one(node, header, {bytes, slot.bytes});
}

void Gathering::send_result(const Slot& slot, uint32_t node) {
  Header header = header_of(slot, Kind::result);
  header.flags = kUnicast;
  outgoing_.to_one(node, header, {result_of(slot), slot.bytes});
}

void Gathering::on_contribution(uint32_t from, const Header& header,
                                std::span<const std::byte> payload, uint64_t now) {
  Slot* const slot = slot_of(header.op);
  if (!slot) return;
  if (slot->has_result && !flat()) {
    if (header.flags & kAsk) send_result(*slot, from);
    return;
  }
  uint32_t source = header.arg;
  if (!flat()) {
    source = 1 + tree_.index_of(header.arg);
    // Others hope that the result is here.
    if (source >= sources_ || header.arg != header.node) return;
  }
  if (source >= sources_ || !accept(slot, header, payload.size())) return;
  if (slot->parts >> source & 1) return;
  if (!payload.empty()) std::memcpy(part(*slot, source), payload.data(), payload.size());
  slot->parts |= 1u << source;
  if (flat() && header.flags & kUnicast) silence_.on_repair(source, header.node, now);
  advance(slot, now);
}

void Gathering::on_result(const Header& header, std::span<const std::byte> payload, uint64_t now) {
  Slot* const slot = slot_of(header.op);
  if (!slot || flat() || slot->op != op_ || slot->has_result) return;
  if (!accept(slot, header, payload.size())) return;
  if (!payload.empty()) std::memcpy(part(*slot, sources_), payload.data(), payload.size());
  slot->has_result = true;
  if (header.flags & kUnicast) silence_.on_repair(0, header.node, now);
  advance(slot, now);
}

void Gathering::on_missing(uint32_t from, const Header& header) {
  Slot* const slot = slot_of(header.op);
  if (!slot) return;
  if (!flat()) {
    if (header.arg == outgoing_.self() && slot->op == op_ && slot->parts == all_parts())
      send_contribution(*slot, tree_.parent(), header.arg, 0);
  } else if (header.arg < sources_ && slot->parts >> header.arg & 1) {
    send_contribution(*slot, from, header.arg, 0);
  }
}

uint32_t Gathering::anybody() {
  const uint32_t nodes = outgoing_.nodes();
  const auto node = static_cast<uint32_t>(random_.between(0, nodes - 2));
  return node + (node >= outgoing_.self());
}

// Asks for what is missing, those who owe it and others in turn. Flat: the parts of all nodes,
// which any node may have. In a tree: the first part of a child that is missing, or the result.
// Others may have the result while the parent computes, and know if the group has failed.
void Gathering::poll(uint64_t now) {
  if (now < repeat_at_) return;
  if (owed_ != Owed::nothing) {
    const uint64_t next = complete_ ? UINT64_MAX : now + repeat_ns();
    repeat_at_ = pay() ? next : now + kRefusedNs;
    return;
  }
  attempts_ = attempts_ < 10 ? attempts_ + 1 : 9;
  repeat_at_ = now + repeat_ns();
  const bool owners = attempts_ % 2;
  const Slot& slot = slots_[op_ % 2];
  if (mismatch_ || slot.op != op_) return;
  uint32_t missing = all_parts() & ~slot.parts;
  if (!flat() && !missing) {
    silence_.on_request(0);
    send_contribution(slot, owners ? tree_.parent() : anybody(), outgoing_.self(), kAsk);
    return;
  }
  if (!flat()) missing &= ~missing + 1;
  for (; missing; missing &= missing - 1) {
    const auto source = static_cast<uint32_t>(std::countr_zero(missing));
    Header header;
    header.kind = Kind::nack;
    header.flags = kPart;
    header.op = op_;
    header.arg = flat() ? source : tree_.child(source - 1);
    outgoing_.to_one(owners ? header.arg : anybody(), header);
    if (flat()) silence_.on_request(source);
  }
}

}  // namespace torii::multicast
