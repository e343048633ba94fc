// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/tune_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/hardware.h"

using namespace torii;
namespace fs = std::filesystem;

namespace {

class TuneFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/torii-tune-file-test.XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern));
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

std::vector<TunedMachine> parsed(const std::string& text) {
  std::vector<TunedMachine> machines;
  TuneFault fault;
  EXPECT_TRUE(parse_tune_file(text, &machines, &fault)) << fault.text;
  EXPECT_EQ(fault.text, "");
  return machines;
}

void expect_fault(const std::string& text, unsigned line, const std::string& words) {
  std::vector<TunedMachine> machines{{"old", "", {}}};
  TuneFault fault;
  EXPECT_FALSE(parse_tune_file(text, &machines, &fault)) << text;
  EXPECT_EQ(fault.line, line) << text;
  EXPECT_NE(fault.text.find(words), std::string::npos) << fault.text;
  EXPECT_TRUE(machines.empty());
}

TEST_F(TuneFile, ReadsWhatItWrites) {
  const std::vector<TunedMachine> machines = {
      {"A, 2 processors", "today", {{"shm_ring_most", "1m", 0}, {"shm_remote_min", "96k", 0}}},
      {"B, 4 processors", "", {}}};
  const auto again = parsed(tune_file_text(machines));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].signature, "A, 2 processors");
  EXPECT_EQ(again[0].measured, "today");
  ASSERT_EQ(again[0].entries.size(), 2u);
  EXPECT_EQ(again[0].entries[1].name, "shm_remote_min");
  EXPECT_EQ(again[0].entries[1].value, "96k");
  EXPECT_TRUE(again[1].entries.empty());
  EXPECT_EQ(tune_file_text(again), tune_file_text(machines));
}

TEST_F(TuneFile, PeopleMayEditIt) {
  const auto machines = parsed(
      "\n # mine\r\n\ttorii-tune  1 \r\n[ X ]\r\n  a=1\n b  =  2 # 3\n#c = 4\n[Y]\nmeasured = x = "
      "y\n"
      "a = 9");
  ASSERT_EQ(machines.size(), 2u);
  EXPECT_EQ(machines[0].signature, "X");
  ASSERT_EQ(machines[0].entries.size(), 2u);
  EXPECT_EQ(machines[0].entries[0].line, 5u);
  EXPECT_EQ(machines[0].entries[1].value, "2 # 3");
  EXPECT_EQ(machines[1].measured, "x = y");
  EXPECT_EQ(machines[1].entries[0].value, "9");
  EXPECT_EQ(machines[1].entries[0].line, 10u);
}

// The user may name any file, one with passwords, too.
TEST_F(TuneFile, NothingIsQuotedOfAnotherKindOfFile) {
  for (const char* text : {"root:secret:1\n", "\n secret", "# x\nsecret = 1\n", "[secret]\na = 1\n",
                           "secret\ntorii-tune 1\n"}) {
    std::vector<TunedMachine> machines;
    TuneFault fault;
    EXPECT_FALSE(parse_tune_file(text, &machines, &fault));
    EXPECT_NE(fault.text, "");
    EXPECT_EQ(fault.text.find("secret"), std::string::npos) << fault.text;
  }
}

TEST_F(TuneFile, NamesTheLineThatIsWrong) {
  expect_fault("", 0, "does not begin with \"torii-tune 1\"");
  expect_fault("# only comments\n", 0, "does not begin");
  expect_fault("[X]\ntorii-tune 1\n", 0, "does not begin with \"torii-tune 1\"");
  expect_fault("torii-tune 1\nshm_ring_most = 1m\n", 2, "expected [MACHINE] before");
  expect_fault("torii-tune 1\n[X\n", 2, "expected ]");
  expect_fault("torii-tune 1\n[ ]\n", 2, "between the brackets");
  expect_fault("torii-tune 1\n[X]\n[Y]\n[X]\n", 4, "comes twice");
  expect_fault("torii-tune 1\n[X]\nwords\n", 3, "\"words\": expected [MACHINE] or NAME = VALUE");
  expect_fault("torii-tune 1\n[X]\n = 3\n", 3, "NAME = VALUE");
  expect_fault("torii-tune 1\n[X]\na = 3\na = 3\n", 4, "another value");
  expect_fault(std::string("torii-tune 1\n[X]\n") + std::string(500, 'x'), 3, "xxx...\"");
}

TEST_F(TuneFile, OtherVersionsAreNotReplaced) {
  std::vector<TunedMachine> machines;
  TuneFault fault;
  EXPECT_FALSE(parse_tune_file("torii-tune 2\n[X]\n", &machines, &fault));
  EXPECT_TRUE(fault.newer);
  EXPECT_EQ(fault.line, 1u);
  EXPECT_FALSE(parse_tune_file("torii-tune x\n", &machines, &fault));
  EXPECT_FALSE(fault.newer);
  EXPECT_FALSE(parse_tune_file("torii-tune 1 \n[X\n", &machines, &fault));
  EXPECT_FALSE(fault.newer);
}

TEST_F(TuneFile, FilesThatAreNone) {
  std::vector<TunedMachine> machines;
  TuneFault fault;
  bool exists = true;
  EXPECT_TRUE(read_tune_file(folder_ + "/none", &machines, &exists, &fault));
  EXPECT_FALSE(exists);
  EXPECT_TRUE(read_tune_file(write("f", "x") + "/none", &machines, &exists, &fault));
  EXPECT_FALSE(exists);
  EXPECT_FALSE(read_tune_file(folder_, &machines, &exists, &fault));
  EXPECT_TRUE(exists);
  EXPECT_EQ(fault.text, "it is no file");
  // Nobody writes into the pipe: whoever waited for it would stay for ever.
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_tune_file(pipe, &machines, &exists, &fault));
  EXPECT_EQ(fault.text, "it is no file");
  const std::string good = "torii-tune 1\n[X]\n";
  const std::string full = good + std::string(kTuneFileMax - good.size(), '\n');
  EXPECT_TRUE(read_tune_file(write("full", full), &machines, &exists, &fault));
  EXPECT_EQ(machines.size(), 1u);
  EXPECT_FALSE(read_tune_file(write("long", full + "\n"), &machines, &exists, &fault));
  EXPECT_EQ(fault.text, "it has more than 65536 bytes");
  EXPECT_TRUE(machines.empty());
}

TEST_F(TuneFile, PlacesFollowTheEnvironment) {
  setenv("XDG_CONFIG_HOME", "/x", 1);
  setenv("HOME", "/h", 1);
  EXPECT_EQ(user_tune_file(), "/x/torii/tune.conf");
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(user_tune_file(), "/h/.config/torii/tune.conf");
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(user_tune_file(), "/h/.config/torii/tune.conf");
  unsetenv("HOME");
  EXPECT_EQ(user_tune_file(), "");
  EXPECT_NE(system_tune_file().find("/etc/torii/tune.conf"), std::string::npos);
}

TEST_F(TuneFile, AMachineTakesItsOwnValuesOnly) {
  setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  const std::string text = "torii-tune 1\n[A]\na = 1\n[B]\na = 2\n";
  const std::string path = write("torii/tune.conf", text);
  for (const std::string& wanted : {std::string("auto"), path}) {
    const TuneChoice b = choose_tuned(wanted, "B");
    EXPECT_EQ(b.path, path);
    ASSERT_EQ(b.machine.entries.size(), 1u);
    EXPECT_EQ(b.machine.entries[0].value, "2");
    EXPECT_STREQ(b.missing, "");
    const TuneChoice c = choose_tuned(wanted, "C");
    EXPECT_TRUE(c.machine.entries.empty());
    EXPECT_EQ(c.fault.text, "");
    EXPECT_EQ(*c.missing != 0, wanted != "auto");
  }
  EXPECT_TRUE(choose_tuned("", "B").machine.entries.empty());
  EXPECT_STREQ(choose_tuned(folder_ + "/none", "B").missing, "there is no such file");
  write("torii/tune.conf", text + "[B]\n");
  const TuneChoice broken = choose_tuned("auto", "A");
  EXPECT_TRUE(broken.machine.entries.empty());
  EXPECT_EQ(broken.fault.line, 6u);
}

TEST_F(TuneFile, SignaturesTellMachinesApart) {
  const auto cache = [&](int index, const char* level, const char* type, const char* size) {
    const std::string at = "sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    write(at + "level", std::string(level) + "\n");
    write(at + "type", std::string(type) + "\n");
    write(at + "size", std::string(size) + "\n");
  };
  write("proc/cpuinfo",
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: "
        "Big [1]  Chip  \n"
        "flags\t\t: a\n\nprocessor\t: 1\nmodel name\t: Other\n");
  cache(0, "1", "Data", "32K");
  cache(1, "1", "Instruction", "64K");
  cache(2, "2", "Unified", "1024K");
  cache(3, "3", "Unified", "32M");
  const Hardware machine = read_hardware(folder_, 2, true);
  EXPECT_EQ(machine.caches[0], 32u << 10);
  EXPECT_EQ(machine.caches[2], 32u << 20);
  EXPECT_EQ(signature_of(machine),
            "Big (1) Chip family 25 model 17, 2 processors, caches 32k 1m 32m, attach");
  EXPECT_EQ(signature_of(read_hardware(folder_, 1, false)),
            "Big (1) Chip family 25 model 17, 1 processor, caches 32k 1m 32m, no attach");
  cache(3, "3", "Unified", "48M");
  EXPECT_NE(signature_of(read_hardware(folder_, 2, true)), signature_of(machine));
  // The content of a signature survives the file.
  EXPECT_EQ(parsed(tune_file_text({{signature_of(machine), "", {}}}))[0].signature,
            signature_of(machine));
}

TEST_F(TuneFile, ProcessorsWithoutAName) {
  write("proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n");
  EXPECT_EQ(read_hardware(folder_, 80, true).model, "implementer 0x41 part 0xd0c variant 0x3");
  fs::remove_all(folder_ + "/proc");
  const Hardware nothing = read_hardware(folder_, 1, true);
  EXPECT_EQ(signature_of(nothing), "unknown processor, 1 processor, caches 0 0 0, attach");
}

TEST_F(TuneFile, ThisMachineIsKnown) {
  EXPECT_GE(hardware().processors, 1u);
  EXPECT_EQ(&hardware(), &hardware());
  EXPECT_EQ(signature_of(hardware()).find_first_of("[]\n"), std::string::npos);
}

}  // namespace
