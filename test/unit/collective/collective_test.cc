// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Collective operations of members in one process, whose calls and progress come in an order that a
// seed chooses, against a naive model.
#include "unit/collective/collective_kit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/base/param.h"
#include "sanitized.h"

namespace torii {
namespace {

using test::Bytes;
using test::Call;
using test::kCompose;
using test::Kind;
using test::play;

constexpr uint32_t kRanks = 9;

// Interfaces of one job over shared memory.
struct Node {
  torii_ni_t* ni[kRanks];
  torii_peer_t* peer[kRanks][kRanks];

  Node() {
    EXPECT_EQ(torii_param_set("drivers", "shm,self", "test"), TORII_OK);
    for (uint32_t i = 0; i < kRanks; ++i) {
      const torii_options_t options = {sizeof(options), 7, i, kRanks, 0, i, kRanks, 0, nullptr};
      EXPECT_EQ(torii_open(&options, &ni[i]), TORII_OK) << torii_error();
    }
    for (uint32_t i = 0; i < kRanks; ++i)
      for (uint32_t k = 0; k < kRanks; ++k) {
        char address[512];
        const size_t bytes = torii_address(ni[k], address, sizeof(address));
        EXPECT_EQ(torii_connect(ni[i], address, bytes, &peer[i][k]), TORII_OK) << torii_error();
      }
  }
  ~Node() {
    for (torii_ni_t* each : ni) torii_close(each);
  }
  void progress() {
    for (torii_ni_t* each : ni) torii_progress(each);
  }
};

struct Team {
  Node& node;
  std::vector<uint32_t> ranks;
  std::vector<torii_group_t*> groups;

  Team(Node& of, std::vector<uint32_t> members) : node(of), ranks(std::move(members)) {
    for (const uint32_t rank : ranks) {
      std::vector<torii_peer_t*> peers;
      for (const uint32_t other : ranks) peers.push_back(node.peer[rank][other]);
      torii_group_t* group = nullptr;
      EXPECT_EQ(torii_group_open(node.ni[rank], "t", 1, peers.data(), peers.size(), &group),
                TORII_OK)
          << torii_error();
      groups.push_back(group);
    }
  }
  ~Team() {
    for (torii_group_t* group : groups) torii_group_close(group);
  }
  uint32_t size() const { return uint32_t(ranks.size()); }
  torii_ni_t* ni(uint32_t member) const { return node.ni[ranks[member]]; }
  // For play(): two members leave long parts to messages.
  void progress(uint32_t member) { torii_progress(ni(member)); }
  bool may_refuse(const Call&) const { return size() == 2; }
  bool has_to_refuse(const Call&) const { return false; }
  // The codes that all members get.
  std::vector<int> prepare() {
    std::vector<int> codes(size());
    std::vector<torii_flag_t> flags(size());
    for (uint32_t i = 0; i < size(); ++i) {
      codes[i] = torii_group_prepare(groups[i], torii_flag, &flags[i]);
      node.progress();
    }
    for (int round = 0; round < 100; ++round) node.progress();
    for (uint32_t i = 0; i < size(); ++i) {
      if (codes[i] != TORII_PENDING) continue;
      codes[i] = flags[i].done ? flags[i].result.code : TORII_PENDING;
    }
    return codes;
  }
};

std::vector<int> all_of(size_t count, int code) { return std::vector<int>(count, code); }

std::vector<uint32_t> some_ranks(std::mt19937_64& random) {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < kRanks; ++i) ranks.push_back(i);
  std::shuffle(ranks.begin(), ranks.end(), random);
  ranks.resize(2 + random() % (kRanks - 1));
  return ranks;
}

TEST(Collective, AgreesWithTheModel) {
  Node node;
  const unsigned seeds = test::in_short() ? 100 : 1000;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Team team(node, some_ranks(random));
    ASSERT_EQ(team.prepare(), all_of(team.size(), TORII_OK)) << torii_error();
    play(team, random, 20);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Collective, IsNotServedBeforeItIsPrepared) {
  Node node;
  Team team(node, {0, 1});
  torii_flag_t flag;
  EXPECT_EQ(torii_group_barrier(team.groups[0], torii_flag, &flag), TORII_ERR_UNSUPPORTED);
  EXPECT_STREQ(torii_group_collectives(team.groups[0]), "not prepared");
}

TEST(Collective, OneMemberAloneIsNotServed) {
  Node node;
  Team team(node, {3});
  EXPECT_EQ(team.prepare(), all_of(1, TORII_ERR_UNSUPPORTED));
  EXPECT_STREQ(torii_group_collectives(team.groups[0]), "not served: there is no other member");
}

TEST(Collective, SwitchedOffAtOneIsUnsupportedAtAll) {
  Node node;
  for (const uint32_t off : {0u, 2u}) {
    Team team(node, {0, 1, 2, 3});
    std::vector<torii_flag_t> flags(4);
    for (uint32_t i = 0; i < 4; ++i) {
      Params& changed = const_cast<Params&>(params());
      changed.collectives = i != off;
      for (int round = 0; round < 20; ++round) node.progress();
      const int code = torii_group_prepare(team.groups[i], torii_flag, &flags[i]);
      if (code != TORII_PENDING) flags[i] = {1, {}}, flags[i].result.code = code;
      for (int round = 0; round < 20; ++round) torii_progress(team.ni(i));
      changed.collectives = true;
    }
    for (int round = 0; round < 100; ++round) node.progress();
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(flags[i].done, 1);
      EXPECT_EQ(flags[i].result.code, TORII_ERR_UNSUPPORTED) << i;
    }
  }
}

TEST(Collective, AnotherOrderOfMembersIsUnsupportedAtAll) {
  Node node;
  Team team(node, {0, 1, 2});
  torii_group_close(team.groups[2]);
  torii_peer_t* const swapped[] = {node.peer[2][0], node.peer[2][2], node.peer[2][1]};
  ASSERT_EQ(torii_group_open(node.ni[2], "u", 1, swapped, 3, &team.groups[2]), TORII_OK);
  // The groups have the same members and another name: bring the names together.
  for (uint32_t i = 0; i < 2; ++i) {
    torii_group_close(team.groups[i]);
    torii_peer_t* const peers[] = {node.peer[i][0], node.peer[i][1], node.peer[i][2]};
    ASSERT_EQ(torii_group_open(node.ni[i], "u", 1, peers, 3, &team.groups[i]), TORII_OK);
  }
  EXPECT_EQ(team.prepare(), all_of(3, TORII_ERR_UNSUPPORTED));
}

// Members that call different operations learn of it, and nobody waits for ever.
TEST(Collective, DifferentCallsEndWithAnError) {
  Node node;
  Team team(node, {0, 1, 2});
  ASSERT_EQ(team.prepare(), all_of(3, TORII_OK));
  torii_flag_t flags[3] = {};
  uint64_t word[3] = {1, 2, 3};
  char out[3][64];
  int codes[3];
  for (int i = 0; i < 3; ++i)
    codes[i] = torii_group_allgather(team.groups[i], &word[i], out[i], i == 1 ? 4 : 8, torii_flag,
                                     &flags[i]);
  for (int round = 0; round < 100; ++round) node.progress();
  for (int i = 0; i < 3; ++i) {
    if (codes[i] == TORII_PENDING) codes[i] = flags[i].done ? flags[i].result.code : TORII_PENDING;
    EXPECT_EQ(codes[i], TORII_ERR_INVALID) << i;
    EXPECT_EQ(torii_group_barrier(team.groups[i], torii_flag, &flags[i]), TORII_ERR_INVALID);
    EXPECT_NE(std::string(torii_error()).find("different operations"), std::string::npos);
  }
}

TEST(Collective, ArgumentsAreChecked) {
  Node node;
  Team team(node, {0, 1});
  ASSERT_EQ(team.prepare(), all_of(2, TORII_OK));
  torii_group_t* const group = team.groups[0];
  torii_flag_t flag;
  char byte = 0;
  const torii_data_t data = {TORII_CONTIGUOUS, 0, 1, &byte, nullptr, nullptr, nullptr};
  const torii_reduction_t none = {nullptr, nullptr, 1};
  EXPECT_EQ(torii_group_barrier(nullptr, torii_flag, &flag), TORII_ERR_INVALID);
  EXPECT_EQ(torii_group_barrier(group, nullptr, &flag), TORII_ERR_INVALID);
  EXPECT_EQ(torii_group_bcast(group, 2, &data, torii_flag, &flag), TORII_ERR_INVALID);
  EXPECT_STREQ(torii_error(), "torii_group_bcast: root 2 of 2 members");
  EXPECT_EQ(torii_group_bcast(group, 0, nullptr, torii_flag, &flag), TORII_ERR_INVALID);
  EXPECT_EQ(torii_group_reduce(group, 5, &byte, &byte, 1, &kCompose, torii_flag, &flag),
            TORII_ERR_INVALID);
  EXPECT_EQ(torii_group_allreduce(group, &byte, &byte, 1, &none, torii_flag, &flag),
            TORII_ERR_INVALID);
  EXPECT_EQ(torii_group_allreduce(group, &byte, &byte, 1, &kCompose, torii_flag, &flag),
            TORII_ERR_INVALID);
  EXPECT_STREQ(torii_error(), "torii_group_allreduce: 1 bytes in elements of 24");
}

// The codes that all members get of an operation for which member `lacking` has no memory.
std::vector<int> without_memory(Team& team, Kind kind, uint32_t lacking) {
  const uint32_t count = team.size();
  std::vector<torii_flag_t> flags(count);
  std::vector<int> codes(count);
  std::vector<Bytes> in(count, Bytes(24 * count)), out = in;
  for (uint32_t i = 0; i < count; ++i) {
    void* const to = i == lacking ? nullptr : out[i].data();
    const torii_data_t data = {TORII_CONTIGUOUS, 0, 24, to, nullptr, nullptr, nullptr};
    torii_group_t* const group = team.groups[i];
    switch (kind) {
      case Kind::bcast:
        codes[i] = torii_group_bcast(group, lacking, &data, torii_flag, &flags[i]);
        break;
      case Kind::reduce:
        codes[i] = torii_group_reduce(group, lacking, in[i].data(), to, 24, &kCompose, torii_flag,
                                      &flags[i]);
        break;
      case Kind::allreduce:
        codes[i] =
            torii_group_allreduce(group, in[i].data(), to, 24, &kCompose, torii_flag, &flags[i]);
        break;
      case Kind::allgather:
        codes[i] = torii_group_allgather(group, in[i].data(), to, 24, torii_flag, &flags[i]);
        break;
      default:
        codes[i] = torii_group_alltoall(group, in[i].data(), to, 24, torii_flag, &flags[i]);
    }
  }
  for (int round = 0; round < 100; ++round) team.node.progress();
  for (uint32_t i = 0; i < count; ++i)
    if (codes[i] == TORII_PENDING) codes[i] = flags[i].done ? flags[i].result.code : TORII_PENDING;
  return codes;
}

// Nobody waits for a member that has no memory for its part.
TEST(Collective, WantOfMemoryAtOneIsToldToAll) {
  Node node;
  for (const Kind kind : {Kind::bcast, Kind::allreduce, Kind::allgather, Kind::alltoall}) {
    Team team(node, {0, 1, 2, 3});
    ASSERT_EQ(team.prepare(), all_of(4, TORII_OK));
    EXPECT_EQ(without_memory(team, kind, 2), all_of(4, TORII_ERR_NO_MEMORY)) << unsigned(kind);
  }
  // The others need nothing of the root's until they write where it was to read.
  Team team(node, {0, 1, 2});
  ASSERT_EQ(team.prepare(), all_of(3, TORII_OK));
  const std::vector<int> want = {TORII_OK, TORII_ERR_NO_MEMORY, TORII_OK};
  EXPECT_EQ(without_memory(team, Kind::reduce, 1), want);
  torii_flag_t flags[3] = {};
  for (const uint32_t i : {0u, 2u, 1u}) {
    int code = torii_group_barrier(team.groups[i], torii_flag, &flags[i]);
    for (int round = 0; round < 100; ++round) node.progress();
    if (code == TORII_PENDING) code = flags[i].done ? flags[i].result.code : TORII_PENDING;
    EXPECT_EQ(code, TORII_ERR_NO_MEMORY) << i;
  }
}

TEST(Collective, WhatMessagesDoBetterIsUnsupportedAtAll) {
  Node node;
  Team team(node, {0, 1, 2});
  ASSERT_EQ(team.prepare(), all_of(3, TORII_OK));
  Bytes memory(1 << 20);
  const torii_reduction_t whole = {test::compose, nullptr, memory.size()};
  torii_flag_t flag;
  for (torii_group_t* group : team.groups) {
    EXPECT_EQ(torii_group_allreduce(group, nullptr, memory.data(), memory.size(), &whole,
                                    torii_flag, &flag),
              TORII_ERR_UNSUPPORTED);
    EXPECT_EQ(torii_group_alltoall(group, nullptr, memory.data(), TORII_ALLTOALL_MAX / 9 + 1,
                                   torii_flag, &flag),
              TORII_ERR_UNSUPPORTED);
  }
  std::mt19937_64 random(1);
  play(team, random, 3);
}

// Groups come and go; their memory does, too.
TEST(Collective, ManyGroupsLeaveNothingBehind) {
  Node node;
  for (int round = 0; round < 300; ++round) {
    Team team(node, {0, 1, 2});
    ASSERT_EQ(team.prepare(), all_of(3, TORII_OK)) << round << ": " << torii_error();
    std::mt19937_64 random(static_cast<unsigned>(round));
    play(team, random, 1);
  }
}

}  // namespace
}  // namespace torii
