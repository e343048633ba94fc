// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the verdict calls things, and what it says of many of them at once.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/tools/check/check_data.h"
#include "core/tools/check/check_plan.h"
#include "core/tools/table.h"

namespace torii::check {

std::string microseconds(uint64_t ns);  // "-" for 0

// Nodes by their host names, processes by node and, if there are several, by rank.
class Names {
 public:
  Names(const std::vector<Participant>& all, const Plan& plan);
  const std::string& place(uint32_t number) const { return places_[number]; }
  const std::string& process(uint32_t rank) const { return processes_[rank]; }
  // The properties of the nodes.
  Table table() const;
  // "a, b and 7 more"
  static std::string list(const std::vector<std::string>& words, size_t most);

 private:
  const std::vector<Participant>& all_;
  const Plan& plan_;
  std::vector<std::string> places_, processes_;
};

// All ways of a kind in one line.
class Summary {
 public:
  void add(const std::string& driver, const RailSeen& rail, uint32_t sent, uint32_t arrived);
  std::string text() const;

 private:
  std::set<std::string> drivers_, interfaces_;
  std::set<uint32_t> mtus_;
  uint64_t least_ns_ = 0, most_ns_ = 0;  // of medians
  uint64_t sent_ = 0, arrived_ = 0;
};

}  // namespace torii::check
