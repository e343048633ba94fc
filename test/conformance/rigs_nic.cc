// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Drivers of emulated cards, each on a fabric of its own whose time is that of the case.
#include "conformance/rigs_nic.h"

#include <cstring>

#include "core/link/link.h"
#include "drivers/decorator.h"
#include "drivers/myrinet/myrinet.h"
#include "drivers/nectar/nectar.h"
#include "drivers/qsnet/qsnet.h"
#include "drivers/sci/sci.h"
#include "drivers/skeleton/skeleton.h"
#include "drivers/tnet/tnet.h"
#include "nic/nectar/hub.h"
#include "sanitized.h"

namespace torii::kit {
namespace {

// Moves the fabric's time with poll(). Drivers do not: real cards need no such help.
class Clocked final : public Decorator {
 public:
  static std::unique_ptr<Driver> open(std::shared_ptr<nic::Fabric> fabric, const OpenBelow& below,
                                      const DriverEnv& env) {
    std::unique_ptr<Clocked> out(new Clocked(std::move(fabric), env));
    if (!out->Decorator::open(below, env)) return nullptr;
    return out;
  }
  ~Clocked() override { below_.reset(); }  // before the fabric
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    fabric_->engine().run_to(now_ns);
    return below_->poll(now_ns, budget);
  }

 private:
  Clocked(std::shared_ptr<nic::Fabric> fabric, const DriverEnv& env)
      : Decorator(env), fabric_(std::move(fabric)) {}

  const std::shared_ptr<nic::Fabric> fabric_;
};

// The same with the link over the driver.
Rig with_link(Rig rig) {
  rig.open = [open = rig.open](const DriverEnv& env, std::string* why) {
    return wrap_link([&](const DriverEnv& inner) { return open(inner, why); }, env);
  };
  return rig;
}

// Nectar with a board that has connected its fibre to all outputs of its HUB, and left it so.
Rig with_busy_ports(const std::string& name, const nic::FabricOptions& options, uint64_t seed) {
  struct Stray {
    std::shared_ptr<nic::Fabric> fabric;
    std::unique_ptr<nic::Card> card;
  };
  const auto stray = std::make_shared<Stray>();
  Rig rig = nic_rig(name, options, seed, open_nectar, &stray->fabric);
  rig.reset = [reset = rig.reset, stray] {
    using namespace nic::nectar;
    stray->card = nullptr;
    reset();
    nic::Fabric& fabric = *stray->fabric;
    std::string why;
    stray->card = fabric.open(fabric.nodes() - 1, &why);
    Bytes item;
    for (uint32_t i = 0; i + 1 < fabric.nodes(); i++) append(&item, one_command(kOpen, {0, i}));
    const auto length = static_cast<uint32_t>(item.size());
    item.resize((length + 3) / 4 * 4);
    stray->card->write(kDataRam, item.data(), item.size());
    stray->card->write32(dma(kFiberOut, kAddress), kDataRam);
    stray->card->write32(dma(kFiberOut, kLength), length);
    stray->card->write32(dma(kFiberOut, kControl), kStart);
    fabric.engine().run_to(100000);
  };
  return rig;
}

}  // namespace

Rig nic_rig(const std::string& name, nic::FabricOptions options, uint64_t seed, OpenOnCard open,
            std::shared_ptr<nic::Fabric>* last) {
  Rig rig;
  rig.name = name;
  rig.seed = seed;
  // An event of a simulated card costs many times as much with a sanitizer.
  if (test::in_short()) rig.frames = 300;
  options.card = name.substr(0, name.find('/'));
  options.faults += (options.faults.empty() ? "seed=" : ",seed=") + std::to_string(seed);
  const auto fabric = std::make_shared<std::shared_ptr<nic::Fabric>>();
  rig.reset = [fabric, options, last] {
    std::string why;
    *fabric = nic::Fabric::make(options, &why);
    if (last) *last = *fabric;
    if (*fabric) return;
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  };
  rig.open = [fabric, open](const DriverEnv& env, std::string* why) {
    const OpenBelow below = [&](const DriverEnv& inner) -> std::unique_ptr<Driver> {
      std::unique_ptr<nic::Card> card = (*fabric)->open(nic::Fabric::kAnyNode, why);
      return card ? open(std::move(card), inner, why) : nullptr;
    };
    return Clocked::open(*fabric, below, env);
  };
  rig.kill = [fabric](Driver& driver) {
    std::byte address[kAddressMax];
    driver.address(address);
    nic::Name who;
    std::memcpy(&who, address + 8, sizeof(who));
    (*fabric)->kill(who);
  };
  return rig;
}

std::vector<Rig> nic_rigs(uint64_t seed) {
  const auto with = [](uint32_t nodes, const char* topology, const char* faults) {
    nic::FabricOptions options;
    options.nodes = nodes;
    options.topology = topology;
    options.faults = faults;
    return options;
  };
  return {
      nic_rig("skeleton", with(16, "star", ""), seed, open_skeleton),
      nic_rig("skeleton/bit-errors", with(16, "star", "ber=1e-5"), seed, open_skeleton),
      nic_rig("skeleton/fat-tree", with(24, "fattree", "ber=1e-6"), seed, open_skeleton),
      // Two cables between switches go, one for ever: there is another way.
      nic_rig("skeleton/cut", with(16, "ring:16", "cut#3/cable=16,cut#50/cable=18/for=100us"), seed,
              open_skeleton),
      nic_rig("myrinet", with(8, "star", ""), seed, open_myrinet),
      // Parnass: eight switches for four hosts each, and four above.
      nic_rig("myrinet/bit-errors", with(32, "fattree", "ber=3e-6,fail#2,fail#7,stall#5/for=300us"),
              seed, open_myrinet),
      nic_rig("myrinet/cut", with(8, "ring:4", "cut#20/cable=8,cut#50/cable=10/for=100us"), seed,
              open_myrinet),
      nic_rig("myrinet/raw", with(8, "star", ""), seed, open_myrinet_raw),
      with_link(nic_rig("myrinet/raw-link-bit-errors", with(8, "star", "ber=3e-6"), seed,
                        open_myrinet_raw)),
      with_link(nic_rig("myrinet/raw-link-cut",
                        with(8, "ring:8", "cut#20/cable=8,cut#50/cable=10/for=100us"), seed,
                        open_myrinet_raw)),
      nic_rig("tnet", with(12, "star", ""), seed, open_tnet),
      nic_rig("tnet/two-a-card", with(4, "star", ""), seed, open_tnet),
      nic_rig("tnet/bit-errors", with(12, "star", "ber=1e-5"), seed, open_tnet),
      nic_rig("tnet/fat-tree", with(24, "fattree", "ber=1e-6"), seed, open_tnet),
      nic_rig("tnet/cut", with(8, "ring:8", "cut#30/cable=8,cut#500/cable=10/for=100us"), seed,
              open_tnet),
      nic_rig("qsnet", with(16, "fattree", ""), seed, open_qsnet),
      nic_rig("qsnet/two-a-card", with(4, "fattree", ""), seed, open_qsnet),
      nic_rig("qsnet/bit-errors", with(16, "fattree", "ber=1e-5,fail#9,fail#60"), seed, open_qsnet),
      nic_rig("qsnet/lost-tokens", with(16, "fattree", "drop=1e-2"), seed, open_qsnet),
      nic_rig("qsnet/three-levels", with(40, "fattree", "ber=1e-6,drop=1e-3"), seed, open_qsnet),
      // Another way up is taken by the switches, another way around the ring by the driver.
      nic_rig("qsnet/cut-up", with(16, "fattree", "cut#30/cable=16,cut#50/cable=21/for=100us"),
              seed, open_qsnet),
      nic_rig("qsnet/cut", with(8, "ring:8", "cut#30/cable=8,cut#500/cable=10/for=100us"), seed,
              open_qsnet),
      nic_rig("nectar", with(12, "star", ""), seed, open_nectar),
      nic_rig("nectar/two-hubs", with(16, "pair:2", ""), seed, open_nectar),
      nic_rig("nectar/bit-errors", with(12, "star", "ber=3e-6"), seed, open_nectar),
      nic_rig("nectar/lost-signals", with(16, "pair:2", "drop=1e-3"), seed, open_nectar),
      with_busy_ports("nectar/busy-ports", with(12, "star", ""), seed),
      nic_rig("nectar/cut", with(8, "pair:2", "cut#30/cable=8,cut#500/cable=9/for=100us"), seed,
              open_nectar),
      nic_rig("nectar/datagram", with(12, "star", ""), seed, open_nectar_datagram),
      with_link(nic_rig("nectar/datagram-link-bit-errors", with(12, "star", "ber=1e-6"), seed,
                        open_nectar_datagram)),
      with_link(nic_rig("nectar/datagram-link-cut",
                        with(8, "pair:2", "cut#30/cable=8,cut#500/cable=9/for=100us"), seed,
                        open_nectar_datagram)),
      with_link(nic_rig("nectar/datagram-link-lost-signals", with(16, "pair:2", "drop=1e-3"), seed,
                        open_nectar_datagram)),
      nic_rig("sci", with(12, "ring:6", ""), seed, open_sci),
      nic_rig("sci/two-a-card", with(4, "ring:4", ""), seed, open_sci),
      nic_rig("sci/bit-errors", with(12, "ring:6", "ber=1e-5,fail#9,stall#60/for=100us"), seed,
              open_sci),
      nic_rig("sci/lost-echoes", with(12, "ring:12", "drop=1e-2"), seed, open_sci),
      nic_rig("sci/cut", with(8, "ring:8", "cut#30/cable=8,cut#500/cable=10/for=100us"), seed,
              open_sci),
      nic_rig("sci/dolphin", with(12, "ring:6", ""), seed, open_sci_dolphin),
      nic_rig("sci/dolphin-bit-errors", with(12, "ring:6", "ber=1e-5,drop=1e-3"), seed,
              open_sci_dolphin),
      nic_rig("sci/dolphin-cut", with(8, "ring:8", "cut#30/cable=8,cut#500/cable=10/for=100us"),
              seed, open_sci_dolphin),
  };
}

}  // namespace torii::kit
