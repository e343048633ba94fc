// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/tune_file.h"

#include <errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.h"
#include "core/base/small_file.h"

namespace torii {
namespace {

constexpr std::string_view kFirstWord = "torii-tune ";
constexpr std::string_view kVersion = "1";
constexpr char kFileName[] = "/torii/tune.conf";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The user's own words in a message, at a length that can be read.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 60;
  return "\"" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "") + "\"";
}

class Parser {
 public:
  Parser(std::vector<TunedMachine>* out, TuneFault* fault) : out_(*out), fault_(*fault) {}

  bool parse(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = trimmed(text.substr(at, end - at));
      at = end + 1;
      ++line_;
      if (line.empty() || line[0] == '#') continue;
      if (!(begun_ ? statement(line) : first(line))) return false;
    }
    if (!begun_) return refuse("it does not begin with \"torii-tune 1\"", "");
    return true;
  }

 private:
  bool refuse(const std::string& what, std::string_view line) {
    fault_.line = line.empty() ? 0 : line_;
    fault_.text = line.empty() ? what : quoted(line) + ": " + what;
    out_.clear();
    return false;
  }

  bool first(std::string_view line) {
    // Another kind of file may hold secrets: nothing of it is quoted.
    if (line.substr(0, kFirstWord.size()) != kFirstWord)
      return refuse("it does not begin with \"torii-tune 1\"", "");
    const std::string_view version = trimmed(line.substr(kFirstWord.size()));
    fault_.newer = version != kVersion && !version.empty() &&
                   version.find_first_not_of("0123456789") == std::string_view::npos;
    if (version != kVersion) return refuse("this Torii reads version 1 only", line);
    begun_ = true;
    return true;
  }

  bool statement(std::string_view line) {
    if (line[0] == '[') return machine(line);
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
      return refuse("expected [MACHINE] or NAME = VALUE", line);
    if (out_.empty()) return refuse("expected [MACHINE] before the first value", line);
    const std::string_view value = trimmed(line.substr(equals + 1));
    TunedMachine& machine = out_.back();
    if (name == "measured") {
      machine.measured = value;
      return true;
    }
    for (const TuneEntry& entry : machine.entries)
      if (entry.name == name) return refuse("there is another value for this machine", line);
    machine.entries.push_back({std::string(name), std::string(value), line_});
    return true;
  }

  bool machine(std::string_view line) {
    if (line.back() != ']') return refuse("expected ] at the end", line);
    const std::string_view signature = trimmed(line.substr(1, line.size() - 2));
    if (signature.empty()) return refuse("expected a machine between the brackets", line);
    for (const TunedMachine& other : out_)
      if (other.signature == signature) return refuse("this machine comes twice", line);
    out_.push_back({std::string(signature), "", {}});
    return true;
  }

  std::vector<TunedMachine>& out_;
  TuneFault& fault_;
  unsigned line_ = 0;
  bool begun_ = false;
};

}  // namespace

bool parse_tune_file(std::string_view text, std::vector<TunedMachine>* out, TuneFault* fault) {
  out->clear();
  *fault = {};
  return Parser(out, fault).parse(text);
}

std::string tune_file_text(const std::vector<TunedMachine>& machines) {
  std::string text =
      "# Switch points that torii-tune has measured. Every process reads the values of the "
      "machine\n"
      "# it runs on. Remove a machine, or the file, to go back to built-in values.\n" +
      std::string(kFirstWord) + std::string(kVersion) + "\n";
  for (const TunedMachine& machine : machines) {
    text += "\n[" + machine.signature + "]\n";
    if (!machine.measured.empty()) text += "measured = " + machine.measured + "\n";
    for (const TuneEntry& entry : machine.entries) text += entry.name + " = " + entry.value + "\n";
  }
  return text;
}

bool read_tune_file(const std::string& path, std::vector<TunedMachine>* out, bool* exists,
                    TuneFault* fault) {
  out->clear();
  *fault = {};
  std::string text;
  *exists = true;
  if (!read_beginning(path, kTuneFileMax + 1, &text)) {
    *exists = errno != ENOENT && errno != ENOTDIR;
    if (!*exists) return true;
    fault->text = errno == EINVAL ? "it is no file" : format_text("%s", strerror(errno));
    return false;
  }
  if (text.size() > kTuneFileMax) {
    fault->text = format_text("it has more than %zu bytes", kTuneFileMax);
    return false;
  }
  return parse_tune_file(text, out, fault);
}

std::string user_tune_file() {
  const char* folder = getenv("XDG_CONFIG_HOME");
  if (folder && folder[0] == '/') return std::string(folder) + kFileName;
  const char* home = getenv("HOME");
  if (home && home[0] == '/') return std::string(home) + "/.config" + kFileName;
  return {};
}

std::string system_tune_file() { return std::string(TORII_SYSCONFDIR) + kFileName; }

TuneChoice choose_tuned(const std::string& wanted, const std::string& signature) {
  TuneChoice choice;
  const bool automatic = wanted == "auto";
  std::vector<std::string> paths{wanted};
  if (automatic) paths = {user_tune_file(), system_tune_file()};
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    std::vector<TunedMachine> machines;
    bool exists = false;
    const bool good = read_tune_file(path, &machines, &exists, &choice.fault);
    if (!exists && !automatic) choice.missing = "there is no such file";
    if (!exists) continue;
    choice.path = path;
    if (!good) return choice;
    for (TunedMachine& machine : machines) {
      if (machine.signature != signature) continue;
      choice.machine = std::move(machine);
      return choice;
    }
    if (!automatic) choice.missing = "it has nothing about this machine";
  }
  return choice;
}

}  // namespace torii
