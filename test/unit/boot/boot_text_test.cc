// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The parts of boot that start no process: the process map, and the texts of PMI-1.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/boot/boot.h"
#include "core/boot/launcher.h"

namespace torii {
namespace {

// --- process map ----------------------------------------------------------------------------

void expect_consistent(const std::vector<uint32_t>& nodes) {
  ProcessMap map(nodes);
  ASSERT_EQ(map.size(), nodes.size());
  std::map<uint32_t, uint32_t> seen;
  for (uint32_t r = 0; r < nodes.size(); ++r) {
    EXPECT_EQ(map.node(r), nodes[r]);
    EXPECT_EQ(map.local_rank(r), seen[nodes[r]]++);
    uint32_t back = ~0u;
    EXPECT_TRUE(map.rank_at(map.node(r), map.local_rank(r), &back));
    EXPECT_EQ(back, r);
  }
  for (auto [node, count] : seen) {
    uint32_t rank = 0;
    EXPECT_EQ(map.local_size(node), count);
    EXPECT_FALSE(map.rank_at(node, count, &rank));
    EXPECT_FALSE(map.rank_at(node, ~0u, &rank));
  }
}

TEST(ProcessMap, AllPlacements) {
  expect_consistent({0});
  expect_consistent({0, 0, 0, 1, 1, 1, 2});
  expect_consistent({0, 1, 2, 0, 1, 2, 0});
  expect_consistent({7, 3, 3, 900000, 7, 0xffffffffu, 3});
}

TEST(ProcessMap, NodesWithoutProcesses) {
  ProcessMap map({4, 2, 4});
  uint32_t rank = 0;
  for (uint32_t node : {0u, 3u, 5u, ~0u}) {
    EXPECT_EQ(map.local_size(node), 0u);
    EXPECT_FALSE(map.rank_at(node, 0, &rank));
  }
}

// --- texts ----------------------------------------------------------------------------------

TEST(BootText, NumbersAreStrict) {
  uint32_t n = 77;
  EXPECT_TRUE(parse_number("12", 0, 12, &n));
  EXPECT_EQ(n, 12u);
  for (const char* text : {"", " 1", "1 ", "-1", "+1", "0x1", "13", "4294967296", "1,2"}) {
    EXPECT_FALSE(parse_number(text, 0, 12, &n)) << text;
  }
  EXPECT_FALSE(parse_number("2", 3, 12, &n));
  EXPECT_EQ(n, 12u);
}

TEST(BootText, PiecesComeTogether) {
  for (size_t bytes : {0, 1, 5, 64, 4096}) {
    for (size_t piece_max : {31, 32, 1000}) {
      std::vector<std::byte> in(bytes), out;
      for (size_t i = 0; i < bytes; ++i) in[i] = static_cast<std::byte>(i * 31 + 3);
      std::string text;
      bool more = false;
      auto pieces = encode_pieces(in, piece_max);
      for (size_t i = 0; i < pieces.size(); ++i) {
        EXPECT_LE(pieces[i].size(), piece_max);
        text += pieces[i];
        bool last = i + 1 == pieces.size();
        EXPECT_EQ(decode_pieces(text, &out, &more), last);
        EXPECT_EQ(more, !last);
      }
      EXPECT_EQ(in, out);
    }
  }
}

TEST(BootText, MalformedPiecesAreRefused) {
  std::vector<std::byte> out;
  bool more = false;
  for (const char* text : {"", "x", ":", "2", "-1:", "1:0g", "1:0A", "1:000", "0:0",
                           "4097:", "1 :00", "99999999999:00"}) {
    EXPECT_FALSE(decode_pieces(text, &out, &more)) << text;
    EXPECT_FALSE(more) << text;
  }
}

TEST(BootText, ProcessMappings) {
  using V = std::vector<uint32_t>;
  auto parsed = [](const char* text, uint32_t size) {
    V nodes;
    return parse_process_mapping(text, size, &nodes) ? nodes : V();
  };
  EXPECT_EQ(parsed("(vector,(0,1,1))", 3), V({0, 0, 0}));
  EXPECT_EQ(parsed("(vector,(0,2,2))", 6), V({0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(parsed("(vector,(0,1,2),(1,2,1))", 4), V({0, 0, 1, 2}));
  EXPECT_EQ(parsed("(vector,0)", 1), V({0}));
  EXPECT_EQ(parsed("(vector,0,(1,1,2))", 3), V({0, 1, 1}));
  EXPECT_EQ(parsed("(vector,(0,2,2),3)", 5), V({0, 0, 1, 1, 3}));
  EXPECT_EQ(parsed("(vector,(5,1,4000000000))", 2), V({5, 5}));
  for (const char* text :
       {"", "(vector)", "(vector,)", "(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(0,1))",
        "(vector,(0,1,1)", "(vector,(0,1,1)))", "(vector,0", "(vector,0,)", "(vector,x)",
        "(vector,-1)", "(vector,0 1)", "(vector,4294967296)", "(vector,(4294967295,1,1))",
        "(vector,(-1,1,1))", "vector,(0,1,1)", "(vector,(0,4294967296,1))"}) {
    EXPECT_EQ(parsed(text, 4), V()) << text;
  }
}

TEST(BootText, JobNumbersDiffer) {
  EXPECT_NE(job_number(""), 0u);
  EXPECT_NE(job_number("a"), job_number("b"));
  EXPECT_EQ(job_number("a"), job_number("a"));
}

}  // namespace
}  // namespace torii
