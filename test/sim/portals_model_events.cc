// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Events of the library against what the naive Portals expects.
#include <algorithm>
#include <cstdio>

#include "sim/portals_model.h"

namespace torii::model {

namespace {

bool is_start(ptl_event_kind_t kind) {
  switch (kind) {
    case PTL_EVENT_GET_START:
    case PTL_EVENT_PUT_START:
    case PTL_EVENT_GETPUT_START:
    case PTL_EVENT_SEND_START:
      return true;
    default:
      return false;
  }
}

Op::Role role_of(ptl_event_kind_t kind) {
  switch (kind) {
    case PTL_EVENT_SEND_START:
    case PTL_EVENT_SEND_END:
    case PTL_EVENT_ACK:
      return Op::Role::send;
    case PTL_EVENT_REPLY_START:
    case PTL_EVENT_REPLY_END:
      return Op::Role::reply;
    default:
      return Op::Role::target;
  }
}

uint32_t serial_of(const ptl_event_t& e) {
  const bool in_bits = e.type == PTL_EVENT_GET_START || e.type == PTL_EVENT_GET_END ||
                       role_of(e.type) == Op::Role::reply;
  return uint32_t(in_bits ? e.match_bits >> kSerialShift : e.hdr_data);
}

std::string place(const Process& s, const ptl_event_t& e) {
  return std::string(PtlEventKindStr(e.type)) + " at " + std::to_string(s.id.nid) + "/" +
         std::to_string(s.id.pid);
}

// Both START and END left out, or no queue: nothing tells of a reply.
bool silent(const ptl_md_t& md) {
  constexpr unsigned kBoth = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;
  return md.eq_handle == PTL_EQ_NONE || (md.options & kBoth) == kBoth;
}

}  // namespace

bool Model::may_fail(const Request& r) const {
  return processes_[r.from]->dead || processes_[r.to]->dead;
}

bool Model::may_be_over(const Op& op) const {
  if (op.role != Op::Role::reply || op.replied) return !op.wants_end;
  if (op.request->state == Request::State::dropped) return true;
  const bool answered = op.request->state == Request::State::accepted || may_fail(*op.request);
  return answered && silent(op.md->user);
}

bool Model::certain(unsigned p, const Md& md) {
  if (md.vague) return false;
  if (md.due && md.user.eq_handle == PTL_EQ_NONE && md.busy > 0) return false;
  if (md.user.threshold <= 0 || !silent(md.user)) return true;
  return !has_replies(p, md);
}

bool Model::may_get(const Md& md) const {
  return !silent(md.user) || md.user.threshold == PTL_MD_THRESH_INF ||
         (!md.me && md.user.eq_handle == PTL_EQ_NONE);
}

bool Model::has_replies(unsigned p, const Md& md) {
  const auto& ops = process(p).ops;
  return std::any_of(ops.begin(), ops.end(), [&](const auto& op) {
    return op->md.get() == &md && op->role == Op::Role::reply;
  });
}

bool Model::has_acks(const Md& md) const {
  return std::any_of(acks_due_.begin(), acks_due_.end(),
                     [&](const auto& due) { return due.second.second->md.get() == &md; });
}

// --- the parts of an event ------------------------------------------------------------------

bool Model::check_fields(const Process& s, const ptl_event_t& e, const ptl_event_t& x) {
  const auto differ = [&](const char* field, uint64_t is, uint64_t expected) {
    if (is == expected) return false;
    char text[200];
    std::snprintf(text, sizeof(text), ": %s is 0x%llx, the model 0x%llx", field,
                  static_cast<unsigned long long>(is), static_cast<unsigned long long>(expected));
    fail(place(s, e) + text);
    return true;
  };
  return !(differ("md_handle", e.md_handle, x.md_handle) ||
           differ("initiator.nid", e.initiator.nid, x.initiator.nid) ||
           differ("initiator.pid", e.initiator.pid, x.initiator.pid) ||
           differ("uid", e.uid, x.uid) || differ("jid", e.jid, x.jid) ||
           differ("pt_index", e.pt_index, x.pt_index) ||
           differ("match_bits", e.match_bits, x.match_bits) ||
           differ("rlength", e.rlength, x.rlength) || differ("mlength", e.mlength, x.mlength) ||
           differ("offset", e.offset, x.offset) || differ("hdr_data", e.hdr_data, x.hdr_data));
}

// The copy of the descriptor is that after the operation. Other operations accepted before the
// event was taken may have used up some of the threshold.
bool Model::check_md_copy(const Process& s, const Md& md, const ptl_event_t& e, int most) {
  const ptl_md_t& is = e.md;
  const ptl_md_t& x = md.user;
  if (is.start != x.start || is.length != x.length || is.max_size != x.max_size ||
      is.options != x.options || is.user_ptr != x.user_ptr || is.eq_handle != x.eq_handle) {
    fail(place(s, e) + ": the copy of the descriptor differs");
    return false;
  }
  if (is.threshold >= x.threshold && is.threshold <= most) return true;
  fail(place(s, e) + ": threshold " + std::to_string(is.threshold) + " is left, in the model " +
       std::to_string(x.threshold) + " to " + std::to_string(most));
  return false;
}

// The first event of an operation sets its number, the others have the same.
bool Model::check_link(Process& s, ptl_handle_eq_t eq, Link& link, const ptl_event_t& e) {
  if (link.known && link.value != e.link) {
    fail(place(s, e) + ": another link than the events before of this operation");
    return false;
  }
  for (const auto& op : s.ops) {
    if (op->eq != eq || op->link.get() == &link || !op->link->known) continue;
    if (op->link->value != e.link) continue;
    fail(place(s, e) + ": link of another operation");
    return false;
  }
  link = {true, e.link};
  return true;
}

std::shared_ptr<Op> Model::find_op(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  for (const auto& op : s.ops) {
    if (op->role != role_of(e.type) || op->request->serial != serial_of(e)) continue;
    const bool waits = op->role == Op::Role::reply && !op->replied;
    if ((waits ? op->md->user.eq_handle : op->eq) == eq) return op;
  }
  fail(place(s, e) + ": no such operation is under way; serial " + std::to_string(serial_of(e)));
  return nullptr;
}

// --- events ---------------------------------------------------------------------------------

void Model::event(unsigned p, ptl_handle_eq_t eq, const ptl_event_t& e) {
  Process& s = process(p);
  ++events_seen;
  if (verbose)
    std::printf("              %u %s %u md %llx, %llu of %llu bytes, link %u%s\n", p,
                PtlEventKindStr(e.type), serial_of(e), static_cast<unsigned long long>(e.md_handle),
                static_cast<unsigned long long>(e.mlength),
                static_cast<unsigned long long>(e.rlength), e.link,
                e.ni_fail_type == PTL_NI_OK ? "" : ", failed");
  if (e.sequence != s.sequence[eq]++) return fail(place(s, e) + ": sequence has a gap");
  if (e.type == PTL_EVENT_UNLINK) return unlink_event(s, eq, e);
  if (e.type == PTL_EVENT_ACK) return ack_event(s, eq, e);
  if (role_of(e.type) == Op::Role::reply) return reply_event(s, eq, e);
  if (is_start(e.type)) return start_event(s, eq, e);
  end_event(s, eq, e);
}

void Model::start_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  auto& due = s.starts[eq];
  if (due.empty()) return fail(place(s, e) + ": the model expects no START now");
  const std::shared_ptr<Op> op = due.front();
  due.pop_front();
  if (op->event.type != e.type)
    return fail(place(s, e) + ": the model expects " + PtlEventKindStr(op->event.type));
  op->started = true;
  op->md->shown_threshold = op->start_threshold;
  if (e.md.threshold != op->start_threshold)
    return fail(place(s, e) + ": threshold " + std::to_string(e.md.threshold) + ", in the model " +
                std::to_string(op->start_threshold));
  if (e.ni_fail_type != PTL_NI_OK) return fail(place(s, e) + ": ni_fail_type is set");
  (void)(check_fields(s, e, op->event) && check_link(s, eq, *op->link, e) &&
         check_md_copy(s, *op->md, e, op->start_threshold));
}

void Model::end_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  const std::shared_ptr<Op> op = find_op(s, eq, e);
  if (!op) return;
  if (!op->wants_end || e.type != op->event.type + 1)
    return fail(place(s, e) + ": this operation has no such event");
  if (op->wants_start && !op->started) return fail(place(s, e) + ": END before START");
  const bool failed = e.ni_fail_type != PTL_NI_OK;
  if (failed && !(e.ni_fail_type == PTL_NI_PEER_DEAD && may_fail(*op->request)))
    return fail(place(s, e) + ": failed with both processes alive");
  if (!check_fields(s, e, op->event) || !check_link(s, eq, *op->link, e) ||
      !check_md_copy(s, *op->md, e, op->md->shown_threshold))
    return;
  if (op->role == Op::Role::send) op->request->send_failed = failed;
  finish(s, op, !failed);
  if (op->writes) compare(s, op->at, place(s, e));
}

// REPLY_START or, if that is disabled, REPLY_END is when the reply uses up its operation.
void Model::reply_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  const std::shared_ptr<Op> op = find_op(s, eq, e);
  if (!op) return;
  const Request& r = *op->request;
  const bool dead = may_fail(r);
  const bool answered = r.state == Request::State::accepted;
  if (!answered && !dead) return fail(place(s, e) + ": the target accepted nothing");
  if (!op->replied) {
    reply(op, answered && !(dead && e.mlength == 0) ? r.accepted : 0);
    op->started = !op->wants_start;
  }
  if (!check_fields(s, e, op->event) || !check_link(s, eq, *op->link, e) ||
      !check_md_copy(s, *op->md, e, op->md->user.threshold))
    return;
  if (e.type == PTL_EVENT_REPLY_START) {
    if (op->started) return fail(place(s, e) + ": disabled, or the second");
    op->started = true;
    return;
  }
  if (!op->wants_end || !op->started) return fail(place(s, e) + ": disabled, or before START");
  const bool failed = e.ni_fail_type != PTL_NI_OK;
  if (failed && !(e.ni_fail_type == PTL_NI_PEER_DEAD && dead))
    return fail(place(s, e) + ": failed with both processes alive");
  if (!failed && !answered) return fail(place(s, e) + ": no failure, but no answer either");
  finish(s, op, !failed);
  if (!dead) compare(s, op->at, place(s, e));
}

void Model::reply(const std::shared_ptr<Op>& op, uint64_t bytes) {
  Md& md = *op->md;
  op->replied = true;
  op->eq = md.user.eq_handle;
  const bool queue = op->eq != PTL_EQ_NONE;
  op->wants_start = queue && !(md.user.options & PTL_MD_EVENT_START_DISABLE);
  op->wants_end = queue && !(md.user.options & PTL_MD_EVENT_END_DISABLE);
  op->event.mlength = std::min<uint64_t>(bytes, op->at.size());
  if (!is(Mutation::reply_is_free) && consume(md, op->link)) md.cause_event = op->event;
  md.shown_threshold = md.user.threshold;
}

void Model::ack_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  const auto it = acks_due_.find(serial_of(e));
  if (it == acks_due_.end() || processes_[it->second.first->from].get() != &s)
    return fail(place(s, e) + ": nobody asked for it, or the second");
  const auto [r, op] = it->second;
  acks_due_.erase(it);
  const bool failed = e.ni_fail_type != PTL_NI_OK;
  const bool dead = may_fail(*r);
  if (failed && !(e.ni_fail_type == PTL_NI_PEER_DEAD && dead))
    return fail(place(s, e) + ": failed with both processes alive");
  if (!failed && (r->state != Request::State::accepted || r->ack_disabled))
    return fail(place(s, e) + ": the target did not accept the put, or must not acknowledge");
  if (op->md->gone || op->md->user.eq_handle != eq)
    return fail(place(s, e) + ": its descriptor is gone, or has another queue");
  ptl_event_t expected = op->event;
  const Process& target = *processes_[r->to];
  expected.initiator = target.id;
  expected.uid = target.uid;
  expected.jid = target.jid;
  expected.mlength = failed ? 0 : r->accepted;
  if (!is(Mutation::acks_tell_the_length_sent)) expected.rlength = expected.mlength;
  if (!is(Mutation::ack_is_free) && consume(*op->md, op->link)) op->md->cause_event = expected;
  if (!check_fields(s, e, expected) || !check_link(s, eq, *op->link, e) ||
      !check_md_copy(s, *op->md, e, op->md->shown_threshold))
    return;
  // If exhausted by this one, and nothing else is under way, an UNLINK without an END follows.
  if (dead) return;
  Process& t = *processes_[r->to];
  for (const auto& other : t.ops) {
    if (other->request != r || other->role != Op::Role::target) continue;
    for (size_t i = 0; i < other->at.size(); ++i)
      if (!other->torn[i] && r->payload[i] != kUnknown && t.memory[other->at[i]] != r->payload[i])
        return fail(place(s, e) + ": the bytes are not in the target's memory yet");
  }
}

void Model::unlink_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e) {
  const auto it = s.mds.find(e.md_handle);
  if (it == s.mds.end()) return fail(place(s, e) + ": no such descriptor");
  const std::shared_ptr<Md> md = it->second;
  if (!md->due) return fail(place(s, e) + ": the descriptor is not due");
  if (md->user.eq_handle != eq) return fail(place(s, e) + ": in the wrong queue");
  for (auto op = s.ops.begin(); op != s.ops.end();) {
    const auto one = *op++;
    if (one->md != md) continue;
    if (!may_be_over(*one)) return fail(place(s, e) + ": an operation is under way");
    finish(s, one, true);
  }
  ptl_event_t expected = md->cause_event;
  // Nothing tells which reply without events came last, and how many bytes before a death.
  const bool unsure = expected.type == PTL_EVENT_REPLY_START && (!md->cause->known || md->vague);
  if (unsure) expected = e;
  if (is(Mutation::unlinks_tell_nothing)) expected = {};
  expected.md_handle = md->handle;
  if (e.ni_fail_type != PTL_NI_OK) return fail(place(s, e) + ": ni_fail_type is set");
  if (!check_fields(s, e, expected) || !check_link(s, eq, *md->cause, e) ||
      !check_md_copy(s, *md, e, md->shown_threshold))
    return;
  remove_md(s, md);
}

// The last word on an operation.
void Model::finish(Process& s, const std::shared_ptr<Op>& op, bool ok) {
  const Request& r = *op->request;
  const bool accepted = r.state == Request::State::accepted;
  if (op->role == Op::Role::reply && !op->replied) {
    if (may_fail(r)) op->md->vague = true;
    if (accepted) reply(op, r.accepted);
  }
  if (op->writes) end_write(s, *op, accepted ? r.accepted : 0, ok && !may_fail(r));
  s.ops.remove(op);
  const std::shared_ptr<Md> md = op->md;
  --md->busy;
  if (md->busy == 0 && md->due && md->user.eq_handle == PTL_EQ_NONE && !md->gone) remove_md(s, md);
}

void Model::drained(unsigned p) {
  Process& s = process(p);
  for (const auto& [eq, due] : s.starts)
    if (!due.empty())
      return fail(std::string(PtlEventKindStr(due.front()->event.type)) + " is missing at " +
                  std::to_string(s.id.nid) + "/" + std::to_string(s.id.pid));
  for (const auto& [handle, md] : s.mds) {
    if (md->due && md->busy == 0)
      return fail("UNLINK is missing at " + std::to_string(s.id.nid) + "/" +
                  std::to_string(s.id.pid));
    md->shown_threshold = md->user.threshold;
  }
}

// --- rest and death -------------------------------------------------------------------------

void Model::die(unsigned p) {
  process(p).dead = true;
  for (auto& s : processes_) s->vague = true;
  for (auto& [pair, queue] : on_the_way_)
    if (pair.first == p || pair.second == p) queue.clear();
}

void Model::rest() {
  for (const auto& [pair, queue] : on_the_way_)
    if (!queue.empty())
      return fail("request " + std::to_string(queue.front()->serial) + " never arrived");
  for (auto& s : processes_) {
    if (s->dead) continue;
    for (auto it = s->ops.begin(); it != s->ops.end();) {
      const auto op = *it++;
      // The target has not asked for the bytes of a put that it holds.
      const Request& r = *op->request;
      if (op->role == Op::Role::send && r.state == Request::State::held && !may_fail(r)) continue;
      if (!may_be_over(*op))
        return fail(std::string("an operation never ended: ") + PtlEventKindStr(op->event.type) +
                    " of request " + std::to_string(op->request->serial) + " at " +
                    std::to_string(s->id.nid) + "/" + std::to_string(s->id.pid));
      finish(*s, op, true);
    }
    compare_all(*s);
  }
  rest_acks();
}

void Model::rest_acks() {
  for (auto it = acks_due_.begin(); it != acks_due_.end();) {
    const auto [r, op] = it->second;
    Process& s = *processes_[r->from];
    const bool dead = may_fail(*r);
    if (r->state == Request::State::held && !dead) {
      ++it;
      continue;
    }
    it = acks_due_.erase(it);
    // Without a SEND_END nobody knows whether the put itself failed.
    if (s.dead || r->send_failed || (dead && !op->wants_end)) continue;
    const bool silent = r->state == Request::State::dropped || r->ack_disabled;
    if (silent) continue;
    if (!op->md->gone) return fail("ACK of request " + std::to_string(r->serial) + " never came");
    ++s.registers.drop_count;  // it found no descriptor
  }
}

void Model::check_registers(unsigned p, ptl_handle_ni_t ni) {
  Process& s = process(p);
  uint64_t held = 0, leaving = 0;
  for (const auto& list : s.held) held += list.size();
  // The sender of a held put may be done with its descriptor or not, and nothing tells.
  for (const auto& [handle, md] : s.mds) leaving += !certain(p, *md);
  const Registers& r = s.registers;
  const struct {
    ptl_sr_index_t index;
    uint64_t expected;
    const char* name;
    bool vague;
    uint64_t less = 0;
  } all[] = {{PTL_SR_DROP_COUNT, r.drop_count, "DROP_COUNT", true},
             {PTL_SR_DROP_LENGTH, r.drop_length, "DROP_LENGTH", true},
             {PTL_SR_RECV_COUNT, r.recv_count, "RECV_COUNT", false},
             {PTL_SR_RECV_LENGTH, r.recv_length, "RECV_LENGTH", false},
             {PTL_SR_SEND_COUNT, r.send_count, "SEND_COUNT", false},
             {PTL_SR_SEND_LENGTH, r.send_length, "SEND_LENGTH", false},
             {PTL_SR_MES_CUR, s.mes.size(), "MES_CUR", true, leaving},
             {PTL_SR_MDS_CUR, s.mds.size(), "MDS_CUR", true, leaving},
             {PTL_SR_EQS_CUR, s.starts.size(), "EQS_CUR", false},
             {PTL_SR_HELD_CUR, held, "HELD_CUR", true},
             {PTL_SR_EVENTS_LOST, 0, "EVENTS_LOST", false},
             {PTL_SR_ACL_COUNT, r.denied, "ACL_COUNT", false}};
  for (const auto& one : all) {
    ptl_sr_value_t value = 0;
    if (PtlNIStatus(ni, one.index, &value) != PTL_OK) return fail("PtlNIStatus failed");
    if (value <= one.expected && value + one.less >= one.expected) continue;
    if (one.vague && s.vague) continue;
    return fail(std::string("register ") + one.name + " of " + std::to_string(s.id.nid) + "/" +
                std::to_string(s.id.pid) + " is " + std::to_string(value) + ", the model " +
                std::to_string(one.expected));
  }
}

}  // namespace torii::model
