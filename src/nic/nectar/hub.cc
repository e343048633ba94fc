// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/nectar/hub.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/base/little_endian.h"

namespace torii::nic::nectar {

// --- items -----------------------------------------------------------------------------------

Bytes one_command(Opcode opcode, SwitchOutput at) {
  return make_bytes(
      HubCommand{opcode, static_cast<uint8_t>(at.crossbar), static_cast<uint8_t>(at.port)});
}

void add_packet(Bytes* to, std::span<const std::byte> data, bool closes) {
  const uint32_t sum = crc32(data), bytes = static_cast<uint32_t>(data.size() + kSumBytes);
  append(to, one_command(kStartOfPacket, {bytes, bytes >> 8}));
  append(to, data);
  append(to, std::as_bytes(std::span(&sum, 1)));
  if (closes) append(to, one_command(kCloseEvery));
}

Item::Item(std::span<const std::byte> bytes) : rest(bytes) {
  for (; rest.size() >= kCommandBytes; rest = rest.subspan(kCommandBytes)) {
    const auto c = header_of<HubCommand>(rest);
    if (c.opcode < kOpen || c.opcode > kSetReady) break;
    commands.push_back(c);
    opcodes |= 1u << c.opcode;
  }
  if (bytes.size() == kCommandBytes && bytes[0] == std::byte{kReadySignal}) signal = kReadySignal;
  if (bytes.size() == kReplyBytes && bytes[0] == std::byte{kReply}) signal = kReply;
  has_packet = rest.size() >= kCommandBytes && rest[0] == std::byte{kStartOfPacket};
  if (!has_packet) return;
  const auto all = rest.subspan(kCommandBytes);
  data = all.first(std::min<size_t>(load_little<uint16_t>(&rest[1]), all.size()));
  const auto behind = all.subspan(data.size());
  if (behind.size() >= kCommandBytes && behind[0] == std::byte{kCloseEvery})
    opcodes |= 1u << kCloseEvery;
}

// --- the HUB -----------------------------------------------------------------------------------

namespace {

// Commands that wait until the output is free, and all that connect it, a bit each.
constexpr uint32_t kRetries = 1u << kOpenRetry | 1u << kOpenRetryReply | 1u << kTestOpenRetry;
constexpr uint32_t kOpens = kRetries | 1u << kOpen;

class Hub final : public Switch {
 public:
  Hub(Engine& engine, unsigned number, const CrossbarOptions& options)
      : engine_(engine), number_(number), options_(options), ports_(options.ports) {}
  void connect(unsigned port, Link*, Link* out) override { ports_[port].out = out; }
  void link_arrive(Link& link, Packet&& packet) override {
    const unsigned in = link.target_port();
    Port& port = ports_[in];
    link.release();
    packets_++;
    const Item item(packet.bytes);
    if (item.signal == kReadySignal) {
      port.ready = true;
      return serve_all();
    }
    if (item.signal == kReply) {  // back over the connection that leads there
      dropped_ += !port.is_connected;
      if (port.is_connected) steal(ports_[port.owner], packet.bytes, packet);
      return;
    }
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
    // An item that is switched as a packet is stored, as is one that has to wait; others only pass.
    if (last.ready_ns || (!is_long && port.queue.size() <= 2)) return;
    lose(in, last.packet.bytes);
    port.queue.pop_back();
  }
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
  void tell(unsigned in, const HubCommand& c) {
    const Port& port = ports_[c.output];
    const uint32_t status = kStatusOpened * (c.opcode != kStatus) | kOutputReady * port.ready |
                            kOutputMine * port.is_free(in) |
                            (port.is_connected ? port.owner + 1 : 0) << kHolderShift |
                            uint32_t{port.passed} << kPassedShift;
    Bytes bytes = one_command(kReply, {number_, c.output});
    append(&bytes, std::as_bytes(std::span(&status, 1)));
    steal(ports_[in], std::move(bytes));
  }
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
  // Carries out the commands for this HUB, all of them or, as long as one has to wait, none, and
  // removes them. Returns when what is left can pass; 0: it waits.
  uint64_t carry_out(unsigned in, Bytes* bytes) {
    const Item item(*bytes);
    std::vector<HubCommand> own;
    Bytes rest;
    for (const HubCommand& c : item.commands) {
      if (c.hub != number_) append(&rest, std::as_bytes(std::span(&c, 1)));
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
      if (kOpens >> c.opcode & 1) {
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
    append(&rest, item.rest);
    *bytes = std::move(rest);
    return ready_ns;
  }
  // The first item of that input. False: it waits.
  bool pass(unsigned in) {
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
    const Item item(first.bytes);
    dropped_ += outputs.empty() && !is_over;
    seal(first);
    for (Port* const output : outputs) {
      output->ready &= !item.has_packet;
      output->passed++;
      output->out->send(Packet(first));
    }
    if (item.has_packet) steal(ports_[in], one_command(kReadySignal));
    if (item.has(kCloseEvery) && !outputs.empty())
      engine_.at(first.tail_ns, [this, in] {
        release(in);
        serve_all();
      });
    return true;
  }
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

}  // namespace

std::unique_ptr<Switch> make_hub(Engine& engine, unsigned number, const CrossbarOptions& options) {
  return std::make_unique<Hub>(engine, number, options);
}

}  // namespace torii::nic::nectar
