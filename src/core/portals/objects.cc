// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Making, changing and removing match entries, memory descriptors, event queues and access
// control entries.
#include <algorithm>

#include "core/portals/portals.h"

namespace torii {

namespace {

struct LimitRange {
  int ptl_ni_limits_t::*member;
  int usual;
  int most;
};

// Portal indexes travel in one byte, and 255 must stay free (see kNoPortal).
constexpr LimitRange kLimits[] = {
    {&ptl_ni_limits_t::max_mes, int(kHandleIndexes), int(kHandleIndexes)},
    {&ptl_ni_limits_t::max_mds, int(kHandleIndexes), int(kHandleIndexes)},
    {&ptl_ni_limits_t::max_eqs, 1 << 16, 1 << 16},
    {&ptl_ni_limits_t::max_ac_index, 63, 4095},
    {&ptl_ni_limits_t::max_pt_index, 63, 254},
    {&ptl_ni_limits_t::max_md_iovecs, 1 << 16, 1 << 20},
    {&ptl_ni_limits_t::max_me_list, int(kHandleIndexes), int(kHandleIndexes)},
    {&ptl_ni_limits_t::max_getput_md, int(Protocol::kGetputMax), int(Protocol::kGetputMax)},
};

}  // namespace

ptl_ni_limits_t Portals::grant(const ptl_ni_limits_t* desired) {
  ptl_ni_limits_t limits{};
  for (const LimitRange& l : kLimits) {
    const int asked = desired ? desired->*l.member : 0;
    limits.*l.member = asked > 0 ? std::min(asked, l.most) : l.usual;
  }
  return limits;
}

Portals::Portals(Protocol& protocol, Counters& counters, PortalsHost& host,
                 const ptl_ni_limits_t& limits)
    : protocol_(protocol),
      counters_(counters),
      host_(host),
      limits_(limits),
      mes_(kHandleIndexes),
      mds_(kHandleIndexes),
      eqs_(kHandleIndexes) {}

Portals::~Portals() {
  close();
  transfers_.for_each([this](Transfer* t) { transfers_.put(t); });
  mds_.for_each([this](Md* md) { mds_.put(md); });
}

void Portals::open(NiTag tag, const ptl_ni_limits_t& limits) {
  tag_ = tag;
  limits_ = limits;
  table_.reset(uint32_t(limits.max_pt_index) + 1);
  access_.reset(uint32_t(limits.max_ac_index) + 1, protocol_.self().uid);
  totals_ = {};
  open_ = true;
}

void Portals::close() {
  if (!open_) return;
  open_ = false;
  for (uint32_t i = 0; i < table_.size(); ++i) {
    PortalEntry& portal = *table_.find(i);
    while (ArrivalNode* n = portal.held.first()) drop_held(portal, static_cast<HeldPut*>(n));
  }
  table_.reset(0);
  mes_.for_each([this](Me* me) { mes_.put(me); });
  mds_.for_each([this](Md* md) {
    md->me = nullptr;
    md->orphan = true;  // its memory may be in use: it goes with its last operation
    if (md->pending == 0) mds_.put(md);
  });
  eqs_.for_each([this](Eq* eq) { eqs_.put(eq); });
  handler_queues_.clear();
  wake_waiters();
}

// --- match entries --------------------------------------------------------------------------

int Portals::make_me(PortalEntry& portal, uint32_t pt_index, const MeCriterion& criterion,
                     Me** out) {
  if (portal.entries.size() >= size_t(limits_.max_me_list)) return PTL_ME_LIST_TOO_LONG;
  if (mes_.used() >= uint32_t(limits_.max_mes)) return PTL_NO_SPACE;
  Me* me = mes_.get();
  if (!me) return PTL_NO_SPACE;
  me->set_criterion(criterion.match_id, criterion.match_bits, criterion.ignore_bits);
  me->pt_index = pt_index;
  me->auto_unlink = criterion.unlink == PTL_UNLINK;
  *out = me;
  return PTL_OK;
}

int Portals::me_attach(ptl_pt_index_t pt_index, const MeCriterion& criterion,
                       ptl_ins_pos_t position, ptl_handle_me_t* out) {
  PortalEntry* portal = table_.find(pt_index);
  if (!portal) return PTL_PT_INDEX_INVALID;
  Me* me = nullptr;
  if (int rc = make_me(*portal, pt_index, criterion, &me); rc != PTL_OK) return rc;
  // Portals 3.3: on PtlMEAttach BEFORE and AFTER are head and tail of the list.
  if (position == PTL_INS_BEFORE) {
    portal->entries.prepend(me);
  } else {
    portal->entries.append(me);
  }
  *out = handle_of(me);
  return PTL_OK;
}

int Portals::me_attach_any(ptl_pt_index_t* pt_index, const MeCriterion& criterion,
                           ptl_handle_me_t* out) {
  const uint32_t index = table_.unused();
  if (index == table_.size()) return PTL_PT_FULL;
  const int rc = me_attach(index, criterion, PTL_INS_AFTER, out);
  if (rc == PTL_OK) *pt_index = index;
  return rc;
}

int Portals::me_insert(ptl_handle_me_t base_handle, const MeCriterion& criterion,
                       ptl_ins_pos_t position, ptl_handle_me_t* out) {
  Me* base = find_me(base_handle);
  if (!base) return PTL_ME_INVALID;
  PortalEntry& portal = *table_.find(base->pt_index);
  Me* me = nullptr;
  if (int rc = make_me(portal, base->pt_index, criterion, &me); rc != PTL_OK) return rc;
  if (position == PTL_INS_BEFORE) {
    portal.entries.insert_before(base, me);
  } else {
    portal.entries.insert_after(base, me);
  }
  *out = handle_of(me);
  return PTL_OK;
}

void Portals::remove_me(Me* me) {
  table_.find(me->pt_index)->entries.remove(me);
  mes_.put(me);
}

int Portals::me_unlink(ptl_handle_me_t handle) {
  Me* me = find_me(handle);
  if (me && me->md && me->md->pending > 0) {
    host_.progress();
    me = find_me(handle);
  }
  if (!me) return PTL_ME_INVALID;
  if (me->md && me->md->pending > 0) return PTL_ME_IN_USE;
  // Portals 3.3: the entry takes its descriptor along, whatever that one's unlink mode.
  if (Md* md = me->md) {
    me->md = nullptr;
    md->me = nullptr;
    remove_md(md);
  }
  remove_me(me);
  return PTL_OK;
}

// --- memory descriptors ---------------------------------------------------------------------

int Portals::check_md(const ptl_md_t& md, Memory* memory, uint64_t* eq) const {
  const Status s = Memory::describe(md, uint32_t(limits_.max_md_iovecs), memory);
  if (s == Status::no_memory) return PTL_NO_SPACE;
  if (s != Status::ok) return PTL_MD_ILLEGAL;
  *eq = 0;
  if (md.eq_handle == PTL_EQ_NONE) return PTL_OK;
  // Portals 3.3: the queue must be on the interface of the descriptor.
  if (handle_kind(md.eq_handle) == HandleKind::eq &&
      tag_ni(handle_tag(md.eq_handle)) != tag_ni(tag_))
    return PTL_MD_ILLEGAL;
  if (!find_eq(md.eq_handle)) return PTL_EQ_INVALID;
  *eq = handle_slot(md.eq_handle);
  return PTL_OK;
}

int Portals::make_md(const ptl_md_t& user, ptl_unlink_t unlink, Md** out) {
  Memory memory;
  uint64_t eq = 0;
  if (int rc = check_md(user, &memory, &eq); rc != PTL_OK) return rc;
  if (mds_.used() >= uint32_t(limits_.max_mds)) return PTL_NO_SPACE;
  Md* md = mds_.get();
  if (!md) return PTL_NO_SPACE;
  md->user = user;
  md->memory = memory;
  md->eq = eq;
  md->active = user.threshold != 0;
  md->auto_unlink = unlink == PTL_UNLINK;
  *out = md;
  return PTL_OK;
}

int Portals::md_attach(ptl_handle_me_t handle, const ptl_md_t& user, ptl_unlink_t unlink,
                       ptl_handle_md_t* out) {
  Me* me = find_me(handle);
  if (!me) return PTL_ME_INVALID;
  if (me->md) return PTL_ME_IN_USE;
  Md* md = nullptr;
  if (int rc = make_md(user, unlink, &md); rc != PTL_OK) return rc;
  me->md = md;
  md->me = me;
  if (out) *out = handle_of(md);
  armed(*me);
  return PTL_OK;
}

int Portals::md_bind(const ptl_md_t& user, ptl_unlink_t unlink, ptl_handle_md_t* out) {
  Md* md = nullptr;
  if (int rc = make_md(user, unlink, &md); rc != PTL_OK) return rc;
  *out = handle_of(md);
  return PTL_OK;
}

// Portals 3.3: an entry made with PTL_UNLINK goes with its descriptor, one with PTL_RETAIN stays
// empty and can take another.
void Portals::remove_md(Md* md) {
  Me* me = md->me;
  if (Eq* eq = eqs_.find(md->unlink_eq)) eq->unpromise(1);
  mds_.put(md);
  if (!me) return;
  me->md = nullptr;
  if (me->auto_unlink) remove_me(me);
}

int Portals::md_unlink(ptl_handle_md_t handle) {
  Md* md = find_md(handle);
  if (md && md->pending > 0) {
    host_.progress();
    md = find_md(handle);
  }
  if (!md) return PTL_MD_INVALID;
  if (md->pending > 0) return PTL_MD_IN_USE;
  remove_md(md);
  return PTL_OK;
}

// Portals 3.3: "empty" includes the events of operations that have begun.
int Portals::test_quiet(ptl_handle_eq_t test_eq, const Md* md) const {
  if (test_eq == PTL_EQ_NONE) return PTL_OK;
  const Eq* eq = find_eq(test_eq);
  if (!eq) return PTL_EQ_INVALID;
  return eq->quiet() && (!md || md->pending == 0) ? PTL_OK : PTL_MD_NO_UPDATE;
}

void Portals::read_md(const Md& md, ptl_md_t* out) const {
  const ptl_md_t room = md.option(PTL_MD_IOVEC) ? *out : ptl_md_t{};
  *out = md.user;
  if (!(room.options & PTL_MD_IOVEC) || !room.start || room.length < md.user.length) return;
  auto* list = static_cast<ptl_md_iovec_t*>(room.start);
  for (uint32_t i = 0; i < md.memory.piece_count(); ++i)
    list[i] = {md.memory.piece(i).iov_base, md.memory.piece(i).iov_len};
  out->start = room.start;
}

int Portals::md_update(ptl_handle_md_t handle, ptl_md_t* old_md, const ptl_md_t* new_md,
                       ptl_handle_eq_t test_eq) {
  Md* md = find_md(handle);
  if (!md) return PTL_MD_INVALID;
  // One structure may serve as both.
  const ptl_md_t user = new_md ? *new_md : ptl_md_t{};
  if (old_md) read_md(*md, old_md);
  if (!new_md) return PTL_OK;
  Memory memory;
  uint64_t eq = 0;
  if (int rc = check_md(user, &memory, &eq); rc != PTL_OK) return rc;
  if (int rc = test_quiet(test_eq, md); rc != PTL_OK) {
    if (rc == PTL_MD_NO_UPDATE) host_.progress();
    return rc;
  }
  // Operations under way keep the memory and the queue they began with.
  md->user = user;
  md->memory = memory;
  md->eq = eq;
  md->local_offset = 0;
  md->active = user.threshold != 0;
  if (md->active && md->unlink_due) {
    md->unlink_due = false;
    if (Eq* promised = eqs_.find(md->unlink_eq)) promised->unpromise(1);
    md->unlink_eq = 0;
  }
  if (md->me) armed(*md->me);
  return PTL_OK;
}

int Portals::memd_post(ptl_handle_me_t base, const MeCriterion& criterion, ptl_ins_pos_t position,
                       const ptl_md_t& user, ptl_unlink_t unlink, ptl_handle_me_t* me_out,
                       ptl_handle_md_t* md_out, ptl_handle_eq_t test_eq) {
  if (!find_me(base)) return PTL_ME_INVALID;
  if (int rc = test_quiet(test_eq, nullptr); rc != PTL_OK) {
    if (rc == PTL_MD_NO_UPDATE) host_.progress();
    return rc;
  }
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  if (int rc = me_insert(base, criterion, position, &me); rc != PTL_OK) return rc;
  *me_out = me;
  const int rc = md_attach(me, user, unlink, md_out);
  if (rc != PTL_OK) remove_me(find_me(me));
  return rc;
}

// --- event queues and access control --------------------------------------------------------

int Portals::eq_alloc(ptl_size_t count, ptl_eq_handler_t handler, ptl_handle_eq_t* out) {
  if (count == 0 && !handler) {
    *out = PTL_EQ_NONE;
    return PTL_OK;
  }
  if (eqs_.used() >= uint32_t(limits_.max_eqs)) return PTL_NO_SPACE;
  Eq* eq = eqs_.get();
  if (!eq) return PTL_NO_SPACE;
  if (!eq->reserve(count, handler)) {
    eqs_.put(eq);
    return PTL_NO_SPACE;
  }
  *out = make_handle(HandleKind::eq, tag_, SlotPool<Eq>::handle(eq));
  return PTL_OK;
}

// Whatever still names the queue finds nothing there any more.
int Portals::eq_free(ptl_handle_eq_t handle) {
  Eq* eq = find_eq(handle);
  if (!eq) return PTL_EQ_INVALID;
  eqs_.put(eq);
  wake_waiters();
  return PTL_OK;
}

int Portals::ac_entry(ptl_ac_index_t index, const AccessEntry& entry) {
  if (index > uint32_t(limits_.max_ac_index)) return PTL_AC_INDEX_INVALID;
  if (entry.pt_index != PTL_PT_INDEX_ANY && entry.pt_index != PTL_PT_INDEX_NONE &&
      !table_.find(entry.pt_index))
    return PTL_PT_INDEX_INVALID;
  (void)access_.set(index, entry);
  return PTL_OK;
}

bool Portals::valid(ptl_handle_any_t handle) const {
  return find_me(handle) || find_md(handle) || find_eq(handle);
}

}  // namespace torii
