// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "core/base/host_name.h"

using namespace torii;

namespace {

std::string captured(LogLevel threshold, void (*speak)()) {
  set_log_level(threshold);
  testing::internal::CaptureStderr();
  speak();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, OneLineWithHostAndProcess) {
  std::string expected =
      "torii[" + host_name() + ":" + std::to_string(getpid()) + "] warning: value 7 of name\n";
  EXPECT_EQ(captured(LogLevel::warning, [] { TORII_WARN("value %d of %s\n", 7, "name"); }),
            expected);
}

// A pipe that keeps what was written apart shows whether a long line goes out in one piece.
TEST(Log, ALongLineIsOneWrite) {
  const std::string text(3000, 'x');
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  print_line("%s", text.c_str());
  dup2(before, STDERR_FILENO);
  char first[4096];
  const ssize_t bytes = read(ends[0], first, sizeof first);
  for (int fd : {ends[0], ends[1], before}) close(fd);
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(std::string(first, static_cast<size_t>(bytes)), text + "\n");
}

// In a process with a host name of its own.
TEST(HostName, MayBeAsLongAsTheSystemAllows) {
  const std::string name(64, 'h');
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0) _exit(77);
    _exit(host_name() == name ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "namespaces are not permitted here";
  EXPECT_EQ(status, 0);
}

TEST(Log, TheLevelDecides) {
  static int level;
  auto speak = [] {
    TORII_ERROR("e %d", level);
    TORII_WARN("w %d", level);
    TORII_INFO("i %d", level);
    TORII_DEBUG("d %d", level);
  };
  const char* const names[] = {"error", "warning", "info", "debug"};
  for (level = 0; level < 4; ++level) {
    std::string text = captured(static_cast<LogLevel>(level), speak);
    for (int i = 0; i < 4; ++i) {
      bool shown = text.find(std::string("] ") + names[i] + ": ") != std::string::npos;
      EXPECT_EQ(shown, i <= level) << names[i] << " at level " << names[level];
    }
  }
}

size_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Log, RepeatedMessagesAreCounted) {
  std::string text = captured(LogLevel::info, [] {
    for (int i = 0; i < 5000; ++i) TORII_WARN("the same thing");
    for (int i = 0; i < 20; ++i) TORII_INFO("asked for");
  });
  EXPECT_NE(text.find("warning: the same thing\n"), std::string::npos) << text;
  EXPECT_NE(text.find("warning: the same thing (1000 times)\n"), std::string::npos) << text;
  EXPECT_EQ(lines_of(text), 4u + 20u) << text;
}

TEST(Log, ManyMessagesOfAKindAreCounted) {
  std::string text = captured(LogLevel::warning, [] {
    for (int i = 0; i < 5000; ++i) TORII_WARN("thing %d", i);
    TORII_WARN("another kind of thing");
  });
  EXPECT_NE(text.find(": thing 99\n"), std::string::npos);
  EXPECT_EQ(text.find(": thing 100\n"), std::string::npos);
  EXPECT_NE(text.find(": thing 999 (line 1000 like this; most are left out)\n"), std::string::npos);
  EXPECT_NE(text.find("another kind of thing\n"), std::string::npos);
  EXPECT_EQ(lines_of(text), 100u + 1u + 1u);
}

TEST(Log, MasksControlCharacters) {
  std::string text = captured(LogLevel::warning, [] { TORII_WARN("a\nb\x1b[31mc\x7f"); });
  EXPECT_NE(text.find(": a b?[31mc?\n"), std::string::npos) << text;
}

TEST(Log, PreservesErrnoAndFormatsIt) {
  std::string text = captured(LogLevel::warning, [] {
    errno = ENOENT;
    TORII_WARN("open: %m");
    TORII_INFO("not shown");
    EXPECT_EQ(errno, ENOENT);
  });
  EXPECT_NE(text.find("open: No such file or directory\n"), std::string::npos) << text;
}

TEST(Log, LongTextIsWhole) {
  std::string text = format_text("%s%d", std::string(5000, 'x').c_str(), 42);
  EXPECT_EQ(text, std::string(5000, 'x') + "42");
  EXPECT_EQ(format_text("%s", ""), "");
  EXPECT_EQ(format_text("%s", std::string(511, 'y').c_str()).size(), 511u);
  EXPECT_EQ(format_text("%s", std::string(512, 'y').c_str()).size(), 512u);
}

TEST(Log, ParsesLevels) {
  LogLevel level = LogLevel::info;
  EXPECT_TRUE(parse_log_level("error", &level));
  EXPECT_EQ(level, LogLevel::error);
  EXPECT_FALSE(parse_log_level("Error", &level));
  EXPECT_FALSE(parse_log_level("", &level));
  EXPECT_EQ(level, LogLevel::error);
}

TEST(LogDeath, AnAssertionNamesItsPlace) {
  TORII_ASSERT(1 + 1 == 2);
  EXPECT_DEATH(TORII_ASSERT(1 + 1 == 3), "log_test.cc:[0-9]+: internal error: 1 \\+ 1 == 3");
}

}  // namespace
