// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Address translation and acceptance, by the letter of Portals 3.3; and bytes of memory.
#include <algorithm>
#include <cstdio>

#include "sim/portals_model.h"

namespace torii::model {

namespace {

bool matches(const Criterion& c, const Process& from, const Request& r, Mutation mutation) {
  const bool id = (c.match_id.nid == PTL_NID_ANY || c.match_id.nid == from.id.nid) &&
                  (c.match_id.pid == PTL_PID_ANY || c.match_id.pid == from.id.pid);
  if (!id && mutation != Mutation::match_id_is_ignored) return false;
  return ((r.bits ^ c.match_bits) & ~c.ignore_bits) == 0;
}

}  // namespace

bool Model::admitted(const Process& s, const Request& r) const {
  if (is(Mutation::access_control_is_open)) return true;
  if (r.ac_index >= Process::kAccess) return false;
  const Access& a = s.access[r.ac_index];
  const Process& from = *processes_[r.from];
  return (a.uid == PTL_UID_ANY || a.uid == from.uid) &&
         (a.jid == PTL_JID_ANY || a.jid == from.jid) &&
         (a.id.nid == PTL_NID_ANY || a.id.nid == from.id.nid) &&
         (a.id.pid == PTL_PID_ANY || a.id.pid == from.id.pid) &&
         (a.pt_index == PTL_PT_INDEX_ANY || a.pt_index == r.pt_index);
}

bool Model::accepts(const Md& md, const Request& r, uint64_t* offset, uint64_t* accepted) const {
  const bool put = md.user.options & PTL_MD_OP_PUT, get = md.user.options & PTL_MD_OP_GET;
  if (r.verb == Verb::put && !put) return false;
  if (r.verb == Verb::get && !get) return false;
  if (r.verb == Verb::getput && !(put && get) &&
      !(is(Mutation::getput_needs_one_permission) && (put || get)))
    return false;
  *offset = md.user.options & PTL_MD_MANAGE_REMOTE ? r.offset : md.offset;
  if (*offset > md.at.size()) return false;
  const uint64_t room = md.at.size() - *offset;
  *accepted = std::min(r.length, room);
  if (r.length <= room) return true;
  if (is(Mutation::truncates_never_to_nothing) && room == 0) return false;
  return md.user.options & PTL_MD_TRUNCATE;
}

Me* Model::walk(Process& s, const Request& r) {
  Me* found = nullptr;
  for (Me* me : s.lists[r.pt_index]) {
    uint64_t offset = 0, accepted = 0;
    if (!matches(me->criterion, *processes_[r.from], r, mutation_)) continue;
    if (!me->md || !me->md->active) {
      if (is(Mutation::inactive_ends_the_search)) break;
      continue;
    }
    if (!accepts(*me->md, r, &offset, &accepted)) {
      if (is(Mutation::unfit_ends_the_search)) break;
      continue;
    }
    found = me;
    if (!is(Mutation::last_match_wins)) break;
  }
  return found;
}

void Model::drop(Process& s, Request& r) {
  r.state = Request::State::dropped;
  if (is(Mutation::drops_are_not_counted)) return;
  ++s.registers.drop_count;
  s.registers.drop_length += r.length;
}

void Model::accept(Process& s, Me& me, const std::shared_ptr<Request>& r) {
  const std::shared_ptr<Md> md = me.md;
  uint64_t offset = 0;
  (void)accepts(*md, *r, &offset, &r->accepted);
  r->state = Request::State::accepted;
  r->ack_disabled =
      (md->user.options & PTL_MD_ACK_DISABLE) && !is(Mutation::ack_disable_is_ignored);
  ++accepted;
  ++s.registers.recv_count;
  s.registers.recv_length += r->accepted;

  const auto link = std::make_shared<Link>();
  const bool was_active = md->active;
  (void)consume(*md, link);
  if (!(md->user.options & PTL_MD_MANAGE_REMOTE)) {
    if (!is(Mutation::local_offset_stays)) md->offset += r->accepted;
    const uint64_t room = md->at.size() - md->offset;
    const bool full =
        is(Mutation::max_size_is_inclusive) ? room <= md->user.max_size : room < md->user.max_size;
    if ((md->user.options & PTL_MD_MAX_SIZE) && full) {
      md->active = false;
      if (was_active) make_due(*md, link);
    }
  }
  constexpr ptl_event_kind_t kStarts[] = {PTL_EVENT_PUT_START, PTL_EVENT_GET_START,
                                          PTL_EVENT_GETPUT_START};
  const auto op = begin(s, Op::Role::target, r, md, kStarts[size_t(r->verb)]);
  op->link = link;
  op->event.mlength = r->accepted;
  op->event.offset = offset;
  op->event.hdr_data = r->verb == Verb::get ? 0 : r->hdr_data;
  if (was_active && !md->active) md->cause_event = op->event;
  op->at.assign(md->at.begin() + long(offset), md->at.begin() + long(offset + r->accepted));
  if (verbose)
    std::printf("              accepted by md %llx at offset %llu, memory from %u\n",
                static_cast<unsigned long long>(md->handle),
                static_cast<unsigned long long>(offset), op->at.empty() ? 0 : op->at[0]);
  if (r->verb == Verb::put) {
    op->writes = true;
    begin_write(s, *op);
    return;
  }
  r->answer = read(s, op->at);
  if (r->verb == Verb::getput) {  // swapped in one step; the reply has a copy
    write_now(s, op->at, r->payload);
    op->at.clear();
  }
}

void Model::arrive(unsigned from, unsigned to, Verb verb, uint64_t bits, uint64_t length) {
  auto& queue = on_the_way_[{from, to}];
  if (queue.empty()) return fail("a request arrived that nobody sent");
  const std::shared_ptr<Request> r = queue.front();
  queue.pop_front();
  if (r->verb != verb || r->bits != bits || r->length != length)
    return fail("requests arrive in another order than they were made");
  if (verbose) std::printf("              request %u arrives at %u\n", r->serial, to);
  Process& s = process(to);
  if (r->pt_index >= Process::kPortals) return drop(s, *r);
  if (!admitted(s, *r)) {
    ++s.registers.denied;
    return drop(s, *r);
  }
  if (Me* me = walk(s, *r)) return accept(s, *me, r);
  if (r->verb != Verb::put || !s.flow_control[r->pt_index]) return drop(s, *r);
  r->state = Request::State::held;
  auto& held = s.held[r->pt_index];
  if (is(Mutation::held_puts_come_last_first)) {
    held.push_front(r);
  } else {
    held.push_back(r);
  }
}

// After an entry was armed: every held put, in the order of arrival, walks the list again.
void Model::offer_held(Process& s, ptl_pt_index_t pt) {
  for (auto it = s.held[pt].begin(); it != s.held[pt].end();) {
    const std::shared_ptr<Request> r = *it;
    Me* me = walk(s, *r);
    if (!me) {
      ++it;
      continue;
    }
    it = s.held[pt].erase(it);
    ++held_matches;
    accept(s, *me, r);
  }
}

// --- memory ---------------------------------------------------------------------------------

std::vector<Byte> Model::read(const Process& s, std::span<const uint32_t> at) const {
  std::vector<Byte> out;
  out.reserve(at.size());
  for (uint32_t a : at) out.push_back(s.bytes[a]);
  return out;
}

// Somebody writes to `at`: what operations under way read there is unknown from now on, what they
// write there, too (and `self`, an operation that begins, has the same fate).
void Model::tear(Process& s, std::span<const uint32_t> at, Op* self) {
  ++s.epoch;
  for (size_t i = 0; i < at.size(); ++i) {
    s.mark[at[i]] = s.epoch;
    s.place[at[i]] = uint32_t(i);
  }
  for (const auto& other : s.ops) {
    if (other.get() == self) continue;
    std::vector<Byte>* data = nullptr;
    if (other->role == Op::Role::send) data = &other->request->payload;
    if (other->role == Op::Role::target) data = &other->request->answer;
    for (size_t i = 0; i < other->at.size(); ++i) {
      if (s.mark[other->at[i]] != s.epoch) continue;
      if (other->writes) {
        other->torn[i] = true;
        if (self) self->torn[s.place[other->at[i]]] = true;
      } else if (data && i < data->size()) {
        (*data)[i] = kUnknown;
      }
    }
  }
}

void Model::begin_write(Process& s, Op& op) {
  op.before = read(s, op.at);
  op.torn.assign(op.at.size(), false);
  tear(s, op.at, &op);
  for (uint32_t a : op.at) s.bytes[a] = kUnknown;
}

// The first `bytes` bytes are there, the others were not touched; or it failed.
void Model::end_write(Process& s, Op& op, uint64_t bytes, bool ok) {
  const std::vector<Byte>& data = op.source();
  for (size_t i = 0; i < op.at.size(); ++i) {
    const Byte now = i < bytes ? data[i] : op.before[i];
    s.bytes[op.at[i]] = op.torn[i] || !ok ? kUnknown : now;
  }
}

void Model::write_now(Process& s, std::span<const uint32_t> at, std::span<const Byte> data) {
  tear(s, at, nullptr);
  for (size_t i = 0; i < at.size(); ++i) s.bytes[at[i]] = data[i];
  for (const auto& other : s.ops)
    if (other->writes)
      for (uint32_t a : other->at) s.bytes[a] = kUnknown;
}

bool Model::compare(Process& s, std::span<const uint32_t> at, const std::string& when) {
  for (size_t i = 0; i < at.size(); ++i) {
    const Byte known = s.bytes[at[i]];
    if (known == kUnknown || known == s.memory[at[i]]) continue;
    fail(when + ": byte " + std::to_string(i) + " of " + std::to_string(at.size()) + " is " +
         std::to_string(s.memory[at[i]]) + ", the model " + std::to_string(known));
    return false;
  }
  return true;
}

void Model::compare_all(Process& s) {
  std::vector<uint32_t> all(s.bytes.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = uint32_t(i);
  compare(s, all,
          "memory of " + std::to_string(s.id.nid) + "/" + std::to_string(s.id.pid) + " at rest");
  for (size_t i = 0; i < all.size(); ++i) {
    ++compared_bytes;
    known_bytes += s.bytes[i] != kUnknown;
    s.bytes[i] = s.memory[i];
  }
}

bool Model::touched(unsigned p, uint32_t at, uint32_t bytes) {
  for (const auto& op : process(p).ops)
    for (uint32_t a : op->at)
      if (a - at < bytes) return true;
  return false;
}

void Model::scribble(unsigned p, uint32_t at, std::span<const unsigned char> bytes) {
  if (verbose) std::printf("              %u writes memory from %u, %zu\n", p, at, bytes.size());
  Process& s = process(p);
  for (size_t i = 0; i < bytes.size(); ++i) {
    s.memory[at + i] = bytes[i];
    s.bytes[at + i] = bytes[i];
  }
}

}  // namespace torii::model
