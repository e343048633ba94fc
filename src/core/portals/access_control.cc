// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/portals/access_control.h"

namespace torii {

void AccessControl::reset(uint32_t entries, ptl_uid_t uid) {
  AccessEntry same_user;
  same_user.uid = uid;
  entries_.assign(entries, same_user);
}

bool AccessControl::set(uint32_t index, const AccessEntry& entry) {
  if (index >= entries_.size()) return false;
  entries_[index] = entry;
  return true;
}

// Portals 3.3: an index outside the table, or one field that does not match, refuses.
bool AccessControl::admits(uint32_t index, const AccessEntry& requester) const {
  if (index >= entries_.size()) return false;
  const AccessEntry& e = entries_[index];
  return (e.uid == PTL_UID_ANY || e.uid == requester.uid) &&
         (e.jid == PTL_JID_ANY || e.jid == requester.jid) &&
         (e.id.nid == PTL_NID_ANY || e.id.nid == requester.id.nid) &&
         (e.id.pid == PTL_PID_ANY || e.id.pid == requester.id.pid) &&
         (e.pt_index == PTL_PT_INDEX_ANY || e.pt_index == requester.pt_index);
}

}  // namespace torii
