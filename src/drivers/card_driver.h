// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The base of the drivers of emulated cards: a card, peers with their cookies, and a sink.
#pragma once

#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "drivers/card_peers.h"
#include "drivers/copy_frame.h"
#include "drivers/interfaces.h"
#include "nic/card.h"

namespace torii {

// Is that the card of a driver, by the register that tells and the memory it shares with the host?
// False with the reason in *why.
inline bool is_right(const char* driver, nic::Card& card, uint32_t id_at, uint32_t id,
                     size_t shared_bytes, std::string* why) {
  const uint32_t its_id = card.read32(id_at);
  if (its_id == id && card.shared().size() >= shared_bytes) return true;
  *why = format_text(
      "%s: a card of id 0x%x with %zu bytes of shared memory; use one of id 0x%x with %zu", driver,
      its_id, card.shared().size(), id, shared_bytes);
  return false;
}

class CardDriver : public Driver {
 public:
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { peers_.address(out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    return peers_.connect(address, peer, why);
  }
  void disconnect(PeerId peer) override { peers_.forget(peer); }
  // For drivers with kWait, by the two functions below.
  Status arm(int* fd) override {
    *fd = card_->interrupt();
    uint64_t old;
    if (has_work()) return Status::again;
    static_cast<void>(!read(*fd, &old, sizeof(old)));
    ask_interrupt();
    return has_work() ? Status::again : Status::ok;
  }

 protected:
  // Is there anything for poll() to do?
  virtual bool has_work() { return false; }
  // Lets the card interrupt when there is, also if there is meanwhile.
  virtual void ask_interrupt() {}

  CardDriver(const char* name, std::unique_ptr<nic::Card> card, const DriverEnv& env,
             uint32_t peers_max, uint32_t groups_max = 0)
      : card_(std::move(card)),
        info_(card_->info()),
        sink_(*env.sink),
        peers_(name, *card_, peers_max + groups_max) {
    caps_.address_bytes = CardPeers::kAddressBytes;
    caps_.peers_max = peers_max;
  }
  // A process's place on the fabric: its node, and which of that card's contexts it has.
  uint32_t node_of(nic::Name name) const { return nic::endpoint_of(name) / info_.contexts; }
  uint32_t context_of(nic::Name name) const { return nic::endpoint_of(name) % info_.contexts; }
  // Is that process there, as far as this one can tell?
  bool is_there(nic::Name name) const { return card_->liveness().life(name) == nic::Life::there; }

  // Has the card ended for this process, so that it will say no more? By the register that tells
  // its id: without a cable it is cut off, too, but its card has still something to say.
  bool has_lost_card(uint32_t id_at, uint32_t id) {
    if (!is_lost_ && peers_.cut_off()) is_lost_ = card_->read32(id_at) != id;
    return is_lost_;
  }

  // Has the card the use of this process's memory? The system may keep it from that.
  bool reaches_memory() {
    uint64_t address;
    if (card_->map(this, sizeof(*this), nic::kCardReads, &address) != Status::ok) return false;
    card_->unmap(address);
    return true;
  }
  Status call(uint32_t number, std::array<uint64_t, 6> words, nic::Control* out = nullptr) {
    nic::Control unused;
    return card_->control({number, words}, out ? out : &unused);
  }
  // Of a group by its name, with the words {name of two, its bytes}; out {group}.
  Status call_join(uint32_t number, std::span<const std::byte> name, nic::Control* out) {
    std::array<uint64_t, 6> words{0, 0, name.size()};
    if (name.empty() || name.size() > 16) return Status::invalid;
    std::memcpy(words.data(), name.data(), name.size());
    return call(number, words, out);
  }
  // The processes that are in a group, by a call with {group, i}; out {name, or kNobody}.
  std::vector<nic::Name> call_members(uint32_t number, uint32_t group) {
    std::vector<nic::Name> out;
    for (nic::Control member; call(number, {group, out.size()}, &member) == Status::ok;) {
      if (member.words[0] == nic::kNobody) break;
      out.push_back(static_cast<nic::Name>(member.words[0]));
    }
    return out;
  }
  // As Driver::join(), by the calls `join`, as above, and `leave`, with {group}.
  Status join_by(uint32_t join, uint32_t leave, std::span<const std::byte> name, PeerId* peer) {
    nic::Control out;
    if (const Status status = call_join(join, name, &out); status != Status::ok) return status;
    *peer = peers_.add_group(static_cast<uint32_t>(out.words[0]));
    if (*peer != kNoPeer) return Status::ok;
    static_cast<void>(call(leave, {out.words[0]}));
    return Status::no_memory;
  }

  const std::unique_ptr<nic::Card> card_;
  const nic::CardInfo info_;
  Sink& sink_;
  CardPeers peers_;
  DriverCaps caps_;

 private:
  bool is_lost_ = false;
};

}  // namespace torii
