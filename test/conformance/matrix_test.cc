// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The capability matrix in src/drivers/README.md is what the drivers declare. On a difference the
// test prints the table to put there.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "conformance/kit.h"

namespace torii::kit {
namespace {

constexpr struct {
  Cap flag;
  const char* name;
} kFlags[] = {
    {kReliable, "kReliable"}, {kPeerDown, "kPeerDown"}, {kNeedsReg, "kNeedsReg"},
    {kPut, "kPut"},           {kGet, "kGet"},           {kMulticast, "kMulticast"},
    {kWait, "kWait"},         {kGuard, "kGuard"},       {kAtomic, "kAtomic"},
};

// Does ucx declare here what the pages say? It may be missing, or have other transports.
const char* declares_other(const DriverInfo& info) {
  if (info.name != std::string("ucx")) return nullptr;
  if (getenv("TORII_UCX_TLS")) return "ucx: TORII_UCX_TLS names other transports than tcp";
  static std::string why;
  return can_open(named_rig(info.name, 1), &why) ? nullptr : why.c_str();
}

// Null if the driver declares here what it does elsewhere: some systems forbid remote access.
const char* declares_less(const DriverInfo& info, const Node& node) {
  if (info.name != std::string("shm") || node.has(kGet | kAtomic)) return nullptr;
  return "shm: this system forbids what it needs to read other processes' memory, or membarrier";
}

// Null if no driver declares less here than elsewhere.
const char* build_matrix(std::string* out) {
  std::ostringstream table;
  table << "| driver |";
  for (const auto& flag : kFlags) table << " " << flag.name << " |";
  table << " mtu | inline_max | pieces_max |\n|---|";
  for (size_t i = 0; i < std::size(kFlags) + 3; i++) table << "---|";
  table << "\n";
  for (const DriverInfo& info : driver_list()) {
    if (const char* reason = declares_other(info)) return reason;
    Rig rig = named_rig(info.name, 1);
    rig.take_turns = false;
    Node node(rig);
    const DriverCaps& caps = node.caps();
    if (const char* reason = declares_less(info, node)) return reason;
    table << "| " << info.name << " |";
    for (const auto& flag : kFlags) table << (caps.flags & flag.flag ? " yes |" : " - |");
    if (info.name == std::string("udp")) {
      table << " interface's | mtu |";
      EXPECT_EQ(caps.inline_max, caps.mtu) << info.name;
    } else {
      table << " " << caps.mtu << " | " << caps.inline_max << " |";
    }
    table << " " << caps.pieces_max << " |\n";
  }
  *out = table.str();
  return nullptr;
}

std::string text_of(const char* file) {
  std::ifstream in(std::string(TORII_SRCDIR "/") + file);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "cannot read " TORII_SRCDIR "/" << file;
  return text.str();
}

size_t count(std::string_view text, std::string_view word) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) n++;
  return n;
}

// The pages' promises to the author of a driver hold.
TEST(Matrix, TheInterfaceIsAsSmallAsItSays) {
  const std::string header = text_of("src/drivers/driver.h");
  const size_t class_at = header.find("class Driver {"),
               required = header.find("--- required", class_at),
               optional = header.find("--- optional", required),
               interfaces = header.find("--- interfaces", optional),
               end = header.find("\n};", interfaces);
  ASSERT_LT(end, header.size());
  const auto functions = [&](size_t from, size_t to) {
    return count(std::string_view(header).substr(from, to - from), "  virtual ");
  };
  EXPECT_EQ(functions(required, optional), 6u);
  EXPECT_EQ(functions(optional, interfaces), 13u);
  EXPECT_EQ(functions(interfaces, end), 6u);
  const size_t caps = header.find("struct DriverCaps {"), caps_end = header.find("\n};", caps);
  EXPECT_LE(count(std::string_view(header).substr(caps, caps_end - caps), " = "), 12u) << "fields";
  EXPECT_LE(count(header, " = 1u << "), 10u) << "flags";
  EXPECT_EQ(functions(class_at, end), 1u + 25u) << "the destructor and the functions";
  for (const char* file : {"src/drivers/driver.h", "src/drivers/README.md"})
    for (const char* words : {"25 functions", "six required functions, thirteen optional ones"})
      EXPECT_NE(text_of(file).find(words), std::string::npos) << file << ": " << words;
}

// A function that one driver has belongs in one of the small interfaces.
TEST(Matrix, EveryOptionalFunctionHasTwoDrivers) {
  const std::string header = text_of("src/drivers/driver.h");
  const size_t optional = header.find("--- optional"),
               end = header.find("--- interfaces", optional);
  ASSERT_LT(end, header.size());
  const std::string part = header.substr(optional, end - optional);
  std::vector<std::string> drivers;
  for (const char* name : {"self/nic.h", "shm/nic.h", "ucx/nic.cc", "udp/nic.h", "sim/sim.cc",
                           "storing_driver.h", "skeleton/skeleton.cc", "myrinet/myrinet.cc"})
    drivers.push_back(text_of((std::string("src/drivers/") + name).c_str()));
  const std::regex declaration("\n  virtual [^;(]*\\b([a-z_]+)\\(");
  for (std::sregex_iterator it(part.begin(), part.end(), declaration), none; it != none; ++it) {
    const std::regex implemented("\\b" + (*it)[1].str() + "\\([^;{}]*\\) (const )?override");
    const auto has = [&](const std::string& driver) {
      return std::regex_search(driver, implemented);
    };
    EXPECT_GE(std::count_if(drivers.begin(), drivers.end(), has), 2) << (*it)[1];
  }
}

// A newcomer reads all of it.
TEST(Matrix, TheTemplateIsShort) {
  size_t lines = 0;
  for (const char* file : {"src/drivers/sim/sim.cc", "src/drivers/sim/sim.h"})
    lines += count(text_of(file), "\n");
  EXPECT_LE(lines, 300u);
}

TEST(Matrix, TheReadmeShowsTheInterfacesOfDrivers) {
  std::ostringstream table;
  table << "| driver | Paths | Advice | RegisteredMemory | MappedMemory | ShortFrames | "
        << "LossyGroups |\n|---|---|---|---|---|---|---|\n";
  for (const DriverInfo& info : driver_list()) {
    if (const char* reason = declares_other(info)) GTEST_SKIP() << reason;
    Rig rig = named_rig(info.name, 1);
    rig.take_turns = false;
    Node node(rig);
    Driver& driver = node.driver();
    if (const char* reason = declares_less(info, node)) GTEST_SKIP() << reason;
    table << "| " << info.name << " |";
    for (const bool offered :
         {driver.paths() != nullptr, driver.advice() != nullptr,
          driver.registered_memory() != nullptr, driver.mapped_memory() != nullptr,
          driver.short_frames() != nullptr, driver.lossy_groups() != nullptr})
      table << (offered ? " yes |" : " - |");
    table << "\n";
  }
  EXPECT_NE(text_of("src/drivers/README.md").find("\n" + table.str() + "\n"), std::string::npos)
      << "src/drivers/README.md needs this table:\n"
      << table.str();
}

// Every function of an interface, every value that it may set, in a row of its own or with others.
TEST(Matrix, TheReadmeExplainsTheInterfaces) {
  const std::string header = text_of("src/drivers/interfaces.h"),
                    page = text_of("src/drivers/README.md"),
                    driver = text_of("src/drivers/driver.h");
  const std::regex declaration("\n  (virtual [^;(]*\\b([a-z_]+)\\(|(bool|uint64_t) ([a-z_]+) = )");
  size_t classes = 0;
  for (size_t at = 0; (at = header.find("\nclass ", at)) != std::string::npos; classes++) {
    const size_t from = at + 7, end = header.find("\n};", at);
    const std::string name = header.substr(from, header.find(' ', from) - from);
    at = end;
    EXPECT_NE(driver.find("  virtual " + name + "* "), std::string::npos) << name;
    const std::string body = header.substr(from, end - from);
    for (std::sregex_iterator it(body.begin(), body.end(), declaration), none; it != none; ++it) {
      const std::string member = (*it)[2].str() + (*it)[4].str();
      const std::regex row("\n\\| `" + name + "` \\|[^|]*`" + member + "`");
      EXPECT_TRUE(std::regex_search(page, row)) << name << "::" << member << " is not explained";
    }
  }
  EXPECT_EQ(classes, 6u);
}

TEST(Matrix, TheReadmeShowsWhatDriversDeclare) {
  std::string table;
  if (const char* reason = build_matrix(&table)) GTEST_SKIP() << reason;
  EXPECT_NE(text_of("src/drivers/README.md").find("\n" + table + "\n"), std::string::npos)
      << "src/drivers/README.md needs this table:\n"
      << table;
}

}  // namespace
}  // namespace torii::kit
