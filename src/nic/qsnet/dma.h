// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The second layer of an Elan: its DMA engine. The DMAs of a process form flows: to each other
// process one of frames and one of remote memory, and one of broadcasts. Flows take turns, packet
// by packet, so a long DMA delays none to another process. A packet has a channel until its token
// comes, and stays in the flow's window until all before it have been taken, too.
#pragma once

#include <list>

#include "nic/qsnet/contexts.h"

namespace torii::nic::qsnet {

enum class FlowKind : uint8_t { memory, frames, range };
inline FlowKind kind_of(uint32_t operation) {
  if (operation == kDmaBroadcast || operation == kDmaTest) return FlowKind::range;
  return operation == kDmaQueue ? FlowKind::frames : FlowKind::memory;
}

class DmaEngine : public Contexts {
 protected:
  explicit DmaEngine(const Board& board) : Contexts(board), routes_(board.nodes) {}

  // Loads the route to the process as it is now, and goes on with what has trapped on the way to
  // its node; kNobody: with broadcasts that have.
  Status load_route(Name to) {
    const auto node = [this](Name name) { return name == kNobody ? board_.nodes : node_of(name); };
    if (to != kNobody) {
      std::vector<Hop> hops = board_.manager.routes().hops(board_.node, node(to));
      if (hops.empty()) return Status::unreachable;
      routes_[node(to)] = std::move(hops);
    }
    for (Flow& flow : flows_) {
      if (node(flow.to) != node(to)) continue;
      flow.is_trapped = false;
      for (Outgoing& out : flow.window) out.tries = 0;
    }
    pump();
    return Status::ok;
  }

  void start_dma(Process& process, uint32_t at) {
    const auto* const d = process.find<Descriptor>(at, kBlockBytes);
    if (!d || process.dmas.size() == kDmasMax) {
      refused_++;
      return;
    }
    const uint32_t operation = d->type & kOperation;
    const bool is_range = kind_of(operation) == FlowKind::range, is_read = operation == kDmaRead;
    Dma dma{++serials_, d->source, is_read ? 0 : d->bytes, d->type, d->process};
    dma.body.to = is_range ? d->group : d->process;
    dma.body.ends = is_read ? dma.serial : d->dest_event;
    dma.body.total = d->bytes;
    if (operation == kDmaWrite || operation == kDmaTest) dma.body.address = d->dest;
    if (is_read) dma.body.address = d->source;
    process.dmas[dma.serial] = {at, is_range ? kNobody : d->process, d->dest};
    const bool is_good = operation >= kDmaWrite && operation <= kDmaTest && d->bytes <= kDmaBytes &&
                         (operation != kDmaTest || d->bytes == 0) &&
                         (is_range || node_of(d->process) < board_.nodes);
    if (is_good) return add(process, operation, dma);
    refused_++;
    finish(process, dma.serial, kFault);
  }
  // The reply to a kDmaRead is a DMA of the process whose memory is read.
  void serve_read(Process& process, const Body& read) {
    Dma dma{++serials_, read.address, read.total, kReplyRetries << kRetriesShift, 0, read};
    dma.body.to = read.from;
    dma.body.address = 0;
    add(process, kReply, dma);
  }

  // Ends the circuit, if it is open: a switch makes tokens of bad packets, whatever these contain.
  void take_token(const Front& token) {
    if (token.node != board_.node || token.channel >= kDataChannels ||
        channels_[token.channel] != token.circuit)
      return;
    channels_[token.channel] = 0;
    lost_ += token.answer == Answer::none;
    for (auto flow = flows_.begin(); flow != flows_.end(); ++flow) {
      const auto out = std::ranges::find(flow->window, token.circuit, &Outgoing::circuit);
      if (out == flow->window.end()) continue;
      end_packet(*flow, *out, token.answer);
      if (flow->dmas.empty() && flow->window.empty()) flows_.erase(flow);
      break;
    }
    pump();
  }

  bool idle(unsigned context) const override {
    const Process* const process = &processes_[context];
    return process->commands == 0 &&
           std::ranges::find(flows_, process, &Flow::process) == flows_.end();
  }
  // Ends the DMAs to processes that have ended.
  void sweep(Process& process) {
    std::erase_if(flows_,
                  [&](const Flow& flow) { return flow.process == &process && has_ended(flow.to); });
    for (const auto& [dma, started] : std::map(process.dmas))
      if (has_ended(started.process)) finish(process, dma, kGone);
    pump();
  }
  void gone(unsigned context) override {
    std::erase_if(flows_, [&](const Flow& f) { return f.process->context == context; });
    Contexts::gone(context);
  }

  // Gives free channels to the flows in turn.
  void pump() {
    for (Flow& flow : flows_) cut(flow);
    for (uint8_t channel = 0; channel < kDataChannels; channel++) {
      if (channels_[channel] || !board_.port.ready(channel)) continue;
      for (auto flow = flows_.begin(); flow != flows_.end(); ++flow) {
        const auto out = std::ranges::find_if(
            flow->window, [](const Outgoing& o) { return o.circuit == 0 && !o.is_taken; });
        if (out == flow->window.end() || flow->is_trapped ||
            flow->not_before_ns > board_.engine.now_ns())
          continue;
        flows_.splice(flows_.end(), flows_, flow);
        transmit(channel, *flow, *out);
        break;
      }
    }
  }

  std::vector<std::vector<Hop>> routes_;  // by node
  unsigned long long packets_out_ = 0, resends_ = 0, lost_ = 0, traps_ = 0;

 private:
  static constexpr uint64_t kTokenNs = 200000;  // after which a token counts as lost
  static constexpr uint64_t kEarlyNs = 500;     // before a packet that was early is sent again
  static constexpr uint64_t kFullNs = 2000;     // the same if there was no room,
  static constexpr uint32_t kFullShifts = 5;    // and how often that is doubled
  static constexpr uint64_t kWindow = 4;        // packets of a flow that wait or are under way
  static constexpr uint32_t kReplyRetries = 4;

  struct Dma {
    uint64_t serial;
    uint64_t source;  // of the next packet
    uint32_t left;    // bytes that no packets have been made of
    uint32_t type;    // of the descriptor: priority and retries
    uint32_t nodes;   // of a broadcast
    Body body{};      // of the next packet
  };
  struct Outgoing {
    Dma dma;  // with the body of this packet
    std::vector<std::byte> data;
    uint32_t circuit = 0;  // under way; 0: it is not
    bool is_taken = false;
    uint32_t tries = 0;  // that have ended with a bad CRC or no token
  };
  struct Flow {  // as long as there are DMAs
    Process* process;
    FlowKind kind;
    Name to;                 // kNobody: groups
    uint64_t next_number;    // of a packet, above those of earlier flows to there
    std::deque<Dma> dmas{};  // of which packets are still to be made
    std::deque<Outgoing> window{};
    uint64_t fetch = 0;  // number of the one under way; 0: none is
    uint64_t not_before_ns = 0;
    uint32_t refusals = 0;  // in a row, as there was no room
    bool is_trapped = false;
    bool has_room() const {
      return window.empty() || next_number - window[0].dma.body.number < kWindow;
    }
    uint64_t oldest() const { return window.empty() ? dmas[0].serial : window[0].dma.serial; }
  };

  void add(Process& process, uint32_t operation, Dma& dma) {
    const FlowKind kind = kind_of(operation);
    const Name to = kind == FlowKind::range ? kNobody : dma.body.to;
    auto flow = std::ranges::find_if(flows_, [&](const Flow& f) {
      return f.process == &process && f.kind == kind && f.to == to;
    });
    if (flow == flows_.end()) flow = flows_.insert(flow, {&process, kind, to, serials_ + 1});
    dma.body.from = process.name;
    dma.body.type = static_cast<uint8_t>(operation | kFirst);
    flow->dmas.push_back(dma);
    pump();
  }

  // Fetches the data of the flow's next packet, if there is room for it.
  void cut(Flow& flow) {
    while (flow.fetch == 0 && !flow.dmas.empty() && flow.has_room()) {
      const Dma& dma = flow.dmas.front();
      // Frames to a process and to groups keep their order: those of the other kind are over first.
      if (flow.kind != FlowKind::memory && dma.body.type & kFirst &&
          std::ranges::any_of(flows_, [&](const Flow& other) {
            return other.process == flow.process && other.kind != FlowKind::memory &&
                   other.kind != flow.kind && other.oldest() < dma.serial;
          }))
        return;
      size_t bytes = std::min(dma.left, kPacketBytes);
      uint64_t address;
      if (bytes == 0 || !translate(*flow.process, dma.source, &bytes, &address)) {
        add_packet(flow, {}, dma.left > 0);
        continue;
      }
      flow.fetch = ++serials_;
      const auto fetched = [this, fetch = flow.fetch](Status status,
                                                      std::span<const std::byte> data) {
        const auto it = std::ranges::find(flows_, fetch, &Flow::fetch);
        if (it == flows_.end()) return;
        it->fetch = 0;
        add_packet(*it, data, status != Status::ok);
        pump();
      };
      board_.bus.dma_read(reader_, address, bytes, fetched, kBusTries);
    }
  }
  // A DMA whose data cannot be read ends with a void packet: the other side may have taken a part.
  void add_packet(Flow& flow, std::span<const std::byte> data, bool is_void) {
    Dma& dma = flow.dmas.front();
    if (is_void) data = {};
    const auto bytes = static_cast<uint16_t>(data.size());
    Body& body = flow.window.emplace_back(Outgoing{dma, {data.begin(), data.end()}}).dma.body;
    body.number = flow.next_number++;
    body.bytes = bytes;
    dma.source += bytes;
    dma.left -= bytes;
    dma.body.address += bytes;
    dma.body.type &= kOperation;
    if (is_void) body.type |= kVoid;
    if (!is_void && dma.left > 0) return;
    body.type |= kLast;
    flow.dmas.pop_front();
  }

  void transmit(uint8_t channel, Flow& flow, Outgoing& out) {
    Body& body = out.dma.body;
    body.behind = static_cast<uint8_t>(body.number - flow.window.front().dma.body.number);
    std::span<const Hop> hops;
    if (flow.to != kNobody) hops = routes_[node_of(flow.to)];
    Front front{.kind = flow.to == kNobody ? Kind::range : Kind::data, .channel = channel};
    front.hops = static_cast<uint8_t>(hops.size());
    front.node = static_cast<uint16_t>(board_.node);
    front.first = static_cast<uint16_t>(out.dma.nodes);
    front.last = static_cast<uint16_t>(out.dma.nodes >> 16);
    front.circuit = out.circuit = channels_[channel] = circuits_ += 2;
    Packet packet;
    packet.channel = channel;
    packet.priority = out.dma.type & kUrgent ? 1 : 0;
    for (const std::span<const std::byte> part :
         {std::as_bytes(std::span(&front, 1)), std::as_bytes(hops),
          std::as_bytes(std::span(&body, 1)), std::as_bytes(std::span(out.data))})
      packet.bytes.insert(packet.bytes.end(), part.begin(), part.end());
    packet.bytes.resize(packet.bytes.size() + -out.data.size() % kBlockBytes);
    packets_out_++;
    board_.port.send(flow.process->context, std::move(packet));
    board_.engine.after(kTokenNs, [this, front] { take_token(front); });
  }

  void end_packet(Flow& flow, Outgoing& out, Answer answer) {
    const Dma dma = out.dma;
    out.circuit = 0;
    if (answer == Answer::ok) {
      out.is_taken = true;
      flow.refusals = 0;
      for (; !flow.window.empty() && flow.window[0].is_taken; flow.window.pop_front()) {
        const auto& [serial, source, left, type, nodes, body] = flow.window[0].dma;
        if (body.type & kLast && body.operation() != kDmaRead)
          finish(*flow.process, serial, body.type & kVoid ? kFault : kDone);
      }
    } else if (answer == Answer::no_process || answer == Answer::no_memory) {
      std::erase_if(flow.window, [&](const Outgoing& o) { return o.dma.serial == dma.serial; });
      std::erase_if(flow.dmas, [&](const Dma& other) { return other.serial == dma.serial; });
      flow.fetch = 0;
      finish(*flow.process, dma.serial, answer == Answer::no_process ? kGone : kFault);
    } else if (answer == Answer::early || answer == Answer::full) {
      resends_++;
      const uint64_t ns =
          answer == Answer::early ? kEarlyNs : kFullNs << std::min(flow.refusals++, kFullShifts);
      flow.not_before_ns = std::max(flow.not_before_ns, board_.engine.now_ns() + ns);
      board_.engine.after(ns, [this] { pump(); });
    } else {
      resends_++;
      if (++out.tries <= dma.type >> kRetriesShift || std::exchange(flow.is_trapped, true)) return;
      traps_++;  // the flow goes on when the driver has loaded another route
      flow.process->traps.push_back(flow.to);
      flow.process->queue().traps++;
      set_event(*flow.process, flow.process->queue().event);
    }
  }

  std::list<Flow> flows_;                           // the one served last comes last
  uint64_t serials_ = 0;                            // of DMAs and fetches: there are fewer packets
  uint32_t circuits_ = 1;                           // always odd
  std::array<uint32_t, kDataChannels> channels_{};  // the circuit of each; 0: none
};

}  // namespace torii::nic::qsnet
