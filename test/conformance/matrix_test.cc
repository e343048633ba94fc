// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The capability matrix in src/drivers/README.md is what the drivers declare. On a difference the
// test prints the table to put there.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "conformance/kit.h"

namespace torii::kit {
namespace {

constexpr struct {
  Cap flag;
  const char* name;
} kFlags[] = {
    {kReliable, "kReliable"},   {kOrdered, "kOrdered"}, {kPeerDown, "kPeerDown"},
    {kNeedsReg, "kNeedsReg"},   {kPut, "kPut"},         {kGet, "kGet"},
    {kMulticast, "kMulticast"}, {kWait, "kWait"},       {kAlloc, "kAlloc"},
    {kGuard, "kGuard"},         {kAtomic, "kAtomic"},
};

// Null if a driver declares less here than elsewhere: some systems forbid remote access.
const char* build_matrix(std::string* out) {
  std::ostringstream table;
  table << "| driver |";
  for (const auto& flag : kFlags) table << " " << flag.name << " |";
  table << " mtu | inline_max | pieces_max |\n|---|";
  for (size_t i = 0; i < std::size(kFlags) + 3; i++) table << "---|";
  table << "\n";
  for (const DriverInfo& info : driver_list()) {
    Rig rig = named_rig(info.name, 1);
    rig.take_turns = false;
    Node node(rig);
    const DriverCaps& caps = node.caps();
    if (info.name == std::string("shm") && !node.has(kGet | kAtomic))
      return "shm: this system forbids what it needs to read other processes' memory, or "
             "membarrier";
    table << "| " << info.name << " |";
    for (const auto& flag : kFlags) table << (caps.flags & flag.flag ? " yes |" : " - |");
    if (info.network) {
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

TEST(Matrix, TheReadmeShowsWhatDriversDeclare) {
  std::string table;
  if (const char* reason = build_matrix(&table)) GTEST_SKIP() << reason;
  std::ifstream file(TORII_SRCDIR "/src/drivers/README.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty()) << "cannot read " TORII_SRCDIR "/src/drivers/README.md";
  EXPECT_NE(text.str().find("\n" + table + "\n"), std::string::npos)
      << "src/drivers/README.md needs this table:\n"
      << table;
}

}  // namespace
}  // namespace torii::kit
