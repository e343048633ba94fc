// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The Portals ids of all processes of a job. Node ids count from 1: existing programs take nid 0
// for "no node".
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/boot/process_map.h"

namespace torii {

class ProcessIds {
 public:
  // wanted[rank] is the pid that a process asks for, PTL_PID_ANY for any. Every process of the job
  // computes the same ids from the same list. If two ranks of a node ask for one pid, the lower one
  // has it. A process without a wish has its local rank plus one or, if that is taken, the next
  // free pid. `map` is used by the constructor only.
  ProcessIds(const ProcessMap& map, std::span<const uint32_t> wanted);

  uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }
  // `rank` must be below size(). False: the pid that it asks for is another's, and it has no ids.
  bool has_ids(uint32_t rank) const { return ids_[rank] != kNone; }
  uint32_t nid(uint32_t rank) const { return static_cast<uint32_t>(ids_[rank] >> 32); }
  uint32_t pid(uint32_t rank) const { return static_cast<uint32_t>(ids_[rank]); }
  // False if the job has no such process.
  bool rank_of(uint32_t nid, uint32_t pid, uint32_t* rank) const;

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};  // a pid of PTL_PID_ANY

  bool take(uint32_t rank, uint32_t nid, uint32_t pid);

  std::vector<uint64_t> ids_;  // nid << 32 | pid of every rank
  std::unordered_map<uint64_t, uint32_t> rank_of_id_;
};

}  // namespace torii
