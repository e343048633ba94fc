// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Injects faults into any driver: what a bad network, a full queue, a refusing kernel or a dying
// peer would do, by chance (seeded) or by script. Acts on what is sent. See README.md for the text
// form of a plan.
#pragma once

#include <string_view>
#include <vector>

#include "drivers/decorator.h"

namespace torii {

enum class Fault : uint8_t {
  drop,       // the frame vanishes
  duplicate,  // it arrives a second time, perhaps later
  reorder,    // it arrives after one to three later frames, or after delay_max_ns
  delay,      // it and all frames to this peer behind it wait up to delay_max_ns
  corrupt,    // one bit is flipped
  truncate,   // its end is missing
  refuse,     // send() does not take it; put and get answer `again`
  deny,       // put and get answer `denied`
  kill,       // the peer is dead from here on
};
inline constexpr size_t kFaultCount = 9;

// "the nth frame to `peer` whose byte `offset` is `value`". Deny counts puts and gets, refuse
// counts frames offered, the others frames taken.
struct FaultRule {
  Fault fault = Fault::drop;
  uint64_t nth = 1;
  bool and_later = false;  // also all later ones
  PeerId peer = kNoPeer;   // kNoPeer: any
  int32_t offset = -1;     // -1: any content
  uint8_t value = 0;
  uint64_t seen = 0;  // counted while running
};

struct FaultPlan {
  uint64_t seed = 1;
  uint32_t ppm[kFaultCount] = {};  // chance of each fault, times in a million
  uint64_t delay_max_ns = 1000000;
  std::vector<FaultRule> rules;

  bool uses(Fault fault) const;
};

// Reads the text form. `invalid`, with the item and the remedy in *why, if it is not one.
Status parse_fault_plan(std::string_view text, FaultPlan* plan, std::string* why);

// Opens the driver below and wraps it. Declares what is left of its promises: kReliable goes with
// drop, duplicate, reorder, corrupt and truncate.
std::unique_ptr<Driver> wrap_fault(const OpenBelow& open_below, const DriverEnv& env,
                                   const FaultPlan& plan);

}  // namespace torii
