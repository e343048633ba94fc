// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Messages to the user on standard error, one line each, prefixed "torii[host:pid]".
// TORII_LOG=error|warning|info|debug names the least severe level shown; the default is warning.
#pragma once

#include <string>
#include <string_view>

namespace torii {

enum class LogLevel : int { error, warning, info, debug };

// Writes one message (printf format, %m works) and preserves errno. Control characters are masked.
// Never allocates while the level is off. An error or a warning that is repeated is counted: it is
// written the first, tenth and hundredth time, and so on.
void log_message(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_log_level(LogLevel level);
// Before the first set_log_level(): what TORII_LOG says, or warning.
LogLevel log_level();
// Turns "error", "warning", "info" or "debug" into *level; false for any other text.
bool parse_log_level(std::string_view text, LogLevel* level);
// Writes one line to standard error as it is, and its end. One write, so that lines of several
// processes do not mix: C libraries write a long line to an unbuffered stream in pieces.
void print_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

// std::string from a printf format.
std::string format_text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace torii

#define TORII_ERROR(...) ::torii::log_message(::torii::LogLevel::error, __VA_ARGS__)
#define TORII_WARN(...) ::torii::log_message(::torii::LogLevel::warning, __VA_ARGS__)
#define TORII_INFO(...) ::torii::log_message(::torii::LogLevel::info, __VA_ARGS__)
#define TORII_DEBUG(...)                                           \
  do {                                                             \
    if (::torii::log_level() >= ::torii::LogLevel::debug)          \
      ::torii::log_message(::torii::LogLevel::debug, __VA_ARGS__); \
  } while (0)

// An assertion about our own code; stays on in release builds. Never used on input from outside.
#define TORII_ASSERT(condition)                                  \
  do {                                                           \
    if (__builtin_expect(!(condition), 0))                       \
      ::torii::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (0)

namespace torii {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}
