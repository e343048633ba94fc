// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Operations that this process begins: put, get, getput, and the answers to them.
#include <algorithm>

#include "core/base/log.h"
#include "core/portals/portals.h"

namespace torii {

namespace {

// Indexes that do not fit into a header become one that no process has, so that the target drops
// the request as it would for any other index outside its table.
constexpr ptl_pt_index_t kNoPortal = 255;

void set_process(ptl_event_t& event, const Identity& id) {
  event.initiator = {id.nid, id.pid};
  event.uid = id.uid;
  event.jid = Portals::jid_of(id);
}

}  // namespace

Envelope Portals::envelope(const PortalsRequest& request, uint64_t length) {
  Envelope env;
  env.space = Space::portal;
  env.index = uint8_t(std::min(request.pt_index, kNoPortal));
  env.ac_index = request.ac_index;
  env.bits = request.match_bits;
  env.hdr_data = request.hdr_data;
  env.offset = request.remote_offset;
  env.length = length;
  return env;
}

// Portals 3.3: an inactive descriptor cannot begin anything; a region must lie inside it.
int Portals::find_source(ptl_handle_md_t handle, const MdRegion* region, Md** md,
                         Memory* memory) const {
  *md = find_md(handle);
  if (!*md || !(*md)->active) return PTL_MD_INVALID;
  const uint64_t bytes = (*md)->memory.bytes();
  if (!region) {
    *memory = (*md)->memory;
    return PTL_OK;
  }
  if (region->offset > bytes || region->length > bytes - region->offset) return PTL_MD_ILLEGAL;
  const Status s = (*md)->memory.slice(region->offset, region->length, memory);
  return s == Status::ok ? PTL_OK : PTL_NO_SPACE;
}

int Portals::find_target(ptl_process_id_t id, Peer** peer) {
  if (id.nid == PTL_NID_ANY || id.pid == PTL_PID_ANY) return PTL_PROCESS_INVALID;
  std::string why;
  *peer = host_.resolve(id.nid, id.pid, &why);
  if (*peer) return PTL_OK;
  TORII_WARN("portals: process %u of node %u: %s", id.pid, id.nid, why.c_str());
  return PTL_PROCESS_INVALID;
}

Transfer* Portals::make_transfer(Transfer::Kind kind, Md* md, const Peer& peer,
                                 const PortalsRequest& request, uint64_t length) {
  Transfer* t = transfers_.get();
  if (!t) return nullptr;
  t->kind = kind;
  t->portals = this;
  t->md = md;
  t->md_slot = SlotPool<Md>::handle(md);
  t->peer = &peer;
  const bool is_put = kind == Transfer::Kind::put;
  ptl_event_t& e = t->event;
  set_process(e, is_put ? protocol_.self() : peer.id);
  e.pt_index = request.pt_index;
  e.match_bits = request.match_bits;
  e.rlength = e.mlength = length;
  if (is_put) e.hdr_data = request.hdr_data;
  return t;
}

// The protocol has the operation; its transfer may be gone already. A program that only begins
// operations makes progress this way, too.
int Portals::begun(uint64_t bytes) {
  host_.begun(bytes);
  host_.progress();
  return PTL_OK;
}

int Portals::put(ptl_handle_md_t handle, const MdRegion* region, const PortalsRequest& request) {
  Md* md = nullptr;
  Memory memory;
  if (int rc = find_source(handle, region, &md, &memory); rc != PTL_OK) return rc;
  Peer* peer = nullptr;
  if (int rc = find_target(request.target, &peer); rc != PTL_OK) return rc;
  Transfer* t = make_transfer(Transfer::Kind::put, md, *peer, request, memory.bytes());
  if (!t) return PTL_NO_SPACE;
  t->memory = memory;
  t->event.offset = region ? region->offset : 0;
  t->sent_due = true;
  // Portals 3.3: without an event queue there is no acknowledgement.
  t->ack_due = request.want_ack && eqs_.find(md->eq);
  ++totals_.send_count;
  totals_.send_length += memory.bytes();

  // Portals 3.3: a put uses up one operation when it is begun, and one more for its ACK.
  const bool exhausted = md->consume(false, 0);
  begin(t, PTL_EVENT_SEND_START);
  if (exhausted) unlink_when_done(md, t->event);

  Envelope env = envelope(request, memory.bytes());
  env.want_ack = t->ack_due;
  const Status s = protocol_.put(*peer, env, t->memory.data(),
                                 Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  if (s == Status::pending) return begun(memory.bytes());
  t->ack_due = false;
  on_event(t, OpEvent::sent, s, memory.bytes());
  return PTL_OK;
}

void Portals::sent(Transfer* t, ptl_ni_fail_t fail) {
  t->sent_due = false;
  end(t, PTL_EVENT_SEND_END, fail);
  if (!t->ack_due) free_transfer(t);
}

// Portals 3.3: an acknowledgement is an operation of its own on the descriptor, if that is still
// there; whether it is active does not matter.
void Portals::acked(Transfer* t, uint64_t bytes, ptl_ni_fail_t fail) {
  t->ack_due = false;
  Md* md = mds_.find(t->md_slot);
  Eq* eq = md ? eqs_.find(md->eq) : nullptr;
  if (!eq) {
    ++counters_.late_replies;
    ++totals_.drop_count;
  } else {
    const bool exhausted = md->consume(false, 0);
    ptl_event_t event = t->event;
    set_process(event, t->peer->id);
    // Not the length of the request: see ptl_event_t.
    event.rlength = event.mlength = bytes;
    event.ni_fail_type = fail;
    if (md->eq != t->eq) event.link = eq->next_link();
    if (eq->have_room(1)) {
      post(eq, md->eq, event, PTL_EVENT_ACK, *md);
    } else {
      ++totals_.events_lost;
      eq->lose(1);
    }
    if (exhausted) unlink_when_done(md, event);
    settle(md);
  }
  if (!t->sent_due) free_transfer(t);
}

int Portals::get(ptl_handle_md_t handle, const MdRegion* region, const PortalsRequest& request) {
  Md* md = nullptr;
  Memory memory;
  if (int rc = find_source(handle, region, &md, &memory); rc != PTL_OK) return rc;
  Peer* peer = nullptr;
  if (int rc = find_target(request.target, &peer); rc != PTL_OK) return rc;
  Transfer* t = make_transfer(Transfer::Kind::get, md, *peer, request, memory.bytes());
  if (!t) return PTL_NO_SPACE;
  t->memory = memory;
  t->event.offset = region ? region->offset : 0;
  ++totals_.send_count;
  // Portals 3.3: a get sends nothing, so it has no SEND events and uses up no operation; the
  // reply does. The bytes may arrive at any time from now on.
  ++md->pending;
  const Status s = protocol_.get(*peer, envelope(request, memory.bytes()), t->memory.data(),
                                 Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  if (s == Status::pending) return begun(memory.bytes());
  on_event(t, OpEvent::received, s, memory.bytes());
  return PTL_OK;
}

int Portals::getput(ptl_handle_md_t get_handle, ptl_handle_md_t put_handle,
                    const PortalsRequest& request) {
  Md* get_md = nullptr;
  Md* put_md = nullptr;
  Memory unused, source;
  if (int rc = find_source(get_handle, nullptr, &get_md, &unused); rc != PTL_OK) return rc;
  if (int rc = find_source(put_handle, nullptr, &put_md, &source); rc != PTL_OK) return rc;
  const uint64_t length = source.bytes();
  if (length > uint64_t(limits_.max_getput_md)) return PTL_MD_ILLEGAL;
  Peer* peer = nullptr;
  if (int rc = find_target(request.target, &peer); rc != PTL_OK) return rc;
  Transfer* t = make_transfer(Transfer::Kind::getput, get_md, *peer, request, length);
  Transfer* send = make_transfer(Transfer::Kind::put, put_md, *peer, request, length);
  // The old content lands in a buffer first: the get descriptor may be shorter than the other.
  if (t && length > 0) t->staging = static_cast<std::byte*>(std::malloc(length));
  if (!t || !send || (length > 0 && !t->staging)) {
    if (t) free_transfer(t);
    if (send) free_transfer(send);
    return PTL_NO_SPACE;
  }
  ++totals_.send_count;
  totals_.send_length += length;
  ++get_md->pending;
  const bool exhausted = put_md->consume(false, 0);
  begin(send, PTL_EVENT_SEND_START);
  if (exhausted) unlink_when_done(put_md, send->event);

  Envelope env = envelope(request, length);
  const Status s = protocol_.getput(*peer, env, source.data(), Data(t->staging, length),
                                    Owner{&Portals::notify, t, nullptr, {0, 0}}, nullptr);
  const bool copied = s == Status::ok || s == Status::pending;
  sent(send, copied ? PTL_NI_OK : fail_type(s));  // the source has been copied
  if (s == Status::pending) return begun(length);
  on_event(t, OpEvent::received, s, length);
  return PTL_OK;
}

// The reply to a get or getput is complete, or will never come because the target died.
void Portals::replied_to(Transfer* t, uint64_t bytes, ptl_ni_fail_t fail) {
  Md* md = t->md;
  if (t->staging) {
    // Portals 3.3: a reply is cut to what fits, never rejected.
    bytes = std::min(bytes, md->memory.bytes());
    md->memory.data().copy_in(0, t->staging, bytes);
  }
  t->event.mlength = bytes;
  const bool exhausted = md->consume(false, 0);
  begin(t, PTL_EVENT_REPLY_START);
  if (exhausted) unlink_when_done(md, t->event);
  --md->pending;  // the pin of the call; begin() has its own
  end(t, PTL_EVENT_REPLY_END, fail);
  free_transfer(t);
}

// The target dropped the request. Portals 3.3 knows no event for that.
void Portals::unanswered(Transfer* t) {
  if (t->kind == Transfer::Kind::put) {
    t->ack_due = false;
    if (!t->sent_due) free_transfer(t);
    return;
  }
  release(t->md);
  free_transfer(t);
}

}  // namespace torii
