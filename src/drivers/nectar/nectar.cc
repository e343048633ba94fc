// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/nectar/nectar.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "drivers/card_driver.h"
#include "drivers/card_rings.h"
#include "nic/nectar/regs.h"

namespace torii {
namespace {

using namespace nic::nectar;

constexpr uint32_t kGroupsMax = 64;

class NectarDriver final : public CardDriver {
 public:
  NectarDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool reliable);
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status join(std::span<const std::byte> name, PeerId* peer) override;
  void leave(PeerId peer) override;

 private:
  bool has_event() const { return !peers_.cut_off() && rings_.has_event(); }
  unsigned handle(const Entry& event);
  bool has_work() override {
    return has_event() || peers_.has_ended() || (reliable_ && peers_.changed());
  }
  void ask_interrupt() override { rings_.ask_interrupt(); }

  const bool reliable_;
  std::vector<uint32_t> free_;             // slots for frames that go
  alignas(8) std::byte frame_[kFrameMax];  // on its way to the board, or from there
  CardRings<Shared> rings_;
};

NectarDriver::NectarDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool reliable)
    : CardDriver(reliable ? "nectar" : "nectar/datagram", std::move(card), env, kNodes,
                 reliable ? kGroupsMax : 0),
      reliable_(reliable),
      rings_(*card_, kDataRam) {
  caps_.flags = reliable ? kReliable | kPeerDown | kMulticast | kWait : +kWait;
  caps_.mtu = caps_.inline_max = kFrameMax;
  caps_.pieces_max = 8;
  for (uint32_t i = 0; i < kSendSlots; i++) free_.push_back(i);
  for (uint32_t i = 0; i < kReceiveSlots; i++) rings_.command({kPostSlot, kSendSlots + i, 0, 0});
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
      if (is_group) rings_.command({kSendToGroup, slot, bytes, peers_.group_of(tx.peer)});
      if (!is_group) rings_.command({kSendFrame, slot, bytes, to});
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
    rings_.command({kPostSlot, event.slot, 0, 0});
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
  for (uint32_t i = 0; i < kEvents && count < budget && has_event(); i++)
    count += handle(rings_.next());
  if (!reliable_ || count > 0 || !peers_.changed() || peers_.has_ended() || has_event())
    return count;
  return peers_.report_ends(sink_);
}

// --- groups ----------------------------------------------------------------------------------

Status NectarDriver::join(std::span<const std::byte> name, PeerId* peer) {
  if (!reliable_) return Status::unsupported;
  return join_by(kJoin, kLeave, name, peer);
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
