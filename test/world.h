// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Several interfaces on one simulated fabric and its virtual clock, used through torii.h.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ni/ni.h"
#include "drivers/decorator.h"
#include "drivers/sim/sim.h"
#include "trust.h"

namespace torii::test {

// Interfaces of one job on one fabric, driven in turn on virtual time.
class World {
 public:
  // Makes the driver of interface `index`.
  using Open = std::function<std::unique_ptr<Driver>(unsigned index, const OpenBelow& sim,
                                                     const DriverEnv& env)>;

  // `job_size` decides the eager window.
  World(const SimOptions& options, unsigned count, uint32_t job_size, const Open& open = nullptr)
      : fabric_(options) {
    const OpenBelow sim = [this](const DriverEnv& env) { return open_sim(fabric_, env); };
    for (unsigned i = 0; i < count; ++i) {
      NiConfig config;
      config.self = own_identity();
      config.self.job = 77;
      config.self.rank = i;
      config.self.nid = i;
      config.self.pid = 1;
      config.size = job_size;
      config.clock = [](void* f) { return static_cast<SimFabric*>(f)->now_ns(); };
      config.clock_context = &fabric_;
      nis_.push_back(std::make_unique<Ni>(config));
      DriverEnv env;
      env.sink = nis_.back()->protocol().next_sink();
      env.counters = &nis_.back()->counters();
      env.members = &test::everybody();
      nis_.back()->protocol().add_driver("sim", open ? open(i, sim, env) : sim(env));
    }
  }
  Ni& ni(unsigned i) { return *nis_[i]; }
  torii_ni_t* handle(unsigned i) { return reinterpret_cast<torii_ni_t*>(nis_[i].get()); }
  Peer* peer(unsigned from, unsigned to) {
    std::byte address[Protocol::kAddressBytes];
    const size_t n = ni(to).protocol().address(address, sizeof(address));
    Peer* out = nullptr;
    std::string why;
    EXPECT_EQ(ni(from).connect({address, n}, &out, &why), Status::ok) << why;
    return out;
  }
  torii_port_t* port(unsigned i) {
    torii_port_t* p = nullptr;
    EXPECT_EQ(torii_port_open(handle(i), 0, &p), TORII_OK);
    return p;
  }
  unsigned step() {
    fabric_.advance(1000);
    unsigned events = 0;
    for (unsigned i = 0; i < nis_.size(); ++i) events += unsigned(torii_progress(handle(i)));
    return events;
  }
  void run(unsigned quiet_rounds = 50) {
    for (unsigned quiet = 0; quiet < quiet_rounds;) quiet = step() ? 0 : quiet + 1;
  }
  // Virtual time, in which nobody does anything.
  void advance(uint64_t ns) { fabric_.advance(ns); }
  void kill(unsigned i) {
    std::byte address[kAddressMax];  // a link puts its key behind the network's own
    ni(i).protocol().drivers()[0]->address(address);
    fabric_.kill({address, kSimAddressBytes});
  }

 private:
  SimFabric fabric_;
  std::vector<std::unique_ptr<Ni>> nis_;
};

// The result that a completion callback got, and how often it ran.
struct Outcome {
  int calls = 0;
  torii_result_t result{};
};

inline void note(void* arg, const torii_result_t* result) {
  auto* outcome = static_cast<Outcome*>(arg);
  ++outcome->calls;
  outcome->result = *result;
}

inline torii_data_t flat(void* base, size_t bytes) {
  torii_data_t d{};
  d.layout = TORII_CONTIGUOUS;
  d.base = base;
  d.bytes = bytes;
  return d;
}

// `bytes` bytes that depend on the seed, and one more.
inline std::vector<uint8_t> pattern(size_t bytes, unsigned seed) {
  std::vector<uint8_t> v(bytes + 1);
  for (size_t i = 0; i < bytes; ++i) v[i] = uint8_t(i * 7 + (i >> 8) * 13 + seed);
  return v;
}

inline torii_peer_t* pub(Peer* p) { return reinterpret_cast<torii_peer_t*>(p); }

}  // namespace torii::test
