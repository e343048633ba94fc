// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/link.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/trace.h"

namespace torii::nic {

uint32_t crc32(std::span<const std::byte> bytes) {
  // Of a byte that is followed by so many others: eight at a time do not wait for each other.
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> out{};
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
      out[0][i] = value;
    }
    for (size_t n = 1; n < 8; n++)
      for (size_t i = 0; i < 256; i++)
        out[n][i] = out[n - 1][i] >> 8 ^ out[0][out[n - 1][i] & 0xff];
    return out;
  }();
  uint32_t crc = ~0u;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = load_little<uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (size_t n = 0; n < 8; n++) crc ^= tables[7 - n][word >> 8 * n & 0xff];
  }
  for (const std::byte byte : bytes)
    crc = crc >> 8 ^ tables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

Link::Link(Engine& engine, const LinkOptions& options, std::string name)
    : engine_(engine), options_(options), name_(std::move(name)) {
  TORII_ASSERT(!options_.channels || options_.window == 0);
  credits_.fill(static_cast<int64_t>(options_.buffers));
}

void Link::connect(LinkEnd* source, unsigned source_port, LinkEnd* target, unsigned target_port,
                   bool cut_through) {
  source_ = source;
  source_port_ = source_port;
  target_ = target;
  target_port_ = target_port;
  cut_through_ = cut_through;
}

uint64_t Link::transfer_ns(size_t bytes) const {
  return static_cast<uint64_t>(
      std::ceil(static_cast<double>(bytes + options_.overhead) * 8e9 / options_.rate));
}

// --- the sending end -------------------------------------------------------------------------

void Link::send(Packet&& packet) {
  TORII_ASSERT(ready(packet.channel));
  queue_.push_back({std::move(packet), next_serial_++});
  pump();
}

void Link::pump() {
  if (!keeps() && sent_ > 0 && busy_until_ns_ <= engine_.now_ns()) {
    queue_.pop_front();
    sent_ = 0;
    source_->link_ready(*this);
  }
  if (sent_ == queue_.size() || credits_[queue_[sent_].packet.channel] <= 0) return;
  if (busy_until_ns_ <= engine_.now_ns()) transmit(queue_[sent_++]);
  if (sent_ < queue_.size() || !keeps()) pump_.at(engine_, busy_until_ns_, [this] { pump(); });
}

void Link::transmit(Item& item) {
  const size_t bytes = item.packet.bytes.size();
  const uint64_t now = engine_.now_ns();
  // A packet that is still coming in cannot leave before it is there.
  busy_until_ns_ = std::max(now + transfer_ns(bytes), item.packet.tail_ns);
  credits_[item.packet.channel]--;
  counts_.busy_ns += busy_until_ns_ - now;
  wire_.push_back(
      fly(keeps() ? Packet(item.packet) : std::move(item.packet), item.serial, busy_until_ns_));
  const uint64_t head_ns = now + transfer_ns(std::min<uint64_t>(bytes, options_.head));
  engine_.at((cut_through_ ? head_ns : busy_until_ns_) + options_.delay_ns,
             [this] { land(wire_); });
  if (!keeps()) return;
  if (sent_ <= 1) renew_deadline(busy_until_ns_);
  watch();
}

void Link::steal(Packet&& packet) {
  const uint64_t until_ns = engine_.now_ns() + transfer_ns(packet.bytes.size());
  credits_[packet.channel]--;
  stolen_.push_back(fly(std::move(packet), 0, until_ns));
  engine_.at(until_ns + options_.delay_ns, [this] { land(stolen_); });
}

// The packet, as it is on the wire until that time.
Link::Item Link::fly(Packet&& packet, uint64_t serial, uint64_t until_ns) {
  const uint64_t now = engine_.now_ns();
  const size_t bytes = packet.bytes.size();
  counts_.packets++;
  counts_.bytes += bytes;
  bool is_dropped = false;
  for (const FaultRule& rule : faults_) {
    if (rule.nth != counts_.packets) continue;
    if (rule.fault == Fault::drop) {
      is_dropped = true;
      continue;
    }
    for (Link* const link : {this, back_}) {
      link->cut();
      if (rule.for_ns != ~uint64_t{0}) engine_.after(rule.for_ns, [link] { link->restore(); });
    }
  }
  if (engine_.trace)
    engine_.trace->record(now, until_ns - now, name_, format_text("packet %zu bytes", bytes));
  Item flying{std::move(packet), serial, is_dropped || cut_ || losses_.chance(drop_ppm_)};
  flying.packet.tail_ns = until_ns + options_.delay_ns;
  if (ber_ > 0) spoil(flying.packet);
  return flying;
}

void Link::add_fault(const FaultRule& rule, Link* back) {
  if (rule.fault == Fault::ber) {
    ber_ = rule.rate;
    noise_ = Random(engine_.random.next());
    bits_to_error_ = 0;
  } else if (rule.rate > 0) {
    drop_ppm_ = static_cast<uint32_t>(std::lround(rule.rate * 1e6));
    losses_ = Random(engine_.random.next());
  } else {
    faults_.push_back(rule);
    back_ = back;
  }
}

// Flips bits, at distances as those of independent errors.
void Link::spoil(Packet& packet) {
  const auto bits = static_cast<double>(packet.bytes.size() * 8);
  const auto next = [this] {
    const double u = (static_cast<double>(noise_.next() >> 11) + 1) * 0x1p-53;
    return std::floor(-std::log(u) / ber_);
  };
  if (bits_to_error_ == 0) bits_to_error_ = next() + 1;
  while (bits_to_error_ <= bits) {
    const auto bit = static_cast<size_t>(bits_to_error_) - 1;
    packet.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    bits_to_error_ += next() + 1;
  }
  bits_to_error_ -= bits;
}

void Link::renew_deadline(uint64_t from_ns) {
  deadline_ns_ = from_ns + 2 * options_.delay_ns + options_.timeout_ns;
}

void Link::send_again() {
  counts_.resends += sent_;
  sent_ = 0;
}

// The other end has all before that one; `again`: it has found an error there.
void Link::answer(uint64_t expected, bool again) {
  if (cut_ || down_) return;
  const size_t before = queue_.size();
  for (; !queue_.empty() && queue_.front().serial < expected; queue_.pop_front())
    sent_ -= sent_ > 0;
  if (queue_.size() < before) {
    tries_ = 0;
    renew_deadline(engine_.now_ns());
    source_->link_ready(*this);
  }
  if (again) send_again();
  pump();
}

// Looks after the oldest packet.
void Link::watch() {
  watch_.at(engine_, deadline_ns_, [this] {
    if (queue_.empty() || down_) return;
    if (engine_.now_ns() >= deadline_ns_) {
      if (sent_ > 0 && ++tries_ > options_.tries) return give_up();
      send_again();
      renew_deadline(engine_.now_ns());
      pump();
    }
    if (sent_ > 0) watch();  // else transmit() will
  });
}

void Link::take_all(std::vector<Packet>* out) {
  // Both ends are asked: whoever asks has a network of its own.
  for (Item& item : queue_)
    if (item.serial >= expected_) out->push_back(std::move(item.packet));
  queue_.clear();
  sent_ = 0;
  expected_ = next_serial_;  // what is still on the wire is too late
}

void Link::give_up() {
  down_ = true;
  std::vector<Packet> unsent;
  if (!keeps()) queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(sent_));
  take_all(&unsent);
  if (engine_.trace) engine_.trace->record(engine_.now_ns(), 0, name_, "down");
  source_->link_down(*this, std::move(unsent));
}

void Link::cut() {
  cut_ = true;
  if (keeps() || !source_) return;
  // No acknowledgement is missed; but both ends see that nothing comes any more.
  engine_.after(options_.timeout_ns * options_.tries, [this] {
    if (cut_ && !down_) give_up();
  });
}

void Link::restore() {
  cut_ = false;
  if (!std::exchange(down_, false)) return;
  tries_ = 0;
  source_->link_ready(*this);
}

// --- the receiving end -----------------------------------------------------------------------

void Link::release(unsigned channel) {
  engine_.after(options_.delay_ns, [this, channel] {
    credits_[channel]++;
    pump();
    if (options_.channels && !down_) source_->link_ready(*this);
  });
}

// The first packet there has come in.
void Link::land(std::deque<Item>& wire) {
  Item item = std::move(wire.front());
  wire.pop_front();
  const bool is_lost = item.lost || down_;
  const bool is_checked = !is_lost && keeps() && item.serial > 0;  // 0: its cycles are stolen
  const bool is_next = item.serial == expected_;  // else it follows a bad one, or was there before
  const bool is_bad = is_checked && is_next && !intact(item.packet);
  const bool arrives = is_checked ? is_next && !is_bad : !is_lost;
  counts_.lost += is_lost;
  counts_.bad_crc += is_bad;
  if (is_bad && engine_.trace) engine_.trace->record(engine_.now_ns(), 0, name_, "bad CRC");
  if (!arrives) release(item.packet.channel);
  if (is_checked && item.serial <= expected_) {
    const uint64_t expected = item.serial + !is_bad;
    engine_.after(options_.delay_ns, [this, expected, is_bad] { answer(expected, is_bad); });
  }
  if (!arrives) return;
  expected_ += is_checked;
  target_->link_arrive(*this, std::move(item.packet));
}

}  // namespace torii::nic
