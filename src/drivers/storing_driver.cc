// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/storing_driver.h"

#include <unistd.h>

#include <array>
#include <utility>

namespace torii {
namespace {

constexpr uint32_t kFrame = 0;          // of a mailbox, beside RemotePuts::Kind
constexpr uint32_t kPollsAwake = 4096;  // since arm(): then interrupts are turned off

}  // namespace

bool StoringDriver::has_mailboxes(const char* driver, nic::Card& card, size_t shared_bytes,
                                  std::string* why) {
  const uint32_t endpoints = card.liveness().endpoints();
  if (card.shared().size() >= shared_bytes && endpoints <= Mailboxes::kEndpoints) return true;
  *why = format_text(
      "%s: a fabric of %u endpoints and a card with %zu bytes of shared memory; use at most %u "
      "endpoints and a card with %zu bytes",
      driver, endpoints, card.shared().size(), Mailboxes::kEndpoints, shared_bytes);
  return false;
}

StoringDriver::StoringDriver(const char* name, std::unique_ptr<nic::Card> card,
                             const DriverEnv& env, uint64_t first_page, uint64_t end_page,
                             uint32_t entered)
    : CardDriver(name, std::move(card), env, Mailboxes::kEndpoints, Mailboxes::kGroups),
      shared_(card_->shared().data()),
      memory_(*card_, first_page, end_page, entered,
              [this](uint64_t page, uint64_t pages, uint64_t address, uint32_t access) {
                return set_pages(page, pages, address, access);
              }),
      mail_(*this, *card_,
            [this](nic::Name from, uint32_t kind, std::span<const std::byte> frame) {
              return receive(from, kind, frame);
            }),
      puts_(memory_, mail_, peers_, card_->liveness()) {
  caps_.flags = kReliable | kPeerDown;
  caps_.mtu = caps_.inline_max = kMailMax;
  local = true;
  if (!entered) return;
  caps_.flags |= kNeedsReg | kPut;
  caps_.inline_max = RemotePuts::kCopiedMax;
  caps_.key_bytes = sizeof(CardMemory::Key);
  caps_.remote_max = kPutMax;
}

size_t StoringDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    std::array<iovec, 2> pieces{iovec{const_cast<void*>(tx.head), tx.head_bytes}};
    if (tx.piece_count) pieces[1] = tx.pieces[0];
    const uint32_t bytes = tx.head_bytes + tx.body_bytes;
    const nic::Name to = peers_[tx.peer].name;
    if (!peers_.has_room()) break;
    if (peers_.is_group(tx.peer)) {
      if (!mail_.post_to_group(peers_.group_of(tx.peer), kFrame, pieces, bytes)) break;
    } else if (is_there(to)) {  // else it arrives nowhere
      if (!mail_.post(to, kFrame, pieces, bytes)) break;
    }
    peers_.end_copied(tx.peer, tx.cookie);
    taken++;
  }
  return taken;
}

// Whole words are stored; a frame brings the others, and asks what became of them.
Status StoringDriver::put(const Rma& rma) {
  const CardMemory::Key* const key = memory_.keys().find(rma);
  if (!key) return Status::invalid;
  if (!is_there(key->owner)) return Status::peer_dead;
  if (rma.cookie == 0 || !mail_.has_room(key->owner)) return Status::again;
  auto front = static_cast<uint32_t>(rma.bytes);
  uint32_t back = 0;
  if (rma.bytes > RemotePuts::kCopiedMax) {
    if (!rma.local) return Status::invalid;
    const uint64_t target = key->address_of(rma.remote_offset);
    front = static_cast<uint32_t>(-target % 4);
    back = static_cast<uint32_t>((rma.bytes - front) % 4);
    const auto offset = static_cast<uint64_t>(static_cast<std::byte*>(rma.pieces[0].iov_base) -
                                              static_cast<std::byte*>(rma.local->base));
    const Status status =
        store_memory(key->owner, target + front, rma.local->driver_data + offset + front,
                     rma.bytes - front - back);
    if (status != Status::ok) return status;
  }
  return puts_.post_end(rma, *key, front, back) ? Status::pending : Status::again;
}

bool StoringDriver::receive(nic::Name from, uint32_t kind, std::span<const std::byte> frame) {
  if (kind != kFrame) {
    puts_.receive(from, kind, frame);
    return false;
  }
  const PeerId peer = peers_.number_of(from);
  if (peer != kNoPeer) sink_.packet(peer, frame);
  return peer != kNoPeer;
}

unsigned StoringDriver::poll(uint64_t, unsigned budget) {
  unsigned count = peers_.report_ended(sink_, budget);
  count += mail_.poll(budget - count);
  puts_.answer();
  if (count == 0 && peers_.changed()) {
    puts_.end_lost();
    if (!peers_.has_ended()) count += peers_.report_ends(sink_);
  }
  return count;
}

bool StoringDriver::has_work() {
  return peers_.has_ended() || puts_.can_answer() || mail_.has_work() || peers_.changed();
}

Status StoringDriver::turn_on(uint32_t mask_register, uint32_t mask, int* fd) {
  *fd = card_->interrupt();
  polls_ = 0;
  if (std::exchange(mask_, mask) != mask) {
    card_->write32(mask_register, mask);
    static_cast<void>(card_->read32(mask_register));  // the card has it now
  }
  uint64_t old;
  static_cast<void>(!read(*fd, &old, sizeof(old)));
  return has_work() ? Status::again : Status::ok;
}

void StoringDriver::turn_off(uint32_t mask_register) {
  if (mask_ && ++polls_ == kPollsAwake) card_->write32(mask_register, mask_ = 0);
}

Status StoringDriver::join(std::span<const std::byte> name, PeerId* peer) {
  uint32_t group;
  if (const Status status = mail_.join(name, &group); status != Status::ok) return status;
  *peer = peers_.add_group(group);
  if (*peer != kNoPeer) return Status::ok;
  mail_.leave(group);
  return Status::no_memory;
}

void StoringDriver::leave(PeerId peer) {
  mail_.leave(peers_.group_of(peer));
  peers_.forget(peer);
}

}  // namespace torii
