// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Nectar's CAB: memories, page protection, DMA, the fibres, and what runs its firmware.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nic/model.h"
#include "nic/nectar/hub.h"
#include "nic/nectar/regs.h"
#include "nic/processor.h"

namespace torii::nic::nectar {

inline constexpr uint64_t kStepNs = 1000;  // of the firmware; an assumption

// What runs on a board: a state machine.
class Program {
 public:
  virtual ~Program() = default;
  virtual uint64_t step() = 0;  // as of Processor
  virtual void replied(const HubCommand& reply, uint32_t status) = 0;
  virtual bool idle() const = 0;  // nothing that the node has asked for is still to leave
  virtual std::string report() const = 0;
};

class Cab final : public Model {
 public:
  explicit Cab(const Board& board);

  void open(unsigned context, Name name, uint64_t shared_address) override;
  bool idle(unsigned) const override {
    return !firmware_ || (firmware_->idle() && !processor_.has_command() && !out_is_busy());
  }
  void gone(unsigned) override { open(0, kNobody, 0); }
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const Control& in, Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override {
    if (std::exchange(sending_, false)) out_.control &= ~uint32_t{kBusy};
    transmit();
    processor_.wake();
  }
  void port_down() override { port_ready(); }
  std::string report() const override;

 private:
  friend class Firmware;
  struct DmaRegisters {
    uint32_t address, length, control, checksum;
  };

  bool may(uint32_t at, Right right) {  // nobody writes the PROM
    const bool has = rights_[kVmeDomain * kPagesOfDomain + at / kPageBytes] & right &&
                     (right == kMayRead || at >= kProgramRam);
    faults_ += !has;
    return has;
  }
  uint32_t& reg(uint32_t at) { return reinterpret_cast<uint32_t*>(&regs_)[(at - kRegisters) / 4]; }
  void set(uint32_t at, uint32_t value);
  void send_by_register(uint32_t control, std::span<const std::byte> here);
  void move(uint32_t control, std::span<std::byte> here);
  // Sends it as soon as the fibre is free and, if it is to be stored, the HUB is ready.
  void start_out(Bytes item) {
    pending_ = std::move(item);
    transmit();
  }
  bool out_is_busy() const { return sending_ || !pending_.empty(); }
  void transmit() {
    if (pending_.empty() || sending_ || !board_.port.ready()) return;
    const Item item(pending_);
    if (item.has_packet && item.has(kTestOpenRetry) && !ready_) return;
    ready_ &= !item.has_packet;
    sending_ = true;
    packets_out_++;
    board_.port.send(0, std::exchange(pending_, {}));
  }
  void steal(Bytes item) { board_.port.steal(std::move(item)); }
  void arm_in(uint32_t at, uint32_t bytes) {
    in_ = {at, bytes, kBusy, in_.checksum};
    input_ = memory_.subspan(at, bytes);
    receive();
  }
  void receive();
  void lose() {  // what has come in
    lost_++;
    steal(one_command(kReadySignal));
  }

  const Board board_;
  const unsigned channel_;  // of DMA over VME
  const std::span<std::byte> memory_;
  std::vector<uint8_t> rights_;  // by domain and page
  struct {
    DmaRegisters channels[3];
    uint32_t node_address;
  } regs_{};
  DmaRegisters &out_ = regs_.channels[kFiberOut], &in_ = regs_.channels[kFiberIn],
               &vme_ = regs_.channels[kVme];
  Name name_ = kNobody;
  Processor<Shared> processor_;
  std::unique_ptr<Program> firmware_;  // null: it does not run
  bool ready_ = true;                  // the HUB has room for a packet
  Bytes pending_;                      // to be sent
  bool sending_ = false;               // and one is
  Bytes queue_;                        // the input queue has room for one packet
  std::span<std::byte> input_;         // where its data go: the channel is armed; null: it is not
  bool has_input_ = false, moving_ = false;
  unsigned long long packets_out_ = 0, packets_in_ = 0, bad_ = 0, lost_ = 0, faults_ = 0;
};

std::unique_ptr<Program> make_firmware(Cab& cab, bool reliable);
std::unique_ptr<Model> make_model(const Board& board);

// 100 Mbit/s a fibre; HUBs of 16 ports that take 700 ns to set up a connection and pass the first
// byte: Arnould et al. 1989. The cost of a word on the VME bus is set by the 28 Mbit/s that a node
// reaches (Cooper et al. 1990). The delay of a fibre is an assumption.
inline constexpr CardKind kKind = {
    .name = "nectar",
    .doc = "Nectar CAB and HUB: mailboxes on the card, packets and circuits, multicast by the HUB",
    .contexts = 1,
    .bar_bytes = kBarBytes,
    .shared_bytes = 64 << 10,
    .memory_bytes = kRegisters,
    .source_routed = true,
    .link = {.rate = 1e8, .overhead = 1, .head = 0},
    .bus = {.write_ns = 1140,
            .read_ns = 1140,
            .read_busy_ns = 1140,
            .burst_rate = 3.5e6,
            .dma_read_rate = 10e6,
            .dma_write_rate = 10e6,
            .dma_setup_ns = 0,
            .dma_burst = 1024},
    .crossbar = {.latency_ns = 700, .ports = 16},
    .make = make_model,
    .make_switch = make_hub,
};

}  // namespace torii::nic::nectar
