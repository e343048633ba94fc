// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Parameters are read once per process, so every case runs in a child (a "death test" that exits
// 0 when its expectations hold); gtest matches what the child wrote on standard error.
#include "core/base/param.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "core/base/hardware.h"
#include "core/base/log.h"

using namespace torii;
using testing::ExitedWithCode;

namespace {

using Environment = std::vector<std::pair<const char*, const char*>>;

// Runs in the child: reads the parameters under `environment`; exit status 0 if `check` holds.
[[noreturn]] void run(const Environment& environment, bool (*check)()) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "TORII_RANK", "TORII_TUNE_FILE"}) {
    unsetenv(name);
  }
  setenv("HOME", "/nowhere", 1);  // nor has the user tuned this machine
  unsetenv("XDG_CONFIG_HOME");
  for (auto& [name, value] : environment) setenv(name, value, 1);
  params();
  exit(check() ? 0 : 1);
}

// Regular expressions for the whole of standard error.
const char kNothing[] = "^$";
std::string contains(const std::string& text) {
  std::string expression;
  for (char c : text) {
    if (ispunct(static_cast<unsigned char>(c))) expression += '\\';
    expression += c;
  }
  return expression;
}

bool always() { return true; }

size_t index_of(const std::string& name) {
  for (size_t i = 0; i < param_count(); ++i) {
    if (name == param_info(i).name) return i;
  }
  abort();
}

void expect_output(const Environment& environment, bool (*check)(), const std::string& output) {
  EXPECT_EXIT(run(environment, check), ExitedWithCode(0), testing::ContainsRegex(output));
}

TEST(Param, DefaultsAreQuiet) {
  expect_output(
      {},
      [] {
        return params().eager_limit == 0 && params().unexpected_memory == 64 << 20 &&
               params().shm_remote_read && !params().report &&
               params().drivers == "self,shm,ucx,udp" &&
               param_text(index_of("unexpected_memory")) == "64m" && !param_is_set("drivers") &&
               param_origin(index_of("unexpected_memory")) == "default";
      },
      kNothing);
}

TEST(Param, TheTableNamesVariablesAndDefaults) {
  expect_output(
      {{"TORII_SPIN_US", "7"}},
      [] {
        const ParamInfo& info = param_info(index_of("spin_us"));
        return std::string(info.variable) == "TORII_SPIN_US" && info.kind == ParamKind::integer &&
               std::string(info.default_text) == "50";
      },
      kNothing);
}

TEST(Param, ReadsSizesWithSuffix) {
  expect_output(
      {{"TORII_EAGER_LIMIT", "12k"},
       {"TORII_UNEXPECTED_MEMORY", "1024G"},
       {"TORII_EAGER_WINDOW", "4097"}},
      [] {
        return params().eager_limit == 12 << 10 && params().unexpected_memory == 1ull << 40 &&
               params().eager_window == 4097 && param_text(index_of("eager_limit")) == "12k" &&
               param_text(index_of("unexpected_memory")) == "1024g" &&
               param_text(index_of("eager_window")) == "4097" &&
               param_origin(index_of("eager_limit")) == "environment" &&
               param_is_set("eager_limit") && !param_is_set("drivers");
      },
      kNothing);
}

TEST(Param, RefusesBadSizes) {
  for (const char* text : {"12q", "", "k", "-1", "+1", " 1", "1 k", "1kk", "1.5k", "0x10", "1025m",
                           "2g", "18446744073709551616", "18446744073709551615k", "17179869184g"}) {
    std::string sentence = std::string("TORII_EAGER_LIMIT=") + text +
                           ": expected bytes with an optional suffix k, m or g, from 0 to 1g; "
                           "using 0\n";
    expect_output(
        {{"TORII_EAGER_LIMIT", text}},
        [] {
          return params().eager_limit == 0 && param_origin(index_of("eager_limit")) == "default";
        },
        contains(sentence));
  }
}

TEST(Param, RefusesSizesBelowTheRange) {
  expect_output(
      {{"TORII_UNEXPECTED_MEMORY", "63k"}}, [] { return params().unexpected_memory == 64 << 20; },
      contains("TORII_UNEXPECTED_MEMORY=63k: expected bytes with an optional suffix k, "
               "m or g, from 64k to 1024g; using 64m\n"));
}

TEST(Param, ReadsAndRefusesIntegers) {
  expect_output(
      {{"TORII_SPIN_US", "0"}, {"TORII_PEER_DEADLINE_MS", "86400000"}},
      [] { return params().spin_us == 0 && params().peer_deadline_ms == 86400000; }, kNothing);
  for (const char* text : {"99", "86400001", "1k", "", "ten", "99999999999999999999"}) {
    std::string sentence = std::string("TORII_BOOT_DEADLINE_MS=") + text +
                           ": expected an integer from 100 to 86400000; using 30000\n";
    expect_output(
        {{"TORII_BOOT_DEADLINE_MS", text}}, [] { return params().boot_deadline_ms == 30000; },
        contains(sentence));
  }
}

TEST(Param, ReadsAndRefusesBooleans) {
  for (const char* text : {"1", "yes", "true", "on", "YES", "On"}) {
    expect_output(
        {{"TORII_REPORT", text}}, [] { return params().report; }, kNothing);
  }
  for (const char* text : {"0", "no", "false", "off", "False"}) {
    expect_output(
        {{"TORII_SHM_REMOTE_READ", text}}, [] { return !params().shm_remote_read; }, kNothing);
  }
  for (const char* text : {"2", "maybe", "", "y"}) {
    expect_output(
        {{"TORII_REPORT", text}}, [] { return !params().report; },
        contains(std::string("TORII_REPORT=") + text +
                 ": expected 1, yes, true or on, or 0, no, false or off; using 0\n"));
  }
}

TEST(Param, TheLogLevelAppliesAtOnce) {
  expect_output(
      {{"TORII_LOG", "debug"}}, [] { return log_level() == LogLevel::debug; }, kNothing);
  expect_output(
      {{"TORII_LOG", "loud"}}, [] { return log_level() == LogLevel::warning; },
      contains("TORII_LOG=loud: expected error, warning, info or debug; using warning"));
  expect_output({{"TORII_LOG", "error"}, {"TORII_SPIN_US", "x"}}, always, kNothing);
}

TEST(Param, UnknownVariablesNameTheNearest) {
  expect_output({{"TORII_EAGER_LIMT", "1k"}}, always,
                contains("warning: TORII_EAGER_LIMT has no meaning to Torii; did you mean "
                         "TORII_EAGER_LIMIT?"));
  expect_output({{"TORII_RANKS", "1"}}, always, contains("did you mean TORII_RANK?"));
  expect_output({{"TORII_SIZE", "1"}, {"TORII_JOB", "a"}, {"TORII_NODE", "0"}}, always, kNothing);
}

TEST(Param, OnlyTheFirstRankComplains) {
  for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "TORII_RANK"}) {
    Environment bad = {{"TORII_EAGER_LIMT", "1k"}, {"TORII_SPIN_US", "x"}, {rank, "0"}};
    expect_output(bad, always, contains("TORII_SPIN_US=x") + ".*\n.*" + "TORII_EAGER_LIMT");
    bad.back().second = "1";
    expect_output(bad, always, kNothing);
    bad.push_back({"TORII_LOG", "info"});
    expect_output(bad, always, contains("info: TORII_EAGER_LIMT"));
  }
}

TEST(Param, SetKeepsItsOrigin) {
  expect_output(
      {},
      [] {
        std::string why;
        return param_set("eager_limit", "8k", "MCA parameter", &why) == Status::ok &&
               params().eager_limit == 8192 &&
               param_origin(index_of("eager_limit")) == "MCA parameter" &&
               param_set("log", "info", "option", &why) == Status::ok &&
               log_level() == LogLevel::info;
      },
      kNothing);
}

TEST(Param, TheEnvironmentWinsOverSet) {
  expect_output(
      {{"TORII_EAGER_LIMIT", "4k"}},
      [] {
        std::string why;
        return param_set("eager_limit", "8k", "MCA parameter", &why) == Status::ok &&
               params().eager_limit == 4096 &&
               param_origin(index_of("eager_limit")) == "environment";
      },
      kNothing);
}

TEST(Param, SetRefusesWithTheReason) {
  expect_output(
      {},
      [] {
        std::string why;
        bool ok = param_set("eager_limit", "8z", "option", &why) == Status::invalid &&
                  why ==
                      "eager_limit=8z: expected bytes with an optional suffix k, m or g, from 0 to "
                      "1g" &&
                  params().eager_limit == 0;
        return ok && param_set("eagerlimit", "8k", "option", &why) == Status::invalid &&
               why.find("did you mean eager_limit?") != std::string::npos &&
               param_origin(index_of("eager_limit")) == "default";
      },
      kNothing);
}

// A file of torii-tune; `machine` empty: this one.
class Tuned {
 public:
  explicit Tuned(const std::string& entries, const std::string& machine = "") {
    char pattern[] = "/tmp/torii-param-test.XXXXXX";
    close(mkstemp(pattern));
    path_ = pattern;
    std::ofstream(path_) << "torii-tune 1\n["
                         << (machine.empty() ? signature_of(hardware()) : machine) << "]\n"
                         << entries;
  }
  ~Tuned() { unlink(path_.c_str()); }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

bool is_automatic(const char* name) {
  return param_text(index_of(name)) == "0" && param_origin(index_of(name)) == "default";
}

TEST(Param, ATuneFileGivesValuesAndIsNamed) {
  const Tuned file("shm_eager_limit = 48k\nshm_ring_most = 2m\nmeasured = by me\n");
  expect_output(
      {{"TORII_TUNE_FILE", file.path()}},
      [] {
        return params().shm_eager_limit == 48 << 10 && params().shm_ring_most == 2 << 20 &&
               param_origin(index_of("shm_ring_most")) == "tune file " + params().tune_file &&
               is_automatic("shm_remote_min");
      },
      kNothing);
  expect_output(
      {{"TORII_TUNE_FILE", ""}}, [] { return is_automatic("shm_ring_most"); }, kNothing);
}

TEST(Param, OthersWinOverATuneFile) {
  const Tuned file("shm_eager_limit = 48k\nshm_remote_min = 1m\nshm_split_min = 2m\n");
  expect_output(
      {{"TORII_TUNE_FILE", file.path()}, {"TORII_SHM_EAGER_LIMIT", "5k"}},
      [] {
        std::string why;
        return param_set("shm_remote_min", "6k", "option", &why) == Status::ok &&
               params().shm_eager_limit == 5 << 10 && params().shm_remote_min == 6 << 10 &&
               params().shm_split_min == 2 << 20 &&
               param_origin(index_of("shm_eager_limit")) == "environment" &&
               param_origin(index_of("shm_remote_min")) == "option";
      },
      kNothing);
}

TEST(Param, AnotherTuneFileCanBeNamedLater) {
  static const Tuned first("shm_eager_limit = 48k\nshm_remote_min = 1m\n");
  static const Tuned second("shm_remote_min = 3m\nshm_split_min = 4m\n");
  expect_output(
      {{"XDG_CONFIG_HOME", "/nowhere"}},
      [] {
        std::string why;
        const auto set = [&](const char* name, const char* value) {
          return param_set(name, value, "MCA parameter", &why) == Status::ok;
        };
        return is_automatic("shm_eager_limit") && set("tune_file", first.path()) &&
               params().shm_eager_limit == 48 << 10 && set("shm_split_min", "7k") &&
               set("tune_file", second.path()) && is_automatic("shm_eager_limit") &&
               params().shm_remote_min == 3 << 20 && params().shm_split_min == 7 << 10 &&
               set("tune_file", "") && is_automatic("shm_remote_min");
      },
      kNothing);
}

TEST(Param, ATuneFileAppliesAsAWholeOrNotAtAll) {
  const auto untouched = [] {
    return is_automatic("shm_eager_limit") && is_automatic("shm_remote_min") &&
           is_automatic("shm_split_min") && is_automatic("shm_ring_most");
  };
  const char remedy[] =
      "; built-in values are used; run torii-tune to have the file written anew, or set "
      "TORII_TUNE_FILE= to ignore it\n";
  const Tuned bad("shm_eager_limit = 48k\n# x\nshm_remote_min = 12q\nshm_split_min = 1m\n");
  expect_output({{"TORII_TUNE_FILE", bad.path()}}, untouched,
                contains(std::string("warning: ") + bad.path() +
                         ":5: shm_remote_min = 12q: expected bytes with an optional suffix k, m or "
                         "g, from 0 to 1024g" +
                         remedy));
  // A value that the environment sets is checked all the same.
  expect_output(
      {{"TORII_TUNE_FILE", bad.path()}, {"TORII_SHM_REMOTE_MIN", "1k"}},
      [] { return is_automatic("shm_split_min") && params().shm_remote_min == 1024; },
      contains(":5: shm_remote_min = 12q"));
  const Tuned unknown("shm_eager_limit = 48k\nshm_remote_mim = 1m\n");
  expect_output({{"TORII_TUNE_FILE", unknown.path()}}, untouched,
                contains(std::string(unknown.path()) +
                         ":4: shm_remote_mim: torii-tune knows no such value; did you mean "
                         "shm_remote_min?" +
                         remedy));
  const Tuned foreign("wait = spin\n");  // a parameter, but none to be tuned
  expect_output({{"TORII_TUNE_FILE", foreign.path()}}, untouched,
                contains(":3: wait: torii-tune knows no such value"));
  const Tuned unclosed("[X\n");
  expect_output({{"TORII_TUNE_FILE", unclosed.path()}}, untouched,
                contains(std::string(unclosed.path()) + ":3: \"[X\": expected ]"));
  expect_output({{"TORII_TUNE_FILE", unclosed.path()}, {"TORII_RANK", "1"}}, untouched, kNothing);
  expect_output({{"TORII_TUNE_FILE", "/proc"}}, untouched,
                contains("/proc: it is no file; built-in values are used"));
}

TEST(Param, AnotherMachinesValuesAreLeftAlone) {
  const Tuned file("shm_eager_limit = 48k\n", "Some Processor, 7 processors, caches 1 2 3, attach");
  expect_output(
      {{"TORII_TUNE_FILE", file.path()}}, [] { return is_automatic("shm_eager_limit"); },
      contains(std::string("TORII_TUNE_FILE=") + file.path() +
               ": it has nothing about this machine; built-in values are used; torii-tune "
               "--output " +
               file.path() + " makes it fit\n"));
  expect_output(
      {{"TORII_TUNE_FILE", "/nowhere/f"}}, [] { return is_automatic("shm_eager_limit"); },
      contains("TORII_TUNE_FILE=/nowhere/f: there is no such file"));
}

}  // namespace
