// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The plan of the faults of a fabric, by chance or by count:
//   plan  = [ item *( "," item ) ]
//   item  = "seed=" number | fault *( "/" condition )
//   fault = "ber=" rate          each bit on the link is flipped with this probability
//         | "drop=" rate         each packet on the link is lost with this probability
//         | "drop#" n            the nth packet on the link is lost
//         | "cut#" n             the nth packet on the link cuts its cable, both ways
//         | "stall#" n           the nth DMA transfer of the node waits
//         | "fail#" n            the nth DMA transfer of the node fails
//         | "lose-irq#" n ["+"]  the nth interrupt of the node is lost; "+": and all later ones
//   condition = "cable=" number | "node=" number | "for=" time
// Cables count from 0: those of the nodes first, then those between switches. Without a condition
// a fault is on all of them. A cut lasts for ever unless "for" says how long; a stall needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace torii::nic {

enum class Fault : uint8_t { ber, drop, cut, stall, fail, lose_irq };
inline constexpr bool is_on_cable(Fault fault) { return fault <= Fault::cut; }

struct FaultRule {
  Fault fault = Fault::ber;
  double rate = 0;         // ber, and drop if it is above 0
  uint64_t nth = 1;        // all others
  bool and_later = false;  // lose_irq
  uint32_t where = ~0u;    // cable or node; ~0: all
  uint64_t for_ns = ~uint64_t{0};
};

struct FaultPlan {
  uint64_t seed = 1;
  std::vector<FaultRule> rules;
};

// `invalid`, with the item and the remedy in *why, if the text is no plan.
Status parse_fault_plan(std::string_view text, FaultPlan* plan, std::string* why);

}  // namespace torii::nic
