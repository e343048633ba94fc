// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/nectar/model.h"

namespace torii::nic::nectar {

Cab::Cab(const Board& board)
    : board_(board),
      channel_(board.bus.add_channel()),
      memory_(board.memory),
      rights_(kDomains * kPagesOfDomain),
      processor_(
          board.engine, &memory_[kDataRam], kStepNs, [this] { return firmware_->step(); },
          [this] { board_.bus.interrupt(0); }) {}

// Other circuits do not wait for one that is left behind.
void Cab::open(unsigned, Name name, uint64_t) {
  name_ = name;
  firmware_ = nullptr;
  processor_.stop();
  has_input_ = moving_ = sending_ = false;
  input_ = {};
  pending_.clear();
  regs_ = {};
  steal(one_command(kCloseEvery));
  ready_ = true;
  if (!std::exchange(queue_, {}).empty()) lose();
  // Until the firmware begins the node has all rights, but for the PROM.
  std::ranges::fill(rights_, kMayRead | kMayWrite | kMayExecute);
}

// --- accesses of the node ----------------------------------------------------------------------

void Cab::bus_write(unsigned, uint32_t at, std::span<const std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    if (!may(at, kMayWrite)) continue;
    if (at >= kRights) {
      for (size_t k = 0; k < 4; k++) rights_[at - kRights + k] = static_cast<uint8_t>(bytes[k]) & 7;
    } else if (at >= kRegisters) {
      set(at, load_little<uint32_t>(bytes.data()));
    } else {
      std::ranges::copy(bytes.first(4), memory_.begin() + at);
    }
  }
  processor_.wake();
}

uint32_t Cab::bus_read(unsigned, uint32_t at) {
  if (!may(at, kMayRead)) return ~0u;
  if (at < kRegisters) return load_little<uint32_t>(&memory_[at]);
  if (at >= kRights)
    return load_little<uint32_t>(reinterpret_cast<const std::byte*>(&rights_[at - kRights]));
  if (at == kClock) return static_cast<uint32_t>(board_.engine.now_ns() / 1000);
  if (at == kReady) return ready_;
  if (at == kFaults) return static_cast<uint32_t>(faults_);
  return at < kRegisters + sizeof(regs_) ? reg(at) : 0;
}

void Cab::set(uint32_t at, uint32_t value) {
  if (at >= kRegisters + sizeof(regs_)) return;
  reg(at) = value;
  const size_t channel = (at - kRegisters) / sizeof(DmaRegisters);
  if (channel > kVme || at % sizeof(DmaRegisters) != kControl) return;
  DmaRegisters& regs = regs_.channels[channel];
  regs.control = kFailed;
  const uint32_t offset = regs.address - kDataRam;
  if (offset > kDataBytes || regs.length > kDataBytes - offset) return;
  const std::span<std::byte> here = memory_.subspan(regs.address, regs.length);
  if (channel == kFiberOut) send_by_register(value, here);
  if (channel == kFiberIn && !firmware_) arm_in(regs.address, regs.length);
  if (channel == kVme) move(value, here);
}

void Cab::send_by_register(uint32_t control, std::span<const std::byte> here) {
  const size_t commands = control & kPacket ? control >> kCommandShift & 0xff : here.size();
  if (commands > here.size() || here.size() > kInputBytes || out_is_busy()) return;
  Bytes item(here.begin(), here.begin() + commands);
  if (control & kPacket) {
    add_packet(&item, here.subspan(commands), control & kCloseAll);
    out_.checksum = crc32(here.subspan(commands));
  }
  if (item.empty()) return;
  out_.control = kBusy;
  start_out(std::move(item));
}

void Cab::move(uint32_t control, std::span<std::byte> here) {
  if (std::exchange(moving_, true)) return;
  vme_.control = kBusy;
  const auto over = [this, here, life = processor_.life()](Status status,
                                                           std::span<const std::byte> data = {}) {
    if (life != processor_.life()) return;
    moving_ = false;
    if (status == Status::ok) std::ranges::copy(data, here.begin());
    vme_.control = status == Status::ok ? 0 : uint32_t{kFailed};
    vme_.checksum = crc32(here);
    processor_.wake();
  };
  if (control & kToNode)
    return board_.bus.dma_write(channel_, regs_.node_address, {here.begin(), here.end()}, over);
  board_.bus.dma_read(channel_, regs_.node_address, here.size(), over);
}

// --- the fibres ------------------------------------------------------------------------------

void Cab::arrive(Packet&& packet) {
  board_.port.release();
  const Item item(packet.bytes);
  if (item.signal == kReadySignal) {
    ready_ = true;
    return transmit();
  }
  if (item.signal == kReply) {
    if (firmware_)
      firmware_->replied(header_of<HubCommand>(item.rest),
                         load_little<uint32_t>(&item.rest[kCommandBytes]));
    return processor_.wake();
  }
  bad_ += !item.has_packet && item.commands.empty();
  if (!item.has_packet) return;
  packets_in_++;
  // A packet that is longer than the queue has to leave it while it comes in.
  if (name_ == kNobody || !queue_.empty() || (item.data.size() > kQueueBytes && !input_.data()))
    return lose();
  queue_ = std::move(packet.bytes);
  receive();
}

// The packet leaves the queue as soon as the channel is armed.
void Cab::receive() {
  if (!input_.data() || queue_.empty()) return;
  const Bytes bytes = std::exchange(queue_, {});
  const std::span<std::byte> to = std::exchange(input_, {});
  steal(one_command(kReadySignal));
  has_input_ = true;
  const std::span<const std::byte> in = Item(bytes).data;
  const bool fits = in.size() >= kSumBytes && in.size() - kSumBytes <= to.size();
  const auto data = in.first(fits ? in.size() - kSumBytes : 0);
  std::ranges::copy(data, to.begin());
  in_ = {in_.address, static_cast<uint32_t>(data.size()), fits ? 0 : uint32_t{kFailed},
         fits ? crc32(data) ^ load_little<uint32_t>(&in[data.size()]) : 0};
  processor_.wake();
}

// --- the kernel driver -------------------------------------------------------------------------

Status Cab::control(unsigned context, const Control& in, Control* out) {
  if (in.call == kJoin || in.call == kLeave)
    return board_.group_call(static_cast<GroupCall>(in.call - kJoin), context, in, out);
  if (in.call != kBoot || in.words[0] - kReliableProtocol >= 2 || board_.nodes > kNodes)
    return Status::invalid;
  open(context, name_, 0);  // resets it
  // The node has its mailboxes and what is shared, and nothing else of the memory.
  const auto vme = rights_.begin() + kVmeDomain * kPagesOfDomain;
  constexpr uint32_t kFirst = kDataRam / kPageBytes, kLast = kInputAt / kPageBytes;
  std::fill(vme, vme + kRegisters / kPageBytes, uint8_t{0});
  std::fill(vme, vme + kPromBytes / kPageBytes, uint8_t{kMayRead});
  std::fill(vme + kFirst, vme + kLast, uint8_t{kMayRead | kMayWrite});
  firmware_ = make_firmware(*this, in.words[0] == kReliableProtocol);
  processor_.start(kMagic);
  return Status::ok;
}

std::string Cab::report() const {
  return format_text("%llu packets out, %llu in, %llu bad, %llu lost, %llu accesses refused%s",
                     packets_out_, packets_in_, bad_, lost_, faults_,
                     firmware_ ? ("; " + firmware_->report()).c_str() : "");
}

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Cab>(board); }

}  // namespace torii::nic::nectar
