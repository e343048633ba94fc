// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/portals/portal_table.h"

namespace torii {

void PortalTable::reset(uint32_t size) {
  entries_ = size ? std::make_unique<PortalEntry[]>(size) : nullptr;
  size_ = size;
}

uint32_t PortalTable::unused() const {
  for (uint32_t i = size_; i-- > 0;)
    if (entries_[i].entries.size() == 0 && !entries_[i].flow_control) return i;
  return size_;
}

}  // namespace torii
