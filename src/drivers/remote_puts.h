// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Remote write for cards that store whole words, and hear nothing of what became of them: a frame
// follows, with the bytes that are no whole words. It asks the target whether that was memory of
// its own; the answer ends the put.
#pragma once

#include <deque>
#include <unordered_map>
#include <utility>

#include "drivers/card_memory.h"
#include "drivers/card_peers.h"
#include "drivers/mailboxes.h"

namespace torii {

class RemotePuts {
 public:
  enum Kind : uint32_t { kEnd = 1, kAnswer = 2 };  // of frames in mailboxes; 0 is the driver's

  RemotePuts(CardMemory& memory, Mailboxes& mail, CardPeers& peers, nic::Liveness liveness)
      : memory_(memory), mail_(mail), peers_(peers), liveness_(liveness) {}

  // Most bytes of a put that needs no store.
  static constexpr uint32_t kCopiedMax = kMailMax - 40;
  // The end of a put whose first and last bytes (`front`, `back`) were not stored. False: there is
  // no room now.
  bool post_end(const Rma& rma, const CardMemory::Key& key, uint32_t front, uint32_t back);
  // A frame of one of the kinds above.
  void receive(nic::Name from, uint32_t kind, std::span<const std::byte> frame);
  // Sends answers that are due.
  void answer();
  bool can_answer() const { return !answers_.empty() && can_answer(answers_.front().first); }
  // Ends those to processes that have ended: nobody answers them.
  void end_lost();

 private:
  struct Head {  // of kEnd, before the bytes
    uint32_t serial, id;
    uint64_t offset, bytes;
    uint32_t front, back;
  };
  static_assert(sizeof(Head) <= 40);
  struct Answer {
    uint32_t id, status;
  };
  struct Put {
    PeerId peer;
    nic::Name name;
    uint64_t cookie;
  };
  Status finish(std::span<const std::byte> frame, uint32_t* id);
  // Is there room, or nobody to be answered?
  bool can_answer(nic::Name to) const {
    return liveness_.life(to) != nic::Life::there || mail_.has_room(to);
  }

  CardMemory& memory_;
  Mailboxes& mail_;
  CardPeers& peers_;
  const nic::Liveness liveness_;
  std::unordered_map<uint32_t, Put> puts_;  // by id
  std::deque<std::pair<nic::Name, Answer>> answers_;
  uint32_t next_put_ = 0;
};

}  // namespace torii
