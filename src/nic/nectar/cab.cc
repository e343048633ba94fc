// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/nectar/model.h"

namespace torii::nic::nectar {

// Other circuits do not wait for one that is left behind.
void Cab::reset() {
  firmware_ = nullptr;
  life_++;
  running_ = armed_ = has_input_ = moving_ = sending_ = false;
  taken_ = told_ = 0;
  pending_.clear();
  regs_.fill(0);
  steal(one_command(kCloseEvery));
  ready_ = true;
  if (!std::exchange(queue_, {}).packet.empty()) lose();
  // Until the firmware begins the node has all rights, but for the PROM.
  std::fill(rights_.begin(), rights_.end(), kMayRead | kMayWrite | kMayExecute);
}

void Cab::boot(Protocol protocol) {
  reset();
  std::ranges::fill(memory(kDataRam, sizeof(Shared)), std::byte{0});
  // The node has its mailboxes and what is shared, and nothing else of the memory.
  const auto vme = rights_.begin() + kVmeDomain * kPagesOfDomain;
  constexpr uint32_t kFirst = kDataRam / kPageBytes, kLast = kInputAt / kPageBytes;
  std::fill(vme, vme + kRegisters / kPageBytes, uint8_t{0});
  std::fill(vme, vme + kPromBytes / kPageBytes, uint8_t{kMayRead});
  std::fill(vme + kFirst, vme + kLast, uint8_t{kMayRead | kMayWrite});
  firmware_ = make_firmware(*this, protocol);
  store_word(offsetof(Shared, magic), kMagic);
}

// --- the firmware ----------------------------------------------------------------------------

void Cab::run_after(uint64_t ns) {
  if (!firmware_ || std::exchange(running_, true)) return;
  board_.engine.after(ns, [this, life = life_] {
    if (life != life_) return;
    running_ = false;
    signal();
    if (const uint64_t cost_ns = firmware_->step()) run_after(cost_ns);
  });
}

bool Cab::take_command(Entry* out) {
  if (!has_command()) return false;
  *out = load<Entry>(kDataRam + offsetof(Shared, command) + taken_++ % kCommands * sizeof(*out));
  return true;
}

void Cab::tell(const Entry& event) {
  std::memcpy(&memory_[kDataRam + offsetof(Shared, event) + told_++ % kEvents * sizeof(event)],
              &event, sizeof(event));
  store_word(offsetof(Shared, events), told_);
  signal();
}

// Has the node asked to be told of an event that is there?
void Cab::signal() {
  constexpr size_t kAsked = kDataRam + offsetof(Shared, interrupt);
  if (!load<uint32_t>(kAsked) || load<uint32_t>(kDataRam + offsetof(Shared, seen)) == told_) return;
  store_word(offsetof(Shared, interrupt), 0);
  board_.bus.interrupt(0);
}

// --- accesses of the node ----------------------------------------------------------------------

bool Cab::may(uint32_t at, uint8_t right) {
  if (rights_[kVmeDomain * kPagesOfDomain + at / kPageBytes] & right) return true;
  faults_++;
  return false;
}

void Cab::bus_write(unsigned, uint32_t at, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const uint32_t word = at + static_cast<uint32_t>(i);
    if (!may(word, kMayWrite)) continue;
    if (word >= kRights) {
      for (size_t k = 0; k < 4; k++)
        rights_[word - kRights + k] = static_cast<uint8_t>(bytes[i + k]) & 7;
    } else if (word >= kRegisters) {
      uint32_t value;
      std::memcpy(&value, &bytes[i], sizeof(value));
      set(word, value);
    } else if (word >= kProgramRam) {
      std::ranges::copy(bytes.subspan(i, 4), memory_.begin() + word);
    } else {
      faults_++;
    }
  }
  wake();
}

uint32_t Cab::bus_read(unsigned, uint32_t at) {
  if (!may(at, kMayRead)) return ~0u;
  if (at < kRegisters) return load<uint32_t>(at);
  if (at == kClock) return static_cast<uint32_t>(now_ns() / 1000);
  if (at == kReady) return ready_;
  if (at == kFaults) return static_cast<uint32_t>(faults_);
  uint32_t value = 0;
  if (at >= kRights) {
    std::memcpy(&value, &rights_[at - kRights], sizeof(value));
  } else if (at < kRegisters + sizeof(regs_)) {
    value = reg(at);
  }
  return value;
}

void Cab::set(uint32_t at, uint32_t value) {
  if (at >= kRegisters + sizeof(regs_)) return;
  reg(at) = value;
  if (at == dma(kFiberOut, kControl)) return send_by_register(value);
  if (at == dma(kVme, kControl)) return move(value);
  if (at != dma(kFiberIn, kControl)) return;
  const uint32_t to = reg(dma(kFiberIn, kAddress)), bytes = reg(dma(kFiberIn, kLength));
  if (!in_data_ram(to, bytes) || firmware_) return fail(kFiberIn);
  arm_in(to, bytes);
}

void Cab::send_by_register(uint32_t control) {
  const uint32_t at = reg(dma(kFiberOut, kAddress)), bytes = reg(dma(kFiberOut, kLength));
  const uint32_t commands = control & kPacket ? control >> kCommandShift & 0xff : bytes;
  if (!in_data_ram(at, bytes) || commands > bytes || bytes > kInputBytes || out_is_busy())
    return fail(kFiberOut);
  Bytes item(memory_.begin() + at, memory_.begin() + at + commands);
  if (control & kPacket) {
    const std::span<const std::byte> data = memory(at + commands, bytes - commands);
    add_packet(&item, {data});
    reg(dma(kFiberOut, kChecksum)) = crc32(data);
    if (control & kCloseAll) add_command(&item, kCloseEvery);
  }
  if (item.empty()) return fail(kFiberOut);
  reg(dma(kFiberOut, kControl)) = kBusy;
  start_out(std::move(item));
}

void Cab::move(uint32_t control) {
  const uint32_t at = reg(dma(kVme, kAddress)), bytes = reg(dma(kVme, kLength));
  if (!in_data_ram(at, bytes) || moving_) return fail(kVme);
  moving_ = true;
  reg(dma(kVme, kControl)) = kBusy;
  const auto over = [this, life = life_, at, bytes](Status status) {
    if (life != life_) return;
    moving_ = false;
    reg(dma(kVme, kControl)) = status == Status::ok ? 0 : uint32_t{kFailed};
    reg(dma(kVme, kChecksum)) = crc32(memory(at, bytes));
    wake();
  };
  if (control & kToNode)
    return board_.bus.dma_write(channel_, reg(kNodeAddress),
                                {memory_.begin() + at, memory_.begin() + at + bytes}, over);
  board_.bus.dma_read(channel_, reg(kNodeAddress), bytes,
                      [this, over, at, life = life_](Status s, std::span<const std::byte> data) {
                        if (s == Status::ok && life == life_)
                          std::ranges::copy(data, memory_.begin() + at);
                        over(s);
                      });
}

// --- the fibres ------------------------------------------------------------------------------

void Cab::start_out(Bytes item) {
  pending_ = std::move(item);
  transmit();
}

void Cab::transmit() {
  if (pending_.empty() || sending_ || !board_.port.ready()) return;
  const Item item(pending_);
  if (!item.packet.empty() && item.tests && !ready_) return;
  ready_ &= item.packet.empty();
  sending_ = true;
  packets_out_++;
  board_.port.send(0, std::exchange(pending_, {}));
}

void Cab::port_ready() {
  if (std::exchange(sending_, false)) reg(dma(kFiberOut, kControl)) &= ~uint32_t{kBusy};
  transmit();
  wake();
}

void Cab::arrive(Packet&& packet) {
  board_.port.release();
  if (is_signal(packet.bytes, kReadySignal)) {
    ready_ = true;
    return transmit();
  }
  if (is_signal(packet.bytes, kReply)) {
    if (firmware_) firmware_->replied(reply_of(packet.bytes));
    return wake();
  }
  Item item(packet.bytes);
  if (item.packet.empty()) {
    bad_ += item.commands.empty();
    return;
  }
  packets_in_++;
  // A packet that is longer than the queue has to leave it while it comes in.
  if (name_ == kNobody || !queue_.packet.empty() || (item.data_bytes > kQueueBytes && !armed_))
    return lose();
  queue_ = std::move(item);
  receive();
}

void Cab::arm_in(uint32_t at, uint32_t bytes) {
  reg(dma(kFiberIn, kAddress)) = at;
  reg(dma(kFiberIn, kLength)) = bytes;
  reg(dma(kFiberIn, kControl)) = kBusy;
  armed_ = true;
  receive();
}

// The packet leaves the queue as soon as the channel is armed.
void Cab::receive() {
  if (!armed_ || queue_.packet.empty()) return;
  const Item item = std::exchange(queue_, {});
  steal(one_command(kReadySignal));
  armed_ = false;
  has_input_ = true;
  const std::span<const std::byte> in = item.data();
  const bool fits = in.size() >= kSumBytes && in.size() - kSumBytes <= reg(dma(kFiberIn, kLength));
  const auto data = in.first(fits ? in.size() - kSumBytes : 0);
  std::ranges::copy(data, memory_.begin() + reg(dma(kFiberIn, kAddress)));
  reg(dma(kFiberIn, kLength)) = static_cast<uint32_t>(data.size());
  reg(dma(kFiberIn, kControl)) = fits ? 0 : uint32_t{kFailed};
  reg(dma(kFiberIn, kChecksum)) = fits ? crc32(data) ^ load_little<uint32_t>(&in[data.size()]) : 0;
  wake();
}

uint32_t Cab::take_input() {
  has_input_ = false;
  const bool good = !(reg(dma(kFiberIn, kControl)) & kFailed) && !reg(dma(kFiberIn, kChecksum));
  bad_ += !good;
  return good ? reg(dma(kFiberIn, kLength)) : 0;
}

// --- the kernel driver -------------------------------------------------------------------------

Status Cab::control(unsigned, const Control& in, Control* out) {
  const auto name = std::as_bytes(std::span(in.words).first(2));
  if (in.call == kBoot && in.words[0] - kReliableProtocol < 2 && board_.nodes <= kNodes) {
    boot(static_cast<Protocol>(in.words[0]));
    return Status::ok;
  }
  if (in.call == kJoin && in.words[2] <= name.size()) {
    uint32_t group = 0;
    const Status status = board_.manager.join(name.first(in.words[2]), board_.node, &group);
    out->words[0] = group;
    return status;
  }
  if (in.call != kLeave) return Status::invalid;
  board_.manager.leave(static_cast<uint32_t>(in.words[0]), board_.node);
  return Status::ok;
}

std::string Cab::report() const {
  const auto ull = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return format_text("%llu packets out, %llu in, %llu bad, %llu lost, %llu accesses refused%s",
                     ull(packets_out_), ull(packets_in_), ull(bad_), ull(lost_), ull(faults_),
                     firmware_ ? ("; " + firmware_->report()).c_str() : "");
}

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Cab>(board); }

}  // namespace torii::nic::nectar
