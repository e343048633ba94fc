// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which cables connect hosts and switches, and the routes over those that work.
//
// Routes go up and then down: the switches have an order, and no route goes up again after a step
// down. So no cycle of full buffers can form, whatever the shape. All routes are by destination: a
// switch has one output for each host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace torii::nic {

struct Cable {
  struct End {
    bool is_host = false;
    uint32_t index = 0;  // of the host, or of the switch
    uint32_t port = 0;   // of the switch
  };
  End ends[2];
};

struct Topology {
  uint32_t hosts = 0;
  uint32_t ports = 0;           // of each switch
  std::vector<uint32_t> ranks;  // of the switches: up is to a lower rank, then a lower number
  std::vector<Cable> cables;    // those of the hosts first, in their order

  uint32_t switches() const { return static_cast<uint32_t>(ranks.size()); }
};

// "star": one switch. "ring:N": N switches in a ring. "fattree": a switch for half as many hosts as
// it has ports, and as many above as it has ports left; for more hosts than that as many levels as
// it takes, each with the same number of switches. "mesh:XxY". "pair:N": two switches with N cables
// between them. Hosts are spread over the switches in blocks. `invalid` with the reason in *why.
Status make_topology(std::string_view text, uint32_t hosts, uint32_t ports, Topology* out,
                     std::string* why);

// A step of a way: one output of a switch, or any of several in a row.
struct Hop {
  uint8_t first, last;
  bool operator==(const Hop&) const = default;
};

struct SwitchOutput {
  uint32_t crossbar, port;
  bool operator==(const SwitchOutput&) const = default;
};

class Routes {
 public:
  // `works`: by cable; empty: all do.
  explicit Routes(const Topology& topology, const std::vector<bool>& works = {});
  uint32_t hosts() const { return static_cast<uint32_t>(hosts_.size()); }
  // The output at that switch towards the host; -1: there is no way.
  int port(uint32_t crossbar, uint32_t host) const;
  // The outputs on the way, one for each switch; empty: there is no way.
  std::vector<uint8_t> path(uint32_t from, uint32_t to) const;
  // The same with a choice, wherever all of its outputs are followed by the same steps.
  std::vector<Hop> hops(uint32_t from, uint32_t to) const;
  // One of these ways, with the switches: another number may give another one.
  std::vector<SwitchOutput> way(uint32_t from, uint32_t to, uint32_t choice) const;
  bool reaches(uint32_t from, uint32_t to) const { return !steps(from, to).empty(); }
  // By which up and down are told apart: those of the topology, unless too much of it is cut.
  const std::vector<uint32_t>& ranks() const { return ranks_; }
  // The outputs at each switch by which one packet of `from` reaches all members, once each.
  std::vector<uint64_t> tree(uint32_t from, const std::vector<uint32_t>& members) const;

 private:
  std::vector<SwitchOutput> steps(uint32_t from, uint32_t to) const;  // of path()
  void fill_all();
  void fill(uint32_t target);
  bool complete() const;
  void rank_by_distance();

  std::vector<uint32_t> ranks_;
  std::vector<SwitchOutput> hosts_;                       // towards each
  std::vector<std::map<uint32_t, uint32_t>> neighbours_;  // by switch and port
  // By target and switch: the outputs that are as good on the way there, a bit each.
  std::vector<std::vector<uint64_t>> equal_;
};

}  // namespace torii::nic
