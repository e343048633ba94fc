// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Nectar's CAB: memories, page protection, DMA, the fibres, and what runs its firmware.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nic/model.h"
#include "nic/nectar/hub.h"
#include "nic/nectar/regs.h"

namespace torii::nic::nectar {

inline constexpr uint64_t kStepNs = 1000;  // of the firmware; an assumption

// The firmware: a state machine on the board.
class Firmware {
 public:
  virtual ~Firmware() = default;
  // Does one thing that is to be done, and says how long that takes; 0: there is none.
  virtual uint64_t step() = 0;
  virtual void replied(const HubReply& reply) = 0;
  // Nothing that the node has asked for is still to leave.
  virtual bool idle() const = 0;
  virtual std::string report() const = 0;
};

class Cab final : public Model {
 public:
  explicit Cab(const Board& board)
      : board_(board),
        channel_(board.bus.add_channel()),
        memory_(board.memory),
        rights_(kDomains * kPagesOfDomain) {}

  void open(unsigned, Name name, uint64_t) override {
    reset();
    name_ = name;
  }
  bool idle(unsigned) const override {
    return !firmware_ || (firmware_->idle() && !has_command() && !out_is_busy());
  }
  void gone(unsigned) override { open(0, kNobody, 0); }
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const Control& in, Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override;
  void port_down() override {
    sending_ = false;
    wake();
  }
  std::string report() const override;

  // --- for the firmware ------------------------------------------------------------------------
  Name name() const { return name_; }
  uint32_t node() const { return board_.node; }
  uint64_t now_ns() const { return board_.engine.now_ns(); }
  Manager& manager() { return board_.manager; }
  std::span<std::byte> memory(size_t at, size_t bytes) { return memory_.subspan(at, bytes); }
  // A step follows then, whatever happens meanwhile.
  void wake_at(uint64_t ns) {
    board_.engine.at(ns, [this, life = life_] {
      if (life == life_) wake();
    });
  }
  bool take_command(Entry* out);
  void tell(const Entry& event);
  // Sends it as soon as the fibre is free and, if it is to be stored, the HUB is ready.
  void start_out(Bytes item);
  bool out_is_busy() const { return sending_ || !pending_.empty(); }
  void stop_out() { pending_.clear(); }
  void steal(Bytes item) { board_.port.steal(std::move(item)); }
  void set_ready() { ready_ = true; }
  void arm_in(uint32_t at, uint32_t bytes);
  bool has_input() const { return has_input_; }
  // Bytes that came in; 0: their checksum is wrong, or they were too many.
  uint32_t take_input();

 private:
  template <typename T>
  T load(size_t at) const {  // inside, as constants are
    T out;
    std::memcpy(&out, &memory_[at], sizeof(T));
    return out;
  }
  void store_word(size_t at, uint32_t value) {  // after what it tells of
    __atomic_store_n(reinterpret_cast<uint32_t*>(&memory_[kDataRam + at]), value, __ATOMIC_RELEASE);
  }
  bool has_command() const {
    return load<uint32_t>(kDataRam + offsetof(Shared, commands)) != taken_;
  }
  uint32_t& reg(uint32_t at) { return regs_[(at - kRegisters) / 4]; }
  void fail(DmaChannel channel) { reg(dma(channel, kControl)) = kFailed; }
  bool in_data_ram(uint32_t at, uint64_t bytes) const {
    return at >= kDataRam && at - kDataRam <= kDataBytes && bytes <= kDataBytes - (at - kDataRam);
  }
  bool may(uint32_t at, uint8_t right);
  void set(uint32_t at, uint32_t value);
  void send_by_register(uint32_t control);
  void move(uint32_t control);
  void reset();
  void boot(Protocol protocol);
  void signal();
  void wake() { run_after(kStepNs); }
  void run_after(uint64_t ns);
  void transmit();
  void receive();
  void lose() {  // what has come in
    lost_++;
    steal(one_command(kReadySignal));
  }

  const Board board_;
  const unsigned channel_;  // of DMA over VME
  const std::span<std::byte> memory_;
  std::vector<uint8_t> rights_;  // by domain and page
  std::array<uint32_t, 16> regs_{};
  Name name_ = kNobody;
  std::unique_ptr<Firmware> firmware_;  // null: it does not run
  uint64_t life_ = 0;                   // later events are for another one
  bool running_ = false;                // an event will run it
  uint32_t taken_ = 0, told_ = 0;
  bool ready_ = true;     // the HUB has room for a packet
  Bytes pending_;         // to be sent
  bool sending_ = false;  // and one is
  Item queue_;            // the input queue has room for one packet
  bool armed_ = false, has_input_ = false, moving_ = false;
  uint64_t packets_out_ = 0, packets_in_ = 0, bad_ = 0, lost_ = 0, faults_ = 0;
};

std::unique_ptr<Firmware> make_firmware(Cab& cab, Protocol protocol);
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
    .link = {.rate = 1e8,
             .delay_ns = 50,
             .overhead = 1,
             .head = 0,
             .buffers = 4,
             .window = 0,
             .timeout_ns = 20000,
             .tries = 8},
    .bus = {.write_ns = 1140,
            .read_ns = 1140,
            .read_busy_ns = 1140,
            .burst_rate = 3.5e6,
            .dma_read_rate = 10e6,
            .dma_write_rate = 10e6,
            .dma_setup_ns = 0,
            .dma_burst = 1024},
    .crossbar = {.latency_ns = 700, .ports = 16, .cut_through = true},
    .make = make_model,
    .make_switch = make_hub,
};

}  // namespace torii::nic::nectar
