// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Match entries: a criterion in the list of one portal, and at most one descriptor.
#pragma once

#include <cstdint>

#include "core/match/match_list.h"
#include "core/portals3.h"

namespace torii {

struct Md;

inline constexpr uint64_t process_key(uint32_t nid, uint32_t pid) {
  return uint64_t{nid} << 32 | pid;
}

struct Me : MatchNode {
  Md* md = nullptr;  // null: empty, skipped by every search
  uint32_t pt_index = 0;
  bool auto_unlink = false;  // made with PTL_UNLINK: goes with its descriptor

  void set_criterion(ptl_process_id_t id, uint64_t match_bits, uint64_t ignore_bits);
  ptl_process_id_t match_id() const;
};

}  // namespace torii
