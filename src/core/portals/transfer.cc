// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// From START to END to UNLINK: what all operations have in common.
#include "core/portals/transfer.h"

#include "core/base/param.h"
#include "core/portals/portals.h"

namespace torii {

ptl_ni_fail_t Portals::fail_type(Status status) {
  switch (status) {
    case Status::ok:
      return PTL_NI_OK;
    case Status::peer_dead:
    case Status::peer_closed:
    case Status::unreachable:
    case Status::timed_out:
      return PTL_NI_PEER_DEAD;
    default:
      return PTL_NI_FAIL;
  }
}

void Portals::notify(Op* op, OpEvent event, Status status, uint64_t bytes) {
  auto* t = static_cast<Transfer*>(op->owner.object);
  t->portals->on_event(t, event, status, bytes);
}

void Portals::on_event(Transfer* t, OpEvent event, Status status, uint64_t bytes) {
  if (t->kind == Transfer::Kind::target) return target_done(t, status);
  if (status != Status::ok) return on_failure(t, fail_type(status));
  switch (event) {
    case OpEvent::sent:
      return sent(t, PTL_NI_OK);
    case OpEvent::acked:
      return acked(t, bytes, PTL_NI_OK);
    case OpEvent::dropped:
      return unanswered(t);
    case OpEvent::received:
      return replied_to(t, bytes, PTL_NI_OK);
    case OpEvent::replied:  // targets only
    case OpEvent::moved:    // not of messages
      return;
  }
}

// Extension: an operation on a process that died ends with ni_fail_type instead of silence.
void Portals::on_failure(Transfer* t, ptl_ni_fail_t fail) {
  if (t->kind != Transfer::Kind::put) return replied_to(t, 0, fail);
  if (!t->sent_due) return acked(t, 0, fail);
  t->ack_due = false;
  sent(t, fail);
}

void Portals::target_done(Transfer* t, Status status) {
  end(t, t->end_kind, fail_type(status));
  free_transfer(t);
}

void Portals::free_transfer(Transfer* t) { transfers_.put(t); }

// Pins the descriptor, posts START and reserves the place of END. The threshold has been
// consumed already: Portals 3.3 wants the descriptor in events as it is after the operation.
void Portals::begin(Transfer* t, ptl_event_kind_t start) {
  Md& md = *t->md;
  ++md.pending;
  Eq* eq = eqs_.find(md.eq);
  if (!eq) return;
  t->eq = md.eq;
  ++eq->busy;
  // One number per operation and queue, whichever of its events are disabled.
  t->event.link = eq->next_link();
  const bool wants_start = !md.option(PTL_MD_EVENT_START_DISABLE);
  const bool wants_end = !md.option(PTL_MD_EVENT_END_DISABLE);
  if (!wants_start && !wants_end) return;
  if (!eq->have_room(wants_start + wants_end)) {
    totals_.events_lost += wants_start + wants_end;
    return eq->lose(wants_start + wants_end);
  }
  if (wants_end) {
    eq->promise(1);
    t->end_promised = true;
  }
  if (wants_start) post(eq, t->eq, t->event, start, md);
}

void Portals::end(Transfer* t, ptl_event_kind_t kind, ptl_ni_fail_t fail) {
  if (Eq* eq = eqs_.find(t->eq)) {
    --eq->busy;
    if (t->end_promised) {
      eq->unpromise(1);
      t->event.ni_fail_type = fail;
      post(eq, t->eq, t->event, kind, *t->md);
    }
  }
  release(t->md);
  t->md = nullptr;
}

// Portals 3.3: only a successful operation unlinks, and UNLINK is an event like END: its place
// is reserved as soon as it is certain to come.
void Portals::unlink_when_done(Md* md, const ptl_event_t& cause) {
  if (!md->auto_unlink || md->unlink_due) return;
  md->unlink_due = true;
  Eq* eq = params().portals_unlink_events ? eqs_.find(md->eq) : nullptr;
  if (!eq) return;
  if (!eq->have_room(1)) {
    ++totals_.events_lost;
    return eq->lose(1);
  }
  eq->promise(1);
  md->unlink_eq = md->eq;
  md->unlink_event = cause;
  md->unlink_event.ni_fail_type = PTL_NI_OK;
}

void Portals::release(Md* md) {
  --md->pending;
  settle(md);
}

// Removes the descriptor if it is due and nothing is under way. The mark is on the descriptor,
// so it does not matter which operation ends last.
void Portals::settle(Md* md) {
  if (md->pending > 0 || !(md->unlink_due || md->orphan)) return;
  if (Eq* eq = eqs_.find(md->unlink_eq)) {
    eq->unpromise(1);
    post(eq, md->unlink_eq, md->unlink_event, PTL_EVENT_UNLINK, *md);
    md->unlink_eq = 0;
  }
  remove_md(md);
}

}  // namespace torii
