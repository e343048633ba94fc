// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The bus between a host and its card: what a load, a store and a burst cost, and the card's DMA
// channels, which share the bus by turns of one burst.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "nic/engine.h"
#include "nic/faults.h"

namespace torii::nic {

// Memory of the host, by its addresses on the bus. Everything is checked: `denied` is an address
// that is not mapped, or not for this.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Copies `here` there (`write`: it is only read), or what is there to it. The last four bytes are
  // written last: they may say that the others are there.
  virtual Status move(bool write, uint64_t address, std::span<std::byte> here) = 0;
  // Does each access there cost much, so that several are better made by one?
  virtual bool is_far(uint64_t) { return false; }
  virtual void interrupt(unsigned context) = 0;
  // The page tables of a context's process, for cards that keep up with them: where a byte of its
  // memory is on the bus, and with it the page. False: there is no memory.
  virtual bool find_page(unsigned, uint64_t, uint64_t*) { return false; }
};

struct BusOptions {
  uint64_t write_ns = 60;        // a store, posted
  uint64_t read_ns = 400;        // a load, there and back
  uint64_t read_busy_ns = 400;   // of that, nobody else has the bus
  double burst_rate = 100e6;     // bytes/s of stores to adjacent addresses
  double dma_read_rate = 132e6;  // bytes/s
  double dma_write_rate = 132e6;
  uint64_t dma_setup_ns = 200;  // of each burst
  uint64_t dma_burst = 512;     // bytes
};

class Bus {
 public:
  using ReadDone = std::function<void(Status status, std::span<const std::byte> bytes)>;
  using WriteDone = std::function<void(Status status)>;

  Bus(Engine& engine, const BusOptions& options, HostMemory& memory, std::string name);
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  // --- the card's side ----------------------------------------------------------------------
  // A DMA channel carries out one transfer after the other, in order. A transfer that ends with
  // `io_error` is repeated before the next one, until it has been tried so often.
  unsigned add_channel();
  void dma_read(unsigned channel, uint64_t address, size_t bytes, ReadDone done,
                unsigned tries = 1);
  void dma_write(unsigned channel, uint64_t address, std::vector<std::byte> bytes, WriteDone done,
                 unsigned tries = 1);
  void interrupt(unsigned context);
  bool find_page(unsigned context, uint64_t at, uint64_t* address) {
    return memory_.find_page(context, at, address);
  }

  // --- the host's side, if its accesses take time ----------------------------------------------
  uint64_t store_ns(size_t bytes) const;  // at adjacent addresses
  // Loads of so many bytes from that time on; returns when the last one is there.
  uint64_t load(uint64_t from_ns, size_t bytes);
  // Takes the bus for so long, from that time at the earliest; returns when that is over.
  uint64_t occupy(uint64_t from_ns, uint64_t ns, const char* what);
  std::function<void()> changed;  // the card has written to the host's memory, or interrupted

  void add_fault(const FaultRule& rule) { faults_.push_back(rule); }

  struct Counts {
    uint64_t transfers = 0;  // by DMA
    uint64_t failed = 0;
    uint64_t read_bytes = 0, written_bytes = 0;
    uint64_t interrupts = 0, lost_interrupts = 0;
    uint64_t busy_ns = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Job {
    bool write = false;
    uint64_t address = 0;
    std::vector<std::byte> bytes{};
    unsigned tries = 1;  // that are left
    size_t moved = 0;
    uint64_t not_before_ns = 0;
    bool is_moved = false;  // with one before it
    Status status = Status::ok;
    ReadDone read_done{};
    WriteDone write_done{};
  };

  void add(unsigned channel, Job job);
  void begin(Job& job);
  void start_burst();
  void end_burst(unsigned channel, size_t bytes);
  Status move(std::deque<Job>& jobs, std::span<std::byte> part);

  Engine& engine_;
  const BusOptions options_;
  HostMemory& memory_;
  const std::string name_;
  std::vector<std::deque<Job>> channels_;
  unsigned next_channel_ = 0;
  uint64_t busy_until_ns_ = 0;
  bool in_burst_ = false;
  Alarm start_;  // of a burst
  std::vector<FaultRule> faults_;
  Counts counts_;
};

}  // namespace torii::nic
