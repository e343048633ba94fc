// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/crossbar.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/trace.h"

namespace torii::nic {

Crossbar::Crossbar(Engine& engine, unsigned number, const CrossbarOptions& options,
                   RoutePolicy& policy)
    : engine_(engine),
      number_(number),
      options_(options),
      policy_(policy),
      ports_(options.ports + 1) {
  TORII_ASSERT(options.ports <= kPortsMax);
}

void Crossbar::connect(unsigned port, Link* in, Link* out) {
  ports_[port].in = in;
  ports_[port].out = out;
}

void Crossbar::link_arrive(Link& link, Packet&& packet) {
  add(link.target_port(), std::move(packet));
}

void Crossbar::add(unsigned input, Packet&& packet) {
  uint64_t outputs = policy_.route(number_, input, packet);
  // Nothing waits for an output that is not there, nor for one that will lose it.
  for (unsigned port = 0; port <= kPortsMax && outputs >> port; port++) {
    const Link* const out = port < options_.ports ? ports_[port].out : nullptr;
    if (!out || (out->down() && out->options().window == 0)) outputs &= ~(uint64_t{1} << port);
  }
  packets_++;
  if (outputs == 0) {
    dropped_++;
    if (engine_.trace)
      engine_.trace->record(engine_.now_ns(), 0, format_text("switch%u", number_), "no way");
    if (ports_[input].in) ports_[input].in->release();
    return;
  }
  std::deque<Waiting>& queue = ports_[input].queue;
  queue.push_back({std::move(packet), outputs, engine_.now_ns() + options_.latency_ns});
  if (queue.size() == 1) show_head(input);
}

// The head of this input is to be served.
void Crossbar::show_head(unsigned input) {
  engine_.at(ports_[input].queue.front().ready_ns, [this, input] { want(input); });
}

void Crossbar::want(unsigned input) {
  // The packet may have gone, or the next one may have come, since this was asked for.
  if (ports_[input].queue.empty() || ports_[input].queue.front().ready_ns > engine_.now_ns())
    return;
  uint64_t outputs = ports_[input].queue.front().outputs;
  for (uint64_t left = outputs; left; left &= left - 1)
    ports_[std::countr_zero(left)].wanted |= uint64_t{1} << input;
  for (; outputs; outputs &= outputs - 1) serve(static_cast<unsigned>(std::countr_zero(outputs)));
}

void Crossbar::take_all(std::vector<Packet>* out) {
  for (Port& port : ports_) {
    port.wanted = 0;
    for (Waiting& waiting : std::exchange(port.queue, {})) {
      out->push_back(std::move(waiting.packet));
      if (port.in) port.in->release();
    }
  }
}

void Crossbar::link_ready(Link& link) { serve(link.source_port()); }

void Crossbar::link_down(Link& link, std::vector<Packet>&& unsent) {
  if (on_down) return on_down(link, std::move(unsent));
  dropped_ += unsent.size();
}

void Crossbar::serve(unsigned output) {
  Port& port = ports_[output];
  const auto back = static_cast<unsigned>(options_.ports);
  const auto is_first = [&](const Waiting& waiting) { return waiting.outputs >> output & 1; };
  while (port.wanted && port.out && port.out->ready()) {
    unsigned input = back;
    if (!(port.wanted >> back & 1)) {
      // What was given back comes first, and keeps its order.
      if (std::any_of(ports_[back].queue.begin(), ports_[back].queue.end(), is_first)) return;
      const uint64_t later = port.wanted >> port.next << port.next;
      input = static_cast<unsigned>(std::countr_zero(later ? later : port.wanted));
      port.next = input + 1;
    }
    pass(input, output);
  }
}

void Crossbar::pass(unsigned input, unsigned output) {
  Port& from = ports_[input];
  Waiting& head = from.queue.front();
  ports_[output].wanted &= ~(uint64_t{1} << input);
  head.outputs &= ~(uint64_t{1} << output);
  if (head.outputs) {
    ports_[output].out->send(Packet(head.packet));
    return;
  }
  // Its buffer is free when all of it has come in.
  if (from.in) engine_.at(head.packet.tail_ns, [link = from.in] { link->release(); });
  Packet packet = std::move(head.packet);
  from.queue.pop_front();
  if (!from.queue.empty()) show_head(input);
  ports_[output].out->send(std::move(packet));
}

uint64_t SourceRoute::route(unsigned, unsigned, Packet& packet) {
  if (packet.bytes.empty()) return 0;
  const auto port = static_cast<unsigned>(packet.bytes.front());
  const bool was_intact = intact(packet);
  packet.bytes.erase(packet.bytes.begin());
  packet.crc = crc32(packet.bytes) ^ (was_intact ? 0 : 1);
  return port < kPortsMax ? uint64_t{1} << port : 0;
}

uint64_t DestinationRoute::route(unsigned crossbar, unsigned, Packet& packet) {
  if (packet.bytes.size() < 2) return 0;
  const auto number = load_little<uint16_t>(packet.bytes.data());
  if (number >= tables_.size() || crossbar >= tables_[number].size()) return 0;
  return tables_[number][crossbar];
}

void DestinationRoute::set(uint32_t number, std::vector<uint64_t> outputs) {
  TORII_ASSERT(number <= 0xffff);
  if (number >= tables_.size()) tables_.resize(number + 1);
  tables_[number] = std::move(outputs);
}

}  // namespace torii::nic
