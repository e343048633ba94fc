// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The input of an Elan: each packet is checked, stored and answered by one token. That of a DMA's
// last packet leaves when it has been stored, the others as soon as they are accepted. The packets
// of a flow are numbered, and the input knows which ones have come: each is stored once, however
// often it is sent.
#pragma once

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "nic/qsnet/dma.h"

namespace torii::nic::qsnet {

class Input {
 public:
  Input(Contexts& contexts, DmaEngine& dma)
      : contexts_(contexts), board_(contexts.board), dma_(dma) {}

  void arrive(Packet&& packet) {
    const bool is_intact = intact(packet);
    const auto front = load<Front>(packet.bytes);
    packets++;
    if (packet.channel == kTokenChannel) {
      board_.port.release(packet.channel);
      if (is_intact) dma_.take_token(front);
      return;
    }
    const auto arrival = std::make_shared<Arrival>(Arrival{front, packet.channel});
    if (is_intact) {
      const auto bytes = std::span<const std::byte>(packet.bytes).subspan(sizeof(Front));
      arrival->body = load<Body>(bytes);
      take(*arrival, bytes.subspan(sizeof(Body), arrival->body.bytes));
    }
    if (arrival->stores.empty()) board_.port.release(packet.channel);
    if (arrival->stores.empty() || !(arrival->body.type & kLast)) reply(front, arrival->answer);
    for (Store& store : arrival->stores)
      contexts_.write(store.address, std::move(store.bytes),
                      [this, arrival, &store](Status status) {
                        if (status != Status::ok && contexts_.find(store.process))
                          arrival->answer = Answer::no_memory;
                        if (&store == &arrival->stores.back()) end(*arrival);
                      });
  }
  void send_tokens() {
    for (; !tokens_.empty() && board_.port.ready(kTokenChannel); tokens_.pop_front())
      board_.port.send(0, std::move(tokens_.front()));
  }

  // Ends the frames from processes that have ended.
  void sweep(Process& process) {
    for (auto& [id, seen] : seen_)
      if (id.process == &process && contexts_.has_ended(seen.name)) void_slot(process, seen);
  }
  void close(const Process& process) {
    std::erase_if(seen_, [&](const auto& entry) { return entry.first.process == &process; });
  }

  unsigned long long packets = 0;

 private:
  struct FlowId {
    const Process* process;  // here
    FlowKind kind;
    uint32_t from;  // endpoint
    auto operator<=>(const FlowId&) const = default;
  };
  struct Seen {  // of a flow
    Name name;
    uint64_t first = 0;      // all packets before this number have come, or never will
    uint64_t numbers = 0;    // those from there on that have come: a bit each
    Slot* slot = nullptr;    // of the frame that is coming
    bool is_broken = false;  // a part of the DMA could not be stored
  };
  struct Store {
    Name process;
    uint64_t address = 0;
    std::vector<std::byte> bytes{};
    Slot* slot = nullptr;  // complete with it
  };
  struct Arrival {  // a packet that is being stored
    Front front;
    unsigned channel;
    Answer answer = Answer::bad;
    Body body{};
    std::vector<Store> stores{};
  };

  void reply(const Front& front, Answer answer) {
    make_token(&tokens_.emplace_back(), front, answer);
    send_tokens();
  }
  Seen& seen_of(const Process& process, const Body& body) {
    const FlowId id{&process, kind_of(body.operation()), endpoint_of(body.from)};
    return seen_.try_emplace(id, Seen{body.from}).first->second;
  }

  // Broadcasts are for all processes here but the sender.
  void take(Arrival& arrival, std::span<const std::byte> data) {
    const Body& body = arrival.body;
    if (kind_of(body.operation()) != FlowKind::range) {
      Process* const process = contexts_.find(body.to);
      arrival.answer = process ? take_for(*process, arrival, data) : Answer::no_process;
      return;
    }
    arrival.answer = Answer::ok;
    for (Process& process : contexts_.all)
      if (process.name != kNobody && process.name != body.from)
        arrival.answer = std::max(arrival.answer, take_for(process, arrival, data));
  }
  // Takes the packet into account if that answers `ok`, unless it has come before.
  Answer take_for(Process& process, Arrival& arrival, std::span<const std::byte> data) {
    const Body& body = arrival.body;
    const uint32_t operation = body.operation();
    Seen& seen = seen_of(process, body);
    if (is_earlier(body.from, seen.name)) return Answer::no_process;
    if (seen.name != body.from) {
      void_slot(process, seen);
      seen = {body.from};
    }
    if (const uint64_t oldest = body.number - body.behind; oldest > seen.first) {
      seen.numbers = oldest - seen.first < 64 ? seen.numbers >> (oldest - seen.first) : 0;
      seen.first = oldest;
    }
    const uint64_t at = body.number - seen.first;  // less than the sender's window
    if (body.number < seen.first || seen.numbers >> at & 1) return Answer::ok;
    // The parts of a DMA may come in any order, the first of a frame and the last of all excepted.
    const bool may_overtake =
        !(body.type & kLast) && (operation == kDmaWrite || operation == kReply ||
                                 (operation == kDmaQueue && !(body.type & kFirst) && seen.slot));
    if (!may_overtake && std::cmp_less(std::countr_one(seen.numbers), at)) return Answer::early;
    Answer answer = Answer::ok;
    if (operation == kDmaRead)
      dma_.serve_read(process, body);
    else if (operation == kDmaWrite || operation == kReply)
      answer = put(process, arrival, data);
    else if (operation == kDmaQueue || !(body.type & kFirst) || is_member(process, body.to))
      answer =
          operation == kDmaTest ? test(process, body) : fill_slot(process, seen, arrival, data);
    if (answer == Answer::ok) seen.numbers |= uint64_t{1} << at;
    return answer;
  }

  // All of the packet is stored, or cannot be.
  void end(Arrival& arrival) {
    const Body& body = arrival.body;
    board_.port.release(arrival.channel);
    for (const Store& store : arrival.stores)
      if (store.slot) end_slot(store.process, store.slot);
    Process* const process = contexts_.find(body.to);
    if (process && kind_of(body.operation()) == FlowKind::memory) end_put(*process, arrival);
    if (body.type & kLast) reply(arrival.front, arrival.answer);
  }

  // --- groups and queues -----------------------------------------------------------------------

  bool is_member(const Process& process, uint32_t group) const {
    const std::vector<Name> members = board_.manager.members(group);
    return std::ranges::find(members, process.name) != members.end();
  }
  static Answer test(Process& process, const Body& body) {
    const Event* const event = process.find<Event>(static_cast<uint32_t>(body.address));
    return event && event->count > 0 ? Answer::full : Answer::ok;
  }

  Answer fill_slot(Process& process, Seen& seen, Arrival& arrival,
                   std::span<const std::byte> data) {
    const Body& body = arrival.body;
    const bool begins = body.type & kFirst;
    if (begins || body.type & kVoid) void_slot(process, seen);
    if (body.type & kVoid) return Answer::ok;
    const SlotHeader header{body.from, body.total};
    if (begins) {
      const Queue& queue = process.queue();
      const auto number = process.front + static_cast<uint32_t>(process.slots.size());
      if (queue.slots == 0 || queue.slots > kSlotsMax || queue.slot_bytes > kSlotBytesMax ||
          queue.slot_bytes % 8 || number - queue.back >= queue.slots)
        return Answer::full;
      const uint64_t at = queue.base + uint64_t{number % queue.slots} * queue.slot_bytes;
      size_t all = queue.slot_bytes;
      uint64_t address;
      if (sizeof(header) + body.total > all || at < kLent ||
          !contexts_.translate(process, at, &all, &address))
        return Answer::no_memory;
      seen.slot = &process.slots.emplace_back(Slot{address});
    }
    if (!seen.slot) return Answer::ok;  // it has become void, or is for another process
    const auto head = std::as_bytes(std::span(&header, begins ? 1 : 0));
    Store& store = arrival.stores.emplace_back(Store{process.name, seen.slot->address});
    if (!begins) store.address += sizeof(header) + body.address;
    store.bytes.assign(head.begin(), head.end());
    store.bytes.insert(store.bytes.end(), data.begin(), data.end());
    if (body.type & kLast) store.slot = std::exchange(seen.slot, nullptr);
    return Answer::ok;
  }
  // The frame that is coming will never be complete: its slot is nobody's.
  void void_slot(const Process& process, Seen& seen) {
    Slot* const slot = std::exchange(seen.slot, nullptr);
    if (!slot) return;
    contexts_.write(slot->address, std::vector<std::byte>(sizeof(SlotHeader)),
                    [this, name = process.name, slot](Status) { end_slot(name, slot); });
  }
  // Slots are the process's when those before are.
  void end_slot(Name name, Slot* slot) {
    Process* const process = contexts_.find(name);
    if (!process) return;
    slot->is_full = true;
    for (auto& slots = process->slots; !slots.empty() && slots[0].is_full; slots.pop_front()) {
      process->queue().front = ++process->front;
      contexts_.set_event(*process, process->queue().event);
    }
  }

  // --- remote memory ---------------------------------------------------------------------------

  Answer put(Process& process, Arrival& arrival, std::span<const std::byte> data) {
    const Body& body = arrival.body;
    uint64_t at = body.address;
    if (body.operation() == kReply) {
      const auto read = process.dmas.find(body.ends);
      if (read == process.dmas.end()) return Answer::no_process;  // has given it up
      at += read->second.dest;
    }
    if (data.empty()) arrival.stores.push_back({process.name});  // its end comes in its turn
    while (!data.empty()) {
      size_t bytes = data.size();
      uint64_t address;
      if (!contexts_.translate(process, at, &bytes, &address)) {
        contexts_.faults++;
        arrival.stores.clear();
        if (body.operation() == kReply) contexts_.finish(process, body.ends, kFault);
        return Answer::no_memory;
      }
      const auto part = data.first(bytes);
      arrival.stores.push_back({process.name, address, {part.begin(), part.end()}});
      data = data.subspan(bytes);
      at += bytes;
    }
    return Answer::ok;
  }
  void end_put(Process& process, Arrival& arrival) {
    const Body& body = arrival.body;
    Seen& seen = seen_of(process, body);
    seen.is_broken |= arrival.answer != Answer::ok;
    if (!(body.type & kLast)) return;
    if (std::exchange(seen.is_broken, false)) arrival.answer = Answer::no_memory;
    const bool is_whole = arrival.answer == Answer::ok && !(body.type & kVoid);
    if (body.operation() == kReply)
      contexts_.finish(process, body.ends, is_whole ? kDone : kFault);
    else if (is_whole)
      contexts_.set_event(process, static_cast<uint32_t>(body.ends));
  }

  Contexts& contexts_;
  const Board& board_;
  DmaEngine& dma_;
  std::map<FlowId, Seen> seen_;
  std::deque<Packet> tokens_;
};

}  // namespace torii::nic::qsnet
