// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Collective operations of members on several nodes, over a network with multicast, against a naive
// model: orders, losses, deaths, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/param.h"
#include "sanitized.h"
#include "unit/collective/nodes_kit.h"

namespace torii {
namespace {

using test::Bytes;
using test::Clan;
using test::Cluster;
using test::kCompose;
using test::pub;

constexpr uint64_t kSecond = 1'000'000'000;

std::vector<int> all_are(size_t count, int code) { return std::vector<int>(count, code); }

std::vector<uint32_t> first_ranks(uint32_t count) {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

// Where ranks are: on each node as many, on some more, or mixed.
struct Layout {
  std::vector<uint32_t> node_of;
  bool in_blocks = true, even = true;
};

Layout any_layout(std::mt19937_64& random) {
  Layout layout;
  const auto nodes = uint32_t(2 + random() % 3), most = uint32_t(1 + random() % 3);
  for (uint32_t node = 0; node < nodes; ++node)
    for (uint32_t i = 0; i < most; ++i) layout.node_of.push_back(node);
  const uint64_t kind = random() % 4;
  if (kind == 0) {
    layout.node_of.push_back(nodes - 1);
    layout.even = false;
  } else if (kind == 1 && most > 1) {
    for (uint32_t i = 0; i < layout.node_of.size(); ++i) layout.node_of[i] = i % nodes;
    layout.in_blocks = false;
  }
  return layout;
}

void agrees_with_the_model(uint64_t seed, const Cluster::Options& options) {
  const std::string& faults = options.faults;
  std::mt19937_64 random(seed);
  const Layout layout = any_layout(random);
  Cluster cluster(layout.node_of, options);
  Clan clan(cluster, first_ranks(cluster.size()));
  clan.in_blocks = layout.in_blocks;
  clan.even = layout.even;
  ASSERT_EQ(clan.prepare(faults.empty() ? 200 : 20000 / cluster.size()),
            all_are(cluster.size(), TORII_OK))
      << torii_group_collectives(clan.groups[0]);
  play(clan, random, 20);
}

TEST(NodesTeam, AgreesWithTheModel) {
  const unsigned seeds = test::in_short() ? 10 : 60;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    agrees_with_the_model(seed, {});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(NodesTeam, AgreesWithTheModelOverGroupsThatLoseNothing) {
  const unsigned seeds = test::in_short() ? 10 : 60;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    agrees_with_the_model(seed, {.faults = "", .reliable = true});
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The others begin before this one has heard that it may. Over a group that loses nothing nobody
// would ask for what it had missed.
TEST(NodesTeam, WhoHearsLateThatAllHaveJoinedMissesNothing) {
  Cluster cluster({0, 1, 2}, {.faults = "", .reliable = true});
  Clan clan(cluster, {0, 1, 2});
  std::vector<torii_flag_t> prepared(3), flags(3);
  for (uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(torii_group_prepare(clan.groups[i], torii_flag, &prepared[i]), TORII_PENDING);
  std::vector<uint64_t> data{77, 0, 0};
  std::vector<torii_data_t> all;
  for (uint64_t& word : data) all.push_back(test::flat(&word, sizeof(word)));
  uint32_t turn = 0;
  while (!prepared[0].done && ++turn < 1000) {  // the last one has answered by then
    for (uint32_t i = 0; i < 3 && !prepared[0].done; ++i) clan.progress(i);
  }
  ASSERT_TRUE(prepared[0].done && !prepared[2].done);
  EXPECT_NE(torii_group_bcast(clan.groups[0], 0, &all[0], torii_flag, &flags[0]),
            TORII_ERR_UNSUPPORTED);
  for (turn = 0; turn < 10; ++turn) clan.progress(0);
  for (turn = 0; turn < 100; ++turn)
    for (uint32_t i = 1; i < 3; ++i) clan.progress(i);
  for (uint32_t i = 1; i < 3; ++i) {
    ASSERT_EQ(prepared[i].result.code, TORII_OK) << i;
    const int code = torii_group_bcast(clan.groups[i], 0, &all[i], torii_flag, &flags[i]);
    for (turn = 0; turn < 100 && code == TORII_PENDING && !flags[i].done; ++turn) clan.progress(i);
    EXPECT_EQ(data[i], 77u) << i;
  }
  EXPECT_EQ(cluster.sum(&Counters::multicast_gaps), 0u);
  EXPECT_EQ(cluster.sum(&Counters::multicast_fallbacks), 0u);
}

TEST(NodesTeam, AgreesWithTheModelOverABadNetwork) {
  const unsigned seeds = test::in_short() ? 5 : 30;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    agrees_with_the_model(
        seed, {"drop=1%,duplicate=1%,reorder=2%,corrupt=0.1%,seed=" + std::to_string(seed)});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(NodesTeam, MalformedPlansAndReportsAreRefused) {
  team::Plan plan, read;
  plan.frame = 1400;
  plan.homes = {0, 0, 2, 0, 2};
  plan.sealed[31] = std::byte{9};
  plan.least = 1234567;
  const auto bytes = team::write_plan(plan);
  ASSERT_TRUE(team::read_plan(bytes, 5, &read));
  EXPECT_EQ(read.homes, plan.homes);
  EXPECT_EQ(read.frame, plan.frame);
  EXPECT_EQ(read.least, plan.least);
  EXPECT_EQ(read.sealed, plan.sealed);
  EXPECT_FALSE(team::read_plan(bytes, 4, &read)) << "for other members";
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(team::read_plan(std::span(bytes).first(n), 5, &read)) << n;
  plan.homes = {0, 2, 2};
  EXPECT_FALSE(team::read_plan(team::write_plan(plan), 3, &read)) << "a home behind the member";
  plan.homes = {0, 0, 1};
  EXPECT_FALSE(team::read_plan(team::write_plan(plan), 3, &read)) << "a home that is not at home";

  team::Report report, said;
  report.home = 3;
  report.frame = 1400;
  report.driver = 77;
  report.least = 5000;
  report.network = 99;
  report.key[0] = std::byte{5};
  const auto text = team::write_report(report);
  ASSERT_TRUE(team::read_report(text, &said));
  EXPECT_EQ(said.home, 3u);
  EXPECT_EQ(said.frame, 1400u);
  EXPECT_EQ(said.driver, 77u);
  EXPECT_EQ(said.least, 5000u);
  EXPECT_EQ(said.network, 99u);
  EXPECT_EQ(said.key, report.key);
  EXPECT_FALSE(team::read_report(std::span(text).first(text.size() - 1), &said));
}

TEST(NodesTeam, ALetterEndsTheSetUpOrGoesOnWithIt) {
  for (unsigned status = 0; status < 256; ++status) {
    team::Letter letter, read;
    letter.kind = team::LetterKind::verdict;
    letter.status = Status(status);
    const bool known = letter.status == Status::ok || letter.status == Status::unsupported ||
                       letter.status == Status::peer_dead || letter.status == Status::peer_closed;
    EXPECT_EQ(team::read_letter(team::write_letter(letter), &read), known) << status;
  }
}

TEST(NodesTeam, DataLeavesOnceForAllNodes) {
  Cluster cluster({0, 1, 2, 3}, {});
  Clan clan(cluster, {0, 1, 2, 3});
  ASSERT_EQ(clan.prepare(), all_are(4, TORII_OK));
  EXPECT_EQ(std::string(torii_group_collectives(clan.groups[1])),
            "between 4 nodes by multicast (net): barrier, bcast, short reduce and allreduce, "
            "allgather");
  Bytes data(1 << 20, 7);
  const uint64_t before = cluster.sum(&Counters::bytes_sent);
  const auto codes = clan.all(
      [&](uint32_t i, torii_flag_t* flag) {
        static Bytes out[4];
        out[i].assign(data.size(), i == 2 ? 7 : 0);
        const torii_data_t all = test::flat(out[i].data(), out[i].size());
        return torii_group_bcast(clan.groups[i], 2, &all, torii_flag, flag);
      },
      3000);
  EXPECT_EQ(codes, all_are(4, TORII_OK));
  EXPECT_LT(cluster.sum(&Counters::multicast_datagrams), 300u) << "of some 4 KiB";
  EXPECT_EQ(cluster.sum(&Counters::multicast_repairs), 0u);
  EXPECT_LT(cluster.sum(&Counters::bytes_sent) - before, 20000u) << "by messages";
}

// The members of a clan on two nodes are served broadcasts of `least` bytes, not of one byte less.
void expect_broadcasts_from(Clan& clan, uint64_t least) {
  std::vector<Bytes> data(clan.size(), Bytes(least));
  data[0] = Bytes(least, 3);
  for (const size_t bytes : {least - 1, least}) {
    const auto codes = clan.all(
        [&](uint32_t i, torii_flag_t* flag) {
          const torii_data_t all = test::flat(data[i].data(), bytes);
          return torii_group_bcast(clan.groups[i], 0, &all, torii_flag, flag);
        },
        3000);
    const bool served = bytes == least;
    EXPECT_EQ(codes, all_are(clan.size(), served ? TORII_OK : TORII_ERR_UNSUPPORTED));
    EXPECT_EQ(data[0] == data.back(), served);
  }
}

TEST(NodesTeam, OnlyLongBroadcastsUnlessToldOtherwise) {
  const uint64_t least = 32768;
  Cluster cluster({0, 1, 2}, {.faults = "", .unicast = {}, .least = {{0, least}, {1, least}}});
  Clan clan(cluster, {0, 1, 2});
  ASSERT_EQ(clan.prepare(), all_are(3, TORII_OK));
  EXPECT_EQ(std::string(torii_group_collectives(clan.groups[0])),
            "between 3 nodes by multicast (net): bcast of at least 32768 bytes");
  EXPECT_EQ(clan.barrier(10), all_are(3, TORII_ERR_UNSUPPORTED));
  expect_broadcasts_from(clan, least);
}

TEST(NodesTeam, WhereNodesHaveSeveralMembersShortOperationsAreServed) {
  const uint64_t least = NiConfig().multicast_min;
  Cluster cluster({0, 0, 1, 1}, {.faults = "", .unicast = {}, .least = {{0, least}, {2, least}}});
  Clan clan(cluster, first_ranks(4));
  ASSERT_EQ(clan.prepare(), all_are(4, TORII_OK));
  const std::string text = torii_group_collectives(clan.groups[0]);
  EXPECT_NE(text.find("(net): barrier, bcast, short allreduce, allgather"), std::string::npos)
      << text;
  EXPECT_EQ(clan.barrier(3000), all_are(4, TORII_OK));
}

TEST(NodesTeam, BroadcastsOnlyByDefault) {
  const uint64_t least = NiConfig().multicast_min;
  Cluster cluster({0, 1, 2}, {.faults = "", .unicast = {}, .least = {{0, least}, {1, least}}});
  Clan clan(cluster, {0, 1, 2});
  ASSERT_EQ(clan.prepare(), all_are(3, TORII_OK));
  EXPECT_EQ(std::string(torii_group_collectives(clan.groups[2])),
            "between 3 nodes by multicast (net): bcast");
  EXPECT_EQ(clan.barrier(10), all_are(3, TORII_ERR_UNSUPPORTED));
}

TEST(NodesTeam, TwoMembersHaveMessages) {
  const uint64_t least = NiConfig().multicast_min;
  Cluster cluster({0, 1}, {.faults = "", .unicast = {}, .least = {{1, least}}});
  Clan clan(cluster, {0, 1});
  EXPECT_EQ(clan.prepare(), all_are(2, TORII_ERR_UNSUPPORTED));
  EXPECT_NE(std::string(torii_group_collectives(clan.groups[0])).find("the only other member"),
            std::string::npos)
      << torii_group_collectives(clan.groups[0]);
}

TEST(NodesTeam, ProcessesOfOneSystemHaveMessages) {
  for (const uint64_t last : {5u, 6u, 0u}) {
    SCOPED_TRACE(last);
    Cluster cluster({0, 1, 2, 2}, {.faults = "", .networks = {{0, 5}, {1, 5}, {2, last}}});
    Clan clan(cluster, first_ranks(4));
    const bool one = last == 5;
    EXPECT_EQ(clan.prepare(), all_are(4, one ? TORII_ERR_UNSUPPORTED : TORII_OK));
    const std::string text = torii_group_collectives(clan.groups[0]);
    EXPECT_EQ(text.find("no message leaves the machine") != std::string::npos, one) << text;
  }
}

TEST(NodesTeam, TheLargestLeastLengthHoldsForAll) {
  for (const uint32_t strict : {0u, 1u, 2u}) {
    SCOPED_TRACE(strict);
    Cluster cluster({0, 0, 1}, {.faults = "", .unicast = {}, .least = {{strict, 5000}}});
    Clan clan(cluster, first_ranks(3));
    ASSERT_EQ(clan.prepare(), all_are(3, TORII_OK));
    EXPECT_EQ(clan.barrier(10), all_are(3, TORII_ERR_UNSUPPORTED));
    expect_broadcasts_from(clan, 5000);
  }
}

TEST(NodesTeam, OneMemberMaySwitchMulticastOff) {
  for (const uint32_t off : {0u, 1u, 2u}) {
    SCOPED_TRACE(off);
    Cluster cluster({0, 0, 1}, {.faults = "", .unicast = {}, .least = {{off, kMulticastNothing}}});
    Clan clan(cluster, first_ranks(3));
    EXPECT_EQ(clan.prepare(), all_are(3, TORII_ERR_UNSUPPORTED));
    EXPECT_NE(std::string(torii_group_collectives(clan.groups[off])).find("TORII_MULTICAST_MIN=1g"),
              std::string::npos)
        << torii_group_collectives(clan.groups[off]);
  }
}

TEST(NodesTeam, PiecesPassIntoTheNodeAsTheyArrive) {
  constexpr size_t kBytes = 1 << 20;
  Cluster cluster({0, 1, 1}, {});
  Clan clan(cluster, {0, 1, 2});
  ASSERT_EQ(clan.prepare(), all_are(3, TORII_OK));
  std::vector<Bytes> data(3, Bytes(kBytes));
  data[0].assign(kBytes, 5);
  std::vector<torii_flag_t> flags(3);
  std::vector<torii_data_t> all;
  for (uint32_t i = 0; i < 3; ++i) {
    all.push_back(test::flat(data[i].data(), kBytes));
    ASSERT_EQ(torii_group_bcast(clan.groups[i], 0, &all[i], torii_flag, &flags[i]), TORII_PENDING);
  }
  size_t before = 0;  // bytes that the other member had while its leader still waited
  for (unsigned round = 0; round < 5000 && !(flags[1].done && flags[2].done); ++round) {
    cluster.run(1);
    if (flags[1].done) continue;
    const auto first_missing = std::find(data[2].begin(), data[2].end(), 0);
    before = size_t(first_missing - data[2].begin());
  }
  EXPECT_GE(before, kBytes / 4);
  for (uint32_t i = 1; i < 3; ++i) {
    EXPECT_EQ(flags[i].result.code, TORII_OK) << i;
    EXPECT_TRUE(flags[i].done && data[i] == data[0]) << i;
  }
}

TEST(NodesTeam, SeveralGroupsAtATime) {
  Cluster cluster({0, 0, 1, 1, 2, 2}, {.faults = "drop=1%,seed=5"});
  Clan all(cluster, first_ranks(6), "a"), some(cluster, {1, 2, 5}, "s"),
      reverse(cluster, {5, 4, 3, 2, 1, 0}, "r"), near(cluster, {2, 3}, "n");
  for (Clan* clan : {&all, &some, &reverse})
    ASSERT_EQ(clan->prepare(4000), all_are(clan->size(), TORII_OK));
  ASSERT_EQ(near.prepare(4000), all_are(2, TORII_OK));
  EXPECT_NE(std::string(torii_group_collectives(near.groups[0])).find("on this node share"),
            std::string::npos);
  std::mt19937_64 random(3);
  for (int round = 0; round < 5; ++round)
    for (Clan* clan : {&all, &some, &reverse}) {
      play(*clan, random, 4);
      if (testing::Test::HasFatalFailure()) return;
    }
}

// Members that lost something still get it from those that have closed the group.
TEST(NodesTeam, ClosingKeepsNothingFromTheOthers) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster({0, 1, 2}, {.faults = "drop=10%,seed=" + std::to_string(seed)});
    Clan clan(cluster, {0, 1, 2});
    ASSERT_EQ(clan.prepare(20000), all_are(3, TORII_OK));
    std::vector<torii_flag_t> flags(3);
    for (uint32_t i = 0; i < 3; ++i)
      if (torii_group_barrier(clan.groups[i], torii_flag, &flags[i]) == TORII_OK) flags[i].done = 1;
    for (unsigned step = 0; step < 20000; ++step)
      for (uint32_t i = 0; i < 3; ++i) {
        cluster.progress(i);
        if (flags[i].done) clan.close(i);
      }
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(flags[i].done, 1) << i;
      EXPECT_EQ(flags[i].result.code, TORII_OK) << i;
    }
  }
}

// Only the node of the dead process hears of it. All others are told by that node's leader, or by
// the others that wait for it.
TEST(NodesTeam, ADeadMemberIsNamedAtAllOthers) {
  for (const uint32_t dead : {1u, 3u, 5u}) {  // none leads a node
    SCOPED_TRACE(dead);
    Cluster cluster({0, 0, 1, 1, 2, 2}, {});
    Clan clan(cluster, first_ranks(6));
    ASSERT_EQ(clan.prepare(), all_are(6, TORII_OK));
    ASSERT_EQ(clan.barrier(), all_are(6, TORII_OK));
    cluster.kill(dead);
    std::vector<torii_flag_t> flags(6);
    std::vector<int> codes(6);
    for (uint32_t i = 0; i < 6; ++i)
      if (i != dead) codes[i] = torii_group_barrier(clan.groups[i], torii_flag, &flags[i]);
    cluster.run(5000);
    for (uint32_t i = 0; i < 6; ++i) {
      if (i == dead) continue;
      if (codes[i] == TORII_PENDING) {
        ASSERT_EQ(flags[i].done, 1) << i;
        EXPECT_EQ(flags[i].result.code, TORII_ERR_PEER_DEAD) << i;
        EXPECT_EQ(flags[i].result.source, pub(cluster.known(i, dead))) << i;
      } else {
        EXPECT_EQ(codes[i], TORII_ERR_PEER_DEAD) << i;
      }
      EXPECT_EQ(torii_group_barrier(clan.groups[i], torii_flag, &flags[i]), TORII_ERR_PEER_DEAD);
      EXPECT_NE(std::string(torii_error()).find("rank " + std::to_string(dead)), std::string::npos)
          << torii_error();
    }
  }
}

TEST(NodesTeam, WhatOneCannotIsUnsupportedAtAll) {
  for (const uint32_t off : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(off);
    Cluster cluster({0, 0, 1, 1}, {});
    Clan clan(cluster, first_ranks(4));
    std::vector<torii_flag_t> flags(4);
    Params& changed = const_cast<Params&>(params());
    // A member learns of the set-up in its own progress; so all others stand still.
    for (uint32_t i = 0; i < 4; ++i) {
      changed.collectives = i != off;
      const int code = torii_group_prepare(clan.groups[i], torii_flag, &flags[i]);
      if (code != TORII_PENDING) flags[i] = {1, {}}, flags[i].result.code = code;
      for (int round = 0; round < 50; ++round) cluster.progress(i);
    }
    for (int round = 0; round < 50; ++round)
      for (uint32_t i = 0; i < 4; ++i) {
        changed.collectives = i != off;
        for (int some = 0; some < 3; ++some) cluster.progress(i);
      }
    changed.collectives = true;
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(flags[i].done, 1) << i;
      EXPECT_EQ(flags[i].result.code, TORII_ERR_UNSUPPORTED) << i;
    }
  }
  for (const uint32_t lacks : {0u, 2u}) {
    SCOPED_TRACE(lacks);
    Cluster cluster({0, 0, 1, 1}, {.faults = "", .unicast = {lacks}});
    Clan clan(cluster, first_ranks(4));
    EXPECT_EQ(clan.prepare(), all_are(4, TORII_ERR_UNSUPPORTED));
    EXPECT_NE(std::string(torii_group_collectives(clan.groups[lacks])).find("has no multicast"),
              std::string::npos)
        << torii_group_collectives(clan.groups[lacks]);
  }
}

// The first member finds the report of the only other node, and that the node is gone, at once.
TEST(NodesTeam, AMemberMayLeaveRightAfterItsReport) {
  Cluster cluster({0, 1}, {});
  Clan clan(cluster, {0, 1});
  std::vector<torii_flag_t> flags(2);
  for (const uint32_t i : {0u, 1u})
    ASSERT_EQ(torii_group_prepare(clan.groups[i], torii_flag, &flags[i]), TORII_PENDING);
  cluster.progress(0);
  for (int round = 0; round < 20; ++round) cluster.progress(1);
  clan.close(1);
  cluster.leave(1);
  cluster.run(100);
  ASSERT_EQ(flags[0].done, 1);
  EXPECT_EQ(flags[0].result.code, TORII_ERR_PEER_CLOSED);
  EXPECT_EQ(flags[0].result.source, pub(cluster.known(0, 1)));
}

TEST(NodesTeam, AMemberMayOpenTheGroupSecondsLate) {
  for (const uint32_t late : {0u, 1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(late);
    Cluster cluster({0, 0, 1, 1, 2}, {});
    Clan clan(cluster, first_ranks(5), "c", {late});
    std::vector<torii_flag_t> flags(5);
    const auto prepare = [&](uint32_t i) {
      EXPECT_EQ(torii_group_prepare(clan.groups[i], torii_flag, &flags[i]), TORII_PENDING);
    };
    for (uint32_t i = 0; i < 5; ++i)
      if (i != late) prepare(i);
    for (int second = 0; second < 5; ++second) {
      cluster.run(50);
      cluster.pass(kSecond);
    }
    for (const torii_flag_t& flag : flags) EXPECT_FALSE(flag.done);
    clan.open(late);
    prepare(late);
    cluster.run(200);
    for (const torii_flag_t& flag : flags) EXPECT_TRUE(flag.done && flag.result.code == TORII_OK);
    EXPECT_EQ(clan.barrier(), all_are(5, TORII_OK));
    EXPECT_EQ(std::string(torii_group_collectives(clan.groups[0]))
                  .find("between 3 nodes by multicast (net)"),
              0u)
        << torii_group_collectives(clan.groups[0]);
  }
}

// It has missed all that proves multicast. So it gets copies, until multicast is tried again.
TEST(NodesTeam, ALeaderMayHearOfTheVerdictSecondsLate) {
  Cluster cluster({0, 1, 2}, {});
  Clan clan(cluster, first_ranks(3));
  std::vector<torii_flag_t> flags(3);
  for (uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(torii_group_prepare(clan.groups[i], torii_flag, &flags[i]), TORII_PENDING);
  for (uint32_t turn = 0; turn < 1000 && !flags[0].done; ++turn) cluster.progress(turn % 3);
  ASSERT_TRUE(flags[0].done);
  for (int ms = 0; ms < 3000; ++ms) {
    cluster.pass(kSecond / 1000);
    cluster.progress(0);
    cluster.progress(1);
  }
  EXPECT_TRUE(flags[1].done);
  ASSERT_FALSE(flags[2].done);
  const auto text = [&] { return std::string(torii_group_collectives(clan.groups[0])); };
  EXPECT_NE(text().find("by multicast, with copies for nodes"), std::string::npos) << text();
  cluster.run(100);
  EXPECT_TRUE(flags[2].done && flags[2].result.code == TORII_OK);
  for (int second = 0; second < 20 && text().find("by multicast (net)") == std::string::npos;
       ++second) {
    ASSERT_EQ(clan.barrier(), all_are(3, TORII_OK));
    cluster.pass(kSecond);
  }
  EXPECT_NE(text().find("by multicast (net)"), std::string::npos) << text();
}

TEST(NodesTeam, ADriverHasSoManyGroups) {
  Cluster cluster({0, 1}, {});
  std::vector<std::unique_ptr<Clan>> clans;
  for (size_t i = 0; i < LossyGroups::kGroupsMax; ++i) {
    clans.push_back(std::make_unique<Clan>(cluster, first_ranks(2)));
    ASSERT_EQ(clans.back()->prepare(), all_are(2, TORII_OK));
  }
  Clan more(cluster, first_ranks(2));
  EXPECT_EQ(more.prepare(), all_are(2, TORII_ERR_UNSUPPORTED));
  EXPECT_NE(std::string(torii_group_collectives(more.groups[0])).find("16 multicast groups"),
            std::string::npos)
      << torii_group_collectives(more.groups[0]);
  EXPECT_EQ(clans[0]->barrier(), all_are(2, TORII_OK));
  clans.clear();
  cluster.run(200000);  // more than a second, in which they still answer
  Clan again(cluster, first_ranks(2));
  EXPECT_EQ(again.prepare(), all_are(2, TORII_OK));
}

TEST(NodesTeam, DifferentCallsEndWithAnError) {
  Cluster cluster({0, 0, 1, 1}, {});
  Clan clan(cluster, first_ranks(4));
  ASSERT_EQ(clan.prepare(), all_are(4, TORII_OK));
  uint64_t words[4][3] = {}, out[4][3];
  const auto codes = clan.all(
      [&](uint32_t i, torii_flag_t* flag) {
        return i < 2 ? torii_group_barrier(clan.groups[i], torii_flag, flag)
                     : torii_group_allreduce(clan.groups[i], words[i], out[i], 24, &kCompose,
                                             torii_flag, flag);
      },
      3000);
  EXPECT_EQ(codes, all_are(4, TORII_ERR_INVALID));
}

TEST(NodesTeam, WantOfMemoryAtOneIsToldToAll) {
  for (const uint32_t lacking : {0u, 1u, 3u}) {
    SCOPED_TRACE(lacking);
    Cluster cluster({0, 0, 1, 1}, {});
    Clan clan(cluster, first_ranks(4));
    ASSERT_EQ(clan.prepare(), all_are(4, TORII_OK));
    uint64_t words[4][3] = {}, out[4][3];
    const auto codes = clan.all(
        [&](uint32_t i, torii_flag_t* flag) {
          return torii_group_allreduce(clan.groups[i], words[i], i == lacking ? nullptr : out[i],
                                       24, &kCompose, torii_flag, flag);
        },
        3000);
    EXPECT_EQ(codes, all_are(4, TORII_ERR_NO_MEMORY));
  }
}

}  // namespace
}  // namespace torii
