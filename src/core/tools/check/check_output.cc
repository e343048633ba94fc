// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>

#include "core/base/log.h"
#include "core/tools/check/check_verdict.h"

namespace torii::check {
namespace {

constexpr size_t kRowsAtOnce = 24;  // longer tables only for those who ask

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::failure:
      return "FAILURE";
    case Severity::warning:
      return "warning";
    default:
      return "note";
  }
}

std::string conclusion(const Verdict& verdict) {
  const auto count = [&](Severity severity) {
    return static_cast<size_t>(
        std::count_if(verdict.findings.begin(), verdict.findings.end(),
                      [&](const Finding& one) { return one.severity == severity; }));
  };
  const size_t failures = count(Severity::failure), warnings = count(Severity::warning);
  const std::string also =
      warnings ? format_text(", %zu warning%s", warnings, warnings == 1 ? "" : "s") : "";
  if (failures)
    return format_text("a job would fail: %zu failure%s", failures, failures == 1 ? "" : "s") +
           also;
  return warnings ? "a job would run" + also : "all well";
}

}  // namespace

std::string text_of(const Verdict& verdict, bool verbose) {
  const bool trouble = has(verdict, Severity::failure) || has(verdict, Severity::warning);
  std::string out;
  if (verbose || verdict.nodes.rows.size() <= kRowsAtOnce) out += text_of(verdict.nodes) + "\n";
  if (!verdict.ways.rows.empty() &&
      (verbose || (trouble && verdict.ways.rows.size() <= kRowsAtOnce)))
    out += text_of(verdict.ways, 160) + "\n";
  out += verdict.summary;
  for (const Finding& one : verdict.findings) {
    if (one.severity == Severity::note && !verbose) continue;
    out += std::string(name_of(one.severity)) + ": " + one.thing + ": " + one.value + "\n";
    if (!one.remedy.empty()) out += "  remedy: " + one.remedy + "\n";
  }
  return out + "torii-check: " + conclusion(verdict) + "\n";
}

std::string json_of(const Verdict& verdict) {
  Table findings;
  findings.name = "findings";
  findings.columns = {"severity", "thing", "value", "remedy"};
  for (const Finding& one : verdict.findings)
    findings.rows.push_back({name_of(one.severity), one.thing, one.value, one.remedy});
  return torii::json_of({verdict.nodes, verdict.ways, findings});
}

}  // namespace torii::check
