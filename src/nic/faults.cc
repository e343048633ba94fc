// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/faults.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/parse.h"

namespace torii::nic {
namespace {

constexpr std::string_view kNames[] = {"ber", "drop", "cut", "stall", "fail", "lose-irq"};

bool parse_time(std::string_view text, uint64_t* ns) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  for (const auto& [unit, scale] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    if (!parse_whole(text, ns) || *ns > 1000000000) return false;
    *ns *= scale;
    return true;
  }
  return false;
}

// Each returns null if the text is good, else what is expected.
const char* parse_fault(std::string_view text, FaultRule* rule) {
  auto [name, sign, value] = split_at(text, "=#");
  const auto it = std::find(std::begin(kNames), std::end(kNames), name);
  if (it == std::end(kNames)) return "one of ber, drop, cut, stall, fail, lose-irq, seed";
  rule->fault = static_cast<Fault>(it - std::begin(kNames));
  const bool is_ber = rule->fault == Fault::ber;
  if (is_ber || (rule->fault == Fault::drop && sign == '=')) {
    const bool is_rate = sign == '=' && parse_whole(value, &rule->rate) && rule->rate <= 0.5 &&
                         rule->rate >= (is_ber ? 0 : 1e-6);
    return is_rate  ? nullptr
           : is_ber ? "a rate from 0 to 0.5 after ber=, such as ber=1e-9"
                    : "a rate from 1e-6 to 0.5 after drop=, such as drop=1e-3";
  }
  rule->and_later = rule->fault == Fault::lose_irq && value.ends_with('+');
  if (rule->and_later) value.remove_suffix(1);
  return sign == '#' && parse_whole(value, &rule->nth) && rule->nth > 0
             ? nullptr
             : "a number from 1 after '#', such as cut#5";
}

const char* parse_condition(std::string_view text, FaultRule* rule) {
  const auto [name, mark, value] = split_at(text, "=");
  const bool on_cable = is_on_cable(rule->fault);
  if (name == (on_cable ? "cable" : "node"))
    return parse_whole(value, &rule->where) ? nullptr : "a number after /cable= or /node=";
  if (name == "for" && (rule->fault == Fault::cut || rule->fault == Fault::stall))
    return parse_time(value, &rule->for_ns) ? nullptr : "a time after /for=, such as 200us";
  return on_cable ? "/cable=NUMBER, or /for=TIME of a cut"
                  : "/node=NUMBER, or /for=TIME of a stall";
}

const char* parse_item(std::string_view item, FaultPlan* plan) {
  if (item.starts_with("seed="))
    return parse_whole(item.substr(5), &plan->seed) ? nullptr : "a number after seed=";
  FaultRule rule;
  for (size_t at = 0; at <= item.size();) {
    const size_t end = std::min(item.find('/', at), item.size());
    const std::string_view part = item.substr(at, end - at);
    const char* const expected = at ? parse_condition(part, &rule) : parse_fault(part, &rule);
    if (expected) return expected;
    at = end + 1;
  }
  if (rule.fault == Fault::stall && rule.for_ns == ~uint64_t{0})
    return "/for=TIME: how long a stall lasts";
  plan->rules.push_back(rule);
  return nullptr;
}

}  // namespace

Status parse_fault_plan(std::string_view text, FaultPlan* plan, std::string* why) {
  FaultPlan parsed;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    if (const char* expected = parse_item(item, &parsed)) {
      *why = format_text("fault plan: '%.*s' at character %zu is not understood; expected %s",
                         static_cast<int>(item.size()), item.data(), at + 1, expected);
      return Status::invalid;
    }
    at = end + 1;
  }
  *plan = parsed;
  return Status::ok;
}

}  // namespace torii::nic
