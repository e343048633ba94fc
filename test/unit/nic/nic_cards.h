// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Drivers of emulated cards on a fabric in this process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drivers/decorator.h"
#include "drivers/myrinet/myrinet.h"
#include "drivers/nectar/nectar.h"
#include "drivers/qsnet/qsnet.h"
#include "drivers/sci/sci.h"
#include "drivers/skeleton/skeleton.h"
#include "drivers/tnet/tnet.h"
#include "nic/fabric.h"
#include "recorder.h"

namespace torii::test {

// The card is the part of the name before a slash.
inline std::unique_ptr<nic::Fabric> make_cards(const std::string& name,
                                               nic::FabricOptions options) {
  options.card = name.substr(0, name.find('/'));
  std::string why;
  std::unique_ptr<nic::Fabric> fabric = nic::Fabric::make(options, &why);
  EXPECT_TRUE(fabric) << why;
  return fabric;
}

inline std::unique_ptr<Driver> open_card(const std::string& name, nic::Fabric& fabric,
                                         uint32_t node, const DriverEnv& env) {
  std::string why;
  std::unique_ptr<nic::Card> card = fabric.open(node, &why);
  std::unique_ptr<Driver> driver;
  if (card && name == "tnet") driver = open_tnet(std::move(card), env, &why);
  if (card && name == "qsnet") driver = open_qsnet(std::move(card), env, &why);
  if (card && name == "skeleton") driver = open_skeleton(std::move(card), env, &why);
  if (card && name == "myrinet") driver = open_myrinet(std::move(card), env, &why);
  if (card && name == "myrinet/raw") driver = open_myrinet_raw(std::move(card), env, &why);
  if (card && name == "nectar") driver = open_nectar(std::move(card), env, &why);
  if (card && name == "nectar/datagram") driver = open_nectar_datagram(std::move(card), env, &why);
  if (card && name == "sci") driver = open_sci(std::move(card), env, &why);
  if (card && name == "sci/dolphin") driver = open_sci_dolphin(std::move(card), env, &why);
  EXPECT_TRUE(driver) << why;
  return driver;
}

// A driver does not open on the default card, which is another one, and its reason has a remedy.
template <typename Open>
void expect_other_cards_refused(Open open) {
  std::string why;
  const auto fabric = nic::Fabric::make({}, &why);
  ASSERT_TRUE(fabric) << why;
  Recorder sink;
  Counters counters;
  DriverEnv env;
  env.sink = &sink;
  env.counters = &counters;
  EXPECT_FALSE(open(fabric->open(0, &why), env, &why));
  EXPECT_NE(why.find("use "), why.npos) << why;
}

// Endpoints with drivers of that name, one a node; `wrap`: with that over each of them.
struct CardEnds {
  using Wrap = std::unique_ptr<Driver> (*)(const OpenBelow& below, const DriverEnv& env);

  CardEnds(const std::string& name, nic::FabricOptions options, Wrap wrap = nullptr)
      : fabric(make_cards(name, options)) {
    for (uint32_t i = 0; i < options.nodes; i++) {
      const auto open = [this, name, i](const DriverEnv& env) {
        return open_card(name, *fabric, i, env);
      };
      ends.push_back(std::make_unique<End>(
          [&](const DriverEnv& env) { return wrap ? wrap(open, env) : open(env); }));
    }
  }
  End& operator[](size_t i) { return *ends[i]; }
  // Rounds of 1 us, or as long as that; all of them poll.
  void run(int rounds, uint64_t ns = 1000) {
    for (int i = 0; i < rounds; i++) {
      fabric->engine().run_to(fabric->engine().now_ns() + ns);
      for (const auto& end : ends)
        if (end) end->driver->poll(fabric->engine().now_ns(), 64);
    }
  }
  // Sends when there is room.
  void send(size_t from, PeerId to, const std::string& head, const std::string& body = {},
            uint64_t cookie = 0) {
    for (int i = 0; i < 20000; i++) {
      if (ends[from]->send(to, head, body, cookie)) return;
      run(1);
    }
    ADD_FAILURE() << "never any room";
  }

  std::unique_ptr<nic::Fabric> fabric;
  std::vector<std::unique_ptr<End>> ends;
};

}  // namespace torii::test
