// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The first layer of an Elan: its processes, with their part of the card's memory (SDRAM), their
// events, and the MMU.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "nic/qsnet/model.h"

namespace torii::nic::qsnet {

struct Slot {  // of the queue
  uint64_t address;
  bool is_full = false;
};

struct Process {
  struct Started {  // a DMA that is not over
    uint32_t at;    // of the descriptor
    Name process;   // there; kNobody: a broadcast
    uint64_t dest;
  };
  // In SDRAM; null: it is not inside, or not aligned.
  template <typename T>
  T* find(uint32_t at, uint32_t alignment = 8) {
    const bool is_inside = at >= alignment && at % alignment == 0 && at <= kSdramBytes - sizeof(T);
    return is_inside ? reinterpret_cast<T*>(&sdram[at]) : nullptr;
  }
  Queue& queue() { return *find<Queue>(kQueueAt); }

  unsigned context = 0;
  Name name = kNobody;
  uint64_t shared = 0;
  std::vector<std::byte> sdram{};
  uint32_t commands = 0;               // that are not carried out yet
  uint32_t events = 0;                 // that have fired
  bool wakes = false;                  // by an interrupt, when there are more than
  uint32_t seen = 0;                   // those
  std::map<uint64_t, Started> dmas{};  // by serial number
  uint32_t front = 0;                  // slots that were filled, up to the first that is not
  std::deque<Slot> slots{};            // from there on
  std::deque<Name> traps{};            // that the driver has not been told of
};

class Contexts : public Model {
 protected:
  static constexpr unsigned kBusTries = 4;

  explicit Contexts(const Board& board)
      : board_(board),
        reader_(board.bus.add_channel()),
        writer_(board.bus.add_channel()),
        processes_(board.contexts) {
    for (unsigned i = 0; i < board.contexts; i++) processes_[i].context = i;
  }
  // Null: the process is not there.
  Process* find(Name name) {
    Process& process = processes_[endpoint_of(name) % processes_.size()];
    return name != kNobody && process.name == name ? &process : nullptr;
  }
  bool has_ended(Name name) const {
    return name != kNobody && board_.manager.life(board_.node, name) != Life::there;
  }
  uint32_t node_of(Name name) const { return endpoint_of(name) / board_.contexts; }
  // Writes to the host's memory are done in their order.
  void write(uint64_t address, std::vector<std::byte> bytes, Bus::WriteDone done) {
    board_.bus.dma_write(writer_, address, std::move(bytes), std::move(done), kBusTries);
  }

  void set_event(Process& process, uint32_t at) {
    if (at == 0) return;
    Event* const event = process.find<Event>(at);
    refused_ += !event;
    if (!event || event->count == 0 || --event->count > 0) return;
    if (event->type & kEachTime) event->count = 1;
    const auto fire = [this, name = process.name](Status) {
      if (Process* const there = find(name)) signal(*there, 1);
    };
    using Block = std::array<std::byte, kBlockBytes>;
    const Block* const block = process.find<Block>(event->block);
    const bool copies = block && event->type & kCopies && event->to % 8 == 0 &&
                        event->to <= kSharedBytes - kBlockBytes;
    if (!copies) return fire(Status::ok);
    write(process.shared + event->to, {block->begin(), block->end()}, fire);
  }
  // Counts events that have fired, and interrupts if the process waits for them.
  void signal(Process& process, uint32_t fired) {
    process.events += fired;
    if (!process.wakes || static_cast<int32_t>(process.events - process.seen) <= 0) return;
    process.wakes = false;
    board_.bus.interrupt(process.context);
  }
  // Ends a DMA of the process; does nothing if there is none with that number, or no more.
  void finish(Process& process, uint64_t dma, DmaStatus status) {
    const auto started = process.dmas.find(dma);
    if (started == process.dmas.end()) return;
    auto* const descriptor = process.find<Descriptor>(started->second.at);
    process.dmas.erase(started);
    faults_ += status == kFault;
    descriptor->status = status;
    set_event(process, descriptor->source_event);
  }

  // Finds the bus address of the first of these bytes, and how many of them are in the same page.
  // False: there is no memory. A page that is not in the TLB costs a walk of the tables.
  bool translate(Process& process, uint64_t at, size_t* bytes, uint64_t* address) {
    if (at >= kLent) {
      *address = process.shared + (at - kLent);
      return at - kLent <= kSharedBytes && *bytes <= kSharedBytes - (at - kLent);
    }
    const uint64_t page = at / kPageBytes;
    *bytes = std::min<uint64_t>(*bytes, kPageBytes - at % kPageBytes);
    auto entry = std::ranges::find_if(
        tlb_, [&](const TlbEntry& e) { return e.context == process.context && e.page == page; });
    if (entry == tlb_.end()) {
      walks_++;
      board_.bus.occupy(board_.engine.now_ns(), kWalkNs, "table walk");
      uint64_t found;
      if (!board_.bus.find_page(process.context, page * kPageBytes, &found)) return false;
      if (tlb_.size() == kTlbEntries) tlb_.pop_back();
      entry = tlb_.insert(tlb_.end(), {process.context, page, found});
    }
    std::rotate(tlb_.begin(), entry, entry + 1);
    *address = tlb_.front().address + at % kPageBytes;
    return true;
  }

  void gone(unsigned context) override {
    std::erase_if(tlb_, [&](const TlbEntry& entry) { return entry.context == context; });
    processes_[context] = {.context = context};
  }

  const Board board_;
  const unsigned reader_, writer_;  // DMA channels
  std::vector<Process> processes_;
  unsigned long long refused_ = 0, walks_ = 0, faults_ = 0;

 private:
  static constexpr uint64_t kWalkNs = 400;  // for one page: an assumption
  struct TlbEntry {
    unsigned context;
    uint64_t page, address;
  };
  std::vector<TlbEntry> tlb_;  // the one used last comes first
};

}  // namespace torii::nic::qsnet
