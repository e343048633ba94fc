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

void Crossbar::add(unsigned port, Packet&& packet) {
  const unsigned channel = packet.channel;
  const uint64_t ways = policy_.route(number_, port, packet);
  const bool one_of = ways & RoutePolicy::kOneOf;
  uint64_t outputs = ways & ~RoutePolicy::kOneOf;
  // Nothing waits for an output that is not there, nor for one that will lose it.
  for (unsigned i = 0; i < kPortsMax && outputs >> i; i++) {
    const Link* const out = i < options_.ports ? ports_[i].out : nullptr;
    if (!out || (out->down() && out->options().window == 0)) outputs &= ~(uint64_t{1} << i);
  }
  packets_++;
  if (outputs == 0) {
    const bool is_dropped = ways != RoutePolicy::kOneOf;
    dropped_ += is_dropped;
    if (is_dropped && engine_.trace)
      engine_.trace->record(engine_.now_ns(), 0, format_text("switch%u", number_), "no way");
    if (ports_[port].in) ports_[port].in->release(channel);
    return;
  }
  const unsigned input = port * kChannels + channel;
  Queue& queue = queue_of(input);
  queue.push_back(
      {std::move(packet), outputs, one_of, channel, engine_.now_ns() + options_.latency_ns});
  if (queue.size() == 1) show_head(input);
}

// The head of this input is to be served.
void Crossbar::show_head(unsigned input) {
  engine_.at(queue_of(input).front().ready_ns, [this, input] { want(input); });
}

void Crossbar::want(unsigned input) {
  const Queue& queue = queue_of(input);
  // The packet may have gone, or the next one may have come, since this was asked for.
  if (queue.empty() || queue.front().ready_ns > engine_.now_ns()) return;
  const uint64_t outputs = queue.front().outputs;
  for (uint64_t left = outputs; left; left &= left - 1)
    ports_[static_cast<size_t>(std::countr_zero(left))].wanted[input % kChannels] |=
        uint64_t{1} << input / kChannels;
  uint64_t first = outputs;
  if (queue.front().one_of)  // not always the same one
    for (auto n = first_choice_++ % static_cast<unsigned>(std::popcount(outputs)); n > 0; n--)
      first &= first - 1;
  for (uint64_t left : {first, outputs & ~first})
    for (; left; left &= left - 1) serve(static_cast<unsigned>(std::countr_zero(left)));
}

void Crossbar::take_all(std::vector<Packet>* out) {
  for (Port& port : ports_) port.wanted = {};
  for (Port& port : ports_) {
    for (Queue& queue : port.queues) {
      for (Waiting& waiting : std::exchange(queue, {})) {
        out->push_back(std::move(waiting.packet));
        if (port.in) port.in->release(waiting.channel);
      }
    }
  }
}

void Crossbar::link_down(Link& link, std::vector<Packet>&& unsent) {
  if (on_down) return on_down(link, std::move(unsent));
  dropped_ += unsent.size();
}

// The input whose turn it is at that output, among those of the highest priority.
unsigned Crossbar::choose(unsigned output) {
  Port& port = ports_[output];
  unsigned best = kNone, best_rank = kNone;
  for (unsigned channel = 0; channel < kChannels; channel++) {
    for (uint64_t left = port.wanted[channel]; left; left &= left - 1) {
      const unsigned input = static_cast<unsigned>(std::countr_zero(left)) * kChannels + channel;
      const Packet& packet = queue_of(input).front().packet;
      if (!port.out->ready(packet.channel)) continue;
      const unsigned rank =
          (0xff - packet.priority) * kInputs + (input + kInputs - port.next) % kInputs;
      if (rank >= best_rank) continue;
      best = input;
      best_rank = rank;
    }
  }
  return best;
}

void Crossbar::serve(unsigned output) {
  Port& port = ports_[output];
  const auto back = static_cast<unsigned>(options_.ports);
  const auto is_first = [&](const Waiting& waiting) { return waiting.outputs >> output & 1; };
  while (port.out && !port.out->down()) {
    unsigned input = back * kChannels;
    if (!(port.wanted[0] >> back & 1) || !port.out->ready()) {
      // Packets that were given back come first, and keep their order.
      const Queue& given_back = ports_[back].queues[0];
      if (std::any_of(given_back.begin(), given_back.end(), is_first)) return;
      input = choose(output);
      if (input == kNone) return;
      port.next = (input + 1) % kInputs;
    }
    pass(input, output);
  }
}

void Crossbar::pass(unsigned input, unsigned output) {
  Link* const in = ports_[input / kChannels].in;
  Queue& queue = queue_of(input);
  Waiting& head = queue.front();
  const uint64_t bit = uint64_t{1} << input / kChannels;
  const uint64_t left = head.one_of ? 0 : head.outputs & ~(uint64_t{1} << output);
  for (uint64_t done = head.outputs & ~left; done; done &= done - 1)
    ports_[static_cast<size_t>(std::countr_zero(done))].wanted[input % kChannels] &= ~bit;
  head.outputs = left;
  if (left) {
    ports_[output].out->send(Packet(head.packet));
    return;
  }
  // Its buffer is free when all of it has come in.
  if (in) engine_.at(head.packet.tail_ns, [in, channel = head.channel] { in->release(channel); });
  Packet packet = std::move(head.packet);
  queue.pop_front();
  if (!queue.empty()) show_head(input);
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
