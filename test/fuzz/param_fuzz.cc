// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Texts of users: "name=value" of a parameter, or a plan of faults (first byte 'F').
#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/fault/fault.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

void try_plan(std::string_view text) {
  FaultPlan plan;
  std::string why;
  if (parse_fault_plan(text, &plan, &why) != Status::ok) return require(!why.empty());
  for (const FaultRule& rule : plan.rules) require(rule.nth > 0 && rule.offset >= -1);
}

// A value that is accepted, written out as text and read again, is the same.
void try_param(std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  std::string why;
  if (param_set(name, value, "fuzzer", &why) != Status::ok) return require(!why.empty());
  for (size_t i = 0; i < param_count(); ++i) {
    if (name != param_info(i).name) continue;
    const std::string first = param_text(i);
    require(param_set(name, first, "fuzzer", &why) == Status::ok);
    require(param_text(i) == first);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text[0] == 'F')
    try_plan(text.substr(1));
  else
    try_param(text);
  return 0;
}
