// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The text form of a plan:
//   plan  = [ item *( "," item ) ]
//   item  = "seed=" number | "delay-max=" time | fault "=" percent | rule
//   rule  = fault "#" number [ "+" ] *( "/peer=" number | "/byte" number "=" number )
#include <algorithm>
#include <charconv>
#include <string>

#include "core/base/log.h"
#include "drivers/fault/fault.h"

namespace torii {
namespace {

constexpr std::string_view kFaultNames[kFaultCount] = {
    "drop", "duplicate", "reorder", "delay", "corrupt", "truncate", "refuse", "deny", "kill"};

bool parse_number(std::string_view text, uint64_t max, uint64_t* out) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *out, hex ? 16 : 10);
  return result.ec == std::errc() && result.ptr == end && *out <= max;
}

bool parse_percent(std::string_view text, uint32_t* ppm) {
  if (!text.ends_with('%')) return false;
  text.remove_suffix(1);
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view fraction = point < text.size() ? text.substr(point + 1) : "0";
  uint64_t whole, part;
  if (text.starts_with("0x") || fraction.starts_with("0x")) return false;
  if (!parse_number(text.substr(0, point), 100, &whole) || fraction.size() > 4 ||
      !parse_number(fraction, 9999, &part))
    return false;
  for (size_t i = fraction.size(); i < 4; i++) part *= 10;
  *ppm = static_cast<uint32_t>(whole * 10000 + part);
  return *ppm <= 1000000;
}

bool parse_time(std::string_view text, uint64_t* ns) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  for (const auto& [unit, scale] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    if (!parse_number(text, 1000000000, ns)) return false;
    *ns *= scale;
    return *ns <= 3600000000000;
  }
  return false;
}

bool parse_fault(std::string_view text, Fault* fault) {
  const auto it = std::find(std::begin(kFaultNames), std::end(kFaultNames), text);
  *fault = static_cast<Fault>(it - std::begin(kFaultNames));
  return it != std::end(kFaultNames);
}

// One condition of a rule; null if it is good, else what is expected.
const char* parse_condition(std::string_view text, FaultRule* rule) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  uint64_t number, offset;
  if (name == "peer") {
    if (!parse_number(value, kNoPeer - 1, &number)) return "a peer number after /peer=";
    rule->peer = static_cast<PeerId>(number);
    return nullptr;
  }
  if (!name.starts_with("byte")) return "/peer=NUMBER or /byteOFFSET=VALUE as a condition";
  if (!parse_number(name.substr(4), 65535, &offset) || !parse_number(value, 255, &number))
    return "/byteOFFSET=VALUE with an offset up to 65535 and a value up to 255";
  rule->offset = static_cast<int32_t>(offset);
  rule->value = static_cast<uint8_t>(number);
  return nullptr;
}

constexpr const char* kFaultExpected =
    "one of drop, duplicate, reorder, delay, corrupt, truncate, refuse, deny, kill, seed, "
    "delay-max";

const char* parse_rule(std::string_view item, FaultPlan* plan) {
  FaultRule rule;
  const size_t mark = item.find('#');
  if (!parse_fault(item.substr(0, mark), &rule.fault)) return kFaultExpected;
  std::string_view rest = item.substr(mark + 1);
  std::string_view count = rest.substr(0, rest.find('/'));
  rest.remove_prefix(count.size());
  if (count.ends_with('+')) {
    rule.and_later = true;
    count.remove_suffix(1);
  }
  if (!parse_number(count, ~uint64_t{0}, &rule.nth) || rule.nth == 0)
    return "a number from 1 after '#', such as drop#3";
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the slash
    const std::string_view condition = rest.substr(0, rest.find('/'));
    if (const char* expected = parse_condition(condition, &rule)) return expected;
    rest.remove_prefix(condition.size());
  }
  if (rule.fault == Fault::deny && rule.offset >= 0)
    return "no /byte condition: deny is not about frames";
  plan->rules.push_back(rule);
  return nullptr;
}

// Adds one item to the plan; null if it is good, else what is expected.
const char* parse_item(std::string_view item, FaultPlan* plan) {
  if (item.find('#') != item.npos) return parse_rule(item, plan);
  const size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(std::min(equals + 1, item.size()));
  if (name == "seed")
    return parse_number(value, ~uint64_t{0}, &plan->seed) ? nullptr : "a number after seed=";
  if (name == "delay-max")
    return parse_time(value, &plan->delay_max_ns)
               ? nullptr
               : "a time up to one hour after delay-max=, such as 200us";
  Fault fault;
  if (!parse_fault(name, &fault)) return kFaultExpected;
  if (fault == Fault::kill) return "a count: peers die by rule only, such as kill#100/peer=1";
  return parse_percent(value, &plan->ppm[static_cast<size_t>(fault)])
             ? nullptr
             : "a percentage from 0% to 100% with at most 4 decimals, such as drop=0.5%";
}

}  // namespace

bool FaultPlan::uses(Fault fault) const {
  return ppm[static_cast<size_t>(fault)] ||
         std::any_of(rules.begin(), rules.end(), [&](const auto& r) { return r.fault == fault; });
}

Status parse_fault_plan(std::string_view text, FaultPlan* plan, std::string* why) {
  FaultPlan parsed;
  size_t position = 0;
  while (position < text.size()) {
    const std::string_view item =
        text.substr(position, std::min(text.find(',', position), text.size()) - position);
    if (const char* expected = parse_item(item, &parsed)) {
      *why = format_text("fault plan: '%.*s' at character %zu is not understood; expected %s",
                         static_cast<int>(item.size()), item.data(), position + 1, expected);
      return Status::invalid;
    }
    position += item.size() + 1;
  }
  *plan = parsed;
  return Status::ok;
}

}  // namespace torii
