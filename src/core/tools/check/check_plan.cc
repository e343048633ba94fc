// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_plan.h"

#include <time.h>

#include <algorithm>

namespace torii::check {
namespace {

constexpr uint64_t kLocalLeastNs = 50 * kMs;
constexpr uint64_t kLocalMostNs = 150 * kMs;
// A silent address is known to be silent after 60 ms; loss is seen the better the longer one looks.
constexpr uint64_t kSlotLeastNs = 120 * kMs;
constexpr uint64_t kSlotMostNs = 500 * kMs;
constexpr uint64_t kMulticastNs = 300 * kMs;

}  // namespace

uint64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

uint32_t rounds_of(uint32_t count) { return count < 2 ? 0 : count - 1 + count % 2; }

// The circle: the last player sits, the others move on by one place in each round. An odd number
// has a guest, whom to meet is to rest.
uint32_t partner_of(uint32_t player, uint32_t count, uint32_t round) {
  const uint32_t around = rounds_of(count);
  const uint32_t seated = around;
  if (player >= count || round >= around) return kNobody;
  uint32_t partner;
  if (player == seated) {
    partner = round * ((around + 1) / 2) % around;  // i with 2 i = round
  } else {
    partner = (round + around - player) % around;
    if (partner == player) partner = seated;
  }
  return partner < count ? partner : kNobody;
}

uint32_t Plan::place_of(uint32_t rank) const {
  for (uint32_t i = 0; i < places.size(); i++)
    if (std::find(places[i].begin(), places[i].end(), rank) != places[i].end()) return i;
  return kNobody;
}

Plan make_plan(const std::vector<Participant>& all, uint64_t deadline_ms, uint64_t multicast_ms) {
  Plan plan;
  for (uint32_t rank = 0; rank < all.size(); rank++) {
    if (!all[rank].present) continue;
    const auto place = std::find_if(plan.places.begin(), plan.places.end(), [&](const auto& ranks) {
      return all[ranks[0]].facts.place == all[rank].facts.place;
    });
    if (place == plan.places.end()) {
      plan.places.push_back({rank});
    } else {
      place->push_back(rank);
    }
  }
  uint32_t most = 0;
  for (const auto& ranks : plan.places) most = std::max(most, static_cast<uint32_t>(ranks.size()));
  plan.local_rounds = rounds_of(most);
  plan.rounds = rounds_of(static_cast<uint32_t>(plan.places.size()));
  plan.multicast_ns = plan.rounds ? kMulticastNs : 0;
  const auto slot = [](uint64_t budget, uint32_t rounds, uint64_t least, uint64_t most) {
    return rounds ? std::clamp(budget / rounds, least, most) : least;
  };
  uint64_t budget = deadline_ms * kMs / 2;
  plan.local_slot_ns = slot(budget / 4, plan.local_rounds, kLocalLeastNs, kLocalMostNs);
  budget -= std::min(budget, plan.local_rounds * plan.local_slot_ns + plan.multicast_ns);
  plan.slot_ns = slot(budget, plan.rounds, kSlotLeastNs, kSlotMostNs);
  plan.needed_ms =
      2 * (plan.local_rounds * kLocalLeastNs + plan.multicast_ns + plan.rounds * kSlotLeastNs) /
      kMs;
  if (plan.rounds) plan.multicast_ns += multicast_ms * kMs;
  return plan;
}

}  // namespace torii::check
