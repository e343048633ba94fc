// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/api/process_ids.h"

#include "core/portals3.h"

namespace torii {

ProcessIds::ProcessIds(const ProcessMap& map, std::span<const uint32_t> wanted)
    : ids_(map.size(), kNone) {
  for (uint32_t r = 0; r < map.size(); ++r)
    if (wanted[r] != PTL_PID_ANY) take(r, map.node(r) + 1, wanted[r]);
  for (uint32_t r = 0; r < map.size(); ++r) {
    if (wanted[r] != PTL_PID_ANY) continue;
    for (uint32_t pid = map.local_rank(r) + 1; !take(r, map.node(r) + 1, pid);) ++pid;
  }
}

bool ProcessIds::take(uint32_t rank, uint32_t nid, uint32_t pid) {
  const uint64_t id = uint64_t{nid} << 32 | pid;
  if (pid == PTL_PID_ANY || !rank_of_id_.emplace(id, rank).second) return false;
  ids_[rank] = id;
  return true;
}

bool ProcessIds::rank_of(uint32_t nid, uint32_t pid, uint32_t* rank) const {
  const auto at = rank_of_id_.find(uint64_t{nid} << 32 | pid);
  if (at == rank_of_id_.end()) return false;
  *rank = at->second;
  return true;
}

}  // namespace torii
