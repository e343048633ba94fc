// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Jobs of one user that wait for the same processors poll in turns, so that the processes of one
// job run together: by yields alone each message would cost a switch. Whose turn it is follows from
// the clock and from a small table in shared memory, where each job says when it last waited;
// nothing has to be handed on, so nobody who stops or dies holds the others up. The table is not
// trusted: it can cost speed, but never more than waiting for the end of one turn.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace torii {

// The processors of a process, by bit.
struct ProcessorSet {
  static constexpr unsigned kWords = 16;
  uint64_t words[kWords] = {};
  unsigned count() const {
    unsigned n = 0;
    for (const uint64_t word : words) n += unsigned(std::popcount(word));
    return n;
  }
};

struct TurnTable {
  static constexpr uint64_t kMagic = 0x31736e7275742d74;  // changes with the layout
  static constexpr unsigned kSlots = 16;

  struct alignas(64) Slot {
    std::atomic<uint64_t> job;      // 0: free
    std::atomic<uint64_t> seen_ns;  // when a process of the job last waited
    std::atomic<uint64_t> processors[ProcessorSet::kWords];  // of all its processes
  };

  std::atomic<uint64_t> magic;
  Slot slots[kSlots];
};

// The use that a waiting process makes of the table. Times are of the node's monotonic clock.
class Turns {
 public:
  static constexpr uint64_t kTurnNs = 2'000'000;
  static constexpr uint64_t kRecentNs = 20'000'000;        // a job that waited then counts
  static constexpr uint64_t kForgottenNs = 1'000'000'000;  // its place may be taken

  struct View {
    enum class Whose : uint8_t { nobodys, mine, others };
    Whose whose = Whose::nobodys;  // nobody's: no other job waits
    bool used = false;             // others': they have waited since their last turn began
    uint64_t begin_ns = 0;         // of the turn
    uint64_t end_ns = 0;
  };

  Turns(uint64_t job, const ProcessorSet& processors) : job_(job), processors_(processors) {}

  const ProcessorSet& processors() const { return processors_; }
  // The table to look at from now on; null: none.
  void use(TurnTable* table);
  // Says that the job waits, and looks whose turn it is.
  View look(uint64_t now_ns);
  // As far as seen, no other job is in the table.
  bool alone() const { return count_ < 2; }

 private:
  bool take_slot(uint64_t now_ns);
  void count_contenders(uint64_t now_ns);
  bool recent(unsigned slot, uint64_t now_ns) const;
  bool meets(unsigned slot, const ProcessorSet& processors) const;

  uint64_t job_;
  ProcessorSet processors_;
  TurnTable* table_ = nullptr;
  unsigned slot_ = TurnTable::kSlots;
  uint64_t turn_ = 0;   // number of the turn that the following are of
  unsigned count_ = 0;  // of jobs that take turns, this one included
  unsigned owner_ = 0;  // its slot
};

}  // namespace torii
