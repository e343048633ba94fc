// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The LANai 4.1 and its SRAM: registers, the engines for packets and for the bus, and what runs its
// control program.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "nic/model.h"
#include "nic/myrinet/regs.h"
#include "nic/processor.h"

namespace torii::nic::myrinet {

class Lanai;

// A control program: a state machine on the card's registers. Each step takes kStepNs.
class ControlProgram {
 public:
  virtual ~ControlProgram() = default;
  // Does one thing that is to be done; false: there is none.
  virtual bool step() = 0;
  // Nothing that the host has asked for is still to leave.
  virtual bool idle() const = 0;
  virtual std::string report() const = 0;
};
std::unique_ptr<ControlProgram> make_bulldog(Lanai& lanai);
std::unique_ptr<ControlProgram> make_raw(Lanai& lanai);

inline constexpr uint64_t kStepNs = 400;  // an assumption
inline constexpr uint64_t kTickNs = 500;  // of its timers

class Lanai final : public Model {
 public:
  explicit Lanai(const Board& board);

  void open(unsigned, Name name, uint64_t) override {
    reset();
    name_ = name;
  }
  bool idle(unsigned) const override {
    return !program_ || (program_->idle() && !processor_.has_command());
  }
  void peer_ended(Name name) override;
  void gone(unsigned) override { open(0, kNobody, 0); }
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const Control& in, Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override;
  void port_down() override;
  std::string report() const override;

  // --- for the control program -----------------------------------------------------------------
  // At offsets that are inside, as constants are; see has() for others.
  template <typename T>
  T load(size_t at) const {
    T out;
    std::memcpy(&out, &sram_[at], sizeof(T));
    return out;
  }
  template <typename T>
  void store(size_t at, const T& value) {
    std::memcpy(&sram_[at], &value, sizeof(T));
  }
  static bool has(uint32_t at, uint64_t bytes) {
    return at <= kSramBytes && bytes <= kSramBytes - at;
  }
  uint32_t get(uint32_t reg) const { return regs_[(reg - kLanai) / 4]; }
  void set(uint32_t reg, uint32_t value);
  bool is(uint32_t bits) const { return get(kIsr) & bits; }
  void clear(uint32_t bits) { ref(kIsr) &= ~bits; }
  Name name() const { return name_; }
  uint64_t now_ns() const { return board_.engine.now_ns(); }
  // Sends the bytes at [at, at + bytes) to the process; if there is no path, nothing.
  void send(Name to, uint32_t at, uint32_t bytes);
  Route route(Name to) const {
    return load<Route>(offsetof(Shared, route) + endpoint_of(to) * sizeof(Route));
  }
  void arm_receive(uint32_t at, uint32_t bytes);
  void move(bool to_host, uint32_t address, uint32_t at, uint32_t bytes);
  Processor<Shared>& processor() { return processor_; }

 private:
  uint32_t& ref(uint32_t reg) { return regs_[(reg - kLanai) / 4]; }
  void reset();
  void raise(uint32_t bits);
  void interrupt();
  void transmit();
  void time_first();
  void receive();
  void start_move();

  const Board board_;
  const unsigned channel_;  // of DMA
  const std::span<std::byte> sram_;
  uint32_t regs_[0x90 / 4] = {};
  Name name_ = kNobody;
  uint32_t wanted_ = kNoProgram;
  Processor<Shared> processor_;
  std::unique_ptr<ControlProgram> program_;  // null: in reset
  bool interrupts_ = false;
  uint64_t timer_ = 0, move_ = 0;  // serial numbers: earlier ones are over
  bool receives_ = false;
  bool moving_ = false;
  bool sending_ = false;
  std::vector<std::byte> assembled_;  // the packet to send
  bool complete_ = false;             // it has its tail, and waits for the port
  std::deque<Packet> waiting_;
  unsigned long long lost_ = 0, refused_ = 0, packets_in_ = 0, packets_out_ = 0;
};

std::unique_ptr<Model> make_model(const Board& board);

// 1280 Mbit/s, switches of 8 ports, loads of 48 cycles and the rates of DMA of an O2: Griebel and
// Zumbusch 1997. Most of a load is arbitration; where that is good it takes 3 cycles. Their
// switches take 0.1 to 0.7 us for one to three; delay, buffers and the cost of a store are
// assumptions.
inline constexpr CardKind kKind = {
    .name = "myrinet",
    .doc = "Myrinet, LANai 4.1: programmable, source-routed, one process a card",
    .contexts = 1,
    .bar_bytes = kBarBytes,
    .shared_bytes = kCopyBlockBytes,
    .memory_bytes = kSramBytes,
    .source_routed = true,
    .link = {.rate = 1.28e9, .delay_ns = 30, .overhead = 2, .head = 8, .buffers = 2},
    .bus = {.write_ns = 150,
            .read_ns = 1440,
            .read_busy_ns = 90,
            .burst_rate = 26.6e6,
            .dma_read_rate = 85.1e6,
            .dma_write_rate = 90.9e6,
            .dma_setup_ns = 0},
    .crossbar = {.latency_ns = 150, .ports = 8},
    .make = make_model,
};

}  // namespace torii::nic::myrinet
