// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/log.h"

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "core/base/host_name.h"

namespace torii {
namespace {

constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug"};
constexpr int kUnset = -1;
std::atomic<int> level_in_force{kUnset};

constexpr uint64_t kLinesOfAKind = 100;

// How often something was said. Two things whose hashes share a place push each other out.
class Repetitions {
 public:
  // Counts once more; the number until now.
  uint64_t count(uint64_t hash) {
    Place& place = places_[hash % kPlaces];
    if (place.hash.exchange(hash, std::memory_order_relaxed) != hash)
      place.times.store(0, std::memory_order_relaxed);
    return place.times.fetch_add(1, std::memory_order_relaxed) + 1;
  }

 private:
  static constexpr size_t kPlaces = 251;
  struct Place {
    std::atomic<uint64_t> hash;
    std::atomic<uint64_t> times;
  };
  Place places_[kPlaces] = {};
};
Repetitions texts, kinds;

bool power_of_ten(uint64_t n) {
  while (n % 10 == 0) n /= 10;
  return n == 1;
}

// The same text is written the 1st, 10th, 100th time and so on; so are, after the first hundred,
// texts of one format. Adds what is not written otherwise.
bool worth_writing(const char* format, std::string* text) {
  const uint64_t times = texts.count(std::hash<std::string>()(*text));
  if (!power_of_ten(times)) return false;
  if (times > 1) {
    *text += format_text(" (%llu times)", static_cast<unsigned long long>(times));
    return true;
  }
  const uint64_t of_kind = kinds.count(reinterpret_cast<uintptr_t>(format));
  if (of_kind <= kLinesOfAKind) return true;
  *text += format_text(" (line %llu like this; most are left out)",
                       static_cast<unsigned long long>(of_kind));
  return power_of_ten(of_kind);
}

std::string format_list(const char* format, va_list arguments) {
  char small[512];
  va_list copy;
  va_copy(copy, arguments);
  int length = vsnprintf(small, sizeof small, format, copy);
  va_end(copy);
  if (length < 0) return format;
  if (static_cast<size_t>(length) < sizeof small) return std::string(small, length);
  std::string text(length, '\0');
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

void write_all(const std::string& text) {
  const char* from = text.data();
  size_t left = text.size();
  while (left) {
    ssize_t n = write(STDERR_FILENO, from, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    from += n;
    left -= static_cast<size_t>(n);
  }
}

void write_message(LogLevel level, const std::string& text) {
  std::string line = format_text("torii[%s:%ld] %s: ", host_name().c_str(),
                                 static_cast<long>(getpid()), kLevelNames[static_cast<int>(level)]);
  size_t end = text.find_last_not_of('\n');
  for (size_t i = 0; end != std::string::npos && i <= end; ++i) {
    // Names from other processes may be quoted in a message: no terminal control gets through.
    unsigned char c = text[i];
    line += c == '\n' ? ' ' : c < 0x20 || c == 0x7f ? '?' : static_cast<char>(c);
  }
  line += '\n';
  write_all(line);
}

}  // namespace

bool parse_log_level(std::string_view text, LogLevel* level) {
  for (int i = 0; i < 4; ++i) {
    if (text != kLevelNames[i]) continue;
    *level = static_cast<LogLevel>(i);
    return true;
  }
  return false;
}

void set_log_level(LogLevel level) {
  level_in_force.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel log_level() {
  int level = level_in_force.load(std::memory_order_relaxed);
  if (level != kUnset) return static_cast<LogLevel>(level);
  // Messages may come before the parameters are read, which then report a bad TORII_LOG.
  LogLevel first = LogLevel::warning;
  const char* text = getenv("TORII_LOG");
  if (text) parse_log_level(text, &first);
  set_log_level(first);
  return first;
}

void log_message(LogLevel level, const char* format, ...) {
  int saved = errno;
  if (level > log_level()) return;
  errno = saved;
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  const bool problem = level <= LogLevel::warning;
  if (!problem || worth_writing(format, &text)) write_message(level, text);
  errno = saved;
}

void print_line(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string line = format_list(format, arguments) + '\n';
  va_end(arguments);
  write_all(line);
}

std::string format_text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

void assertion_failed(const char* condition, const char* file, int line) {
  write_message(LogLevel::error,
                format_text("%s:%d: internal error: %s does not hold; please report this", file,
                            line, condition));
  abort();
}

}  // namespace torii
