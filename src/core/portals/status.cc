// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Status registers and dumps.
#include "core/base/log.h"
#include "core/portals/portals.h"

namespace torii {

namespace {

using ull = unsigned long long;

void dump_entry(const Me& me, ptl_handle_me_t handle) {
  const ptl_process_id_t id = me.match_id();
  print_line("  entry 0x%llx: nid %u pid %u match 0x%llx ignore 0x%llx %s", ull(handle), id.nid,
             id.pid, ull(me.bits), ull(me.ignore), me.auto_unlink ? "unlink" : "retain");
  const Md* md = me.md;
  if (!md) return print_line("    empty");
  print_line(
      "    %s %s descriptor: %llu bytes, offset %llu, threshold %d, options 0x%x, "
      "%u operations under way",
      md->active ? "active" : "inactive", md->auto_unlink ? "unlink" : "retain",
      ull(md->memory.bytes()), ull(md->local_offset), md->user.threshold, md->user.options,
      md->pending);
}

}  // namespace

ptl_jid_t Portals::jid_of(const Identity& id) {
  const auto jid = ptl_jid_t(id.job ^ id.job >> 32);
  return jid == PTL_JID_ANY ? 0 : jid;
}

int Portals::status_register(ptl_sr_index_t index, ptl_sr_value_t* value) const {
  if (index >= PTL_SR_COUNTERS) {
    if (index - PTL_SR_COUNTERS >= kCounterCount) return PTL_SR_INDEX_INVALID;
    *value = counter_value(counters_, index - PTL_SR_COUNTERS);
    return PTL_OK;
  }
  switch (index) {
    case PTL_SR_DROP_COUNT:
      *value = totals_.drop_count;
      return PTL_OK;
    case PTL_SR_DROP_LENGTH:
      *value = totals_.drop_length;
      return PTL_OK;
    case PTL_SR_RECV_COUNT:
      *value = totals_.recv_count;
      return PTL_OK;
    case PTL_SR_RECV_LENGTH:
      *value = totals_.recv_length;
      return PTL_OK;
    case PTL_SR_SEND_COUNT:
      *value = totals_.send_count;
      return PTL_OK;
    case PTL_SR_SEND_LENGTH:
      *value = totals_.send_length;
      return PTL_OK;
    case PTL_SR_MES_CUR:
      *value = mes_.used();
      return PTL_OK;
    case PTL_SR_MDS_CUR:
      *value = mds_.used();
      return PTL_OK;
    case PTL_SR_EQS_CUR:
      *value = eqs_.used();
      return PTL_OK;
    case PTL_SR_HELD_CUR:
      *value = held_.used();
      return PTL_OK;
    case PTL_SR_EVENTS_LOST:
      *value = totals_.events_lost;
      return PTL_OK;
    case PTL_SR_ACL_COUNT:
      *value = totals_.denied;
      return PTL_OK;
    default:
      return PTL_SR_INDEX_INVALID;
  }
}

int Portals::dump_table(ptl_pt_index_t pt_index) const {
  const PortalEntry* portal = table_.find(pt_index);
  if (!portal) return PTL_PT_INDEX_INVALID;
  print_line("portal %u: %zu entries, %zu held puts%s", pt_index, portal->entries.size(),
             portal->held.size(), portal->flow_control ? ", flow control" : "");
  for (MatchNode* n = portal->entries.first(); n; n = n->next)
    dump_entry(*static_cast<Me*>(n), handle_of(static_cast<Me*>(n)));
  return PTL_OK;
}

int Portals::dump_me(ptl_handle_me_t handle) const {
  const Me* me = find_me(handle);
  if (!me) return PTL_ME_INVALID;
  dump_entry(*me, handle);
  return PTL_OK;
}

}  // namespace torii
