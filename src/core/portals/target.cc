// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Requests of other processes: address translation, acceptance, flow control. The steps are those
// of Portals 3.3, chapter "Address translation": portal index, access control, then the first
// entry of the list that matches, has an active descriptor, allows the operation, and has room.
#include "core/base/log.h"
#include "core/portals/portals.h"

namespace torii {

bool Portals::admitted(const Arrival& a) const {
  const Identity& id = a.peer->id;
  return access_.admits(a.env.ac_index,
                        AccessEntry{{id.nid, id.pid}, id.uid, jid_of(id), a.env.index});
}

// Portals 3.3: an entry that cannot take the request is passed over, never the end of the search.
bool Portals::accepts(const Me& me, const Envelope& env, unsigned needed, Match* match) {
  const Md* md = me.md;
  if (!md || !md->active || (md->user.options & needed) != needed) return false;
  return md->fits(env.offset, env.length, &match->offset, &match->accepted);
}

Portals::Match Portals::search(PortalEntry& portal, const Peer& peer, const Envelope& env,
                               unsigned needed) const {
  Match match;
  Match candidate;
  // An indexed list asks for candidates of several groups; the winner need not be the last asked.
  MatchNode* node = portal.entries.find(peer.process, env.bits, [&](MatchNode* n) {
    return accepts(*static_cast<Me*>(n), env, needed, &candidate);
  });
  if (!node) return match;
  match.me = static_cast<Me*>(node);
  (void)accepts(*match.me, env, needed, &match);
  return match;
}

void Portals::count_drop(const Peer& peer, const Envelope& env, const char* reason) {
  ++totals_.drop_count;
  totals_.drop_length += env.length;
  if (debug_mask & PTL_DBG_DROP)
    TORII_WARN("portal %u dropped a request of %llu bytes, match bits 0x%llx, from %s: %s",
               env.index, static_cast<unsigned long long>(env.length),
               static_cast<unsigned long long>(env.bits), protocol_.describe(peer).c_str(), reason);
}

void Portals::refuse(Arrival& a, const char* reason) {
  count_drop(*a.peer, a.env, reason);
  protocol_.drop(a);
}

// Portals 3.3, step "accept": atomic with the search because both run under the lock.
Transfer* Portals::accept(const Match& match, const Peer& peer, const Envelope& env,
                          ptl_event_kind_t start) {
  Md* md = match.me->md;
  Transfer* t = transfers_.get();
  if (!t) return nullptr;
  if (md->memory.slice(match.offset, match.accepted, &t->memory) != Status::ok) {
    free_transfer(t);
    return nullptr;
  }
  t->kind = Transfer::Kind::target;
  t->portals = this;
  t->peer = &peer;
  t->md = md;
  t->md_slot = SlotPool<Md>::handle(md);
  t->end_kind = ptl_event_kind_t(start + 1);
  ptl_event_t& e = t->event;
  e.initiator = {peer.id.nid, peer.id.pid};
  e.uid = peer.id.uid;
  e.jid = jid_of(peer.id);
  e.pt_index = match.me->pt_index;
  e.match_bits = env.bits;
  e.rlength = env.length;
  e.mlength = match.accepted;
  e.offset = match.offset;
  e.hdr_data = start == PTL_EVENT_GET_START ? 0 : env.hdr_data;
  ++totals_.recv_count;
  totals_.recv_length += match.accepted;
  if (debug_mask & PTL_DBG_ACCEPT)
    TORII_WARN("portal %u accepted %llu of %llu bytes, match bits 0x%llx, from %s", e.pt_index,
               static_cast<unsigned long long>(e.mlength),
               static_cast<unsigned long long>(e.rlength),
               static_cast<unsigned long long>(env.bits), protocol_.describe(peer).c_str());

  const bool exhausted = md->consume(true, match.accepted);
  begin(t, start);
  if (exhausted) unlink_when_done(md, e);
  return t;
}

void Portals::on_put(Arrival& a) {
  // Portals 3.3: without an initialised interface the request is discarded and counted.
  if (!open_) return refuse(a, "the interface is not initialised");
  PortalEntry* portal = table_.find(a.env.index);
  if (!portal) return refuse(a, "no such portal index");
  if (!admitted(a)) {
    ++counters_.denied;
    ++totals_.denied;
    return refuse(a, "access control");
  }
  const Match match = search(*portal, *a.peer, a.env, PTL_MD_OP_PUT);
  if (!match.me) {
    if (portal->flow_control && hold(*portal, a)) return;
    return refuse(a, "no entry accepts it");
  }
  Transfer* t = accept(match, *a.peer, a.env, PTL_EVENT_PUT_START);
  if (!t) return refuse(a, "out of memory");
  // ACK_DISABLE: the initiator hears nothing, as if the request had been dropped.
  const Status s =
      protocol_.accept(a, t->memory.data(), match.accepted, t->md->option(PTL_MD_ACK_DISABLE),
                       Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  if (s != Status::pending) target_done(t, s);
}

void Portals::on_get(Arrival& a) {
  if (!open_) return refuse(a, "the interface is not initialised");
  PortalEntry* portal = table_.find(a.env.index);
  if (!portal) return refuse(a, "no such portal index");
  if (!admitted(a)) {
    ++counters_.denied;
    ++totals_.denied;
    return refuse(a, "access control");
  }
  const bool swap = a.kind == wire::Kind::getput;
  // Portals 3.3: a getput needs both permissions.
  const Match match =
      search(*portal, *a.peer, a.env, swap ? PTL_MD_OP_PUT | PTL_MD_OP_GET : PTL_MD_OP_GET);
  if (!match.me) return refuse(a, "no entry accepts it");
  std::byte* staging = nullptr;
  if (swap && match.accepted > 0) {
    staging = static_cast<std::byte*>(std::malloc(match.accepted));
    if (!staging) return refuse(a, "out of memory");
  }
  Transfer* t = accept(match, *a.peer, a.env, swap ? PTL_EVENT_GETPUT_START : PTL_EVENT_GET_START);
  if (!t) {
    std::free(staging);
    return refuse(a, "out of memory");
  }
  t->staging = staging;
  Data source = t->memory.data();
  if (swap) {
    // One step under the lock: getputs on the same memory exclude each other.
    if (match.accepted > 0) source.copy_out(0, staging, match.accepted);
    source.copy_in(0, a.payload.data(), match.accepted);
    source = Data(staging, match.accepted);
  }
  const Status s = protocol_.reply(a, source, match.accepted,
                                   Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  if (s != Status::pending) target_done(t, s);
}

// --- flow control (extension) ---------------------------------------------------------------

bool Portals::hold(PortalEntry& portal, Arrival& a) {
  HeldPut* held = held_.get();
  if (!held) return false;
  held->op = protocol_.hold(a);
  if (!held->op) {
    held_.put(held);
    return false;
  }
  held->peer = a.peer;
  held->env = a.env;
  held->source = a.peer->process;
  held->bits = a.env.bits;
  portal.held.append(held);
  if (debug_mask & PTL_DBG_HELD)
    TORII_WARN("portal %u holds a put of %llu bytes, match bits 0x%llx, from %s", a.env.index,
               static_cast<unsigned long long>(a.env.length),
               static_cast<unsigned long long>(a.env.bits), protocol_.describe(*a.peer).c_str());
  return true;
}

// Gives a held put to an entry that accepts it. False: no memory; the put stays held.
bool Portals::claim(PortalEntry& portal, HeldPut* held, Me& me) {
  Match match{&me, 0, 0};
  (void)accepts(me, held->env, PTL_MD_OP_PUT, &match);
  Transfer* t = accept(match, *held->peer, held->env, PTL_EVENT_PUT_START);
  if (!t) return false;
  portal.held.remove(held);
  Op* op = held->op;
  held_.put(held);
  const Status s =
      protocol_.claim(op, t->memory.data(), match.accepted, t->md->option(PTL_MD_ACK_DISABLE),
                      Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  if (s != Status::pending) target_done(t, s);
  return true;
}

// The entry got an active descriptor. No held put is acceptable to any other entry, so those that
// this one accepts are the first in order to whichever match.
void Portals::armed(Me& me) {
  PortalEntry* portal = table_.find(me.pt_index);
  if (portal->held.size() == 0) return;
  const uint64_t me_slot = SlotPool<Me>::handle(&me);
  Match match;
  auto still_there = [&] { return mes_.find(me_slot) && me.md && me.md->active; };
  // Usually the first put that matches is also acceptable, and found by the index.
  while (still_there()) {
    auto* held =
        static_cast<HeldPut*>(portal->held.find(me.source, me.source_ignore, me.bits, me.ignore));
    if (!held) return;
    if (!accepts(me, held->env, PTL_MD_OP_PUT, &match)) break;
    if (!claim(*portal, held, me)) return;
  }
  for (ArrivalNode* n = portal->held.first(); n && still_there();) {
    auto* held = static_cast<HeldPut*>(n);
    n = n->next;
    if (!me.matches(held->source, held->bits)) continue;
    if (!accepts(me, held->env, PTL_MD_OP_PUT, &match)) continue;
    if (!claim(*portal, held, me)) return;
  }
}

void Portals::drop_held(PortalEntry& portal, HeldPut* held) {
  portal.held.remove(held);
  protocol_.discard(held->op);
  held_.put(held);
}

int Portals::flow_control(ptl_pt_index_t pt_index, bool on) {
  PortalEntry* portal = table_.find(pt_index);
  if (!portal) return PTL_PT_INDEX_INVALID;
  portal->flow_control = on;
  while (!on && portal->held.first()) {
    auto* held = static_cast<HeldPut*>(portal->held.first());
    count_drop(*held->peer, held->env, "flow control was switched off");
    ++counters_.dropped;
    drop_held(*portal, held);
  }
  return PTL_OK;
}

// A put that arrived completely can still be matched; one whose bytes are at the peer cannot.
void Portals::on_peer_down(Peer& peer, Status) {
  for (uint32_t i = 0; i < table_.size(); ++i) {
    PortalEntry& portal = *table_.find(i);
    for (ArrivalNode* n = portal.held.first(); n;) {
      auto* held = static_cast<HeldPut*>(n);
      n = n->next;
      if (held->peer != &peer) continue;
      if (!held->op->announced() && held->op->moved == held->op->length) continue;
      drop_held(portal, held);
    }
  }
}

}  // namespace torii
