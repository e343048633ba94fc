// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shapes of networks, and routes over what works of them.
#include <gtest/gtest.h>

#include <set>

#include "core/base/random.h"
#include "nic/topology.h"

namespace torii::nic {
namespace {

Topology make(const char* text, uint32_t hosts, uint32_t ports) {
  Topology out;
  std::string why;
  EXPECT_EQ(nic::make_topology(text, hosts, ports, &out, &why), Status::ok) << why;
  return out;
}

// The other end of the cable at a switch's port; null: nothing that works.
const Cable::End* other_end(const Topology& topology, const std::vector<bool>& works,
                            uint32_t crossbar, uint32_t port) {
  for (size_t i = 0; i < topology.cables.size(); i++) {
    if (!works.empty() && !works[i]) continue;
    for (const int side : {0, 1}) {
      const Cable::End& end = topology.cables[i].ends[side];
      if (!end.is_host && end.index == crossbar && end.port == port)
        return &topology.cables[i].ends[1 - side];
    }
  }
  return nullptr;
}

// Walks all ways. Returns the longest, in switches; fails if one is no way, or goes up again after
// it went down.
size_t walk_all(const Topology& topology, const std::vector<bool>& works = {}) {
  const Routes routes(topology, works);
  size_t longest = 0;
  for (uint32_t from = 0; from < topology.hosts; from++) {
    for (uint32_t to = 0; to < topology.hosts; to++) {
      const std::vector<uint8_t> path = routes.path(from, to);
      EXPECT_FALSE(path.empty()) << from << " to " << to;
      longest = std::max(longest, path.size());
      uint32_t at = topology.cables[from].ends[1].index;
      bool went_down = false;
      for (size_t i = 0; i < path.size(); i++) {
        EXPECT_EQ(routes.port(at, to), path[i]);
        const Cable::End* const next = other_end(topology, works, at, path[i]);
        if (!next) {
          ADD_FAILURE() << from << " to " << to << ": nothing at port " << int{path[i]} << " of "
                        << at;
          return 0;
        }
        if (i + 1 == path.size()) {
          EXPECT_TRUE(next->is_host && next->index == to) << from << " to " << to;
          break;
        }
        EXPECT_FALSE(next->is_host);
        const bool down = std::make_pair(routes.ranks()[at], at) <
                          std::make_pair(routes.ranks()[next->index], next->index);
        EXPECT_FALSE(went_down && !down) << from << " to " << to << " goes up again";
        went_down |= down;
        at = next->index;
      }
    }
  }
  return longest;
}

TEST(NicTopology, AllReachAll) {
  EXPECT_EQ(walk_all(make("star", 12, 12)), 1u);
  EXPECT_EQ(walk_all(make("fattree", 24, 8)), 3u);
  EXPECT_EQ(walk_all(make("fattree", 4, 8)), 1u) << "one switch is enough";
  EXPECT_EQ(walk_all(make("fattree", 64, 12)), 3u);
  EXPECT_EQ(walk_all(make("fattree", 64, 8)), 5u) << "three levels";
  EXPECT_EQ(walk_all(make("fattree", 40, 8)), 5u) << "not all of it is used";
  EXPECT_EQ(walk_all(make("ring:6", 12, 4)), 5u) << "not through the switch that is farthest down";
  EXPECT_EQ(walk_all(make("ring:1", 4, 4)), 1u);
  EXPECT_EQ(walk_all(make("mesh:4x4", 16, 5)), 7u) << "from corner to corner";
  EXPECT_EQ(walk_all(make("mesh:3x2", 12, 6)), 4u);
}

TEST(NicTopology, AFatTreeUsesAllOfItsTop) {
  const Topology topology = make("fattree", 32, 8);
  const Routes routes(topology);
  std::set<int> outputs;
  for (uint32_t to = 4; to < 32; to++) outputs.insert(routes.port(0, to));
  EXPECT_EQ(outputs.size(), 4u);
}

// A host that a packet reaches if each switch chooses at random.
uint32_t follow_hops(const Topology& topology, const std::vector<bool>& works, uint32_t from,
                     const std::vector<Hop>& hops, Random& random) {
  Cable::End at = topology.cables[from].ends[1];
  for (const Hop& hop : hops) {
    const Cable::End* const next = other_end(
        topology, works, at.index, static_cast<uint32_t>(random.between(hop.first, hop.last)));
    EXPECT_TRUE(next && !at.is_host) << "from " << from;
    if (!next || at.is_host) return ~0u;
    at = *next;
  }
  return at.is_host ? at.index : ~0u;
}

TEST(NicTopology, EveryChoiceLeadsThere) {
  Random random(1);
  for (const Topology& topology :
       {make("fattree", 16, 8), make("fattree", 32, 8), make("fattree", 64, 8),
        make("ring:5", 10, 4), make("mesh:4x4", 16, 5)}) {
    std::vector<bool> works(topology.cables.size(), true);
    for (int round = 0; round < 3; round++) {
      const Routes routes(topology, works);
      for (uint32_t from = 0; from < topology.hosts; from++)
        for (uint32_t to = 0; to < topology.hosts; to++) {
          const std::vector<Hop> hops = routes.hops(from, to);
          EXPECT_EQ(hops.size(), routes.path(from, to).size());
          if (hops.empty()) continue;
          EXPECT_EQ(follow_hops(topology, works, from, hops, random), to) << from;
          const std::vector<SwitchOutput> way =
              routes.way(from, to, static_cast<uint32_t>(random.between(0, 99)));
          for (size_t i = 0; i + 1 < way.size(); i++)
            EXPECT_EQ(other_end(topology, works, way[i].crossbar, way[i].port)->index,
                      way[i + 1].crossbar);
          EXPECT_EQ(way.size(), hops.size());
        }
      works[random.between(topology.hosts, topology.cables.size() - 1)] = false;
    }
  }
  const Routes tree(make("fattree", 64, 8));
  EXPECT_EQ(tree.hops(0, 63), (std::vector<Hop>{{4, 7}, {4, 7}, {3, 3}, {3, 3}, {3, 3}}));
  EXPECT_EQ(tree.hops(0, 4), (std::vector<Hop>{{4, 7}, {1, 1}, {0, 0}}));
}

TEST(NicTopology, RoutesGoAroundWhatIsCut) {
  const Topology ring = make("ring:4", 8, 4);
  for (size_t cut = ring.hosts; cut < ring.cables.size(); cut++) {
    std::vector<bool> works(ring.cables.size(), true);
    works[cut] = false;
    EXPECT_EQ(walk_all(ring, works), 4u) << "cable " << cut;
  }
  const Topology tree = make("fattree", 16, 8);
  std::vector<bool> works(tree.cables.size(), true);
  works[tree.hosts] = works[tree.hosts + 5] = false;
  EXPECT_EQ(walk_all(tree, works), 3u);
}

TEST(NicTopology, WhatIsCutOffIsNotReached) {
  const Topology star = make("star", 4, 4);
  const Routes routes(star, {true, false, true, true});
  EXPECT_FALSE(routes.reaches(0, 1));
  EXPECT_FALSE(routes.reaches(1, 0));
  EXPECT_FALSE(routes.reaches(1, 1));
  EXPECT_TRUE(routes.reaches(0, 3));
  const Topology ring = make("ring:4", 4, 3);
  std::vector<bool> works(ring.cables.size(), true);
  works[4] = works[6] = false;  // 0-1 and 2-3: two halves
  const Routes halves(ring, works);
  EXPECT_FALSE(halves.reaches(0, 1));
  EXPECT_TRUE(halves.reaches(0, 3));
  EXPECT_TRUE(halves.reaches(1, 2));
}

// Follows a tree as the switches would; how often each host is reached.
std::vector<int> follow(const Topology& topology, const std::vector<uint64_t>& tree,
                        uint32_t from) {
  std::vector<int> reached(topology.hosts, 0);
  std::vector<uint32_t> todo = {topology.cables[from].ends[1].index};
  for (size_t i = 0; i < todo.size() && i < 1000; i++) {
    for (uint32_t port = 0; port < topology.ports; port++) {
      if (!(tree[todo[i]] >> port & 1)) continue;
      const Cable::End* const next = other_end(topology, {}, todo[i], port);
      if (!next) {
        ADD_FAILURE() << "nothing at port " << port;
      } else if (next->is_host) {
        reached[next->index]++;
      } else {
        todo.push_back(next->index);
      }
    }
  }
  EXPECT_LT(todo.size(), 1000u) << "it goes in circles";
  return reached;
}

TEST(NicTopology, TreesReachEachMemberOnce) {
  for (const Topology& topology :
       {make("star", 12, 12), make("fattree", 32, 8), make("fattree", 64, 8), make("ring:5", 10, 4),
        make("mesh:4x4", 16, 5)}) {
    const Routes routes(topology);
    const std::vector<uint32_t> members = {0, 3, 4, 7, 9};
    for (uint32_t from = 0; from < topology.hosts; from++) {
      const std::vector<int> reached = follow(topology, routes.tree(from, members), from);
      for (uint32_t host = 0; host < topology.hosts; host++) {
        const bool member = std::find(members.begin(), members.end(), host) != members.end();
        EXPECT_EQ(reached[host], member) << "from " << from << " to " << host;
      }
    }
  }
}

TEST(NicTopology, WhatDoesNotFitIsRefusedWithTheRemedy) {
  Topology out;
  for (const auto& [text, hosts, ports] : {std::tuple("star", 13u, 12u),
                                           {"fattree", 64u, 3u},
                                           {"ring:2", 8u, 4u},
                                           {"mesh:2x2", 4u, 2u},
                                           {"ring:0", 4u, 8u},
                                           {"mesh:4", 4u, 8u},
                                           {"torus", 4u, 8u},
                                           {"star", 0u, 8u},
                                           {"star", 4u, 100u},
                                           {"", 4u, 8u}}) {
    std::string why;
    EXPECT_EQ(nic::make_topology(text, hosts, ports, &out, &why), Status::invalid) << text;
    EXPECT_NE(why.find("use "), why.npos) << why;
  }
}

}  // namespace
}  // namespace torii::nic
