// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The meaning of the observations: tables of nodes and paths, and findings with remedies.
#pragma once

#include <string>
#include <vector>

#include "core/tools/check/check_data.h"
#include "core/tools/check/check_plan.h"
#include "core/tools/table.h"

namespace torii::check {

enum class Severity {
  failure,  // a job would fail, hang or not start
  warning,  // it would run, but slower, or a part of the machine lies idle
  note      // nothing to do
};

struct Finding {
  Severity severity = Severity::note;
  std::string thing;   // "eth1 of n2"
  std::string value;   // what about it
  std::string remedy;  // empty for notes
};

struct Verdict {
  Table nodes;
  Table ways;                     // between places and inside them, one row for each direction
  std::vector<Finding> findings;  // failures first
  std::string summary;            // a line for each kind of way
};

Verdict judge(const std::vector<Participant>& all, const Plan& plan);

// With everything, or only what one has to know.
std::string text_of(const Verdict& verdict, bool verbose);
std::string json_of(const Verdict& verdict);
bool has(const Verdict& verdict, Severity severity);

}  // namespace torii::check
