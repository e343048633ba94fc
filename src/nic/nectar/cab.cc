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

void Cab::open(unsigned, Name name, uint64_t) {
  reset();
  name_ = name;
}

bool Cab::idle(unsigned) const {
  return !firmware_ || (firmware_->idle() && !processor_.has_command() && !out_is_busy());
}

// Other circuits do not wait for one that is left behind.
void Cab::reset() {
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

void Cab::boot(Protocol protocol) {
  reset();
  // The node has its mailboxes and what is shared, and nothing else of the memory.
  const auto vme = rights_.begin() + kVmeDomain * kPagesOfDomain;
  constexpr uint32_t kFirst = kDataRam / kPageBytes, kLast = kInputAt / kPageBytes;
  std::fill(vme, vme + kRegisters / kPageBytes, uint8_t{0});
  std::fill(vme, vme + kPromBytes / kPageBytes, uint8_t{kMayRead});
  std::fill(vme + kFirst, vme + kLast, uint8_t{kMayRead | kMayWrite});
  firmware_ = make_firmware(*this, protocol == kReliableProtocol);
  processor_.start(kMagic);
}

// --- accesses of the node ----------------------------------------------------------------------

bool Cab::may(uint32_t at, uint8_t right) {
  if (rights_[kVmeDomain * kPagesOfDomain + at / kPageBytes] & right) return true;
  faults_++;
  return false;
}

void Cab::bus_write(unsigned, uint32_t at, std::span<const std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    if (!may(at, kMayWrite)) continue;
    if (at >= kRights) {
      for (size_t k = 0; k < 4; k++) rights_[at - kRights + k] = static_cast<uint8_t>(bytes[k]) & 7;
    } else if (at >= kRegisters) {
      set(at, load_little<uint32_t>(bytes.data()));
    } else if (at >= kProgramRam) {
      std::ranges::copy(bytes.first(4), memory_.begin() + at);
    } else {
      faults_++;
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
  if (at == dma(kFiberOut, kControl)) return send_by_register();
  if (at == dma(kVme, kControl)) return move();
  if (at != dma(kFiberIn, kControl)) return;
  in_.control = kFailed;
  if (!firmware_ && in_data_ram(in_.address, in_.length)) arm_in(in_.address, in_.length);
}

void Cab::send_by_register() {
  const uint32_t control = std::exchange(out_.control, kFailed), bytes = out_.length;
  const uint32_t commands = control & kPacket ? control >> kCommandShift & 0xff : bytes;
  if (!in_data_ram(out_.address, bytes) || commands > bytes || bytes > kInputBytes ||
      out_is_busy() || (bytes == 0 && !(control & kPacket)))
    return;
  const std::span all = memory_.subspan(out_.address, bytes);
  Bytes item(all.begin(), all.begin() + commands);
  if (control & kPacket) {
    const std::span<const std::byte> data = all.subspan(commands);
    add_packet(&item, {data});
    out_.checksum = crc32(data);
    if (control & kCloseAll) add_command(&item, kCloseEvery);
  }
  out_.control = kBusy;
  start_out(std::move(item));
}

void Cab::move() {
  const uint32_t control = std::exchange(vme_.control, kFailed), at = vme_.address;
  if (!in_data_ram(at, vme_.length) || moving_) return;
  const std::span<std::byte> here = memory_.subspan(at, vme_.length);
  moving_ = true;
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

void Cab::transmit() {
  if (pending_.empty() || sending_ || !board_.port.ready()) return;
  const Item item(pending_);
  if (item.has_packet && item.has(kTestOpenRetry) && !ready_) return;
  ready_ &= !item.has_packet;
  sending_ = true;
  packets_out_++;
  board_.port.send(0, std::exchange(pending_, {}));
}

void Cab::port_ready() {
  if (std::exchange(sending_, false)) out_.control &= ~uint32_t{kBusy};
  transmit();
  processor_.wake();
}

void Cab::arrive(Packet&& packet) {
  board_.port.release();
  if (is_signal(packet.bytes, kReadySignal)) {
    ready_ = true;
    return transmit();
  }
  if (is_signal(packet.bytes, kReply)) {
    if (firmware_) firmware_->replied(reply_of(packet.bytes));
    return processor_.wake();
  }
  const Item item(packet.bytes);
  bad_ += !item.has_packet && item.commands.empty();
  if (!item.has_packet) return;
  packets_in_++;
  // A packet that is longer than the queue has to leave it while it comes in.
  if (name_ == kNobody || !queue_.empty() || (item.data.size() > kQueueBytes && !input_.data()))
    return lose();
  queue_ = std::move(packet.bytes);
  receive();
}

void Cab::arm_in(uint32_t at, uint32_t bytes) {
  in_ = {at, bytes, kBusy, in_.checksum};
  input_ = memory_.subspan(at, bytes);
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
  in_.length = static_cast<uint32_t>(data.size());
  in_.control = fits ? 0 : uint32_t{kFailed};
  in_.checksum = fits ? crc32(data) ^ load_little<uint32_t>(&in[data.size()]) : 0;
  processor_.wake();
}

// --- the kernel driver -------------------------------------------------------------------------

Status Cab::control(unsigned context, const Control& in, Control* out) {
  if (in.call == kJoin || in.call == kLeave)
    return board_.group_call(static_cast<GroupCall>(in.call - kJoin), context, in, out);
  if (in.call != kBoot || in.words[0] - kReliableProtocol >= 2 || board_.nodes > kNodes)
    return Status::invalid;
  boot(static_cast<Protocol>(in.words[0]));
  return Status::ok;
}

std::string Cab::report() const {
  return format_text("%llu packets out, %llu in, %llu bad, %llu lost, %llu accesses refused%s",
                     packets_out_, packets_in_, bad_, lost_, faults_,
                     firmware_ ? ("; " + firmware_->report()).c_str() : "");
}

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Cab>(board); }

}  // namespace torii::nic::nectar
