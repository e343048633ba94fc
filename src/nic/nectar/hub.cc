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

Bytes one_command(Opcode opcode, uint32_t hub, uint32_t output) {
  Bytes out;
  add_command(&out, opcode, hub, output);
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
    opcodes |= 1u << c.opcode;
  }
  has_packet = bytes.size() - at >= kFrontBytes && bytes[at] == std::byte{kStartOfPacket};
  if (!has_packet) return;
  const auto all = std::span(bytes).subspan(at + kFrontBytes);
  data = all.first(std::min<size_t>(load_little<uint16_t>(&bytes[at + 1]), all.size()));
  const auto behind = all.subspan(data.size());
  if (behind.size() >= kCommandBytes && behind[0] == std::byte{kCloseEvery})
    opcodes |= 1u << kCloseEvery;
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

// Commands that wait until the output is free, a bit each.
constexpr uint32_t kRetries = 1u << kOpenRetry | 1u << kOpenRetryReply | 1u << kTestOpenRetry;

class Hub final : public Switch {
 public:
  Hub(Engine& engine, unsigned number, const CrossbarOptions& options)
      : engine_(engine), number_(number), options_(options), ports_(options.ports) {}
  void connect(unsigned port, Link*, Link* out) override { ports_[port].out = out; }
  void link_arrive(Link& link, Packet&& packet) override;
  void link_ready(Link&) override { serve_all(); }
  void link_down(Link& link, std::vector<Packet>&& unsent) override {
    ports_[link.source_port()].close();
    ports_[link.source_port()].ready = true;
    take_down(link.source_port());
    on_down(link, std::move(unsent));
  }

 private:
  static constexpr uint64_t kCycleNs = 70;  // of the controller: one command
  static constexpr uint64_t kPassNs = 350;  // of a byte, over a connection that is there
  static constexpr unsigned kNobody = ~0u;
  struct Waiting {
    Packet packet;
    uint64_t ready_ns = 0;  // then it passes; 0: its commands have not been carried out
  };
  struct Port {
    Link* out = nullptr;
    std::deque<Waiting> queue;
    unsigned owner = kNobody;   // the input that has locked this output, or is connected to it
    bool is_connected = false;  // it is
    bool ready = true;          // the input behind this output has room for a packet
    uint8_t passed = 0;

    bool works() const { return out && !out->down(); }
    bool is_free(unsigned in) const { return owner == kNobody || owner == in; }
    void close() {
      owner = kNobody;
      is_connected = false;
    }
  };

  std::vector<Port*> outputs_of(unsigned in) {
    std::vector<Port*> out;
    for (Port& port : ports_)
      if (port.owner == in && port.is_connected && port.works()) out.push_back(&port);
    return out;
  }
  // On behalf of the process whose packet that is.
  static void steal(const Port& output, Bytes bytes, Packet packet = {}) {
    if (!output.works()) return;
    packet.bytes = std::move(bytes);
    seal(packet);
    output.out->steal(std::move(packet));
  }
  void lose(unsigned in, const Bytes& bytes) {
    dropped_++;
    if (Item(bytes).has_packet) steal(ports_[in], one_command(kReadySignal));
  }
  void tell(unsigned in, const HubCommand& c);
  void release(unsigned in) {
    for (Port& port : ports_)
      if (port.owner == in) port.close();
  }
  // With all that waits there.
  void take_down(unsigned in) {
    for (const Waiting& waiting : std::exchange(ports_[in].queue, {}))
      lose(in, waiting.packet.bytes);
    release(in);
  }
  uint64_t carry_out(unsigned in, Bytes* bytes);
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
};

void Hub::link_arrive(Link& link, Packet&& packet) {
  const unsigned in = link.target_port();
  Port& port = ports_[in];
  link.release();
  packets_++;
  if (is_signal(packet.bytes, kReadySignal)) {
    port.ready = true;
    return serve_all();
  }
  if (is_signal(packet.bytes, kReply)) {  // back over the connection that leads there
    dropped_ += !port.is_connected;
    if (port.is_connected) steal(ports_[port.owner], packet.bytes, packet);
    return;
  }
  const Item item(packet.bytes);
  if (!item.has_packet && !(item.opcodes & kRetries)) {
    dropped_ += item.commands.empty();
    carry_out(in, &packet.bytes);
    for (const Port* const output : outputs_of(in))
      if (!packet.bytes.empty()) steal(*output, packet.bytes, packet);
    if (item.has(kCloseEvery) && !packet.bytes.empty()) take_down(in);
    return serve_all();
  }
  const bool is_long = packet.bytes.size() > kQueueBytes;
  port.queue.push_back({std::move(packet)});
  const Waiting& last = port.queue.back();
  if (port.queue.size() == 1 && !(item.has(kTestOpenRetry) && is_long)) serve(in);
  // A packet that is switched as such is stored, as is an item that has to wait; others only pass.
  if (last.ready_ns || (!is_long && port.queue.size() <= 2)) return;
  lose(in, last.packet.bytes);
  port.queue.pop_back();
}

void Hub::tell(unsigned in, const HubCommand& c) {
  const Port& port = ports_[c.output];
  Bytes bytes = one_command(kReply, number_, c.output);
  bytes.resize(kCommandBytes + sizeof(uint32_t));
  store_little(&bytes[kCommandBytes],
               (c.opcode == kStatus ? 0 : uint32_t{kStatusOpened}) |
                   (port.ready ? uint32_t{kOutputReady} : 0) |
                   (port.is_free(in) ? uint32_t{kOutputMine} : 0) |
                   (port.is_connected ? (port.owner + 1) << kHolderShift : 0) |
                   uint32_t{port.passed} << kPassedShift);
  steal(ports_[in], std::move(bytes));
}

// Carries out the commands for this HUB, all of them or, as long as one has to wait, none, and
// removes them. Returns when what is left can pass; 0: it waits.
uint64_t Hub::carry_out(unsigned in, Bytes* bytes) {
  const Item item(*bytes);
  std::vector<HubCommand> own;
  Bytes rest;
  for (const HubCommand& c : item.commands) {
    if (c.hub != number_) add_command(&rest, static_cast<Opcode>(c.opcode), c.hub, c.output);
    if (c.hub != number_ || c.output >= ports_.size() || !ports_[c.output].works()) continue;
    const Port& port = ports_[c.output];
    if (kRetries >> c.opcode & 1 &&
        (!port.is_free(in) || (c.opcode == kTestOpenRetry && !port.ready)))
      return 0;
    own.push_back(c);
  }
  const uint64_t now = engine_.now_ns();
  uint64_t ready_ns = now + kPassNs;
  for (const HubCommand& c : own) {
    Port& port = ports_[c.output];
    if (c.opcode == kOpen && !port.is_free(in)) {  // what follows was for those behind it
      lose(in, *bytes);
      bytes->clear();
      return ready_ns;
    }
    if (c.opcode == kOpen || kRetries >> c.opcode & 1) {
      port.owner = in;
      port.is_connected = true;
      next_ = (in + 1) % static_cast<unsigned>(ports_.size());
      controller_ns_ = std::max(now, controller_ns_) + kCycleNs;
      ready_ns = controller_ns_ - kCycleNs + options_.latency_ns;
    }
    if (c.opcode == kStatus || c.opcode == kOpenRetryReply)
      engine_.at(ready_ns, [this, in, c] { tell(in, c); });
    if (c.opcode == kLock && port.is_free(in)) port.owner = in;
    if (c.opcode == kClose) port.close();
    if (c.opcode == kSetReady) port.ready = true;
  }
  rest.insert(rest.end(),
              bytes->begin() + static_cast<ptrdiff_t>(item.commands.size() * kCommandBytes),
              bytes->end());
  *bytes = std::move(rest);
  return ready_ns;
}

// The first item of that input. False: it waits.
bool Hub::pass(unsigned in) {
  Waiting& head = ports_[in].queue.front();
  if (!head.ready_ns) {
    head.ready_ns = carry_out(in, &head.packet.bytes);
    if (head.ready_ns) engine_.at(head.ready_ns, [this, in] { serve(in); });
    return false;
  }
  if (head.ready_ns > engine_.now_ns()) return false;
  const bool is_over = head.packet.bytes.empty();  // all of it was for this HUB
  const std::vector<Port*> outputs = is_over ? std::vector<Port*>{} : outputs_of(in);
  for (const Port* const output : outputs)
    if (!output->out->ready()) return false;
  Packet first = std::move(head.packet);
  ports_[in].queue.pop_front();
  if (outputs.empty()) {
    if (!is_over) lose(in, first.bytes);
    return true;
  }
  const Item item(first.bytes);
  seal(first);
  for (Port* const output : outputs) {
    output->ready &= !item.has_packet;
    output->passed++;
    output->out->send(Packet(first));
  }
  if (item.has_packet) steal(ports_[in], one_command(kReadySignal));
  if (item.has(kCloseEvery))
    engine_.at(std::max(first.tail_ns, engine_.now_ns()), [this, in] {
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
