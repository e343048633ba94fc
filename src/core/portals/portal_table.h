// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The portal table: for every index a list of match entries, and the puts that flow control holds.
#pragma once

#include <cstdint>
#include <memory>

#include "core/match/match_list.h"
#include "core/protocol/protocol.h"

namespace torii {

// A put that arrived before its entry. Sorted by arrival; the operation owns the payload.
struct HeldPut : ArrivalNode {
  Op* op = nullptr;
  Peer* peer = nullptr;
  Envelope env;
};

struct PortalEntry {
  MatchList entries;
  // Only under flow control: nothing in here would be accepted by an entry of the list.
  ArrivalList held;
  bool flow_control = false;
};

class PortalTable {
 public:
  void reset(uint32_t size);
  uint32_t size() const { return size_; }
  // The one checked accessor; null: no such index.
  PortalEntry* find(uint32_t index) const { return index < size_ ? &entries_[index] : nullptr; }
  // The highest index whose list is empty, or size().
  uint32_t unused() const;

 private:
  std::unique_ptr<PortalEntry[]> entries_;
  uint32_t size_ = 0;
};

}  // namespace torii
