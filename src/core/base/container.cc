// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/container.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/log.h"
#include "core/base/small_file.h"

namespace torii {
namespace {

constexpr size_t kEnvironmentMax = 1 << 20;
constexpr int kAncestorsMax = 64;
constexpr pid_t kUnknown = -1;

// A variable that each launcher sets for its children and nobody else, as "NAME=value"; empty:
// there is no launcher.
std::string launchers_word() {
  for (const char* name : {"PMIX_NAMESPACE", "PMI_RANK", "PMI_ID", "TORII_RANK"})
    if (const char* const value = getenv(name)) return std::string(name) + "=" + value;
  return "";
}

bool was_told(pid_t pid, const std::string& word) {
  std::string environment(1, '\0');
  if (!read_beginning(format_text("/proc/%d/environ", pid), kEnvironmentMax, &environment))
    return false;
  return environment.find('\0' + word + '\0') != std::string::npos;
}

// 0: it is outside of this PID namespace.
pid_t parent_of(pid_t pid) {
  std::string text;
  if (!read_beginning(format_text("/proc/%d/stat", pid), 1024, &text)) return kUnknown;
  // The name of the program, in parentheses, may contain anything.
  const char* const at = strrchr(text.c_str(), ')');
  return at && strlen(at) > 4 ? atoi(at + 4) : kUnknown;
}

}  // namespace

bool launcher_is_outside() {
  const std::string word = launchers_word();
  if (word.empty()) return false;
  pid_t pid = getpid();  // it may have set the variable itself
  for (int i = 0; i < kAncestorsMax && pid > 0 && was_told(pid, word); i++) pid = parent_of(pid);
  return pid == 0;
}

}  // namespace torii
