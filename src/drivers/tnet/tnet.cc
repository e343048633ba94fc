// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/tnet/tnet.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "drivers/tnet/driver.h"

namespace torii {

using namespace nic::tnet;

namespace {

constexpr uint32_t kPioMax = 256;        // longer ones go by DMA
constexpr uint32_t kFrameInterrupt = 1;  // remote interrupt of all stores
constexpr uint32_t kRings = kFrameInterrupt << kInterruptShift;

}  // namespace

TnetDriver::TnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env)
    : card_(std::move(card)),
      memory_(card_->shared().data()),
      info_(card_->info()),
      sink_(*env.sink),
      peers_("tnet", *card_, TnetLayout::kEndpoints + TnetCell::kGroups),
      mates_(card_->liveness().endpoints()) {
  caps_.flags = kReliable | kPeerDown | kNeedsReg | kPut | kMulticast | kWait;
  caps_.mtu = kMailMax;
  caps_.inline_max = kMailMax - sizeof(PutHead);
  caps_.batch_max = 4;
  caps_.address_bytes = CardPeers::kAddressBytes;
  caps_.key_bytes = sizeof(Key);
  caps_.peers_max = TnetLayout::kEndpoints;
  caps_.remote_max = 1 << 20;
  local = true;
  for (uint32_t i = 0; i < TnetLayout::kPooled; i++) pool_.push_back(TnetLayout::kPooled - 1 - i);
  // Cells and bell.
  nic::Control in{kMapPages,
                  {1, TnetLayout::kBell / kPageBytes, info_.shared_address + kPageBytes}};
  static_cast<void>(card_->control(in, &in));
}

// --- other processes -------------------------------------------------------------------------

volatile TnetCell& TnetDriver::cell(nic::Name name) const {
  return reinterpret_cast<TnetCell*>(at(TnetLayout::kCells))[nic::endpoint_of(name)];
}

TnetDriver::Mate* TnetDriver::find(nic::Name name) const {
  const uint32_t endpoint = nic::endpoint_of(name);
  Mate* const mate = endpoint < mates_.size() ? mates_[endpoint].get() : nullptr;
  return mate && mate->name == name ? mate : nullptr;
}

// Gives it a mailbox here, and tells it so.
TnetDriver::Mate* TnetDriver::meet(nic::Name name) {
  if (Mate* const mate = find(name)) return mate;
  const uint32_t endpoint = nic::endpoint_of(name);
  const uint32_t mail = TnetLayout::kMail + endpoint * kMailboxBytes;
  nic::Control in{kMapPages,
                  {mail / kPageBytes, kMailboxBytes / kPageBytes, info_.shared_address + mail}};
  nic::Control node{kValidate, {endpoint / info_.contexts}};
  if (card_->control(in, &in) != Status::ok || card_->control(node, &node) != Status::ok)
    return nullptr;
  if (mates_[endpoint]) {
    old_.push_back(std::move(mates_[endpoint]));
  } else {
    met_.push_back(endpoint);
  }
  mates_[endpoint] = std::make_unique<Mate>();
  Mate& mate = *mates_[endpoint];
  mate.name = name;
  mate.in = MailReader(at(mail), false);
  mate.tells.push_back(0);
  tell_all(mate);
  return &mate;
}

Status TnetDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  const Status status = peers_.connect(address, peer, why);
  if (status == Status::ok) meet(peers_[*peer].name);
  return status;
}

// Somebody may have given this process a mailbox.
void TnetDriver::look_around() {
  const uint32_t bell = *reinterpret_cast<volatile uint32_t*>(at(TnetLayout::kBell));
  if (bell == bell_) return;
  bell_ = bell;
  for (uint32_t i = 0; i < mates_.size(); i++) {
    const nic::Name name = cell(i).name;
    if (nic::endpoint_of(name) == i && card_->liveness().life(name) == nic::Life::there) meet(name);
  }
}

void TnetDriver::tell(Mate& mate, uint32_t word) {
  if (std::find(mate.tells.begin(), mate.tells.end(), word) == mate.tells.end())
    mate.tells.push_back(word);
}

// False: there is no room for all of it now.
bool TnetDriver::tell_all(Mate& mate) {
  const uint32_t cell_at = TnetLayout::kCells + nic::endpoint_of(info_.name) * sizeof(TnetCell);
  while (!mate.tells.empty()) {
    const uint32_t word = mate.tells.front();
    bool told;
    if (word == 0) {  // all of the cell, then the name, then the bell
      told = store_word(mate, cell_at + 4, sizeof(TnetCell) - 4, 0) &&
             store_word(mate, cell_at, 4, info_.name) &&
             store_word(mate, TnetLayout::kBell, 4, info_.name << 16 | (++rings_ & 0xffff));
    } else {
      told = store_word(mate, cell_at + word * 4, 4,
                        word == 1 ? mate.in.consumed() : group_word(mate, word - 8));
    }
    if (!told) return false;
    mate.tells.erase(mate.tells.begin());
  }
  return true;
}

bool TnetDriver::store_word(Mate& mate, uint32_t target, uint32_t bytes, uint32_t value) {
  if (!has_room()) return false;
  std::byte* const slot = at(TnetLayout::kSend + slot_ * kMailSlotBytes);
  std::memset(slot, 0, bytes);
  std::memcpy(slot, &value, sizeof(value));
  const uint32_t endpoint = nic::endpoint_of(mate.name);
  return transmit(0, bytes, endpoint / info_.contexts, target, endpoint % info_.contexts);
}

// --- sending ---------------------------------------------------------------------------------

bool TnetDriver::has_room() const {
  return slots_used_ < TnetLayout::kSendSlots && transfers_.size() + 2 <= kSendsMax;
}

// Sends bytes of the next slot of the send area. In order: by stores only if nothing is under way.
bool TnetDriver::transmit(uint32_t begin, uint32_t bytes, uint32_t destination, uint64_t target,
                          unsigned context) {
  const uint32_t from = TnetLayout::kSend + slot_ * kMailSlotBytes + begin;
  reap();
  if (bytes <= kPioMax && transfers_.empty()) {
    const uint32_t lock = card_->read32(kLock);
    const bool fits = (lock & kRoomMask) > bytes / kPacketBytes;
    if (lock & kLockTaken && fits) {
      const uint32_t words[] = {
          destination | kRings, bytes / 4,
          static_cast<uint32_t>(destination & kTableMapped ? target : target >> 2), context << 16};
      card_->write32(kBurst, bytes);
      card_->write(kDestination, words, sizeof(words));
      card_->write(kWindow, at(from), bytes);
    }
    if (lock & kLockTaken) card_->write32(kLock, 0);
    if (lock & kLockTaken && fits) return true;
  }
  if (send_by_dma(info_.shared_address + from, bytes, destination, target, context, true) !=
      Status::ok)
    return false;
  slot_ = (slot_ + 1) % TnetLayout::kSendSlots;
  slots_used_++;
  return true;
}

Status TnetDriver::send_by_dma(uint64_t address, uint32_t bytes, uint32_t destination,
                               uint64_t target, unsigned context, bool has_slot) {
  if (!(destination & kTableMapped)) target >>= 2;
  nic::Control in{kSend, {destination | kRings, bytes / 4, target, context << 16, address}};
  const Status status = card_->control(in, &in);
  if (status == Status::ok) transfers_.push_back(has_slot);
  return status;
}

// Takes note of transfers that are over.
void TnetDriver::reap() {
  const uint32_t done = *reinterpret_cast<volatile uint32_t*>(at(TnetLayout::kDone));
  for (; done_ != done && !transfers_.empty(); done_++) {
    slots_used_ -= transfers_.front();
    transfers_.pop_front();
  }
}

bool TnetDriver::post(MailWriter& out, Kind kind, std::span<const iovec> pieces, uint32_t bytes,
                      uint32_t destination, uint64_t mailbox, unsigned context) {
  std::byte* const slot = at(TnetLayout::kSend + slot_ * kMailSlotBytes);
  const uint32_t begin = MailWriter::begin(bytes);
  std::byte* to = slot + begin;
  for (const iovec& piece : pieces) {
    if (piece.iov_len) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
  out.seal(slot, bytes, kind, numbers_ + 1);
  const uint64_t target = mailbox + out.slot() * kMailSlotBytes + begin;
  if (!transmit(begin, kMailSlotBytes - begin, destination, target, context)) return false;
  out.advance();
  numbers_++;
  return true;
}

bool TnetDriver::post(Mate& mate, Kind kind, std::span<const iovec> pieces, uint32_t bytes) {
  if (!is_ready(mate) || !mate.out.has_room(cell(mate.name).consumed) || !has_room()) return false;
  const uint32_t endpoint = nic::endpoint_of(mate.name);
  return post(mate.out, kind, pieces, bytes, endpoint / info_.contexts,
              TnetLayout::kMail + nic::endpoint_of(info_.name) * uint64_t{kMailboxBytes},
              endpoint % info_.contexts);
}

size_t TnetDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  reap();
  for (const Tx& tx : batch) {
    std::array<iovec, 2> pieces{iovec{const_cast<void*>(tx.head), tx.head_bytes}};
    if (tx.piece_count) pieces[1] = tx.pieces[0];
    const auto group = groups_.find(tx.peer);
    Mate* const mate = group == groups_.end() ? meet(peers_[tx.peer].name) : nullptr;
    const uint32_t bytes = tx.head_bytes + tx.body_bytes;
    const bool posted = group != groups_.end() ? post_to_group(group->second, pieces, bytes)
                        : mate                 ? post(*mate, kFrame, pieces, bytes)
                               // Nothing arrives where nobody is.
                               : card_->liveness().life(peers_[tx.peer].name) != nic::Life::there;
    if (!posted) break;
    if (tx.cookie) {
      dones_.push_back({tx.peer, tx.cookie, Status::ok});
      peers_[tx.peer].pending++;
    }
    taken++;
  }
  return taken;
}

// --- receiving -------------------------------------------------------------------------------

// Frames of this process, to it alone and to groups, in the order in which it sent them.
unsigned TnetDriver::receive(Mate& mate, unsigned budget) {
  unsigned count = 0;
  while (count < budget) {
    MailReader* reader = &mate.in;
    const MailTrailer* head = reader->head();
    uint32_t word = 1;
    for (auto& [group, frames] : mate.groups) {
      const MailTrailer* const other = frames.head();
      if (!other || (head && static_cast<int32_t>(other->number - head->number) > 0)) continue;
      reader = &frames;
      head = other;
      word = 8 + group->number;
    }
    if (!head) break;
    const std::span<const std::byte> frame = reader->frame(*head);
    const PeerId from = peers_.number_of(mate.name);
    if (head->kind == kPutEnd) {
      finish_put(mate.name, frame);
    } else if (head->kind == kPutDone) {
      put_done(frame);
    } else if (from != kNoPeer) {
      sink_.packet(from, frame);
      count++;
    }
    if (reader->consume()) tell(mate, word);
  }
  return count;
}

unsigned TnetDriver::poll(uint64_t, unsigned budget) {
  unsigned count = 0;
  if (std::exchange(armed_, false)) card_->write32(kMask, 0);
  old_.clear();
  reap();
  look_around();
  update_groups();
  for (; !dones_.empty() && count < budget; count++) {
    const Done done = dones_.front();
    dones_.pop_front();
    peers_[done.peer].pending--;
    sink_.done(done.cookie, done.status);
  }
  for (size_t i = 0; i < met_.size() && count < budget; i++) {
    Mate& mate = *mates_[met_[i]];
    count += receive(mate, budget - count);
    tell_all(mate);
  }
  answer_puts();
  if (count == 0 && peers_.changed()) {
    end_puts();
    if (dones_.empty()) count += peers_.report_ends(sink_);
  }
  return count;
}

bool TnetDriver::has_work() const {
  const uint32_t bell = *reinterpret_cast<volatile uint32_t*>(at(TnetLayout::kBell));
  if (!dones_.empty() || !replies_.empty() || bell != bell_ || peers_.changed()) return true;
  return std::any_of(met_.begin(), met_.end(), [&](uint32_t endpoint) {
    Mate& mate = *mates_[endpoint];
    return !mate.tells.empty() || mate.in.head() ||
           std::any_of(mate.groups.begin(), mate.groups.end(),
                       [](auto& frames) { return frames.second.head() != nullptr; });
  });
}

Status TnetDriver::arm(int* fd) {
  *fd = card_->interrupt();
  uint64_t old;
  if (has_work()) return Status::again;
  static_cast<void>(!read(*fd, &old, sizeof(old)));
  static_cast<void>(card_->read32(kCause));
  card_->write32(kMask, 1u << kFrameInterrupt);
  static_cast<void>(card_->read32(kMask));  // the card has it now
  armed_ = true;
  return has_work() ? Status::again : Status::ok;
}

std::unique_ptr<Driver> open_tnet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                  std::string* why) {
  const uint32_t endpoints = card->liveness().endpoints();
  if (card->shared().size() < kSharedBytes || endpoints > TnetLayout::kEndpoints) {
    *why = format_text(
        "tnet: a fabric of %u endpoints and a card with %zu bytes of contiguous "
        "memory; use at most %u endpoints and a TNet card",
        endpoints, card->shared().size(), TnetLayout::kEndpoints);
    return nullptr;
  }
  return std::make_unique<TnetDriver>(std::move(card), env);
}

}  // namespace torii
