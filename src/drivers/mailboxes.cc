// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/mailboxes.h"

#include <algorithm>
#include <utility>

namespace torii {
namespace {

constexpr uint32_t kRing = ~0u;  // beside the entries of a cell

// Has the first one the mailbox that the second one had before?
bool replaces(nic::Name later, nic::Name earlier) {
  return Mailboxes::mailbox_of(later) == Mailboxes::mailbox_of(earlier) &&
         static_cast<int16_t>((later >> 16) - (earlier >> 16)) > 0;
}

}  // namespace

Mailboxes::Mailboxes(StoringCard& card, nic::Card& host, Receive receive)
    : card_(card),
      host_(host),
      own_(host.info().name),
      liveness_(host.liveness()),
      receive_(std::move(receive)) {
  for (uint32_t i = 0; i < kPooled; i++) pool_.push_back(kPooled - 1 - i);
}

// --- other processes -------------------------------------------------------------------------

Mailboxes::Mate* Mailboxes::find(nic::Name name) {
  const auto it = mates_.find(name);
  return it == mates_.end() ? nullptr : &it->second;
}

Mailboxes::Mate* Mailboxes::meet(nic::Name name) {
  if (Mate* const mate = find(name)) return mate;
  if (nic::endpoint_of(name) >= kEndpoints || !card_.allow(name)) return nullptr;
  for (const auto& [other, mate] : mates_) replaced_ |= replaces(name, other);
  Mate& mate = mates_[name];
  mate.name = name;
  mate.in = MailReader(at(mailbox_of(name)), name, own_);
  return &mate;
}

bool Mailboxes::has_successor(nic::Name name) const {
  return std::any_of(mates_.begin(), mates_.end(),
                     [&](const auto& other) { return replaces(other.first, name); });
}

// Nobody is being served now.
void Mailboxes::forget_replaced() {
  if (!std::exchange(replaced_, false)) return;
  std::erase_if(mates_, [&](const auto& entry) { return has_successor(entry.first); });
}

// Somebody may have sent the first frame.
void Mailboxes::look_around() {
  const uint32_t bell = __atomic_load_n(reinterpret_cast<uint32_t*>(at(kBell)), __ATOMIC_ACQUIRE);
  if (bell == bell_) return;
  bell_ = bell;
  for (uint32_t i = 0; i < 2 * liveness_.endpoints(); i++) {
    const uint32_t mailbox = kMail + i * kMailboxBytes;
    const nic::Name name = MailReader::sender(at(mailbox), own_);
    if (name != nic::kNobody && mailbox_of(name) == mailbox && !has_successor(name) &&
        liveness_.life(name) != nic::Life::never)
      meet(name);
  }
}

// The count in an entry of that process's cell here; 0: it has told none.
uint32_t Mailboxes::told(nic::Name name, uint32_t entry) const {
  const uint32_t cell = kCells + nic::endpoint_of(name) * kCellBytes;
  const uint64_t said =
      __atomic_load_n(reinterpret_cast<uint64_t*>(at(cell + entry * 8)), __ATOMIC_ACQUIRE);
  return static_cast<nic::Name>(said) == name ? static_cast<uint32_t>(said >> 32) : 0;
}

void Mailboxes::tell(Mate& mate, uint32_t entry) {
  if (std::find(mate.untold.begin(), mate.untold.end(), entry) == mate.untold.end())
    mate.untold.push_back(entry);
}

void Mailboxes::tell_all(Mate& mate) {
  // Another process may have its endpoint.
  if (liveness_.life(mate.name) != nic::Life::there) mate.untold.clear();
  while (!mate.untold.empty() && tell_entry(mate, mate.untold.front()))
    mate.untold.erase(mate.untold.begin());
}

// False: there is no room now.
bool Mailboxes::tell_entry(Mate& mate, uint32_t entry) {
  std::byte* const buffer = card_.buffer();
  if (!buffer) return false;
  uint32_t words[2] = {own_, 0};
  if (entry == kRing) {
    words[0] = own_ << 16 | (++rings_ & 0xffff);  // another value than before
    std::memcpy(buffer, words, 4);
    return card_.store(mate.name, kBell, 0, 4);
  }
  if (entry == 0) {
    words[1] = mate.in.consumed();
  } else if (const auto it = mate.groups.find(entry - 1); it != mate.groups.end()) {
    words[1] = 1 + it->second.consumed();
  }
  std::memcpy(buffer, words, sizeof(words));
  const uint32_t cell = kCells + nic::endpoint_of(own_) * kCellBytes;
  return card_.store(mate.name, cell + entry * 8, 0, sizeof(words));
}

// --- sending ---------------------------------------------------------------------------------

bool Mailboxes::has_room(nic::Name to) {
  Mate* const mate = meet(to);
  if (!mate) return false;
  mate->refused = !mate->out.has_room(told(to, 0));
  return !mate->refused && card_.buffer();
}

// Returns where in the buffer the frame begins.
uint32_t Mailboxes::fill(const MailWriter& out, uint32_t kind, nic::Name to,
                         std::span<const iovec> pieces, uint32_t bytes) {
  std::byte* const buffer = card_.buffer();
  const uint32_t begin = MailWriter::begin(bytes);
  std::byte* next = buffer + begin;
  for (const iovec& piece : pieces) {
    if (piece.iov_len) std::memcpy(next, piece.iov_base, piece.iov_len);
    next += piece.iov_len;
  }
  out.seal(buffer, {bytes, kind, numbers_ + 1, own_, to, 0});
  return begin;
}

bool Mailboxes::post(nic::Name to, uint32_t kind, std::span<const iovec> pieces, uint32_t bytes) {
  if (!has_room(to)) return false;
  Mate& mate = *find(to);
  const uint32_t begin = fill(mate.out, kind, to, pieces, bytes);
  const uint64_t address = mailbox_of(own_) + mate.out.slot() * kMailSlotBytes + begin;
  if (!card_.store(to, address, begin, kMailSlotBytes - begin)) return false;
  if (mate.out.sent() == 0) tell(mate, kRing);
  mate.out.advance();
  numbers_++;
  tell_all(mate);
  return true;
}

// --- receiving -------------------------------------------------------------------------------

// Frames of this process, to it alone and to groups, in the order in which it sent them.
unsigned Mailboxes::receive(Mate& mate, unsigned budget) {
  unsigned count = 0;
  while (count < budget) {
    MailReader* reader = &mate.in;
    const MailTrailer* head = reader->head();
    uint32_t entry = 0;
    for (auto& [group, frames] : mate.groups) {
      const MailTrailer* const other = frames.head();
      if (!other || (head && static_cast<int32_t>(other->number - head->number) > 0)) continue;
      reader = &frames;
      head = other;
      entry = 1 + group;
    }
    if (!head) break;
    count += receive_(mate.name, head->kind, reader->frame(*head));
    if (reader->consume()) tell(mate, entry);
  }
  return count;
}

unsigned Mailboxes::poll(unsigned budget) {
  unsigned count = 0;
  forget_replaced();
  look_around();
  update_groups();
  // All in turn, from where the last poll has ended.
  for (size_t left = mates_.size(); left > 0 && count < budget; left--) {
    auto it = mates_.upper_bound(turn_);
    if (it == mates_.end()) it = mates_.begin();
    turn_ = it->first;
    count += receive(it->second, budget - count);
    tell_all(it->second);
  }
  return count;
}

// Frames and credits that have come, and credits to be given if there is room for them.
bool Mailboxes::has_work() {
  const bool has_buffer = card_.buffer();
  return std::any_of(mates_.begin(), mates_.end(),
                     [&](auto& entry) {
                       Mate& mate = entry.second;
                       return (!mate.untold.empty() && has_buffer) || mate.in.head() ||
                              (mate.refused && mate.out.has_room(told(mate.name, 0))) ||
                              std::any_of(mate.groups.begin(), mate.groups.end(), [](auto& frames) {
                                return frames.second.head() != nullptr;
                              });
                     }) ||
         std::any_of(groups_.begin(), groups_.end(),
                     [&](auto& entry) { return entry.second.refused && is_ready(entry.second); });
}

}  // namespace torii
