// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/myrinet/model.h"

#include <algorithm>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"

namespace torii::nic::myrinet {

Lanai::Lanai(const Board& board)
    : board_(board),
      channel_(board.bus.add_channel()),
      sram_(board.memory),
      processor_(
          board.engine, sram_.data(), kStepNs, [this] { return program_->step() ? kStepNs : 0; },
          [this] { raise(kHostSig); }) {}

// --- the process -----------------------------------------------------------------------------

void Lanai::peer_ended(Name name) {
  if (endpoint_of(name) >= kNodes) return;
  const size_t at = offsetof(Shared, route) + endpoint_of(name) * sizeof(Route);
  store(at + offsetof(Route, gone), name);
}

void Lanai::reset() {
  program_ = nullptr;
  processor_.stop();
  wanted_ = kNoProgram;
  move_++;
  interrupts_ = receives_ = moving_ = sending_ = complete_ = false;
  assembled_.clear();
  std::fill(std::begin(regs_), std::end(regs_), 0);
  ref(kIsr) = kDmaInt | kSendInt;
  for (; !waiting_.empty(); waiting_.pop_front(), lost_++) board_.port.release();
}

// --- the control program -----------------------------------------------------------------------

void Lanai::raise(uint32_t bits) {
  ref(kIsr) |= bits;
  interrupt();
  processor_.wake();
}

void Lanai::interrupt() {
  if (interrupts_ && (get(kIsr) & get(kEimr))) board_.bus.interrupt(0);
}

void Lanai::send(Name to, uint32_t at, uint32_t bytes) {
  const Path path = route(to).path;
  if (path.bytes == 0 || path.bytes > sizeof(path.hops)) return;
  const std::span hops = std::as_bytes(std::span(path.hops).first(path.bytes));
  assembled_.assign(hops.begin(), hops.end());
  set(kSmp, at);
  set(kSmlt, at + bytes);
}

void Lanai::arm_receive(uint32_t at, uint32_t bytes) {
  set(kRmp, at);
  set(kRml, at + bytes);
}

void Lanai::move(bool to_host, uint32_t address, uint32_t at, uint32_t bytes) {
  set(kEar, address);
  set(kLar, at);
  set(kDmaDir, !to_host);
  set(kDmaCtr, bytes);
}

// --- registers -------------------------------------------------------------------------------

void Lanai::bus_write(unsigned, uint32_t at, std::span<const std::byte> bytes) {
  if (has(at, bytes.size())) {
    std::ranges::copy(bytes, sram_.begin() + at);
    return processor_.wake();
  }
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    const auto value = load_little<uint32_t>(bytes.data());
    if (at >= kLanai && at < kLanai + sizeof(regs_)) {
      at == kIsr ? clear(value) : set(at, value);
    } else if (at != kControl) {
      refused_++;
    } else if (value & kResetOn) {
      reset();
    } else if (value & kResetOff && !program_ && wanted_ != kNoProgram) {
      program_ = wanted_ == kBulldog ? make_bulldog(*this) : make_raw(*this);
      processor_.start(kMagic);
      store(offsetof(Shared, program), wanted_);
    } else if (value & (kInterruptOn | kInterruptOff)) {
      interrupts_ = value & kInterruptOn;
      interrupt();
    }
  }
}

void Lanai::set(uint32_t reg, uint32_t value) {
  ref(reg) = value;
  switch (reg) {
    case kEimr:
      return interrupt();
    case kIt:
      clear(kTimeInt);
      return board_.engine.after(value * kTickNs,
                                 [this, life = processor_.life(), timer = ++timer_] {
                                   if (life == processor_.life() && timer == timer_)
                                     raise(kTimeInt);
                                 });
    case kDmaCtr:
      return start_move();
    case kRml:
      receives_ = true;
      return receive();
    case kSml:
    case kSmlt: {
      const uint32_t from = get(kSmp);
      if (sending_ || complete_ || value < from || !has(from, value - from) ||
          assembled_.size() + (value - from) > kSramBytes) {
        refused_++;
        return;
      }
      assembled_.insert(assembled_.end(), sram_.data() + from, sram_.data() + value);
      ref(kSmp) = value;
      complete_ = reg == kSmlt;
      if (complete_) clear(kSendInt);
      return transmit();
    }
    default:
      break;
  }
}

uint32_t Lanai::bus_read(unsigned, uint32_t at) {
  if (at < kSramBytes) return load<uint32_t>(at);
  if (at == kRtc) return static_cast<uint32_t>(now_ns() / kTickNs);
  if (at >= kLanai && at < kLanai + sizeof(regs_)) {
    // For a host whose loads take no time: it waits for the end of the transfer.
    while (at == kIsr && moving_ && !board_.engine.running()) board_.engine.step();
    return get(at);
  }
  Eeprom eeprom{
      0, kCpuVersion, {0, 0x60, 0xdd, 0, 0, static_cast<uint8_t>(board_.node)}, kSramBytes};
  uint32_t word = 0;
  if (at >= kEeprom && at < kEeprom + sizeof(eeprom))
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&eeprom) + (at - kEeprom), sizeof(word));
  return word;
}

Status Lanai::control(unsigned, const Control& in, Control* out) {
  if (in.call == kLoad) {
    if (program_ || (in.words[0] != kBulldog && in.words[0] != kRaw)) return Status::invalid;
    wanted_ = static_cast<uint32_t>(in.words[0]);
    return Status::ok;
  }
  if (in.call != kRoute) return Status::unsupported;
  if (in.words[0] >= kNodes) return Status::unreachable;
  const auto hops = board_.manager.routes().path(board_.node, static_cast<uint32_t>(in.words[0]));
  Path path{static_cast<uint8_t>(hops.size()), {}};
  if (hops.empty() || hops.size() > sizeof(path.hops)) return Status::unreachable;
  std::ranges::copy(hops, path.hops);
  std::memcpy(out->words.data(), &path, sizeof(path));
  return Status::ok;
}

// --- the bus ---------------------------------------------------------------------------------

void Lanai::start_move() {
  const uint32_t at = get(kLar), bytes = get(kDmaCtr);
  const uint64_t serial = ++move_;
  const auto over = [this, serial, life = processor_.life()](bool good) {
    if (life != processor_.life() || serial != move_) return;
    moving_ = false;
    ref(kDmaSts) = !good;
    raise(kDmaInt);
  };
  if (moving_ || !has(at, bytes)) {  // the one under way is as lost as this one
    refused_++;
    return over(false);
  }
  moving_ = true;
  clear(kDmaInt);
  if (!get(kDmaDir)) {
    return board_.bus.dma_write(channel_, get(kEar), {sram_.data() + at, sram_.data() + at + bytes},
                                [over](Status status) { over(status == Status::ok); });
  }
  board_.bus.dma_read(
      channel_, get(kEar), bytes,
      [this, over, at, life = processor_.life()](Status s, std::span<const std::byte> data) {
        if (s == Status::ok && life == processor_.life())
          std::ranges::copy(data, sram_.begin() + at);
        over(s == Status::ok);
      });
}

// --- packets ---------------------------------------------------------------------------------

void Lanai::transmit() {
  if (!complete_ || !board_.port.ready()) return;
  complete_ = false;
  sending_ = true;
  packets_out_++;
  board_.port.send(0, std::exchange(assembled_, {}));
}

void Lanai::port_ready() {
  if (std::exchange(sending_, false)) raise(kSendInt);
  transmit();
}

// The packet that is to leave waits until the cable works again.
void Lanai::port_down() {
  raise(kLinkInt | (std::exchange(sending_, false) ? uint32_t{kSendInt} : 0));
}

void Lanai::arrive(Packet&& packet) {
  if (!program_) {  // in reset
    lost_++;
    return board_.port.release();
  }
  packets_in_++;
  waiting_.push_back(std::move(packet));
  if (waiting_.size() == 1) time_first();
  receive();
}

// The first packet that waits is lost if that takes too long.
void Lanai::time_first() {
  if (waiting_.empty() || get(kTimeout) == 0 || !(get(kMyrinet) & kNresEnable)) return;
  board_.engine.after(get(kTimeout) * uint64_t{1000}, [this, life = processor_.life(),
                                                       number = waiting_.front().number] {
    if (life != processor_.life() || waiting_.empty() || waiting_.front().number != number) return;
    waiting_.pop_front();
    lost_++;
    board_.port.release();
    time_first();
    raise(kNresInt);
  });
}

void Lanai::receive() {
  if (!receives_ || waiting_.empty()) return;
  const Packet packet = std::move(waiting_.front());
  waiting_.pop_front();
  receives_ = false;
  board_.port.release();
  time_first();
  std::vector<std::byte> bytes = packet.bytes;
  if (get(kMyrinet) & kCrcEnable) {
    bytes.resize((bytes.size() + 3) / 4 * 4 + 4);
    const uint32_t syndrome = !intact(packet);
    std::memcpy(bytes.data() + bytes.size() - 4, &syndrome, sizeof(syndrome));
  }
  const uint32_t at = get(kRmp), limit = get(kRml);
  const size_t room = has(at, 0) && limit > at && has(at, limit - at) ? limit - at : 0;
  const size_t n = std::min(bytes.size(), room);
  if (n) std::memcpy(&sram_[at], bytes.data(), n);
  ref(kRmp) = at + static_cast<uint32_t>(n);
  raise(kRecvInt | kTailInt | (n < bytes.size() ? uint32_t{kBuffInt} : 0));
}

std::string Lanai::report() const {
  return format_text("%llu packets out, %llu in, %llu lost, %llu accesses refused%s", packets_out_,
                     packets_in_, lost_, refused_,
                     program_ ? ("; " + program_->report()).c_str() : "");
}

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Lanai>(board); }

}  // namespace torii::nic::myrinet
