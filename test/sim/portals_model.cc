// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The calls and the address translation of the naive Portals.
#include "sim/portals_model.h"

#include <algorithm>

namespace torii::model {

namespace {

constexpr uint64_t kGetputMax = 256;

}  // namespace

const char* name_of(Mutation mutation) {
  constexpr const char* kNames[] = {"none",
                                    "last match wins",
                                    "appends become prepends",
                                    "insert before goes to the head",
                                    "match_id is ignored",
                                    "an inactive descriptor ends the search",
                                    "an unfit descriptor ends the search",
                                    "truncates never to nothing",
                                    "max_size is inclusive",
                                    "local offset stays",
                                    "an ack uses up nothing",
                                    "a reply uses up nothing",
                                    "ACK_DISABLE is ignored",
                                    "retained entries go",
                                    "update keeps the offset",
                                    "access control is open",
                                    "held puts come last first",
                                    "drops are not counted",
                                    "getput needs one permission",
                                    "SEND tells the remote offset",
                                    "ACK tells the length that was sent",
                                    "UNLINK tells nothing"};
  static_assert(std::size(kNames) == size_t(Mutation::kCount));
  return kNames[size_t(mutation)];
}

void Model::fail(const std::string& text) {
  if (failure_.empty()) failure_ = text;
}

bool Model::expect(int rc, int expected, const char* what) {
  if (rc == expected) return true;
  fail(std::string(what) + " returned " + PtlErrorStr(unsigned(rc)) + ", the model " +
       PtlErrorStr(unsigned(expected)));
  return false;
}

void Model::add_process(ptl_process_id_t id, ptl_uid_t uid, ptl_jid_t jid,
                        std::span<unsigned char> memory) {
  auto s = std::make_unique<Process>();
  s->id = id;
  s->uid = uid;
  s->jid = jid;
  s->memory = memory;
  s->bytes.assign(memory.begin(), memory.end());
  s->mark.resize(memory.size());
  s->place.resize(memory.size());
  for (Access& a : s->access) a.uid = uid;  // at first: this user, all portals
  processes_.push_back(std::move(s));
}

// --- match entries --------------------------------------------------------------------------

Me* Model::add_me(Process& s, ptl_pt_index_t pt, const Criterion& c, ptl_handle_me_t handle) {
  if (s.mes.count(handle)) fail("a handle of a match entry was given out twice");
  auto me = std::make_unique<Me>();
  me->handle = handle;
  me->pt_index = pt;
  me->criterion = c;
  Me* out = me.get();
  s.mes[handle] = std::move(me);
  return out;
}

void Model::me_attach(unsigned p, ptl_pt_index_t pt, const Criterion& c, ptl_ins_pos_t position,
                      int rc, ptl_handle_me_t handle) {
  const bool known = pt < Process::kPortals;
  if (!expect(rc, known ? PTL_OK : PTL_PT_INDEX_INVALID, "PtlMEAttach") || !known) return;
  Process& s = process(p);
  Me* me = add_me(s, pt, c, handle);
  if (position == PTL_INS_BEFORE || is(Mutation::appends_become_prepends)) {
    s.lists[pt].push_front(me);
  } else {
    s.lists[pt].push_back(me);
  }
}

void Model::me_attach_any(unsigned p, ptl_pt_index_t pt, const Criterion& c, int rc,
                          ptl_handle_me_t handle) {
  if (!expect(rc, PTL_OK, "PtlMEAttachAny")) return;
  if (pt >= Process::kPortals || !process(p).lists[pt].empty())
    return fail("PtlMEAttachAny chose a portal that is in use");
  me_attach(p, pt, c, PTL_INS_AFTER, rc, handle);
}

void Model::me_insert(unsigned p, ptl_handle_me_t base, const Criterion& c, ptl_ins_pos_t position,
                      int rc, ptl_handle_me_t handle) {
  Process& s = process(p);
  const auto it = s.mes.find(base);
  const bool known = it != s.mes.end();
  if (!expect(rc, known ? PTL_OK : PTL_ME_INVALID, "PtlMEInsert") || !known) return;
  std::list<Me*>& list = s.lists[it->second->pt_index];
  auto where = std::find(list.begin(), list.end(), it->second.get());
  if (position == PTL_INS_AFTER) {
    ++where;
  } else if (is(Mutation::insert_before_goes_to_the_head)) {
    where = list.begin();
  }
  list.insert(where, add_me(s, it->second->pt_index, c, handle));
}

void Model::remove_me(Process& s, Me* me) {
  s.lists[me->pt_index].remove(me);
  s.mes.erase(me->handle);
}

void Model::remove_md(Process& s, const std::shared_ptr<Md>& md) {
  md->gone = true;
  s.mds.erase(md->handle);
  Me* me = md->me;
  if (!me) return;
  me->md = nullptr;
  md->me = nullptr;
  if (me->criterion.unlink == PTL_UNLINK || is(Mutation::retained_entries_go)) remove_me(s, me);
}

// Is the descriptor in use? When that cannot be known, the answer of the library tells.
namespace {
int in_use(unsigned certain, unsigned possible, int rc, int code) {
  if (certain > 0) return code;
  return possible > 0 && rc == code ? code : PTL_OK;
}
}  // namespace

void Model::me_unlink(unsigned p, ptl_handle_me_t handle, int rc) {
  Process& s = process(p);
  const auto it = s.mes.find(handle);
  if (it == s.mes.end()) return void(expect(rc, PTL_ME_INVALID, "PtlMEUnlink"));
  Me* me = it->second.get();
  const std::shared_ptr<Md> md = me->md;
  unsigned certain = 0;
  if (md)
    for (const auto& op : s.ops) certain += op->md == md && !may_be_over(*op);
  const int code = in_use(certain, md ? md->busy : 0, rc, PTL_ME_IN_USE);
  if (!expect(rc, code, "PtlMEUnlink") || code != PTL_OK) return;
  if (md) {
    for (auto op = s.ops.begin(); op != s.ops.end();) {
      const auto one = *op++;
      if (one->md == md) finish(s, one, true);
    }
    if (!md->gone) {
      md->me = nullptr;
      me->md = nullptr;
      remove_md(s, md);
    }
  }
  if (s.mes.count(handle)) remove_me(s, me);
}

// --- memory descriptors ---------------------------------------------------------------------

int Model::check_md(Process& s, const ptl_md_t& user) {
  if (user.options >= PTL_MD_EVENT_END_DISABLE << 1) return PTL_MD_ILLEGAL;
  if (user.threshold < PTL_MD_THRESH_INF) return PTL_MD_ILLEGAL;
  if (!user.start && user.length > 0) return PTL_MD_ILLEGAL;
  if (user.eq_handle != PTL_EQ_NONE && !s.starts.count(user.eq_handle)) return PTL_EQ_INVALID;
  return PTL_OK;
}

std::vector<uint32_t> Model::places(Process& s, const ptl_md_t& user) {
  std::vector<uint32_t> at;
  const auto add = [&](const void* start, uint64_t bytes) {
    const auto from = uint32_t(static_cast<const unsigned char*>(start) - s.memory.data());
    for (uint64_t i = 0; i < bytes; ++i) at.push_back(from + uint32_t(i));
  };
  if (!(user.options & PTL_MD_IOVEC)) {
    if (user.length > 0) add(user.start, user.length);
    return at;
  }
  const auto* piece = static_cast<const ptl_md_iovec_t*>(user.start);
  for (uint64_t i = 0; i < user.length; ++i)
    if (piece[i].iov_len > 0) add(piece[i].iov_base, piece[i].iov_len);
  return at;
}

void Model::add_md(Process& s, Me* me, const ptl_md_t& user, ptl_unlink_t unlink,
                   ptl_handle_md_t handle) {
  if (s.mds.count(handle)) fail("a handle of a memory descriptor was given out twice");
  auto md = std::make_shared<Md>();
  md->handle = handle;
  md->user = user;
  md->at = places(s, user);
  md->active = user.threshold != 0;
  md->auto_unlink = unlink == PTL_UNLINK;
  md->shown_threshold = user.threshold;
  md->me = me;
  s.mds[handle] = md;
  if (me) me->md = md;
}

void Model::md_attach(unsigned p, ptl_handle_me_t handle, const ptl_md_t& md, ptl_unlink_t unlink,
                      int rc, ptl_handle_md_t out) {
  Process& s = process(p);
  const auto it = s.mes.find(handle);
  int expected = check_md(s, md);
  if (it == s.mes.end()) {
    expected = PTL_ME_INVALID;
  } else if (it->second->md) {
    expected = PTL_ME_IN_USE;
  }
  if (!expect(rc, expected, "PtlMDAttach") || rc != PTL_OK) return;
  const ptl_pt_index_t pt = it->second->pt_index;
  add_md(s, it->second.get(), md, unlink, out);
  offer_held(s, pt);
}

void Model::md_bind(unsigned p, const ptl_md_t& md, ptl_unlink_t unlink, int rc,
                    ptl_handle_md_t out) {
  Process& s = process(p);
  if (expect(rc, check_md(s, md), "PtlMDBind") && rc == PTL_OK) add_md(s, nullptr, md, unlink, out);
}

void Model::md_unlink(unsigned p, ptl_handle_md_t handle, int rc) {
  Process& s = process(p);
  const auto it = s.mds.find(handle);
  if (it == s.mds.end()) return void(expect(rc, PTL_MD_INVALID, "PtlMDUnlink"));
  const std::shared_ptr<Md> md = it->second;
  unsigned certain = 0;
  for (const auto& op : s.ops) certain += op->md == md && !may_be_over(*op);
  const int code = in_use(certain, md->busy, rc, PTL_MD_IN_USE);
  if (!expect(rc, code, "PtlMDUnlink") || code != PTL_OK) return;
  for (auto op = s.ops.begin(); op != s.ops.end();) {
    const auto one = *op++;
    if (one->md == md) finish(s, one, true);
  }
  if (!md->gone) remove_md(s, md);
}

Model::Quiet Model::quiet(unsigned p, ptl_handle_eq_t eq, ptl_handle_md_t handle, bool events) {
  if (eq == PTL_EQ_NONE) return Quiet::yes;
  if (events) return Quiet::no;
  Process& s = process(p);
  const auto it = s.mds.find(handle);
  Quiet out = Quiet::yes;
  for (const auto& op : s.ops) {
    const bool on_queue = op->eq == eq && op->role != Op::Role::reply;
    const bool on_md = it != s.mds.end() && op->md == it->second;
    if (!on_queue && !on_md) continue;
    if (!may_be_over(*op)) return Quiet::no;
    out = Quiet::maybe;
  }
  return out;
}

void Model::md_update(unsigned p, ptl_handle_md_t handle, const ptl_md_t& user, Quiet quiet,
                      int rc) {
  Process& s = process(p);
  const auto it = s.mds.find(handle);
  int expected = check_md(s, user);
  // A refusal makes progress, which may have unlinked the descriptor by now.
  if (expected == PTL_OK && quiet != Quiet::yes && rc == PTL_MD_NO_UPDATE) return;
  if (it == s.mds.end()) {
    expected = PTL_MD_INVALID;
  } else if (expected == PTL_OK && quiet == Quiet::no) {
    expected = PTL_MD_NO_UPDATE;
  }
  if (!expect(rc, expected, "PtlMDUpdate") || rc != PTL_OK) return;
  Md& md = *it->second;
  md.user = user;
  md.at = places(s, user);
  if (!is(Mutation::update_keeps_the_offset)) md.offset = 0;
  md.active = user.threshold != 0;
  md.shown_threshold = user.threshold;
  if (md.active) md.due = false;
  if (md.me) offer_held(s, md.me->pt_index);
}

void Model::memd_post(unsigned p, ptl_handle_me_t base, const Criterion& c, ptl_ins_pos_t position,
                      const ptl_md_t& md, ptl_unlink_t unlink, Quiet quiet, int rc,
                      ptl_handle_me_t me, ptl_handle_md_t handle) {
  Process& s = process(p);
  int expected = check_md(s, md);
  const bool named = base != PTL_INVALID_HANDLE;
  if (named && quiet != Quiet::yes && rc == PTL_MD_NO_UPDATE) return;  // and made progress
  if (!s.mes.count(base)) {
    expected = PTL_ME_INVALID;
  } else if (quiet == Quiet::no) {
    expected = PTL_MD_NO_UPDATE;
  }
  if (!expect(rc, expected, "PtlMEMDPost") || rc != PTL_OK) return;
  me_insert(p, base, c, position, PTL_OK, me);
  md_attach(p, me, md, unlink, PTL_OK, handle);
}

void Model::flow_control(unsigned p, ptl_pt_index_t pt, bool on, int rc) {
  const bool known = pt < Process::kPortals;
  if (!expect(rc, known ? PTL_OK : PTL_PT_INDEX_INVALID, "PtlPTFlowControl") || !known) return;
  Process& s = process(p);
  s.flow_control[pt] = on;
  if (on) return;
  for (const auto& r : s.held[pt]) drop(s, *r);
  s.held[pt].clear();
}

void Model::ac_entry(unsigned p, ptl_ac_index_t index, const Access& entry, int rc) {
  int expected = PTL_OK;
  if (index >= Process::kAccess) {
    expected = PTL_AC_INDEX_INVALID;
  } else if (entry.pt_index != PTL_PT_INDEX_ANY && entry.pt_index != PTL_PT_INDEX_NONE &&
             entry.pt_index >= Process::kPortals) {
    expected = PTL_PT_INDEX_INVALID;
  }
  if (expect(rc, expected, "PtlACEntry") && rc == PTL_OK) process(p).access[index] = entry;
}

// --- the initiator --------------------------------------------------------------------------

int Model::check_source(Process& s, ptl_handle_md_t handle, const Region& region) {
  const auto it = s.mds.find(handle);
  if (it == s.mds.end() || !it->second->active) return PTL_MD_INVALID;
  const uint64_t bytes = it->second->at.size();
  if (!region.all && (region.local > bytes || region.length > bytes - region.local))
    return PTL_MD_ILLEGAL;
  return PTL_OK;
}

int Model::check_target(const Request& r, bool reachable) const {
  return reachable && r.to < processes_.size() ? PTL_OK : PTL_PROCESS_INVALID;
}

// Uses up one operation. True: that made the descriptor inactive.
bool Model::consume(Md& md, const std::shared_ptr<Link>& link) {
  if (md.user.threshold <= 0) return false;
  if (--md.user.threshold > 0) return false;
  const bool was_active = md.active;
  md.active = false;
  if (was_active) make_due(md, link);
  return was_active;
}

void Model::make_due(Md& md, const std::shared_ptr<Link>& link) {
  if (!md.auto_unlink || md.due) return;
  md.due = true;
  md.cause = link;
}

// The operation pins its descriptor; events are due if that has a queue and wants them.
std::shared_ptr<Op> Model::begin(Process& s, Op::Role role, const std::shared_ptr<Request>& r,
                                 const std::shared_ptr<Md>& md, ptl_event_kind_t start) {
  auto op = std::make_shared<Op>();
  op->role = role;
  op->request = r;
  op->md = md;
  ++md->busy;
  ptl_event_t& e = op->event;
  e.type = start;
  e.md_handle = md->handle;
  e.pt_index = r->pt_index;
  e.match_bits = r->bits;
  e.rlength = e.mlength = r->length;
  const Process& other = *processes_[role == Op::Role::reply ? r->to : r->from];
  e.initiator = other.id;
  e.uid = other.uid;
  e.jid = other.jid;
  if (role != Op::Role::reply) {
    op->eq = md->user.eq_handle;
    const bool queue = op->eq != PTL_EQ_NONE;
    op->wants_start = queue && !(md->user.options & PTL_MD_EVENT_START_DISABLE);
    op->wants_end = queue && !(md->user.options & PTL_MD_EVENT_END_DISABLE);
    op->start_threshold = md->user.threshold;
    if (op->wants_start) s.starts[op->eq].push_back(op);
  }
  s.ops.push_back(op);
  return op;
}

int Model::put(const std::shared_ptr<Request>& r, ptl_handle_md_t handle, const Region& region,
               bool reachable) {
  Process& s = process(r->from);
  int rc = check_source(s, handle, region);
  if (rc == PTL_OK) rc = check_target(*r, reachable);
  if (rc != PTL_OK) return rc;
  const std::shared_ptr<Md> md = s.mds[handle];
  const uint64_t local = region.all ? 0 : region.local;
  r->length = region.all ? md->at.size() : region.length;
  r->want_ack &= md->user.eq_handle != PTL_EQ_NONE;
  const auto link = std::make_shared<Link>();
  const bool last = consume(*md, link);
  const auto op = begin(s, Op::Role::send, r, md, PTL_EVENT_SEND_START);
  op->link = link;
  op->event.offset = is(Mutation::sends_tell_the_remote_offset) ? r->offset : local;
  op->event.hdr_data = r->hdr_data;
  if (last) md->cause_event = op->event;
  op->at.assign(md->at.begin() + long(local), md->at.begin() + long(local + r->length));
  r->payload = read(s, op->at);
  ++s.registers.send_count;
  s.registers.send_length += r->length;
  if (r->want_ack) acks_due_[r->serial] = {r, op};
  if (!processes_[r->to]->dead) on_the_way_[{r->from, r->to}].push_back(r);
  return PTL_OK;
}

int Model::get(const std::shared_ptr<Request>& r, ptl_handle_md_t handle, const Region& region,
               bool reachable) {
  Process& s = process(r->from);
  int rc = check_source(s, handle, region);
  if (rc == PTL_OK) rc = check_target(*r, reachable);
  if (rc != PTL_OK) return rc;
  const std::shared_ptr<Md> md = s.mds[handle];
  const uint64_t local = region.all ? 0 : region.local;
  r->length = region.all ? md->at.size() : region.length;
  const auto op = begin(s, Op::Role::reply, r, md, PTL_EVENT_REPLY_START);
  op->event.offset = local;
  op->at.assign(md->at.begin() + long(local), md->at.begin() + long(local + r->length));
  op->writes = true;
  begin_write(s, *op);  // the bytes may come at any time from now on
  ++s.registers.send_count;
  if (!processes_[r->to]->dead) on_the_way_[{r->from, r->to}].push_back(r);
  return PTL_OK;
}

int Model::getput(const std::shared_ptr<Request>& r, ptl_handle_md_t get_handle,
                  ptl_handle_md_t put_handle, bool reachable) {
  Process& s = process(r->from);
  int rc = check_source(s, get_handle, {});
  if (rc == PTL_OK) rc = check_source(s, put_handle, {});
  if (rc == PTL_OK && s.mds[put_handle]->at.size() > kGetputMax) rc = PTL_MD_ILLEGAL;
  if (rc == PTL_OK) rc = check_target(*r, reachable);
  if (rc != PTL_OK) return rc;
  const std::shared_ptr<Md> get_md = s.mds[get_handle], put_md = s.mds[put_handle];
  r->length = put_md->at.size();
  r->payload = read(s, put_md->at);
  const auto back = begin(s, Op::Role::reply, r, get_md, PTL_EVENT_REPLY_START);
  back->at.assign(get_md->at.begin(),
                  get_md->at.begin() + long(std::min<uint64_t>(r->length, get_md->at.size())));
  back->writes = true;
  begin_write(s, *back);
  const auto link = std::make_shared<Link>();
  const bool last = consume(*put_md, link);
  const auto op = begin(s, Op::Role::send, r, put_md, PTL_EVENT_SEND_START);
  op->link = link;
  op->event.hdr_data = r->hdr_data;
  if (last) put_md->cause_event = op->event;
  ++s.registers.send_count;
  s.registers.send_length += r->length;
  if (!processes_[r->to]->dead) on_the_way_[{r->from, r->to}].push_back(r);
  return PTL_OK;
}

}  // namespace torii::model
