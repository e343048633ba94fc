// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A driver of an emulated card on a timed host: its accesses take the time of the bus, and what the
// host's software takes is added.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "drivers/decorator.h"
#include "drivers/myrinet/myrinet.h"
#include "drivers/nectar/nectar.h"
#include "drivers/qsnet/qsnet.h"
#include "drivers/sci/sci.h"
#include "drivers/skeleton/skeleton.h"
#include "drivers/tnet/tnet.h"
#include "nic/fabric.h"
#include "nic/figures.h"
#include "nic/hosts.h"

namespace torii::figures {

inline std::unique_ptr<Driver> open_on(std::unique_ptr<nic::Card> card, const Setup& setup,
                                       const DriverEnv& env, std::string* why) {
  if (setup.card == "skeleton") return open_skeleton(std::move(card), env, why);
  if (setup.card == "nectar") return open_nectar(std::move(card), env, why);
  if (setup.card == "qsnet") return open_qsnet(std::move(card), env, why);
  if (setup.card == "sci") return open_sci(std::move(card), env, why);
  if (setup.card == "sci/dolphin") return open_sci_dolphin(std::move(card), env, why);
  if (setup.card == "tnet") return open_tnet(std::move(card), env, why);
  if (setup.card == "myrinet/raw") return open_myrinet_raw(std::move(card), env, why);
  return open_myrinet_with(std::move(card), env, why, setup.pio_max);
}

class Timed final : public Decorator {
 public:
  static std::unique_ptr<Driver> open(const Setup& setup, nic::Fabric& fabric, uint32_t node,
                                      nic::Host& host, const bool& over, const DriverEnv& env) {
    std::unique_ptr<Timed> out(new Timed(setup, host, over, env));
    const OpenBelow below = [&](const DriverEnv& inner) -> std::unique_ptr<Driver> {
      std::string why;
      std::unique_ptr<nic::Card> card = fabric.open(node, &why, &host);
      std::unique_ptr<Driver> driver;
      if (card) driver = open_on(std::move(card), setup, inner, &why);
      if (!driver) std::fprintf(stderr, "%s\n", why.c_str());
      return driver;
    };
    return out->Decorator::open(below, env) ? std::move(out) : nullptr;
  }
  size_t send(std::span<const Tx> batch) override {
    for (const Tx& tx : batch)
      spend(software_.frame_ns + (tx.body_bytes > caps_.inline_max ? software_.dma_ns : 0));
    return below_->send(batch);
  }
  void take(void* to, const std::byte* from, size_t bytes) override {
    spend(software_.dma_ns);
    below_->take(to, from, bytes);
  }

 private:
  Timed(const Setup& setup, nic::Host& host, const bool& over, const DriverEnv& env)
      : Decorator(env), software_(setup.software), host_(host), over_(over) {}
  void spend(uint64_t ns) {
    if (!over_) host_.spend(ns);
  }
  void packet(PeerId from, std::span<const std::byte> frame) override {
    spend(software_.frame_ns);
    upper_.packet(from, frame);
  }

  const Software software_;
  nic::Host& host_;
  const bool& over_;  // the host's program has ended
};

}  // namespace torii::figures
