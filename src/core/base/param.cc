// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/param.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/emulated.h"
#include "core/base/hardware.h"
#include "core/base/log.h"
#include "core/base/tune_file.h"

extern "C" char** environ;

namespace torii {
namespace {

// Variables with the prefix that are no parameters: the start-up of jobs reads them (core/boot).
constexpr const char* kBootVariables[] = {"TORII_RANK",   "TORII_SIZE",       "TORII_JOB",
                                          "TORII_NODE",   "TORII_LOCAL_RANK", "TORII_LOCAL_SIZE",
                                          kFabricVariable};

struct Row {
  const char* name;
  ParamKind kind;
  int64_t min;
  int64_t max;
  const char* doc;
  void* (*field)(Params&);
  bool tuned = false;
};

#define TORII_FIELD(name) [](Params& p) -> void* { return &p.name; }
constexpr Row kRows[] = {
#define TORII_PARAM_SIZE(name, value, min, max, doc) \
  {#name, ParamKind::size, min, max, doc, TORII_FIELD(name)},
#define TORII_PARAM_TUNED(name, max, doc) \
  {#name, ParamKind::size, 0, max, doc, TORII_FIELD(name), true},
#define TORII_PARAM_INT(name, value, min, max, doc) \
  {#name, ParamKind::integer, min, max, doc, TORII_FIELD(name)},
#define TORII_PARAM_BOOL(name, value, doc) \
  {#name, ParamKind::boolean, 0, 1, doc, TORII_FIELD(name)},
#define TORII_PARAM_TEXT(name, value, doc) {#name, ParamKind::text, 0, 0, doc, TORII_FIELD(name)},
#include "core/base/params.def"
#undef TORII_PARAM_SIZE
#undef TORII_PARAM_TUNED
#undef TORII_PARAM_INT
#undef TORII_PARAM_BOOL
#undef TORII_PARAM_TEXT
};
#undef TORII_FIELD
constexpr size_t kRowCount = sizeof(kRows) / sizeof(kRows[0]);
constexpr const char* kEnvironment = "environment";
constexpr const char* kDefault = "default";

std::string value_text(const Row& row, Params& values) {
  const void* field = row.field(values);
  switch (row.kind) {
    case ParamKind::size:
      return size_text(*static_cast<const uint64_t*>(field));
    case ParamKind::integer:
      return std::to_string(*static_cast<const int64_t*>(field));
    case ParamKind::boolean:
      return *static_cast<const bool*>(field) ? "1" : "0";
    case ParamKind::text:
      break;
  }
  return *static_cast<const std::string*>(field);
}

bool parse_size(std::string_view text, uint64_t* bytes) {
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, *bytes);
  if (error != std::errc() || end - stop > 1) return false;
  unsigned shift = 0;
  if (stop != end) {
    switch (*stop) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        return false;
    }
  }
  if (*bytes > UINT64_MAX >> shift) return false;
  *bytes <<= shift;
  return true;
}

bool parse_bool(std::string_view text, bool* value) {
  static constexpr const char* kWords[] = {"0", "no", "false", "off", "1", "yes", "true", "on"};
  for (size_t i = 0; i < std::size(kWords); ++i) {
    if (text.size() != strlen(kWords[i]) || strncasecmp(text.data(), kWords[i], text.size())) {
      continue;
    }
    *value = i >= 4;
    return true;
  }
  return false;
}

// Gives the field of `row` the value `text`; false, with nothing changed, if it is not allowed.
bool assign(const Row& row, std::string_view text, Params& values) {
  void* field = row.field(values);
  switch (row.kind) {
    case ParamKind::size: {
      uint64_t bytes = 0;
      if (!parse_size(text, &bytes) || bytes < static_cast<uint64_t>(row.min) ||
          bytes > static_cast<uint64_t>(row.max)) {
        return false;
      }
      *static_cast<uint64_t*>(field) = bytes;
      return true;
    }
    case ParamKind::integer: {
      int64_t number = 0;
      const char* end = text.data() + text.size();
      auto [stop, error] = std::from_chars(text.data(), end, number);
      if (error != std::errc() || stop != end || number < row.min || number > row.max) return false;
      *static_cast<int64_t*>(field) = number;
      return true;
    }
    case ParamKind::boolean:
      return parse_bool(text, static_cast<bool*>(field));
    case ParamKind::text:
      break;
  }
  LogLevel level;
  if (field == &values.log && !parse_log_level(text, &level)) return false;
  if (field == &values.wait && text != "auto" && text != "yield" && text != "spin" &&
      text != "sleep")
    return false;
  *static_cast<std::string*>(field) = text;
  return true;
}

std::string expectation(const Row& row, Params& values) {
  switch (row.kind) {
    case ParamKind::size:
      return "expected bytes with an optional suffix k, m or g, from " + size_text(row.min) +
             " to " + size_text(row.max);
    case ParamKind::integer:
      return "expected an integer from " + std::to_string(row.min) + " to " +
             std::to_string(row.max);
    case ParamKind::boolean:
      return "expected 1, yes, true or on, or 0, no, false or off";
    case ParamKind::text:
      break;
  }
  if (row.field(values) == &values.wait) return "expected auto, spin or sleep";
  return row.field(values) == &values.log ? "expected error, warning, info or debug"
                                          : "expected text";
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string_view>& valid) {
  return std::string(*std::min_element(valid.begin(), valid.end(), [&](auto a, auto b) {
    return edit_distance(name, a) < edit_distance(name, b);
  }));
}

// All processes of a job see the same environment: only the first one warns about it.
LogLevel complaint_level() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "TORII_RANK"}) {
    const char* rank = getenv(variable);
    if (rank) return strcmp(rank, "0") ? LogLevel::info : LogLevel::warning;
  }
  return LogLevel::warning;
}

class Registry {
 public:
  Registry() {
    for (size_t i = 0; i < kRowCount; ++i) {
      variables_[i] = std::string("TORII_") + kRows[i].name;
      for (char& c : variables_[i]) c = c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
      defaults_[i] = value_text(kRows[i], values);
      origins[i] = kDefault;
      infos[i] = {kRows[i].name,        variables_[i].c_str(), kRows[i].kind,
                  defaults_[i].c_str(), kRows[i].doc,          kRows[i].tuned};
    }
    const LogLevel complaint = complaint_level();
    read_environment(complaint);
    read_tuned(complaint);
  }

  // Gives the tuned parameters that nobody has set the values of the file in force, if any.
  void read_tuned(LogLevel complaint) {
    Params candidate = values;
    for (size_t i = 0; i < kRowCount; ++i) {
      if (!from_file_[i]) continue;
      from_file_[i] = false;
      origins[i] = kDefault;
      assign(kRows[i], defaults_[i], candidate);
    }
    values = candidate;
    TuneChoice choice = choose_tuned(values.tune_file, signature_of(hardware()));
    if (choice.missing[0] != 0) {
      log_message(complaint,
                  "TORII_TUNE_FILE=%s: %s; built-in values are used; torii-tune --output %s makes "
                  "it fit",
                  values.tune_file.c_str(), choice.missing, values.tune_file.c_str());
    }
    const TuneFault& fault = choice.fault;
    if (fault.text.empty() && take_tuned(choice.machine.entries, &candidate, &choice.fault)) {
      values = candidate;
      for (size_t i = 0; i < kRowCount; ++i)
        if (from_file_[i]) origins[i] = "tune file " + choice.path;
    }
    if (fault.text.empty()) return;
    log_message(complaint,
                "%s%s%s: %s; built-in values are used; run torii-tune to have the file written "
                "anew, or set TORII_TUNE_FILE= to ignore it",
                choice.path.c_str(), fault.line ? ":" : "",
                fault.line ? std::to_string(fault.line).c_str() : "", fault.text.c_str());
  }

  // Makes the value of the parameter `log` the level of the log.
  void apply_log_level() {
    LogLevel level;
    if (parse_log_level(values.log, &level)) set_log_level(level);
  }

  Params values;
  std::string origins[kRowCount];
  ParamInfo infos[kRowCount];

 private:
  void read_environment(LogLevel complaint) {
    for (size_t i = 0; i < kRowCount; ++i) {
      const char* text = getenv(infos[i].variable);
      if (!text) continue;
      if (assign(kRows[i], text, values)) {
        origins[i] = kEnvironment;
      } else {
        log_message(complaint, "%s=%s: %s; using %s", infos[i].variable, text,
                    expectation(kRows[i], values).c_str(), infos[i].default_text);
      }
    }
    report_unknown_variables(complaint);
  }

  // All entries, or none and a fault.
  bool take_tuned(const std::vector<TuneEntry>& entries, Params* out, TuneFault* fault) {
    bool taken[kRowCount] = {};
    std::vector<std::string_view> valid;
    for (const Row& row : kRows)
      if (row.tuned) valid.push_back(row.name);
    for (const TuneEntry& entry : entries) {
      const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                    [&](const Row& r) { return r.tuned && entry.name == r.name; });
      fault->line = entry.line;
      if (row == std::end(kRows)) {
        fault->text = entry.name + ": torii-tune knows no such value; did you mean " +
                      nearest(entry.name, valid) + "?";
        return false;
      }
      const auto index = static_cast<size_t>(row - kRows);
      Params checked;
      taken[index] = origins[index] == kDefault;
      if (!assign(*row, entry.value, taken[index] ? *out : checked)) {
        fault->text = entry.name + " = " + entry.value + ": " + expectation(*row, checked);
        return false;
      }
    }
    std::copy(std::begin(taken), std::end(taken), from_file_);
    return true;
  }

  void report_unknown_variables(LogLevel complaint) const {
    std::vector<std::string_view> valid(std::begin(kBootVariables), std::end(kBootVariables));
    for (const ParamInfo& info : infos) valid.push_back(info.variable);
    for (char** entry = environ; entry && *entry; ++entry) {
      std::string_view name(*entry);
      name = name.substr(0, name.find('='));
      if (name.substr(0, 6) != "TORII_") continue;
      if (std::find(valid.begin(), valid.end(), name) != valid.end()) continue;
      log_message(complaint,
                  "%.*s has no meaning to Torii; did you mean %s? (torii-info --params lists all)",
                  static_cast<int>(name.size()), name.data(), nearest(name, valid).c_str());
    }
  }

  bool from_file_[kRowCount] = {};
  std::string variables_[kRowCount];
  std::string defaults_[kRowCount];
};

// Never destroyed: messages at the end of the process may still look at parameters.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

size_t param_count() { return kRowCount; }

const ParamInfo& param_info(size_t index) {
  TORII_ASSERT(index < kRowCount);
  return registry().infos[index];
}

const Params& params() { return registry().values; }

Status param_set(std::string_view name, std::string_view text, std::string_view origin,
                 std::string* why) {
  Registry& r = registry();
  std::vector<std::string_view> valid;
  for (size_t i = 0; i < kRowCount; ++i) {
    const Row& row = kRows[i];
    valid.push_back(row.name);
    if (name != row.name) continue;
    Params candidate = r.values;
    if (!assign(row, text, candidate)) {
      *why = std::string(name) + "=" + std::string(text) + ": " + expectation(row, candidate);
      return Status::invalid;
    }
    if (r.origins[i] == kEnvironment) return Status::ok;
    r.values = candidate;
    r.origins[i] = origin;
    if (row.field(r.values) == &r.values.log) r.apply_log_level();
    if (row.field(r.values) == &r.values.tune_file) r.read_tuned(complaint_level());
    return Status::ok;
  }
  *why = "there is no parameter " + std::string(name) + "; did you mean " + nearest(name, valid) +
         "? (torii-info --params lists all)";
  return Status::invalid;
}

std::string param_text(size_t index) {
  TORII_ASSERT(index < kRowCount);
  return value_text(kRows[index], registry().values);
}

std::string param_origin(size_t index) {
  TORII_ASSERT(index < kRowCount);
  return registry().origins[index];
}

bool param_is_set(std::string_view name) {
  size_t index = 0;
  while (index < kRowCount && name != kRows[index].name) index++;
  return param_origin(index) != "default";
}

}  // namespace torii
