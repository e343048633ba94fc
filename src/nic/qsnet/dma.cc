// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The DMA engine. Flows take turns, packet by packet, so a long DMA holds up none to another
// process. A packet has a channel until its token comes.
#include <algorithm>

#include "nic/qsnet/elan.h"

namespace torii::nic::qsnet {
namespace {

bool is_range(uint32_t operation) { return operation == kDmaBroadcast || operation == kDmaTest; }

}  // namespace

// --- descriptors -------------------------------------------------------------------------------

void Elan::start_dma(unsigned context, uint32_t at) {
  Process& process = processes_[context];
  if (!has(at, kBlockBytes, kBlockBytes) || process.dmas == kDmasMax) {
    refused_++;
    return;
  }
  Dma dma;
  dma.descriptor = load<Descriptor>(context, at);
  dma.at = at;
  process.dmas++;
  const Descriptor& d = dma.descriptor;
  const uint32_t operation = d.type & kOperation;
  const bool is_good = operation >= kDmaWrite && operation <= kDmaTest && d.bytes <= kDmaBytes &&
                       (operation != kDmaTest || d.bytes == 0) &&
                       (is_range(operation) || node_of(d.process) < board_.nodes);
  if (!is_good) {
    refused_++;
    return finish(context, at, kFault);
  }
  if (is_range(operation)) return add_dma(context, kRange, kNobody, dma);
  if (operation == kDmaRead) process.gets[at] = {d.cookie, d.process};
  add_dma(context, operation == kDmaQueue ? kFrames : kMemory, d.process, dma);
}

void Elan::add_dma(unsigned context, FlowKind kind, Name to, const Dma& dma) {
  const uint64_t key = key_of(context, kind, to);
  Flow& flow = flows_[key];
  flow.context = context;
  flow.kind = kind;
  flow.to = to;
  flow.dmas.push_back(dma);
  flow.dmas.back().serial = ++serials_;
  active_.insert(key);
  pump();
}

// Ends a DMA of the card's own process; the end of a reply is told at the other side.
void Elan::finish(unsigned context, uint32_t at, DmaStatus status) {
  Process& process = processes_[context];
  process.dmas--;
  process.gets.erase(at);
  faults_ += status == kFault;
  store(context, at + static_cast<uint32_t>(offsetof(Descriptor, status)), uint32_t{status});
  set_event(context, load<Descriptor>(context, at).source_event);
}

// --- packets -----------------------------------------------------------------------------------

// Frames to a process and to groups keep their order: those of the other kind are over first.
bool Elan::may_begin(const Flow& flow, const Dma& dma) const {
  if (flow.kind == kMemory || dma.cut > 0) return true;
  return std::ranges::none_of(active_, [&](uint64_t key) {
    const Flow& other = flows_.at(key);
    return other.context == flow.context && other.kind != kMemory && other.kind != flow.kind &&
           other.dmas.front().serial < dma.serial;
  });
}

// Fetches the data of the flow's next packet, if there is room for it.
void Elan::cut(Flow& flow) {
  const uint64_t key = key_of(flow.context, flow.kind, flow.to);
  while (flow.fetch == 0 && flow.window.size() < kFetched) {
    const auto next = std::ranges::find(flow.dmas, false, &Dma::complete);
    if (next == flow.dmas.end() || !may_begin(flow, *next)) return;
    const Descriptor& d = next->descriptor;
    const uint32_t operation = d.type & kOperation;
    size_t bytes = std::min(d.bytes - next->cut, kPacketBytes);
    if (bytes == 0 || operation == kDmaRead) {
      add_packet(flow, *next, {}, 0);
      continue;
    }
    uint64_t address;
    if (!translate(flow.context, d.source + next->cut, &bytes, &address)) {
      fail_cut(flow, *next);
      continue;
    }
    flow.fetch = ++serials_;
    board_.bus.dma_read(
        reader_, address, bytes,
        [this, key, fetch = flow.fetch](Status status, std::span<const std::byte> data) {
          fetched(key, fetch, status, data);
        });
  }
}

void Elan::fetched(uint64_t key, uint64_t fetch, Status status, std::span<const std::byte> data) {
  const auto entry = flows_.find(key);
  if (entry == flows_.end() || entry->second.fetch != fetch) return;
  Flow& flow = entry->second;
  flow.fetch = 0;
  Dma& dma = *std::ranges::find(flow.dmas, false, &Dma::complete);
  if (status == Status::ok) {
    dma.reads = 0;
    add_packet(flow, dma, data, 0);
  } else if (status != Status::io_error || ++dma.reads == kTriesMax) {
    fail_cut(flow, dma);
  }
  pump();
}

// Its source is no memory. Whoever has begun to take it hears of that, and whoever has asked for
// it.
void Elan::fail_cut(Flow& flow, Dma& dma) {
  if (!dma.reply && (flow.kind == kMemory || dma.cut == 0)) return fail(flow, dma.serial, kFault);
  dma.status = kFault;
  add_packet(flow, dma, {}, kVoid);
}

void Elan::add_packet(Flow& flow, Dma& dma, std::span<const std::byte> data, uint8_t flags) {
  const Descriptor& d = dma.descriptor;
  const uint32_t operation = d.type & kOperation;
  Outgoing out{dma.serial, {}, {data.begin(), data.end()}, d.process};
  Body& body = out.body;
  body.from = processes_[flow.context].name;
  body.to = flow.kind == kRange ? d.group : flow.to;
  body.number = flow.next_number++;
  body.operation = static_cast<uint8_t>(operation);
  body.flags = static_cast<uint8_t>(flags | (dma.cut == 0 ? kFirst : 0) | (dma.reply ? kReply : 0));
  body.address = (operation == kDmaQueue || operation == kDmaBroadcast ? 0 : d.dest) + dma.cut;
  body.total = d.bytes;
  body.event = operation == kDmaWrite && !dma.reply ? d.dest_event : dma.at;
  body.cookie = d.cookie;
  if (operation == kDmaRead) {
    const auto* const from = reinterpret_cast<const std::byte*>(&d.source);
    out.data.assign(from, from + sizeof(d.source));
  }
  body.bytes = static_cast<uint32_t>(out.data.size());
  dma.cut += static_cast<uint32_t>(data.size());
  dma.complete = flags & kVoid || operation == kDmaRead || dma.cut == d.bytes;
  if (dma.complete) body.flags |= kLast;
  flow.window.push_back(std::move(out));
}

// --- channels ----------------------------------------------------------------------------------

void Elan::port_ready() {
  for (; !tokens_.empty() && board_.port.ready(kTokenChannel); tokens_.pop_front())
    board_.port.send(0, std::move(tokens_.front()));
  pump();
}

// Gives free channels to the flows in turn.
void Elan::pump() {
  const uint64_t now = board_.engine.now_ns();
  for (unsigned channel = 0; channel < kDataChannels; channel++) {
    uint64_t key = turn_;
    for (size_t left = active_.size(); left > 0 && !active_.empty(); left--) {
      const auto it = active_.upper_bound(key);
      key = it == active_.end() ? *active_.begin() : *it;
      Flow& flow = flows_[key];
      cut(flow);
      if (flow.trapped || flow.not_before_ns > now || channels_[channel].busy ||
          !board_.port.ready(channel))
        continue;
      const auto next = std::ranges::find_if(
          flow.window, [](const Outgoing& out) { return !out.in_flight && !out.taken; });
      if (next == flow.window.end()) continue;
      if (flow.kind != kRange && routes_[node_of(flow.to)].empty()) {
        trap(flow);
        continue;
      }
      turn_ = key;
      transmit(channel, key, flow, static_cast<size_t>(next - flow.window.begin()));
      break;
    }
  }
}

void Elan::transmit(unsigned channel, uint64_t key, Flow& flow, size_t i) {
  Outgoing& out = flow.window[i];
  std::span<const Hop> hops;
  if (flow.kind != kRange) hops = routes_[node_of(flow.to)];
  Front front{};
  front.kind = flow.kind == kRange ? Kind::range : Kind::data;
  front.hops = static_cast<uint8_t>(hops.size());
  front.channel = static_cast<uint8_t>(channel);
  front.node = static_cast<uint16_t>(board_.node);
  front.first = static_cast<uint16_t>(out.nodes);
  front.last = static_cast<uint16_t>(out.nodes >> 16);
  front.circuit = ++circuits_;
  Body body = out.body;
  body.behind = static_cast<uint16_t>(body.number - flow.window.front().body.number);
  Packet packet;
  packet.channel = static_cast<uint8_t>(channel);
  packet.priority = flow.dmas.front().descriptor.type & kUrgent ? 1 : 0;
  const auto append = [&](const void* from, size_t n) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    packet.bytes.insert(packet.bytes.end(), bytes, bytes + n);
  };
  append(&front, sizeof(front));
  append(hops.data(), hops.size_bytes());
  append(&body, sizeof(body));
  append(out.data.data(), out.data.size());
  const size_t rest = out.data.size() % kBlockBytes;
  if (rest) packet.bytes.resize(packet.bytes.size() + kBlockBytes - rest);
  resends_ += std::exchange(out.was_sent, true);
  out.in_flight = true;
  channels_[channel] = {true, key, body.number, front.circuit};
  packets_out_++;
  board_.port.send(flow.context, std::move(packet));
  board_.engine.after(kTokenNs, [this, channel, circuit = front.circuit] {
    if (!channels_[channel].busy || channels_[channel].circuit != circuit) return;
    lost_++;
    answered(channel, Answer::none);
  });
}

void Elan::answered(unsigned channel, Answer answer) {
  const Channel of = std::exchange(channels_[channel], {});
  const auto entry = flows_.find(of.flow);
  if (entry == flows_.end()) return pump();
  Flow& flow = entry->second;
  const auto out = std::ranges::find_if(
      flow.window, [&](const Outgoing& o) { return o.in_flight && o.body.number == of.number; });
  if (out == flow.window.end()) return pump();
  out->in_flight = false;
  const uint32_t retries = flow.dmas.front().descriptor.type >> kRetriesShift;
  switch (answer) {
    case Answer::ok:
      out->taken = true;
      flow.refusals = 0;
      settle(flow);
      break;
    case Answer::early:
      postpone(flow, kEarlyNs);
      break;
    case Answer::full:
      postpone(flow, kFullNs << std::min(flow.refusals++, kFullShifts));
      break;
    case Answer::bad:
    case Answer::none:
      if (++out->tries > retries) trap(flow);
      break;
    case Answer::no_process:
    case Answer::no_memory:
      fail(flow, out->dma, answer == Answer::no_process ? kGone : kFault);
      break;
  }
  pump();
}

// Takes off what has arrived.
void Elan::settle(Flow& flow) {
  while (!flow.window.empty() && flow.window.front().taken) {
    const bool is_last = flow.window.front().body.flags & kLast;
    flow.window.pop_front();
    if (!is_last) continue;
    const Dma dma = std::move(flow.dmas.front());
    flow.dmas.pop_front();
    if (flow.dmas.empty()) active_.erase(key_of(flow.context, flow.kind, flow.to));
    const bool goes_on = (dma.descriptor.type & kOperation) == kDmaRead && dma.status == kDone;
    if (!dma.reply && !goes_on) finish(flow.context, dma.at, dma.status);
  }
}

void Elan::fail(Flow& flow, uint64_t serial, DmaStatus status) {
  const auto it = std::ranges::find(flow.dmas, serial, &Dma::serial);
  const Dma dma = std::move(*it);
  flow.dmas.erase(it);
  flow.fetch = 0;
  std::erase_if(flow.window, [&](const Outgoing& out) { return out.dma == serial; });
  if (flow.dmas.empty()) active_.erase(key_of(flow.context, flow.kind, flow.to));
  if (dma.reply) return;
  // The data that a kDmaRead has asked for may have come already.
  const bool is_over = (dma.descriptor.type & kOperation) == kDmaRead &&
                       !expects(flow.context, dma.at, dma.descriptor.cookie);
  if (!is_over) finish(flow.context, dma.at, status);
}

void Elan::postpone(Flow& flow, uint64_t ns) {
  flow.not_before_ns = std::max(flow.not_before_ns, board_.engine.now_ns() + ns);
  board_.engine.after(ns, [this] { pump(); });
}

// It goes on when the driver has loaded another route.
void Elan::trap(Flow& flow) {
  if (std::exchange(flow.trapped, true)) return;
  traps_++;
  Process& process = processes_[flow.context];
  process.traps.push_back(flow.to);
  auto queue = load<Queue>(flow.context, kQueueAt);
  queue.traps++;
  store(flow.context, kQueueAt, queue);
  set_event(flow.context, queue.event);
}

}  // namespace torii::nic::qsnet
