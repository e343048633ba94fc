// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Interfaces on a simulated network that all know each other, for tests of groups.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "world.h"

namespace torii::test {

// The part of an interface's driver that a test sees and changes.
struct Tap {
  unsigned frames = 0;    // taken by the driver
  bool multicast = true;  // declared
  Status join_says = Status::ok;
};

class Tapped final : public Decorator {
 public:
  Tapped(const DriverEnv& env, Tap& tap) : Decorator(env), tap_(tap) {}
  bool start(const OpenBelow& sim, const DriverEnv& env) {
    if (!open(sim, env)) return false;
    if (!tap_.multicast) caps_.flags &= ~kMulticast;
    return true;
  }
  size_t send(std::span<const Tx> batch) override {
    const size_t taken = below_->send(batch);
    tap_.frames += unsigned(taken);
    return taken;
  }
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    if (!tap_.multicast) return Status::unsupported;
    return tap_.join_says == Status::ok ? below_->join(group, peer) : tap_.join_says;
  }

 private:
  Tap& tap_;
};

inline constexpr uint32_t kPartyJob = 64;  // processes: a window of 1 MiB

// A network of its own random latencies.
inline SimOptions sim_options(uint32_t again_ppm = 0, uint32_t depth = 64) {
  SimOptions options;
  options.latency_min_ns = 100;
  options.latency_max_ns = 5000;
  options.again_ppm = again_ppm;
  options.depth = depth;
  return options;
}

// Interfaces that all know each other, each with port 0 open.
struct Party {
  explicit Party(unsigned n) : Party(std::vector<Tap>(n)) {}
  explicit Party(const std::vector<Tap>& with, const SimOptions& options = sim_options(),
                 uint32_t job_size = kPartyJob)
      : count(unsigned(with.size())),
        taps(with),
        groups(count),
        world(options, count, job_size, opener()) {
    for (unsigned i = 0; i < count; ++i) {
      ports.push_back(world.port(i));
      peers.emplace_back();
      for (unsigned k = 0; k < count; ++k) peers[i].push_back(pub(world.peer(i, k)));
    }
  }
  World::Open opener() {
    return [this](unsigned i, const OpenBelow& sim, const DriverEnv& env) {
      auto driver = std::make_unique<Tapped>(env, taps[i]);
      EXPECT_TRUE(driver->start(sim, env));
      return driver;
    };
  }
  // Member `i` opens the group of all.
  void open(unsigned i, const std::string& name = "all") {
    ASSERT_EQ(TORII_OK, torii_group_open(world.handle(i), name.data(), name.size(), peers[i].data(),
                                         count, &groups[i]));
  }
  void open_everywhere() {
    for (unsigned i = 0; i < count; ++i) open(i);
    world.run();
  }
  int send(unsigned from, const std::string& text, Outcome* outcome) {
    kept.push_back(text);
    torii_data_t d = flat(kept.back().data(), text.size());
    return torii_group_send(groups[from], ports[from], 3, 9, &d, note, outcome);
  }
  // The text that `at` receives next from `from`.
  std::string receive(unsigned at, unsigned from) {
    std::string text(200000, '\0');
    torii_data_t d = flat(text.data(), text.size());
    Outcome outcome;
    torii_result_t now{};
    const int code =
        torii_recv(ports[at], peers[at][from], 3, 0, &d, note, &outcome, nullptr, &now);
    world.run();
    if (code == TORII_PENDING && outcome.calls == 0) return "(nothing)";
    const torii_result_t& result = code == TORII_PENDING ? outcome.result : now;
    EXPECT_EQ(result.user, 9u);
    EXPECT_EQ(result.tag, 3u);
    EXPECT_EQ(result.source, peers[at][from]);
    if (result.code != TORII_OK) return torii_code_text(result.code);
    text.resize(result.bytes);
    return text;
  }
  Counters& counters(unsigned i) { return world.ni(i).counters(); }
  // All that one process granted another is either there or in use by what has arrived.
  void expect_credit_adds_up() {
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned k = 0; k < count; ++k) {
        const auto* there = reinterpret_cast<Peer*>(peers[k][i]);
        const auto* here = reinterpret_cast<Peer*>(peers[i][k]);
        EXPECT_EQ(here->credit + there->in_use, there->window) << "from " << i << " to " << k;
      }
      EXPECT_EQ(counters(i).bad_frames, 0u);
      EXPECT_EQ(world.ni(i).protocol().ops().used(), 0u);
    }
  }

  const unsigned count;
  std::vector<Tap> taps;
  std::vector<torii_group_t*> groups;
  World world;
  std::vector<torii_port_t*> ports;
  std::vector<std::vector<torii_peer_t*>> peers;
  std::list<std::string> kept;  // what was sent
};

}  // namespace torii::test
