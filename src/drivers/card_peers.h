// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shared by the drivers of emulated cards: addresses, the numbers of peers, their cookies, and the
// end of peers as the manager of the cluster tells it. No driver's frames pass through here.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

class CardPeers {
 public:
  struct Peer {
    nic::Name name = nic::kNobody;  // kNobody: the number is free, or will be
    bool down = false;              // reported, or not to be reported
    uint32_t pending = 0;           // cookies that are not done, or frames that still need this
  };
  static constexpr uint32_t kAddressBytes = 16;

  CardPeers(const char* driver, const nic::Card& card, uint32_t peers_max)
      : driver_(driver), info_(card.info()), liveness_(card.liveness()), peers_max_(peers_max) {}

  void address(std::byte* out) const {
    const Address own{info_.fabric, info_.name, 0};
    std::memcpy(out, &own, sizeof(own));
  }

  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
    Address parsed{};
    if (address.size() == sizeof(parsed)) std::memcpy(&parsed, address.data(), sizeof(parsed));
    const nic::Life life = liveness_.life(parsed.name);
    if (parsed.fabric != info_.fabric || parsed.zero || life != nic::Life::there) {
      *why = format_text(
          "%s: the address of %zu bytes names no process that is there on this fabric "
          "of %u endpoints; use what address() of an open one gave",
          driver_, address.size(), liveness_.endpoints());
      return Status::unreachable;
    }
    *peer = number_of(parsed.name);
    if (*peer != kNoPeer) return Status::ok;
    *why = format_text("%s: all %u peers are in use; disconnect one", driver_, peers_max_);
    return Status::no_memory;
  }

  // The peer of that name, made if need be; kNoPeer: no more fit, or its end was reported.
  PeerId number_of(nic::Name name) {
    if (const auto it = by_name_.find(name); it != by_name_.end())
      return peers_[it->second].down ? kNoPeer : it->second;
    PeerId peer = 0;
    while (peer < peers_.size() && (peers_[peer].name != nic::kNobody || peers_[peer].pending))
      peer++;
    if (peer == peers_max_) return kNoPeer;
    if (peer == peers_.size()) peers_.emplace_back();
    peers_[peer] = {name, false, 0};
    by_name_[name] = peer;
    seen_ = ~liveness_.changes();  // it may have ended already
    return peer;
  }

  // A number for a group: a name that no process has.
  PeerId add_group(uint32_t group) {
    const PeerId peer = number_of(nic::make_name(kGroupEndpoint, group + 1));
    if (peer != kNoPeer) peers_[peer].down = true;
    return peer;
  }
  bool is_group(PeerId peer) const {
    return nic::endpoint_of(peers_[peer].name) == kGroupEndpoint && peers_[peer].name >> 16;
  }
  uint32_t group_of(PeerId peer) const { return (peers_[peer].name >> 16) - 1; }

  void forget(PeerId peer) {
    by_name_.erase(peers_[peer].name);
    peers_[peer].name = nic::kNobody;
  }

  Peer& operator[](PeerId peer) { return peers_[peer]; }
  size_t size() const { return peers_.size(); }

  // Cookies: begun when an operation is accepted, ended when it is over, which is reported later.
  void begin(PeerId peer) { peers_[peer].pending++; }
  void end(PeerId peer, uint64_t cookie, Status status) {
    ended_.push_back({peer, cookie, status});
  }
  // Ends a frame that was copied: it is over at once. Without a cookie there is nothing to report.
  void end_copied(PeerId peer, uint64_t cookie) {
    if (!cookie) return;
    begin(peer);
    end(peer, cookie, Status::ok);
  }
  bool has_ended() const { return !ended_.empty(); }
  bool has_room() const { return ended_.size() < kEndedMax; }  // for another cookie
  unsigned report_ended(Sink& sink, unsigned budget) {
    unsigned count = 0;
    for (; !ended_.empty() && count < budget; count++) {
      const Ended ended = ended_.front();
      ended_.pop_front();
      peers_[ended.peer].pending--;
      sink.done(ended.cookie, ended.status);
    }
    return count;
  }

  // This process's own card has ended for it: nothing more will be done.
  bool cut_off() const { return liveness_.life(info_.name) == nic::Life::dead; }
  // Is there anything for report_ends() to do?
  bool changed() const { return liveness_.changes() != seen_; }
  // Peers whose end is to be reported: all that ended and have no cookies left. Returns how many.
  unsigned report_ends(Sink& sink) {
    seen_ = liveness_.changes();
    unsigned count = 0;
    for (PeerId peer = 0; peer < peers_.size(); peer++) {
      const nic::Life life = liveness_.life(peers_[peer].name);
      if (peers_[peer].name == nic::kNobody || peers_[peer].down || life == nic::Life::there)
        continue;
      if (peers_[peer].pending > 0) {
        seen_ = ~liveness_.changes();  // later
        continue;
      }
      peers_[peer].down = true;
      sink.peer_down(peer, life == nic::Life::closed ? Status::peer_closed : Status::peer_dead);
      count++;
    }
    return count;
  }

 private:
  struct Address {
    uint64_t fabric;
    nic::Name name;
    uint32_t zero;
  };
  static_assert(sizeof(Address) == kAddressBytes);
  struct Ended {
    PeerId peer;
    uint64_t cookie;
    Status status;
  };
  static constexpr size_t kEndedMax = 1024;
  static constexpr uint32_t kGroupEndpoint = 0xffff;

  const char* const driver_;
  const nic::CardInfo info_;
  const nic::Liveness liveness_;
  const uint32_t peers_max_;
  std::vector<Peer> peers_;
  std::unordered_map<nic::Name, PeerId> by_name_;
  std::deque<Ended> ended_;
  uint32_t seen_ = 0;
};

}  // namespace torii
