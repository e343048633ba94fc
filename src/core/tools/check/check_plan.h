// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The pairs that are checked, and when. Every process makes the same plan from the same facts, so
// nobody has to be told: pairs meet in rounds in which each process has at most one partner, and
// the rounds are slots of time that begin when the facts are known.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tools/check/check_data.h"

namespace torii::check {

inline constexpr uint64_t kMs = 1000000;  // in nanoseconds

// Between two datagrams to all, in a check that multicasts for long.
inline constexpr uint64_t kCallGapNs = 200 * kMs;

// Monotonic, of this machine.
uint64_t clock_ns();

struct Plan {
  // Present ranks that share memory and network, ascending; the places by their first ranks.
  std::vector<std::vector<uint32_t>> places;
  uint32_t local_rounds = 0;  // pairs inside the places
  uint32_t rounds = 0;        // pairs of the places' first ranks
  uint64_t local_slot_ns = 0;
  uint64_t slot_ns = 0;       // of a round between places
  uint64_t multicast_ns = 0;  // after the rounds
  uint64_t needed_ms = 0;     // the least deadline with which all have enough time

  uint64_t total_ns() const {
    return local_rounds * local_slot_ns + rounds * slot_ns + multicast_ns;
  }
  // kNobody: it is in no place.
  uint32_t place_of(uint32_t rank) const;
};

// The check itself takes at most half of `deadline_ms`, and `multicast_ms` more, in which the
// processes multicast.
Plan make_plan(const std::vector<Participant>& all, uint64_t deadline_ms,
               uint64_t multicast_ms = 0);

// Rounds in which `count` players meet in pairs, each pair once and nobody twice in a round.
uint32_t rounds_of(uint32_t count);
// Whom `player` meets in `round`; kNobody: it has a rest.
uint32_t partner_of(uint32_t player, uint32_t count, uint32_t round);

}  // namespace torii::check
