// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/nectar/nectar.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "drivers/card_driver.h"
#include "nic/nectar/regs.h"

namespace torii {
namespace {

using namespace nic::nectar;

constexpr uint32_t kGroupsMax = 64;
constexpr uint32_t shared_at(size_t offset) { return kDataRam + static_cast<uint32_t>(offset); }

class NectarDriver final : public CardDriver {
 public:
  NectarDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool reliable);
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status join(std::span<const std::byte> name, PeerId* peer) override;
  void leave(PeerId peer) override;
  Status arm(int* fd) override;

 private:
  void command(uint32_t kind, uint32_t slot, uint32_t bytes, uint32_t to);
  bool has_event() {
    uint32_t events = events_;
    if (!peers_.cut_off())
      card_->peek(shared_at(offsetof(Shared, events)), &events, sizeof(events));
    return events != events_;
  }
  unsigned handle(const Entry& event);
  bool has_work() { return has_event() || peers_.has_ended() || (reliable_ && peers_.changed()); }

  const bool reliable_;
  std::vector<uint32_t> free_;             // slots for frames that go
  alignas(8) std::byte frame_[kFrameMax];  // on its way to the board, or from there
  uint32_t commands_ = 0, events_ = 0;
  bool asked_ = false;  // the board is to interrupt when there is an event more
};

NectarDriver::NectarDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool reliable)
    : CardDriver(reliable ? "nectar" : "nectar/datagram", std::move(card), env, kNodes,
                 reliable ? kGroupsMax : 0),
      reliable_(reliable) {
  caps_.flags = reliable ? kReliable | kPeerDown | kMulticast | kWait : +kWait;
  caps_.mtu = caps_.inline_max = kFrameMax;
  caps_.pieces_max = 8;
  for (uint32_t i = 0; i < kSendSlots; i++) free_.push_back(i);
  for (uint32_t i = 0; i < kReceiveSlots; i++) command(kPostSlot, kSendSlots + i, 0, nic::kNobody);
}

void NectarDriver::command(uint32_t kind, uint32_t slot, uint32_t bytes, uint32_t to) {
  const Entry c{kind, slot, bytes, to};
  card_->write(shared_at(offsetof(Shared, command)) + commands_++ % kCommands * sizeof(c), &c,
               sizeof(c));
  card_->write32(shared_at(offsetof(Shared, commands)), commands_);
}

// --- sending ---------------------------------------------------------------------------------

size_t NectarDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    const nic::Name to = peers_[tx.peer].name;
    const bool is_group = peers_.is_group(tx.peer);
    if (!peers_.has_room()) break;
    if (is_group || is_there(to) || !reliable_) {  // else nothing arrives
      if (free_.empty() || peers_.cut_off()) break;
      const uint32_t slot = free_.back();
      free_.pop_back();
      const auto bytes = static_cast<uint32_t>(copy_frame(tx, frame_) - frame_);
      if (bytes) card_->write(slot_at(slot), frame_, (bytes + 3) / 4 * 4);
      command(is_group ? kSendToGroup : kSendFrame, slot, bytes,
              is_group ? peers_.group_of(tx.peer) : to);
    }
    peers_.end_copied(tx.peer, tx.cookie);
    taken++;
  }
  return taken;
}

// --- receiving -------------------------------------------------------------------------------

unsigned NectarDriver::handle(const Entry& event) {
  if (event.kind == kReceived && event.slot - kSendSlots < kReceiveSlots) {
    const uint32_t bytes = std::min(event.bytes, kFrameMax);
    const PeerId from = peers_.number_of(event.peer);
    if (from != kNoPeer && bytes) card_->peek(slot_at(event.slot), frame_, (bytes + 3) / 4 * 4);
    command(kPostSlot, event.slot, 0, nic::kNobody);
    if (from == kNoPeer) return 0;
    // An upcall may send, which needs the buffer.
    const std::vector<std::byte> frame(frame_, frame_ + bytes);
    sink_.packet(from, frame);
    return 1;
  }
  if (event.kind == kSent && event.slot < kSendSlots &&
      std::find(free_.begin(), free_.end(), event.slot) == free_.end())
    free_.push_back(event.slot);
  return 0;
}

unsigned NectarDriver::poll(uint64_t, unsigned budget) {
  unsigned count = peers_.report_ended(sink_, budget);
  for (uint32_t i = 0; i < kEvents && count < budget && has_event(); i++) {
    Entry event;
    asked_ = false;
    card_->peek(shared_at(offsetof(Shared, event)) + events_++ % kEvents * sizeof(event), &event,
                sizeof(event));
    count += handle(event);
  }
  if (!reliable_ || count > 0 || !peers_.changed() || peers_.has_ended() || has_event())
    return count;
  return peers_.report_ends(sink_);
}

Status NectarDriver::arm(int* fd) {
  *fd = card_->interrupt();
  uint64_t old;
  if (has_work()) return Status::again;
  static_cast<void>(!read(*fd, &old, sizeof(old)));
  if (!std::exchange(asked_, true)) {
    const uint32_t words[] = {1, events_};  // also of one that has come meanwhile
    card_->write(shared_at(offsetof(Shared, interrupt)), words, sizeof(words));
  }
  return has_work() ? Status::again : Status::ok;
}

// --- groups ----------------------------------------------------------------------------------

Status NectarDriver::join(std::span<const std::byte> name, PeerId* peer) {
  if (!reliable_) return Status::unsupported;
  if (name.empty() || name.size() > 16) return Status::invalid;
  nic::Control in{kJoin, {0, 0, name.size()}}, out;
  std::memcpy(in.words.data(), name.data(), name.size());
  if (const Status status = card_->control(in, &out); status != Status::ok) return status;
  *peer = peers_.add_group(static_cast<uint32_t>(out.words[0]));
  if (*peer != kNoPeer) return Status::ok;
  static_cast<void>(card_->control({kLeave, {out.words[0]}}, &out));
  return Status::no_memory;
}

void NectarDriver::leave(PeerId peer) {
  if (!reliable_) return;
  card_->post({kLeave, {peers_.group_of(peer)}});
  peers_.forget(peer);
}

std::unique_ptr<Driver> open_nectar_with(bool reliable, std::unique_ptr<nic::Card> card,
                                         const DriverEnv& env, std::string* why) {
  const uint32_t endpoints = card->liveness().endpoints();
  nic::Control out;
  const Status status =
      card->control({kBoot, {reliable ? kReliableProtocol : kDatagramProtocol}}, &out);
  if (status == Status::ok && endpoints <= kNodes && card->info().bar_bytes >= kBarBytes &&
      card->read32(kDataRam) == kMagic)
    return std::make_unique<NectarDriver>(std::move(card), env, reliable);
  *why = format_text(
      "nectar: a card with %u bytes of registers on a fabric of %u nodes, whose firmware answers "
      "'%s'; use a CAB (%u bytes) and at most %u nodes",
      card->info().bar_bytes, endpoints, status_text(status), kBarBytes, kNodes);
  return nullptr;
}

}  // namespace

std::unique_ptr<Driver> open_nectar(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                    std::string* why) {
  return open_nectar_with(true, std::move(card), env, why);
}

std::unique_ptr<Driver> open_nectar_datagram(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                             std::string* why) {
  return open_nectar_with(false, std::move(card), env, why);
}

}  // namespace torii
