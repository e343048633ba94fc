// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/tune/tune_output.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace torii;
using namespace torii::tune;
namespace fs = std::filesystem;

namespace {

class TuneOutput : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/torii-tune-output-test.XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern));
    folder_ = pattern;
    path_ = folder_ + "/a/b/tune.conf";
    ASSERT_TRUE(prepare_output(path_, &why_)) << why_;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static TunedMachine machine(const std::string& name, const std::string& value) {
    return {name, "now", {{"shm_ring_most", value, 0}}};
  }
  std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t files() { return size_t(std::distance(fs::directory_iterator(folder_ + "/a/b"), {})); }

  std::string folder_, path_, note_, why_;
};

TEST_F(TuneOutput, EveryMachineHasItsPlace) {
  ASSERT_TRUE(write_machine(path_, machine("A", "1m"), &note_, &why_));
  ASSERT_TRUE(write_machine(path_, machine("B", "2m"), &note_, &why_));
  ASSERT_TRUE(write_machine(path_, machine("A", "4m"), &note_, &why_));
  EXPECT_EQ(note_, "");
  EXPECT_EQ(content(path_), tune_file_text({machine("A", "4m"), machine("B", "2m")}));
  EXPECT_EQ(files(), 1u);
}

TEST_F(TuneOutput, WhatIsNotUnderstoodIsKept) {
  std::ofstream(path_) << "torii-tune 1\n[A]\nnonsense\n";
  ASSERT_TRUE(write_machine(path_, machine("A", "1m"), &note_, &why_));
  EXPECT_EQ(note_, path_ + " was replaced, and kept as " + path_ +
                       ".old: line 3: \"nonsense\": expected [MACHINE] or NAME = VALUE");
  EXPECT_EQ(content(path_ + ".old"), "torii-tune 1\n[A]\nnonsense\n");
  EXPECT_EQ(content(path_), tune_file_text({machine("A", "1m")}));
}

TEST_F(TuneOutput, LaterVersionsAreLeftAlone) {
  std::ofstream(path_) << "torii-tune 2\n";
  EXPECT_FALSE(write_machine(path_, machine("A", "1m"), &note_, &why_));
  EXPECT_EQ(why_, path_ +
                      " was written by a later version of torii-tune; --output names another "
                      "file");
  EXPECT_EQ(content(path_), "torii-tune 2\n");
}

TEST_F(TuneOutput, NothingIsLostWhenThereIsNoRoom) {
  const std::string many(1000, 'x');
  for (int i = 0; i < 64; ++i) {
    if (!write_machine(path_, machine(std::to_string(i) + many, "1m"), &note_, &why_)) break;
  }
  EXPECT_EQ(why_, path_ + ": there is no room for another machine; remove those that are gone");
  EXPECT_LE(fs::file_size(path_), kTuneFileMax);
  std::vector<TunedMachine> machines;
  bool exists = false;
  TuneFault fault;
  EXPECT_TRUE(read_tune_file(path_, &machines, &exists, &fault));
  EXPECT_GT(machines.size(), 50u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(TuneOutput, PlacesThatCannotBeWritten) {
  EXPECT_FALSE(prepare_output(folder_ + "/a/b", &why_));
  EXPECT_EQ(why_, folder_ + "/a/b cannot be written: Is a directory; --output names another file");
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_FALSE(prepare_output(folder_ + "/file/tune.conf", &why_));
  EXPECT_NE(why_.find("Not a directory"), std::string::npos) << why_;
  EXPECT_FALSE(prepare_output("/dev/null", &why_));
}

TEST_F(TuneOutput, GainsAreMediansOfRatiosWithinRounds) {
  Measured measured;
  measured.cells = {{perf::Test::latency, 1024}, {perf::Test::bidirectional, 1024}};
  // The second is twice as fast in each round, though its best time is not half of the first's.
  measured.ns = {{{1000, 4000, 2000}, {1000, 1000, 1000}}, {{500, 2000, 1000}, {2000, 2000, 2000}}};
  measured.rounds = 3;
  EXPECT_NEAR(measured.log_ratio(1, 0, 0), -std::log(2), 1e-12);
  EXPECT_NEAR(mean_gain(measured), 0, 1e-12);
  const Table table = gain_table(measured);
  ASSERT_EQ(table.rows.size(), 1u);
  ASSERT_EQ(table.rows[0].size(), table.columns.size());
  EXPECT_EQ(table.rows[0][0], "1k");
  EXPECT_EQ(table.rows[0][1], "1.50");
  EXPECT_EQ(table.rows[0][2], "0.75");
  EXPECT_EQ(table.rows[0][3], "+100 %");
  EXPECT_EQ(table.rows[0][7], "2048");
  EXPECT_EQ(table.rows[0][8], "1024");
  EXPECT_EQ(table.rows[0][9], "-50 %");
}

}  // namespace
