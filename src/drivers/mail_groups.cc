// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Groups: one store for all, which the network replicates. A sender has a mailbox in each member;
// it goes on when the slowest member has room.
#include <algorithm>
#include <utility>

#include "drivers/mailboxes.h"

namespace torii {
namespace {

// The address of that sender's mailboxes in the members of the group.
uint64_t address_of(uint32_t group, nic::Name sender) {
  const uint32_t place = 2 * nic::endpoint_of(sender) + (sender >> 16) % 2;
  return (uint64_t{group} * 2 * Mailboxes::kEndpoints + place) * kMailboxBytes;
}

}  // namespace

Status Mailboxes::join(std::span<const std::byte> name, uint32_t* number) {
  if (name.empty() || name.size() > 16) return Status::invalid;
  if (const Status status = card_.join_group(name, number); status != Status::ok) return status;
  if (*number >= kGroups) {
    card_.leave_group(*number);
    return Status::no_memory;
  }
  Group& group = groups_[*number];
  group.number = *number;
  update(group);
  return Status::ok;
}

void Mailboxes::leave(uint32_t number) {
  const auto it = groups_.find(number);
  if (it == groups_.end()) return;
  card_.leave_group(number);
  const Group group = std::move(it->second);
  groups_.erase(it);
  for (const auto& [name, member] : group.members) {
    forget(number, name, member);
    if (Mate* const mate = find(name)) tell(*mate, 1 + number);
  }
}

void Mailboxes::update_groups() {
  const uint32_t changes = liveness_.changes();
  if (changes == groups_seen_) return;
  groups_seen_ = changes;
  for (auto& [number, group] : groups_)
    if (!update(group)) groups_seen_ = ~changes;
}

// Makes a mailbox for each new member. False: it is to be tried again.
bool Mailboxes::update(Group& group) {
  bool all = true;
  const std::vector<nic::Name> names = card_.members(group.number);
  for (auto it = group.members.begin(); it != group.members.end();) {
    const auto [name, member] = *it;
    Mate* const mate = find(name);
    const bool is_read = !mate || !mate->groups[group.number].head();
    if (std::find(names.begin(), names.end(), name) != names.end() || !is_read) {
      all &= is_read;
      ++it;
      continue;
    }
    it = group.members.erase(it);
    forget(group.number, name, member);
  }
  for (const nic::Name name : names) {
    if (name == own_ || group.members.count(name)) continue;
    Mate* const mate = pool_.empty() ? nullptr : meet(name);
    if (!mate) {
      all = false;
      continue;
    }
    const uint32_t chunk = pool_.back();
    const uint32_t offset = kPool + chunk * kMailboxBytes;
    pool_.pop_back();
    mate->groups[group.number] = MailReader::late(at(offset), name, nic::kNobody);
    all &= card_.map_group(address_of(group.number, name), offset);
    group.members[name] = {false, 0, chunk};
    tell(*mate, 1 + group.number);
  }
  return all;
}

void Mailboxes::forget(uint32_t group, nic::Name name, const Member& member) {
  card_.map_group(address_of(group, name), StoringCard::kNowhere);
  if (Mate* const mate = find(name)) mate->groups.erase(group);
  pool_.insert(pool_.begin(), member.chunk);  // the card may still be writing there
}

// Does every member have a mailbox with room for the next frame?
bool Mailboxes::is_ready(Group& group) {
  if (groups_seen_ != liveness_.changes()) return false;
  for (auto& [name, member] : group.members) {
    const uint32_t word = told(name, 1 + group.number);
    if (word == 0) return false;
    if (!std::exchange(member.ready, true)) member.base = group.out.sent() - (word - 1);
    if (!group.out.has_room(member.base + word - 1)) return false;
  }
  return true;
}

bool Mailboxes::post_to_group(uint32_t number, uint32_t kind, std::span<const iovec> pieces,
                              uint32_t bytes) {
  Group& group = groups_[number];
  group.refused = !is_ready(group);
  if (group.refused) return false;
  if (group.members.empty()) return true;
  if (!card_.buffer()) return false;
  const uint32_t begin = fill(group.out, kind, nic::kNobody, pieces, bytes);
  const uint64_t address = address_of(number, own_) + group.out.slot() * kMailSlotBytes + begin;
  if (!card_.store_to_group(number, address, begin, kMailSlotBytes - begin)) return false;
  group.out.advance();
  numbers_++;
  return true;
}

}  // namespace torii
