// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/nectar/hub.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "core/base/little_endian.h"

namespace torii::nic::nectar {

// --- items -----------------------------------------------------------------------------------

void add_command(Bytes* to, Opcode opcode, uint32_t hub, uint32_t output) {
  for (const uint32_t value : {uint32_t{opcode}, hub, output})
    to->push_back(static_cast<std::byte>(value));
}

Bytes one_command(Opcode opcode) {
  Bytes out;
  add_command(&out, opcode);
  return out;
}

void add_packet(Bytes* to, std::initializer_list<std::span<const std::byte>> parts) {
  const size_t start = to->size(), first = start + kFrontBytes;
  to->resize(first);
  for (const auto& part : parts) to->insert(to->end(), part.begin(), part.end());
  const uint32_t sum = crc32(std::span(*to).subspan(first));
  to->resize(to->size() + kSumBytes);
  store_little(&(*to)[to->size() - kSumBytes], sum);
  (*to)[start] = std::byte{kStartOfPacket};
  store_little(&(*to)[start + 1], static_cast<uint16_t>(to->size() - first));
}

Item::Item(const Bytes& bytes) {
  size_t at = 0;
  for (; bytes.size() - at >= kCommandBytes; at += kCommandBytes) {
    HubCommand c;
    std::memcpy(&c, &bytes[at], sizeof(c));
    if (c.opcode < kOpen || c.opcode > kSetReady) break;
    commands.push_back(c);
    closes |= c.opcode == kCloseEvery;
    waits |= c.opens_with_retry();
    tests |= c.opcode == kTestOpenRetry;
  }
  if (bytes.size() - at < kFrontBytes || bytes[at] != std::byte{kStartOfPacket}) return;
  packet.assign(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end());
  const size_t most = packet.size() - kFrontBytes;
  data_bytes = std::min<size_t>(load_little<uint16_t>(&packet[1]), most);
  closes |= most - data_bytes >= kCommandBytes &&
            packet[kFrontBytes + data_bytes] == std::byte{kCloseEvery};
}

Bytes Item::bytes() const {
  Bytes out;
  for (const HubCommand& c : commands)
    add_command(&out, static_cast<Opcode>(c.opcode), c.hub, c.output);
  out.insert(out.end(), packet.begin(), packet.end());
  return out;
}

bool is_signal(const Bytes& bytes, Opcode opcode) {
  return bytes.size() == (opcode == kReply ? 7 : 3) && bytes[0] == std::byte{opcode};
}

HubReply reply_of(const Bytes& bytes) {
  return {static_cast<uint8_t>(bytes[1]), static_cast<uint8_t>(bytes[2]),
          load_little<uint32_t>(&bytes[3])};
}

// --- the HUB -----------------------------------------------------------------------------------

namespace {

class Hub final : public Switch {
 public:
  Hub(Engine& engine, unsigned number, const CrossbarOptions& options)
      : engine_(engine), number_(number), options_(options), ports_(options.ports) {}
  void connect(unsigned port, Link*, Link* out) override { ports_[port].out = out; }
  uint64_t packets() const override { return packets_; }
  uint64_t dropped() const override { return dropped_; }
  void link_arrive(Link& link, Packet&& packet) override;
  void link_ready(Link&) override { serve_all(); }
  void link_down(Link& link, std::vector<Packet>&& unsent) override {
    Port& port = ports_[link.source_port()];
    port.holder = port.locker = kNobodyHas;
    port.ready = true;
    take_down(link.source_port());
    on_down(link, std::move(unsent));
  }

 private:
  static constexpr uint64_t kCycleNs = 70;  // of the controller: one command
  static constexpr uint64_t kPassNs = 350;  // of a byte, over a connection that is there
  static constexpr unsigned kNobodyHas = ~0u;
  struct Waiting {
    Packet packet;
    Item item;
    uint64_t ready_ns = 0;  // then it passes; 0: its commands have not been carried out
  };
  struct Port {
    Link* out = nullptr;
    std::deque<Waiting> queue;
    unsigned holder = kNobodyHas;  // the input that is connected to this output
    unsigned locker = kNobodyHas;
    bool ready = true;  // the input behind this output has room for a packet
    uint8_t passed = 0;
  };

  bool exists(unsigned output) const {
    return output < ports_.size() && ports_[output].out && !ports_[output].out->down();
  }
  bool is_free(unsigned in, unsigned output) const {
    const Port& port = ports_[output];
    return (port.holder == kNobodyHas || port.holder == in) &&
           (port.locker == kNobodyHas || port.locker == in);
  }
  std::vector<unsigned> outputs_of(unsigned in) const {
    std::vector<unsigned> out;
    for (unsigned output = 0; output < ports_.size(); output++)
      if (ports_[output].holder == in && exists(output)) out.push_back(output);
    return out;
  }
  // On behalf of the process whose packet that is.
  void steal(unsigned output, Bytes bytes, Packet packet = {}) {
    if (!exists(output)) return;
    packet.bytes = std::move(bytes);
    seal(packet);
    ports_[output].out->steal(std::move(packet));
  }
  void lose(unsigned in, const Item& item) {
    dropped_++;
    if (!item.packet.empty()) steal(in, one_command(kReadySignal));
  }
  void tell(unsigned in, unsigned output, uint32_t more);
  void release(unsigned in);
  // With all that waits there.
  void take_down(unsigned in) {
    for (const Waiting& waiting : std::exchange(ports_[in].queue, {})) lose(in, waiting.item);
    release(in);
  }
  uint64_t carry_out(unsigned in, Item* item);
  bool pass(unsigned in);
  void serve(unsigned in) {
    while (!ports_[in].queue.empty() && pass(in)) continue;
  }
  // From another one on each time, so that each has its turn.
  void serve_all() {
    const auto count = static_cast<unsigned>(ports_.size());
    for (unsigned i = 0, first = next_; i < count; i++) serve((first + i) % count);
  }

  Engine& engine_;
  const unsigned number_;
  const CrossbarOptions options_;
  std::vector<Port> ports_;
  uint64_t controller_ns_ = 0;  // until then the controller is busy
  unsigned next_ = 0;           // input whose turn it is
  uint64_t packets_ = 0, dropped_ = 0;
};

void Hub::link_arrive(Link& link, Packet&& packet) {
  const unsigned in = link.target_port();
  link.release();
  packets_++;
  if (is_signal(packet.bytes, kReadySignal)) {
    ports_[in].ready = true;
    return serve_all();
  }
  if (is_signal(packet.bytes, kReply)) {  // back over the connection that leads there
    const unsigned back = ports_[in].holder;
    dropped_ += back == kNobodyHas;
    return steal(back, packet.bytes, packet);
  }
  Item item(packet.bytes);
  if (!item.waits && item.packet.empty()) {
    dropped_ += item.commands.empty();
    carry_out(in, &item);
    for (const unsigned output : outputs_of(in))
      if (!item.commands.empty()) steal(output, item.bytes(), packet);
    if (item.closes) take_down(in);
    return serve_all();
  }
  std::deque<Waiting>& queue = ports_[in].queue;
  const bool is_long = packet.bytes.size() > kQueueBytes;
  queue.push_back({std::move(packet), std::move(item)});
  const Waiting& last = queue.back();
  if (queue.size() == 1 && !(last.item.tests && is_long)) serve(in);
  // A packet that is switched as such is stored, as is an item that has to wait; others only pass.
  if (last.ready_ns || (!is_long && queue.size() <= 2)) return;
  lose(in, last.item);
  queue.pop_back();
}

void Hub::tell(unsigned in, unsigned output, uint32_t more) {
  const Port& port = ports_[output];
  Bytes bytes;
  add_command(&bytes, kReply, number_, output);
  bytes.resize(kCommandBytes + sizeof(uint32_t));
  store_little(&bytes[kCommandBytes],
               more | (port.ready ? uint32_t{kOutputReady} : 0) |
                   (is_free(in, output) ? uint32_t{kOutputMine} : 0) |
                   (port.holder == kNobodyHas ? 0 : (port.holder + 1) << kHolderShift) |
                   uint32_t{port.passed} << kPassedShift);
  steal(in, std::move(bytes));
}

void Hub::release(unsigned in) {
  for (Port& port : ports_) {
    if (port.holder == in) port.holder = kNobodyHas;
    if (port.locker == in) port.locker = kNobodyHas;
  }
}

// Carries out the commands for this HUB, all of them or, as long as one has to wait, none, and
// removes them. Returns when what is left can pass; 0: it waits.
uint64_t Hub::carry_out(unsigned in, Item* item) {
  const auto is_for_us = [&](const HubCommand& c) { return c.hub == number_ && exists(c.output); };
  for (const HubCommand& c : item->commands)
    if (is_for_us(c) && c.opens_with_retry() &&
        (!is_free(in, c.output) || (c.opcode == kTestOpenRetry && !ports_[c.output].ready)))
      return 0;
  const uint64_t now = engine_.now_ns();
  uint64_t ready_ns = now + kPassNs;
  for (const HubCommand& c : item->commands) {
    if (!is_for_us(c)) continue;
    Port& port = ports_[c.output];
    if (c.opcode == kOpen && !is_free(in, c.output)) {  // what follows was for those behind it
      lose(in, *item);
      *item = {};
      return ready_ns;
    }
    if (c.opcode == kOpen || c.opens_with_retry()) {
      port.holder = in;
      next_ = (in + 1) % static_cast<unsigned>(ports_.size());
      controller_ns_ = std::max(now, controller_ns_) + kCycleNs;
      ready_ns = controller_ns_ - kCycleNs + options_.latency_ns;
    } else if (c.opcode == kLock && is_free(in, c.output)) {
      port.locker = in;
    } else if (c.opcode == kClose) {
      port.holder = port.locker = kNobodyHas;
    } else if (c.opcode == kSetReady) {
      port.ready = true;
    }
  }
  for (const HubCommand& c : item->commands)
    if (is_for_us(c) && (c.opcode == kStatus || c.opcode == kOpenRetryReply))
      engine_.at(ready_ns, [this, in, c] {
        tell(in, c.output, c.opcode == kStatus ? 0 : uint32_t{kStatusOpened});
      });
  std::erase_if(item->commands, [&](const HubCommand& c) { return c.hub == number_; });
  return ready_ns;
}

// The first item of that input. False: it waits.
bool Hub::pass(unsigned in) {
  Waiting& head = ports_[in].queue.front();
  if (!head.ready_ns) {
    head.ready_ns = carry_out(in, &head.item);
    if (head.ready_ns) engine_.at(head.ready_ns, [this, in] { serve(in); });
    return false;
  }
  if (head.ready_ns > engine_.now_ns()) return false;
  head.packet.bytes = head.item.bytes();
  const bool is_over = head.packet.bytes.empty();  // all of it was for this HUB
  const std::vector<unsigned> outputs = outputs_of(in);
  for (const unsigned output : outputs)
    if (!is_over && !ports_[output].out->ready()) return false;
  Waiting first = std::move(head);
  ports_[in].queue.pop_front();
  if (is_over || outputs.empty()) {
    if (!is_over) lose(in, first.item);
    return true;
  }
  const bool has_packet = !first.item.packet.empty();
  seal(first.packet);
  for (const unsigned output : outputs) {
    ports_[output].ready &= !has_packet;
    ports_[output].passed++;
    ports_[output].out->send(Packet(first.packet));
  }
  if (has_packet) steal(in, one_command(kReadySignal));
  if (first.item.closes)
    engine_.at(std::max(first.packet.tail_ns, engine_.now_ns()), [this, in] {
      release(in);
      serve_all();
    });
  return true;
}

}  // namespace

std::unique_ptr<Switch> make_hub(Engine& engine, unsigned number, const CrossbarOptions& options) {
  return std::make_unique<Hub>(engine, number, options);
}

}  // namespace torii::nic::nectar
