// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The base of the drivers of emulated cards: a card, peers with their cookies, and a sink.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "drivers/card_peers.h"
#include "drivers/copy_frame.h"
#include "drivers/interfaces.h"

namespace torii {

class CardDriver : public Driver {
 public:
  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { peers_.address(out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    return peers_.connect(address, peer, why);
  }
  void disconnect(PeerId peer) override { peers_.forget(peer); }

 protected:
  CardDriver(const char* name, std::unique_ptr<nic::Card> card, const DriverEnv& env,
             uint32_t peers_max, uint32_t groups_max = 0)
      : card_(std::move(card)),
        info_(card_->info()),
        sink_(*env.sink),
        peers_(name, *card_, peers_max + groups_max) {
    caps_.address_bytes = CardPeers::kAddressBytes;
    caps_.peers_max = peers_max;
  }
  // Is that process there, as far as this one can tell?
  bool is_there(nic::Name name) const { return card_->liveness().life(name) == nic::Life::there; }

  const std::unique_ptr<nic::Card> card_;
  const nic::CardInfo info_;
  Sink& sink_;
  CardPeers peers_;
  DriverCaps caps_;
};

}  // namespace torii
