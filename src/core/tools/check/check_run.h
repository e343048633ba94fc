// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The part of one process in a check: it opens the drivers, meets the others as the plan says, and
// answers whoever asks.
#pragma once

#include <memory>
#include <vector>

#include "core/tools/check/check_data.h"
#include "core/tools/check/check_plan.h"
#include "core/tools/check/check_prober.h"

namespace torii::check {

class Run {
 public:
  // Opens the drivers that TORII_DRIVERS names, but self, and adds them to facts->endpoints.
  Run(uint32_t local_peers, Facts* facts);

  // Checks all pairs of this process. `stop` is a descriptor that turns readable when the check is
  // to be given up, or -1. False: that has happened.
  bool check(uint32_t self, const std::vector<Participant>& all, const Plan& plan, int stop,
             Observations* out);
  // Answers for so long; false as above.
  bool serve(uint64_t until_ns);

 private:
  PairSeen meet(uint32_t rank, const Facts& facts, bool network, uint64_t end_ns);
  // Where the questions of a pair have got to.
  struct Turn {
    uint8_t rail = 0;
    bool small = false;
    size_t tried[kRailsMax] = {};  // questions of other lengths
  };
  void ask(Prober& prober, uint32_t rank, bool settled, Turn* turn, uint64_t now);
  bool ask_long(Prober& prober, uint32_t rank, uint32_t rails, Turn* turn, uint64_t now);
  bool measure(Prober& prober, uint32_t rank, uint64_t end_ns, PairSeen* out);
  bool step(uint64_t until_ns);
  bool multicast(uint64_t end_ns, Observations* out);
  void sum_up(Prober& prober, uint32_t rank, const Turn& turn, PairSeen* out);
  void list_heard(Observations* out);

  std::vector<std::unique_ptr<Prober>> probers_;
  int stop_ = -1;
  bool stopped_ = false;
  uint64_t busy_ns_ = 0;  // last time something was asked or has arrived
};

}  // namespace torii::check
