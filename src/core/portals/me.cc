// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/portals/me.h"

namespace torii {

namespace {
constexpr uint64_t kNidBits = process_key(~0u, 0);
constexpr uint64_t kPidBits = process_key(0, ~0u);
}  // namespace

void Me::set_criterion(ptl_process_id_t id, uint64_t match_bits, uint64_t ignore_bits) {
  source = process_key(id.nid, id.pid);
  source_ignore = (id.nid == PTL_NID_ANY ? kNidBits : 0) | (id.pid == PTL_PID_ANY ? kPidBits : 0);
  bits = match_bits;
  ignore = ignore_bits;
}

ptl_process_id_t Me::match_id() const { return {uint32_t(source >> 32), uint32_t(source)}; }

}  // namespace torii
