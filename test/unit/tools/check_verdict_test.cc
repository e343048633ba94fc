// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The verdict of torii-check on what was seen: every finding from one thing that is wrong.
#include <gtest/gtest.h>

#include "unit/tools/check_kit.h"

using namespace torii;
using namespace torii::check;

namespace {

TEST(CheckVerdict, AllWellIsSaidInFewLines) {
  const Verdict verdict = Nodes(3, 2).verdict();
  EXPECT_EQ(told(verdict), "");
  EXPECT_EQ(verdict.summary,
            "3 pairs of nodes: by udp (eth0, eth1), round trip 50.0 us, 0.00 % of 12000 packets "
            "lost, path MTU 1500, multicast works\n"
            "3 pairs inside nodes: by shm, round trip 50.0 us, 0.00 % of 6000 packets lost\n");
  const std::string text = text_of(verdict, false);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4 + 1 + 2 + 1 + 1) << text;
  EXPECT_TRUE(text.ends_with("\ntorii-check: all well\n")) << text;
  EXPECT_EQ(text.find("ways\n"), std::string::npos) << "only for those who ask";
  EXPECT_NE(text_of(verdict, true).find("ways\n"), std::string::npos);
  // From each of six processes to the other of its node, from each node to two others by two rails.
  EXPECT_EQ(verdict.ways.rows.size(), 6u + 12u);
}

TEST(CheckVerdict, APairWithoutAWay) {
  Nodes nodes(3);
  for (const auto& [a, b] : {std::pair{0u, 2u}, {2u, 0u}}) {
    nodes.pair(a, b).rails.clear();
    nodes.forget_heard(a, b);
    nodes.pair(a, b).silent = {{nodes.all[b].facts.interfaces[0].addresses[0], "eth0", false},
                               {nodes.all[b].facts.interfaces[1].addresses[0], "eth1", false}};
  }
  const Verdict verdict = nodes.verdict();
  EXPECT_EQ(told(verdict),
            "FAILURE network between n1 and n3: no way; tried 10.77.0.3 (by eth0), 10.77.1.3 (by "
            "eth1)\n");
  EXPECT_NE(verdict.findings[0].remedy.find("firewall"), std::string::npos);
  EXPECT_TRUE(has(verdict, Severity::failure));
  // One direction works.
  nodes.pair(0, 2).silent[0].asked = true;
  EXPECT_NE(told(nodes.verdict()).find("; packets of n3 arrive at n1, but not those of n1 at n3\n"),
            std::string::npos)
      << told(nodes.verdict());
}

TEST(CheckVerdict, LossIsThatOfOneDirection) {
  Nodes nodes(2);
  nodes.heard(1, 0, 0).count = 950;
  nodes.pair(0, 1).rails[0].answered = 900;
  EXPECT_EQ(told(nodes.verdict()), "warning loss from n1 to n2 by eth0: 5.00 % of 1000 packets\n");
  EXPECT_EQ(nodes.verdict().ways.rows[0][7], "5.00 %");
  nodes.heard(1, 0, 0).count = 998;
  EXPECT_EQ(told(nodes.verdict()), "note loss from n1 to n2 by eth0: 0.20 % of 1000 packets\n");
  nodes.heard(1, 0, 0).count = 1000;
  EXPECT_EQ(told(nodes.verdict()), "") << "answers that were lost are the other direction's";
  nodes.heard(1, 0, 0).count = 300;
  EXPECT_TRUE(has(nodes.verdict(), Severity::failure));
  nodes.heard(1, 0, 0).count = 1100;  // not believed
  EXPECT_EQ(told(nodes.verdict()), "");
}

TEST(CheckVerdict, LongPacketsThatDoNotArrive) {
  Nodes nodes(2);
  nodes.all[0].facts.interfaces[0].mtu = 9000;
  nodes.pair(0, 1).rails[0].longest_sent = 8936;
  nodes.pair(0, 1).rails[0].longest = 1436;
  const Verdict verdict = nodes.verdict();
  EXPECT_EQ(told(verdict),
            "FAILURE long packets from n1 to n2 by eth0: frames of 8936 bytes do not arrive, those "
            "of 1436 do; eth0 has MTU 9000, eth0 of n2 has 1500\n"
            "warning MTU of n2 to n1 by eth0: the ends differ; eth0 has MTU 1500, eth0 of n1 has "
            "9000\n");
  EXPECT_NE(verdict.findings[0].remedy.find("TORII_UDP_MTU=1500"), std::string::npos);
}

TEST(CheckVerdict, InterfacesThatLeadNowhere) {
  Nodes nodes(2);
  for (uint32_t a : {0u, 1u}) {
    nodes.pair(a, 1 - a).rails.pop_back();
    nodes.pair(a, 1 - a).silent = {
        {nodes.all[1 - a].facts.interfaces[1].addresses[0], "eth1", false}};
    Interface docker;
    docker.name = "docker0";
    docker.up = docker.carrier = docker.bridge = true;
    docker.addresses = {"172.17.0.1"};
    nodes.all[a].facts.interfaces.push_back(docker);
    nodes.pair(a, 1 - a).silent.push_back({"172.17.0.1", "docker0", false});
  }
  nodes.all[1].facts.interfaces[1].carrier = false;
  EXPECT_EQ(told(nodes.verdict()),
            "warning eth1 of n1: leads to no other node of the check: not used\n"
            "warning eth1 of n2: has no carrier: not used\n"
            "note docker0 of n1, n2: has an address that other nodes have as well: not used\n");
  nodes.all[0].facts.interfaces[1].wanted = nodes.all[1].facts.interfaces[1].wanted = false;
  EXPECT_FALSE(has(nodes.verdict(), Severity::warning)) << "left out by the user";
}

TEST(CheckVerdict, AnInterfaceThatAnswersOnlySome) {
  Nodes nodes(3);
  nodes.pair(0, 1).rails.pop_back();
  nodes.pair(0, 1).silent = {{"10.77.1.2", "eth1", true}};
  EXPECT_EQ(told(nodes.verdict()),
            "warning eth1 of n2 does not answer n1: by 10.77.1.2, from where packets come\n");
  nodes.pair(0, 1).rails.push_back(nodes.pair(0, 2).rails[1]);
  nodes.pair(0, 1).rails.back().address = "10.77.1.2";
  nodes.all[1].facts.interfaces[1].addresses.push_back("fd77:1::2");
  nodes.pair(0, 1).silent = {{"fd77:1::2", "eth1", false}};
  EXPECT_EQ(told(nodes.verdict()), "note eth1 of n2 does not answer n1: by fd77:1::2\n")
      << "the interface is on the way by another address";
}

TEST(CheckVerdict, Multicast) {
  Nodes nodes(3);
  const auto deafen = [&](uint32_t to, uint32_t from) {
    std::erase_if(nodes.all[to].seen.multicast_heard,
                  [&](const MulticastHeard& one) { return one.rank == from; });
  };
  const auto remedy = [&] { return nodes.verdict().findings.back().remedy; };
  deafen(1, 2);
  EXPECT_EQ(told(nodes.verdict()), "warning multicast between nodes: n2 does not hear n3\n");
  deafen(0, 2);
  EXPECT_NE(remedy().find("most likely: what n3 sends to groups is filtered"), std::string::npos)
      << remedy();
  deafen(1, 0);
  EXPECT_NE(remedy().find("most likely: IGMP snooping without a querier"), std::string::npos)
      << remedy();
  nodes = Nodes(3);
  deafen(1, 0);
  deafen(1, 2);
  EXPECT_NE(remedy().find("most likely: the IGMP reports of n2"), std::string::npos) << remedy();
  for (Participant& one : nodes.all) one.seen.multicast_heard.clear();
  EXPECT_EQ(told(nodes.verdict()), "warning multicast between nodes: no node hears another one\n");
  EXPECT_EQ(nodes.verdict().summary.find("multicast"), std::string::npos);
  nodes.all[0].seen.multicast = false;
  nodes.all[0].seen.multicast_why = "udp: a group cannot be joined";
  EXPECT_NE(told(nodes.verdict()).find("warning multicast on n1: udp: a group cannot be joined\n"),
            std::string::npos);
}

TEST(CheckVerdict, MulticastThatStops) {
  Nodes nodes(3);
  nodes.plan = make_plan(nodes.all, 10000, 300000);
  for (Participant& one : nodes.all)
    for (MulticastHeard& heard : one.seen.multicast_heard) heard.last_ms = 299500;
  EXPECT_TRUE(told(nodes.verdict()).empty());
  EXPECT_NE(nodes.verdict().summary.find(", multicast works for 300 s\n"), std::string::npos)
      << nodes.verdict().summary;
  nodes.all[1].seen.multicast_heard[0].last_ms = 263400;
  nodes.all[2].seen.multicast_heard[0].last_ms = 265000;
  EXPECT_EQ(told(nodes.verdict()),
            "warning multicast between nodes: after 263 s n2 does not hear n1, n3 does not hear n1 "
            "any more\n");
  EXPECT_NE(nodes.verdict().findings[0].remedy.find("IGMP without a querier"), std::string::npos);
  EXPECT_EQ(nodes.verdict().summary.find("multicast works"), std::string::npos);
}

TEST(CheckVerdict, MachinesOfOneKindAreToldOnce) {
  Nodes nodes(10);
  for (Participant& one : nodes.all) {
    one.facts.attach = "refused: Operation not permitted; in a container, allow it";
    one.facts.shared_free = 1 << 20;
    one.facts.receive_buffer = 208 << 10;
  }
  const Verdict verdict = nodes.verdict();
  EXPECT_EQ(told(verdict),
            "warning cross-memory attach on n1, n2, n3, n4, n5, n6, n7, n8 and 2 more: refused: "
            "Operation not permitted\n"
            "warning /dev/shm on n1, n2, n3, n4, n5, n6, n7, n8 and 2 more: has 1024 KiB free\n"
            "warning receive buffers on n1, n2, n3, n4, n5, n6, n7, n8 and 2 more: sockets get "
            "208 KiB, so bursts are lost\n");
  EXPECT_EQ(verdict.findings[0].remedy, "in a container, allow it");
}

TEST(CheckVerdict, InsideANode) {
  Nodes nodes(1, 2);
  nodes.pair(0, 1).note = "shm: no cross-memory attach";
  EXPECT_EQ(told(nodes.verdict()),
            "warning between rank 0 on n1 and rank 1 on n1: shm: no cross-memory attach\n");
  for (uint32_t a : {0u, 1u}) {
    nodes.pair(a, 1 - a).rails.clear();
    nodes.pair(a, 1 - a).note = "shm: other user";
  }
  EXPECT_EQ(told(nodes.verdict()),
            "FAILURE shared memory between rank 0 on n1 and rank 1 on n1: shm: other user\n");
}

TEST(CheckVerdict, ContainersOfOneNode) {
  Nodes nodes(2);
  for (Participant& one : nodes.all) one.facts.host = "n1", one.facts.opens_network = false;
  const Verdict verdict = nodes.verdict();
  EXPECT_EQ(
      told(verdict),
      "FAILURE processes of one node: n1, n1/2: they share no memory or no process numbers, as "
      "in containers, and a job on one node opens no network\n");
  EXPECT_NE(verdict.findings[0].remedy.find("TORII_DRIVERS=self,shm,udp"), std::string::npos);
}

TEST(CheckVerdict, AFabricBeforeEthernet) {
  Nodes nodes(2);
  for (const auto& [a, b] : {std::pair{0u, 1u}, {1u, 0u}}) {
    PairSeen& pair = nodes.pair(a, b);
    pair.driver = "ucx";
    pair.rails.resize(1);
    pair.rails[0].interface = "rc_mlx5/mlx5_0:1";
    pair.rails[0].address.clear();
    pair.rails[0].mtu = 0;
  }
  const Verdict verdict = nodes.verdict();
  EXPECT_EQ(told(verdict), "") << "nobody has tried the interfaces";
  EXPECT_TRUE(
      verdict.summary.starts_with("1 pair of nodes: by ucx (rc_mlx5/mlx5_0:1), round trip 50.0 us"))
      << verdict.summary;
}

TEST(CheckVerdict, ANetworkThatDoesNotOpenBesideOneThatDoes) {
  Nodes nodes(2);
  for (Participant& one : nodes.all)
    one.facts.endpoints.push_back({"ucx", true, 0, {}, "ucx: no library"});
  EXPECT_EQ(told(nodes.verdict()),
            "warning driver ucx on n1, n2: does not open: ucx: no library\n");
  for (Participant& one : nodes.all) one.facts.endpoints[1].why = "udp: no interface";
  EXPECT_EQ(told(nodes.verdict()),
            "FAILURE driver udp on n1, n2: does not open: udp: no interface\n"
            "FAILURE driver ucx on n1, n2: does not open: ucx: no library\n");
}

TEST(CheckVerdict, ProcessesThatAreMissing) {
  Nodes nodes(2);
  nodes.all[0].name = "n1", nodes.all[1].name = "n2";
  Participant absent;
  absent.name = "n9";
  absent.why = "silent for 5.0 s";
  nodes.all.push_back(absent);
  nodes.all[1].reported = false;
  nodes.all[1].seen = {};
  nodes.all[1].why = "ended, killed by signal 9";
  nodes.plan = make_plan(nodes.all, 10000);
  const std::string text = told(nodes.verdict());
  EXPECT_EQ(text,
            "FAILURE results of n2: are missing: ended, killed by signal 9\n"
            "FAILURE torii-check on n9: silent for 5.0 s\n");
  EXPECT_EQ(nodes.verdict().ways.rows[0][7], "?") << "who heard what is not known";
}

TEST(CheckVerdict, ForPrograms) {
  Nodes nodes(2);
  nodes.heard(1, 0, 0).count = 950;
  const std::string json = json_of(nodes.verdict());
  EXPECT_NE(json.find("{\"severity\": \"warning\", \"thing\": \"loss from n1 to n2 by eth0\""),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"from\": \"n1\", \"to\": \"n2\", \"driver\": \"udp\""), std::string::npos);
}

}  // namespace
