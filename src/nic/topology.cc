// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/topology.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/log.h"
#include "core/base/parse.h"
#include "nic/crossbar.h"

namespace torii::nic {
namespace {

constexpr uint32_t kFar = ~0u;
constexpr SwitchOutput kCut{kFar, 0};  // of a host whose cable does not work

// Builds a topology; each switch gives its ports in order.
class Builder {
 public:
  Builder(Topology* out, uint32_t hosts, uint32_t ports) : out_(*out) {
    out_ = Topology{};
    out_.hosts = hosts;
    out_.ports = ports;
  }
  uint32_t add_switch(uint32_t rank) {
    out_.ranks.push_back(rank);
    used_.push_back(0);
    return out_.switches() - 1;
  }
  void add_hosts(uint32_t first_switch, uint32_t switches) {
    const uint32_t each = (out_.hosts + switches - 1) / switches;
    for (uint32_t host = 0; host < out_.hosts; host++)
      out_.cables.push_back({{{true, host, 0}, end(first_switch + host / each)}});
  }
  void connect(uint32_t a, uint32_t b) { out_.cables.push_back({{end(a), end(b)}}); }
  uint32_t most_used() const { return *std::max_element(used_.begin(), used_.end()); }

 private:
  Cable::End end(uint32_t crossbar) { return {false, crossbar, used_[crossbar]++}; }

  Topology& out_;
  std::vector<uint32_t> used_;
};

// One switch is a ring, too, as are two with a single cable.
void build_ring(Builder& build, uint32_t switches) {
  for (uint32_t i = 0; i < switches; i++) build.add_switch(std::min(i, switches - i));
  build.add_hosts(0, switches);
  for (uint32_t i = 0; i + 1 < switches; i++) build.connect(i, i + 1);
  if (switches > 2) build.connect(switches - 1, 0);
}

void build_mesh(Builder& build, uint32_t width, uint32_t height) {
  for (uint32_t y = 0; y < height; y++)
    for (uint32_t x = 0; x < width; x++) build.add_switch(x + y);
  build.add_hosts(0, width * height);
  for (uint32_t y = 0; y < height; y++) {
    for (uint32_t x = 0; x < width; x++) {
      if (x + 1 < width) build.connect(y * width + x, y * width + x + 1);
      if (y + 1 < height) build.connect(y * width + x, (y + 1) * width + x);
    }
  }
}

// A switch of one level and one above it are connected if their numbers, to base `half`, differ at
// most in the digit of that level. So a step down is by the same port, whatever the way up was.
void build_levels(Builder& build, uint32_t hosts, uint32_t half) {
  uint32_t levels = 1, width = 1;
  for (; uint64_t{width} * half < hosts; levels++) width *= half;
  for (uint32_t level = 0; level < levels; level++)
    for (uint32_t i = 0; i < width; i++) build.add_switch(levels - 1 - level);
  build.add_hosts(0, width);
  for (uint32_t level = 0, digit = 1; level + 1 < levels; level++, digit *= half)
    for (uint32_t i = 0; i < width; i++)
      for (uint32_t k = 0; k < half; k++)
        build.connect(level * width + i + k * digit - i / digit % half * digit,
                      (level + 1) * width + i);
}

void build_fat_tree(Builder& build, uint32_t hosts, uint32_t ports) {
  const uint32_t half = std::max(ports / 2, 1u);
  if (half > 1 && hosts > half * ports) return build_levels(build, hosts, half);
  const uint32_t leaves = (hosts + half - 1) / half;
  for (uint32_t i = 0; i < leaves; i++) build.add_switch(1);
  build.add_hosts(0, leaves);
  for (uint32_t up = 0; up < half && leaves > 1; up++) {
    const uint32_t top = build.add_switch(0);
    for (uint32_t leaf = 0; leaf < leaves; leaf++) build.connect(leaf, top);
  }
}

bool parse_size(std::string_view text, uint32_t* out) {
  return parse_whole(text, out) && *out > 0 && *out <= 256;
}

}  // namespace

Status make_topology(std::string_view text, uint32_t hosts, uint32_t ports, Topology* out,
                     std::string* why) {
  Builder build(out, hosts, ports);
  const auto [name, colon, size] = split_at(text, ":");
  const auto [width, mark, height] = split_at(size, "x");
  uint32_t x = 0, y = 0;
  if (hosts == 0 || ports == 0 || ports > kPortsMax) {
    *why = format_text(
        "topology: %u hosts and switches of %u ports; use 1 or more hosts and 1 to "
        "%u ports",
        hosts, ports, kPortsMax);
    return Status::invalid;
  }
  if (text == "star") {
    build_ring(build, 1);
  } else if (text == "fattree") {
    build_fat_tree(build, hosts, ports);
  } else if (name == "ring" && parse_size(size, &x)) {
    build_ring(build, x);
  } else if (name == "pair" && parse_size(size, &x)) {
    build_ring(build, 2);
    for (uint32_t i = 1; i < x; i++) build.connect(0, 1);
  } else if (name == "mesh" && parse_size(width, &x) && parse_size(height, &y)) {
    build_mesh(build, x, y);
  } else {
    *why = format_text(
        "topology: '%.*s' is not known; use star, fattree, ring:SWITCHES, "
        "pair:CABLES or mesh:XxY",
        static_cast<int>(text.size()), text.data());
    return Status::invalid;
  }
  if (build.most_used() <= ports) return Status::ok;
  *why = format_text(
      "topology: %.*s with %u hosts needs a switch of %u ports, and they have %u; "
      "use more switches, fewer hosts, or set switch.ports",
      static_cast<int>(text.size()), text.data(), hosts, build.most_used(), ports);
  return Status::invalid;
}

Routes::Routes(const Topology& topology, const std::vector<bool>& works)
    : ranks_(topology.ranks), hosts_(topology.hosts, kCut), neighbours_(topology.switches()) {
  for (size_t i = 0; i < topology.cables.size(); i++) {
    if (!works.empty() && !works[i]) continue;
    const Cable::End &a = topology.cables[i].ends[0], &b = topology.cables[i].ends[1];
    if (a.is_host) {
      hosts_[a.index] = {b.index, b.port};
    } else {
      neighbours_[a.index][a.port] = b.index;
      neighbours_[b.index][b.port] = a.index;
    }
  }
  fill_all();
  if (complete()) return;
  rank_by_distance();
  fill_all();
}

void Routes::fill_all() {
  equal_.assign(ranks_.size(), std::vector<uint64_t>(ranks_.size()));
  for (uint32_t target = 0; target < ranks_.size(); target++) fill(target);
}

// Does every switch know the way to all hosts that its neighbours know the way to?
bool Routes::complete() const {
  for (uint32_t at = 0; at < neighbours_.size(); at++)
    for (const auto& [output, other] : neighbours_[at])
      for (uint32_t host = 0; host < hosts_.size(); host++)
        if ((port(at, host) < 0) != (port(other, host) < 0)) return false;
  return true;
}

// From the lowest switch of each part that holds together: then the way up leads there from all.
void Routes::rank_by_distance() {
  ranks_.assign(ranks_.size(), kFar);
  for (uint32_t first = 0; first < ranks_.size(); first++) {
    if (ranks_[first] != kFar) continue;
    std::vector<uint32_t> todo = {first};
    ranks_[first] = 0;
    for (size_t i = 0; i < todo.size(); i++) {
      for (const auto& [output, other] : neighbours_[todo[i]]) {
        if (ranks_[other] != kFar) continue;
        ranks_[other] = ranks_[todo[i]] + 1;
        todo.push_back(other);
      }
    }
  }
}

// The ways of each switch to that one.
void Routes::fill(uint32_t target) {
  const auto count = static_cast<uint32_t>(ranks_.size());
  const auto is_above = [&](uint32_t a, uint32_t b) {
    return std::make_pair(ranks_[a], a) < std::make_pair(ranks_[b], b);
  };
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, is_above);
  std::vector<uint32_t> down(count, kFar);  // steps to the target, all down
  down[target] = 0;
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    for (const auto& [output, other] : neighbours_[*it])
      if (is_above(*it, other) && down[other] != kFar)
        down[*it] = std::min(down[*it], down[other] + 1);
  std::vector<uint32_t> best = down;  // up first, where it cannot be all down
  for (const uint32_t at : order) {
    if (at == target) continue;
    const bool goes_down = down[at] != kFar;
    const auto distance = [&](uint32_t other) {
      if (is_above(at, other) != goes_down) return kFar;
      const uint32_t rest = goes_down ? down[other] : best[other];
      return rest == kFar ? kFar : rest + 1;
    };
    for (const auto& [output, other] : neighbours_[at])
      best[at] = std::min(best[at], distance(other));
    for (const auto& [output, other] : neighbours_[at])
      if (best[at] != kFar && distance(other) == best[at])
        equal_[target][at] |= uint64_t{1} << output;
  }
}

int Routes::port(uint32_t crossbar, uint32_t host) const {
  const uint32_t target = hosts_[host].crossbar;
  if (target == kFar) return -1;
  if (crossbar == target) return static_cast<int>(hosts_[host].port);
  uint64_t ports = equal_[target][crossbar];
  if (ports == 0) return -1;
  // Not the same one for all targets.
  for (auto n = target % static_cast<uint32_t>(std::popcount(ports)); n > 0; n--)
    ports &= ports - 1;
  return std::countr_zero(ports);
}

std::vector<Hop> Routes::hops(uint32_t from, uint32_t to) const {
  std::vector<Hop> fixed, out;
  for (const uint8_t port : path(from, to)) fixed.push_back({port, port});
  if (fixed.empty()) return fixed;
  const std::vector<uint64_t>& equal = equal_[hosts_[to].crossbar];
  std::vector<uint32_t> at = {hosts_[from].crossbar};
  // Follows all choices at once.
  while (out.size() + 1 < fixed.size()) {
    uint64_t ports = ~uint64_t{0};
    for (const uint32_t crossbar : at) ports &= equal[crossbar];
    if (ports == 0) return fixed;
    const auto first = static_cast<uint32_t>(std::countr_zero(ports));
    const auto last = first + static_cast<uint32_t>(std::countr_one(ports >> first)) - 1;
    out.push_back({static_cast<uint8_t>(first), static_cast<uint8_t>(last)});
    std::vector<uint32_t> after;
    for (const uint32_t crossbar : at)
      for (uint32_t port = first; port <= last; port++)
        after.push_back(neighbours_[crossbar].at(port));
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
    at = std::move(after);
  }
  out.push_back(fixed.back());
  return out;
}

std::vector<SwitchOutput> Routes::steps(uint32_t from, uint32_t to) const {
  std::vector<SwitchOutput> out;
  if (to >= hosts_.size() || hosts_[from].crossbar == kFar) return out;
  for (uint32_t at = hosts_[from].crossbar;; at = neighbours_[at].at(out.back().port)) {
    const int output = port(at, to);
    if (output < 0) return {};
    out.push_back({at, static_cast<uint32_t>(output)});
    if (at == hosts_[to].crossbar) return out;
  }
}

std::vector<uint8_t> Routes::path(uint32_t from, uint32_t to) const {
  std::vector<uint8_t> out;
  for (const SwitchOutput& step : steps(from, to)) out.push_back(static_cast<uint8_t>(step.port));
  return out;
}

std::vector<SwitchOutput> Routes::way(uint32_t from, uint32_t to, uint32_t choice) const {
  std::vector<SwitchOutput> out;
  uint32_t at = hosts_[from].crossbar;
  for (const Hop& hop : hops(from, to)) {
    if (!out.empty()) at = neighbours_[at].at(out.back().port);
    out.push_back({at, hop.first + choice % (hop.last - hop.first + 1u)});
  }
  return out;
}

std::vector<uint64_t> Routes::tree(uint32_t from, const std::vector<uint32_t>& members) const {
  std::vector<uint64_t> out(ranks_.size(), 0);
  std::vector<bool> inside(ranks_.size(), false);
  // From each member back to what is in the tree already: no switch is entered by two ways.
  for (const uint32_t member : members) {
    std::vector<SwitchOutput> way;
    for (const SwitchOutput& step : steps(from, member)) {
      if (inside[step.crossbar]) way.clear();
      way.push_back(step);
    }
    for (const SwitchOutput& step : way) {
      out[step.crossbar] |= uint64_t{1} << step.port;
      inside[step.crossbar] = true;
    }
  }
  return out;
}

}  // namespace torii::nic
