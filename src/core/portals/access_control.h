// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The access control table: who may send requests to which portal. It is as trustworthy as the
// identities that peers give in their hello.
#pragma once

#include <cstdint>
#include <vector>

#include "core/portals3.h"

namespace torii {

struct AccessEntry {
  ptl_process_id_t id{PTL_NID_ANY, PTL_PID_ANY};
  ptl_uid_t uid = PTL_UID_ANY;
  ptl_jid_t jid = PTL_JID_ANY;
  ptl_pt_index_t pt_index = PTL_PT_INDEX_ANY;
};

class AccessControl {
 public:
  // `entries` entries, each admitting every process of user `uid` to every portal.
  void reset(uint32_t entries, ptl_uid_t uid);
  bool set(uint32_t index, const AccessEntry& entry);  // false: no such index
  // `requester` has concrete values in all fields.
  bool admits(uint32_t index, const AccessEntry& requester) const;

 private:
  std::vector<AccessEntry> entries_;
};

}  // namespace torii
