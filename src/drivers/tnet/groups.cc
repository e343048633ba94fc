// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Groups: one packet for all, which the switches replicate and the cards store by their index
// table. A sender has a mailbox in each member; it goes on when the slowest member has room.
#include <algorithm>

#include "drivers/tnet/driver.h"

namespace torii {

using namespace nic::tnet;

// The index of the first page of this sender's mailbox in each member.
uint64_t TnetDriver::index_of(const Group& group, nic::Name sender) const {
  constexpr uint32_t kPagesEach = kMailboxBytes / kPageBytes;
  return (uint64_t{group.number} * TnetLayout::kEndpoints + nic::endpoint_of(sender)) * kPagesEach;
}

Status TnetDriver::join(std::span<const std::byte> name, PeerId* peer) {
  if (name.empty() || name.size() > 16) return Status::invalid;
  nic::Control in{kJoin, {0, 0, name.size()}}, out;
  std::memcpy(in.words.data(), name.data(), name.size());
  if (const Status status = card_->control(in, &out); status != Status::ok) return status;
  const auto number = static_cast<uint32_t>(out.words[0]);
  *peer = number < TnetCell::kGroups ? peers_.add_group(number) : kNoPeer;
  if (*peer == kNoPeer) {
    in = {kLeave, {number}};
    static_cast<void>(card_->control(in, &out));
    return Status::no_memory;
  }
  groups_[*peer] = {number, static_cast<uint32_t>(out.words[1]), {}, {}};
  update(groups_[*peer]);
  return Status::ok;
}

void TnetDriver::leave(PeerId peer) {
  Group& group = groups_[peer];
  const uint32_t number = group.number;
  nic::Control in{kLeave, {number}};
  static_cast<void>(card_->control(in, &in));
  const auto members = std::exchange(group.members, {});
  for (const auto& [name, member] : members) forget(group, name, member);
  groups_.erase(peer);
  for (const auto& [name, member] : members)
    if (Mate* const mate = find(name)) tell(*mate, 8 + number);
  peers_.forget(peer);
}

// What this process tells the mate of its membership.
uint32_t TnetDriver::group_word(const Mate& mate, uint32_t number) const {
  for (const auto& [group, frames] : mate.groups)
    if (group->number == number) return 1 + frames.consumed();
  return 0;
}

void TnetDriver::update_groups() {
  const uint32_t changes = card_->liveness().changes();
  if (changes == groups_seen_) return;
  groups_seen_ = changes;
  for (auto& [peer, group] : groups_)
    if (!update(group)) groups_seen_ = ~changes;
}

// Makes a mailbox for each new member. False: it is to be tried again.
bool TnetDriver::update(Group& group) {
  bool all = true;
  std::vector<nic::Name> names;
  for (uint64_t i = 0;; i++) {
    nic::Control in{kMember, {group.number, i}}, out;
    if (card_->control(in, &out) != Status::ok || out.words[0] == nic::kNobody) break;
    names.push_back(static_cast<nic::Name>(out.words[0]));
  }
  for (auto it = group.members.begin(); it != group.members.end();) {
    const auto [name, member] = *it;
    Mate* const mate = find(name);
    const bool is_read = !mate || !mate->groups[&group].head();
    if (std::find(names.begin(), names.end(), name) != names.end() || !is_read) {
      all &= is_read;
      ++it;
      continue;
    }
    it = group.members.erase(it);
    forget(group, name, member);
  }
  for (const nic::Name name : names) {
    if (name == info_.name || group.members.count(name)) continue;
    Mate* const mate = pool_.empty() ? nullptr : meet(name);
    if (!mate) {
      all = false;
      continue;
    }
    const uint32_t chunk = pool_.back();
    const uint32_t offset = TnetLayout::kPool + chunk * kMailboxBytes;
    pool_.pop_back();
    mate->groups[&group] = MailReader(at(offset), true);
    for (uint32_t page = 0; page < kMailboxBytes / kPageBytes; page++) {
      nic::Control in{
          kMapIndex,
          {index_of(group, name) + page, info_.shared_address + offset + page * kPageBytes}};
      all &= card_->control(in, &in) == Status::ok;
    }
    group.members[name] = {false, 0, chunk};
    tell(*mate, 8 + group.number);
  }
  return all;
}

void TnetDriver::forget(Group& group, nic::Name name, const Member& member) {
  for (uint32_t page = 0; page < kMailboxBytes / kPageBytes; page++) {
    nic::Control in{kUnmapIndex, {index_of(group, name) + page}};
    static_cast<void>(card_->control(in, &in));
  }
  if (Mate* const mate = find(name)) mate->groups.erase(&group);
  pool_.insert(pool_.begin(), member.chunk);  // the card may still be writing there
}

// Does every member have a mailbox with room for the next frame?
bool TnetDriver::is_ready(Group& group) {
  if (groups_seen_ != card_->liveness().changes()) return false;
  for (auto& [name, member] : group.members) {
    const uint32_t word = cell(name).groups[group.number];
    if (cell(name).name != name || word == 0) return false;
    if (!std::exchange(member.ready, true)) member.base = group.out.sent() - (word - 1);
    if (!group.out.has_room(member.base + word - 1)) return false;
  }
  return true;
}

bool TnetDriver::post_to_group(Group& group, std::span<const iovec> pieces, uint32_t bytes) {
  if (!is_ready(group) || !has_room()) return false;
  if (group.members.empty()) return true;
  return post(group.out, kFrame, pieces, bytes, group.destination | kToGroup | kTableMapped,
              index_of(group, info_.name) * kPageBytes, 0);
}

}  // namespace torii
