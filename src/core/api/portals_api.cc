// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// portals3.h: checks pointers, finds the interface of the handle, takes its lock, calls inward,
// gives up the lock, runs event handlers.
#include <atomic>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/api/launched_ni.h"
#include "core/api/ni_registry.h"
#include "core/base/log.h"

namespace torii {
namespace {

std::atomic<int> g_inits{0};
std::atomic<unsigned> g_debug_mask{0};

// The interface of PtlNIInit.
std::mutex g_default_lock;
const NiOpener* g_opener = &kLaunchedNi;
ptl_handle_ni_t g_default = PTL_INVALID_HANDLE;
Portals* g_default_portals = nullptr;
unsigned g_default_users = 0;
// For the interface that PtlNIInit opens next.
RankOverride g_next_rank;
RankMaps g_next_maps;

// One call on the interface that a handle names: holds its lock and runs handlers at the end.
class Call {
 public:
  // The handle must be of this kind; `none` takes any.
  Call(ptl_handle_any_t handle, HandleKind kind) : initialised_(g_inits.load() > 0) {
    if (!initialised_) return;
    if (kind != HandleKind::none && handle_kind(handle) != kind) return;
    portals_ = find_ni(handle);
    if (portals_) portals_->host().lock();
  }
  ~Call() {
    if (!portals_) return;
    const bool due = portals_->handlers_due();
    portals_->host().unlock();
    if (due) portals_->run_handlers();
  }
  Call(const Call&) = delete;

  explicit operator bool() const { return portals_ != nullptr; }
  // The code to return when there is no interface.
  int error(int code) const { return initialised_ ? code : PTL_NO_INIT; }
  Portals* operator->() const { return portals_; }

 private:
  bool initialised_;
  Portals* portals_ = nullptr;
};

PortalsRequest request_of(ptl_process_id_t target, ptl_pt_index_t pt_index, ptl_ac_index_t ac_index,
                          ptl_match_bits_t match_bits, ptl_size_t remote_offset) {
  PortalsRequest r;
  r.target = target;
  r.pt_index = pt_index;
  r.ac_index = ac_index;
  r.match_bits = match_bits;
  r.remote_offset = remote_offset;
  return r;
}

int put(ptl_handle_md_t md, const MdRegion* region, PortalsRequest request, ptl_ack_req_t ack_req,
        ptl_hdr_data_t hdr_data) {
  Call call(md, HandleKind::md);
  if (!call) return call.error(PTL_MD_INVALID);
  request.want_ack = ack_req == PTL_ACK_REQ;
  request.hdr_data = hdr_data;
  return call->put(md, region, request);
}

int get(ptl_handle_md_t md, const MdRegion* region, const PortalsRequest& request) {
  Call call(md, HandleKind::md);
  if (!call) return call.error(PTL_MD_INVALID);
  return call->get(md, region, request);
}

void close_default() {
  if (!g_default_portals->host().forked()) unregister_ni(g_default);
  g_opener->close(g_default_portals);
  g_default = PTL_INVALID_HANDLE;
  g_default_portals = nullptr;
  g_default_users = 0;
}

int open_default(const PidRequest& request, const ptl_ni_limits_t* desired) {
  if (!g_opener) return PTL_IFACE_INVALID;
  std::string why;
  Portals* portals = nullptr;
  const Status s = g_opener->open(request, &portals, &why);
  if (s != Status::ok) {
    TORII_ERROR("PtlNIInit: %s", why.c_str());
    if (s == Status::invalid) return PTL_PID_INVALID;
    return s == Status::no_memory ? PTL_NO_SPACE : PTL_FAIL;
  }
  portals->debug_mask = g_debug_mask;
  g_default = register_ni(*portals, desired);
  g_default_portals = portals;
  if (g_default != PTL_INVALID_HANDLE) {
    *rank_override(g_default) = request.group;
    return PTL_OK;
  }
  g_opener->close(portals);
  g_default_portals = nullptr;
  return PTL_NO_SPACE;
}

// Rank and number of processes of this process's group.
RankOverride group_of(const Call& call, ptl_handle_ni_t ni) {
  const RankOverride& own = *rank_override(ni);
  if (own.set) return own;
  return {true, call->self().rank, call->host().job_size()};
}

// One of the two maps.
struct MapKind {
  std::vector<uint32_t> RankMaps::*ids;
  uint32_t ptl_process_id_t::*id;
  int other;  // the answer to one that gives this process another id than it has
};
constexpr MapKind kNids{&RankMaps::nids, &ptl_process_id_t::nid, PTL_FAIL};
constexpr MapKind kPids{&RankMaps::pids, &ptl_process_id_t::pid, PTL_PID_INVALID};

// Does it agree with what the interface has been opened as?
int check_map(const Call& call, ptl_handle_ni_t ni, const MapKind& kind,
              std::span<const uint32_t> ids) {
  const RankOverride group = group_of(call, ni);
  if (ids.size() != group.size) return PTL_FAIL;
  const ptl_process_id_t self{call->self().nid, call->self().pid};
  return ids[group.rank] == self.*kind.id ? PTL_OK : kind.other;
}

// Gives the interface that has just been opened the maps that were set before.
int adopt_maps(RankMaps maps) {
  Call call(g_default, HandleKind::ni);
  int rc = maps.nids.empty() ? PTL_OK : check_map(call, g_default, kNids, maps.nids);
  if (rc == PTL_OK && !maps.pids.empty()) rc = check_map(call, g_default, kPids, maps.pids);
  *rank_maps(g_default) = std::move(maps);
  return rc;
}

// The ids of a rank; false if nobody has told them.
bool find_rank(const Call& call, ptl_handle_ni_t ni, uint32_t rank, ptl_process_id_t* id) {
  const RankMaps& maps = *rank_maps(ni);
  const bool has_nid = rank < maps.nids.size(), has_pid = rank < maps.pids.size();
  if (!(has_nid && has_pid) && !call->host().rank_ids(rank, &id->nid, &id->pid)) return false;
  if (has_nid) id->nid = maps.nids[rank];
  if (has_pid) id->pid = maps.pids[rank];
  return true;
}

int set_map(ptl_handle_ni_t ni, const MapKind& kind, const uint32_t* map, unsigned size) {
  if (ni == PTL_INVALID_HANDLE) {
    std::lock_guard guard(g_default_lock);
    if (g_inits.load() <= 0) return PTL_NO_INIT;
    if (!map) return PTL_SEGV;
    (g_next_maps.*kind.ids).assign(map, map + size);
    return PTL_OK;
  }
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!map) return PTL_SEGV;
  const int rc = check_map(call, ni, kind, {map, size});
  if (rc == PTL_OK) (rank_maps(ni)->*kind.ids).assign(map, map + size);
  return rc;
}

int get_map(ptl_handle_ni_t ni, const MapKind& kind, uint32_t* map, unsigned size) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!map) return PTL_SEGV;
  if (size != group_of(call, ni).size) return PTL_FAIL;
  for (unsigned rank = 0; rank < size; ++rank) {
    ptl_process_id_t id{};
    if (!find_rank(call, ni, rank, &id)) return PTL_FAIL;
    map[rank] = id.*kind.id;
  }
  return PTL_OK;
}

}  // namespace

const NiOpener* set_ni_opener(const NiOpener* opener) {
  std::lock_guard guard(g_default_lock);
  const NiOpener* former = g_opener;
  g_opener = opener;
  return former;
}

}  // namespace torii

using namespace torii;

extern "C" {

// --- library and interfaces -------------------------------------------------------------------

int PtlInit(int* max_interfaces) {
  if (!max_interfaces) return PTL_SEGV;
  *max_interfaces = int(kMaxInterfaces);
  ++g_inits;
  return PTL_OK;
}

void PtlFini(void) {
  std::lock_guard guard(g_default_lock);
  const int before = g_inits.load();
  if (before <= 0) return;
  if (before == 1) {
    if (g_default_portals) close_default();
    if (g_opener) g_opener->leave();
    g_next_rank = {};
    g_next_maps = {};
  }
  --g_inits;
}

int PtlNIInit(ptl_interface_t iface, ptl_pid_t pid, ptl_ni_limits_t* desired,
              ptl_ni_limits_t* actual, ptl_handle_ni_t* ni) {
  std::lock_guard guard(g_default_lock);
  if (g_inits.load() <= 0) return PTL_NO_INIT;
  if (!ni) return PTL_SEGV;
  if (iface != PTL_IFACE_DEFAULT) return PTL_IFACE_INVALID;
  if (!g_default_portals) {
    RankMaps maps = std::exchange(g_next_maps, {});
    int rc = open_default({pid, maps.pids, std::exchange(g_next_rank, {})}, desired);
    if (rc != PTL_OK) return rc;
    if (rc = adopt_maps(std::move(maps)); rc != PTL_OK) {
      close_default();
      return rc;
    }
  }
  // Portals 3.3: a process has one pid on an interface.
  const ptl_pid_t own = g_default_portals->self().pid;
  if (pid != PTL_PID_ANY && pid != own) {
    if (g_default_users == 0) close_default();
    return PTL_PID_INVALID;
  }
  ++g_default_users;
  if (actual) *actual = g_default_portals->limits();
  *ni = g_default;
  return PTL_OK;
}

int PtlNIFini(ptl_handle_ni_t ni) {
  std::lock_guard guard(g_default_lock);
  if (g_inits.load() <= 0) return PTL_NO_INIT;
  if (g_default_portals && ni == g_default) {
    if (--g_default_users == 0) close_default();
    return PTL_OK;
  }
  return unregister_ni(ni) ? PTL_OK : PTL_NI_INVALID;
}

int PtlNIStatus(ptl_handle_ni_t ni, ptl_sr_index_t status_register, ptl_sr_value_t* status) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!status) return PTL_SEGV;
  return call->status_register(status_register, status);
}

int PtlNIDist(ptl_handle_ni_t ni, ptl_process_id_t process, unsigned long* distance) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!distance) return PTL_SEGV;
  std::string why;
  if (process.nid == PTL_NID_ANY || process.pid == PTL_PID_ANY ||
      !call->host().resolve(process.nid, process.pid, &why))
    return PTL_PROCESS_INVALID;
  const Identity& self = call->self();
  *distance = process.nid != self.nid ? 2 : process.pid != self.pid ? 1 : 0;
  return PTL_OK;
}

int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t* ni) {
  Call call(handle, HandleKind::none);
  if (!call) return call.error(PTL_HANDLE_INVALID);
  if (!ni) return PTL_SEGV;
  if (handle_kind(handle) != HandleKind::ni && !call->valid(handle)) return PTL_HANDLE_INVALID;
  *ni = ni_handle(call->tag());
  return PTL_OK;
}

int PtlGetUid(ptl_handle_ni_t ni, ptl_uid_t* uid) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!uid) return PTL_SEGV;
  *uid = call->self().uid;
  return PTL_OK;
}

int PtlGetId(ptl_handle_ni_t ni, ptl_process_id_t* id) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!id) return PTL_SEGV;
  *id = {call->self().nid, call->self().pid};
  return PTL_OK;
}

int PtlGetJid(ptl_handle_ni_t ni, ptl_jid_t* jid) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!jid) return PTL_SEGV;
  *jid = call->jid();
  return PTL_OK;
}

// --- match entries ----------------------------------------------------------------------------

int PtlMEAttach(ptl_handle_ni_t ni, ptl_pt_index_t pt_index, ptl_process_id_t match_id,
                ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits, ptl_unlink_t unlink,
                ptl_ins_pos_t position, ptl_handle_me_t* me) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!me) return PTL_SEGV;
  return call->me_attach(pt_index, {match_id, match_bits, ignore_bits, unlink}, position, me);
}

int PtlMEAttachAny(ptl_handle_ni_t ni, ptl_pt_index_t* pt_index, ptl_process_id_t match_id,
                   ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits, ptl_unlink_t unlink,
                   ptl_handle_me_t* me) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!pt_index || !me) return PTL_SEGV;
  return call->me_attach_any(pt_index, {match_id, match_bits, ignore_bits, unlink}, me);
}

int PtlMEInsert(ptl_handle_me_t base, ptl_process_id_t match_id, ptl_match_bits_t match_bits,
                ptl_match_bits_t ignore_bits, ptl_unlink_t unlink, ptl_ins_pos_t position,
                ptl_handle_me_t* me) {
  Call call(base, HandleKind::me);
  if (!call) return call.error(PTL_ME_INVALID);
  if (!me) return PTL_SEGV;
  return call->me_insert(base, {match_id, match_bits, ignore_bits, unlink}, position, me);
}

int PtlMEUnlink(ptl_handle_me_t me) {
  Call call(me, HandleKind::me);
  if (!call) return call.error(PTL_ME_INVALID);
  return call->me_unlink(me);
}

// --- memory descriptors -----------------------------------------------------------------------

int PtlMDAttach(ptl_handle_me_t me, ptl_md_t md, ptl_unlink_t unlink_op,
                ptl_handle_md_t* md_handle) {
  Call call(me, HandleKind::me);
  if (!call) return call.error(PTL_ME_INVALID);
  return call->md_attach(me, md, unlink_op, md_handle);
}

int PtlMDBind(ptl_handle_ni_t ni, ptl_md_t md, ptl_unlink_t unlink_op, ptl_handle_md_t* md_handle) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!md_handle) return PTL_SEGV;
  return call->md_bind(md, unlink_op, md_handle);
}

int PtlMDUnlink(ptl_handle_md_t md) {
  Call call(md, HandleKind::md);
  if (!call) return call.error(PTL_MD_INVALID);
  return call->md_unlink(md);
}

int PtlMDUpdate(ptl_handle_md_t md, ptl_md_t* old_md, ptl_md_t* new_md, ptl_handle_eq_t test_eq) {
  Call call(md, HandleKind::md);
  if (!call) return call.error(PTL_MD_INVALID);
  return call->md_update(md, old_md, new_md, test_eq);
}

int PtlMEMDPost(ptl_handle_ni_t ni, ptl_handle_me_t base, ptl_process_id_t match_id,
                ptl_match_bits_t match_bits, ptl_match_bits_t ignore_bits, ptl_unlink_t unlink,
                ptl_ins_pos_t position, ptl_md_t md, ptl_unlink_t unlink_op, ptl_handle_me_t* me,
                ptl_handle_md_t* md_handle, ptl_handle_eq_t test_eq) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!me) return PTL_SEGV;
  return call->memd_post(base, {match_id, match_bits, ignore_bits, unlink}, position, md, unlink_op,
                         me, md_handle, test_eq);
}

int PtlPTFlowControl(ptl_handle_ni_t ni, ptl_pt_index_t pt_index, int on) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  return call->flow_control(pt_index, on != 0);
}

int PtlACEntry(ptl_handle_ni_t ni, ptl_ac_index_t ac_index, ptl_process_id_t match_id,
               ptl_uid_t uid, ptl_jid_t jid, ptl_pt_index_t pt_index) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  return call->ac_entry(ac_index, {match_id, uid, jid, pt_index});
}

// --- events -----------------------------------------------------------------------------------

int PtlEQAlloc(ptl_handle_ni_t ni, ptl_size_t count, ptl_eq_handler_t handler,
               ptl_handle_eq_t* eq) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!eq) return PTL_SEGV;
  return call->eq_alloc(count, handler, eq);
}

int PtlEQFree(ptl_handle_eq_t eq) {
  Call call(eq, HandleKind::eq);
  if (!call) return call.error(PTL_EQ_INVALID);
  return call->eq_free(eq);
}

int PtlEQPoll(ptl_handle_eq_t* eqs, int size, ptl_time_t timeout, ptl_event_t* event, int* which) {
  if (g_inits.load() <= 0) return PTL_NO_INIT;
  if (!eqs || !event || !which) return PTL_SEGV;
  *which = 0;
  if (size < 1) return PTL_EQ_INVALID;
  Call call(eqs[0], HandleKind::eq);
  if (!call) return call.error(PTL_EQ_INVALID);
  return call->eq_poll(eqs, size, timeout == PTL_TIME_FOREVER ? -1 : int64_t{timeout}, event,
                       which);
}

int PtlEQGet(ptl_handle_eq_t eq, ptl_event_t* event) {
  int which = 0;
  return PtlEQPoll(&eq, 1, 0, event, &which);
}

int PtlEQWait(ptl_handle_eq_t eq, ptl_event_t* event) {
  int which = 0;
  return PtlEQPoll(&eq, 1, PTL_TIME_FOREVER, event, &which);
}

int PtlEQPeek(ptl_handle_eq_t eq, ptl_event_t* event) {
  Call call(eq, HandleKind::eq);
  if (!call) return call.error(PTL_EQ_INVALID);
  if (!event) return PTL_SEGV;
  return call->eq_peek(eq, event);
}

// --- data movement ----------------------------------------------------------------------------

int PtlPut(ptl_handle_md_t md, ptl_ack_req_t ack_req, ptl_process_id_t target,
           ptl_pt_index_t pt_index, ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
           ptl_size_t remote_offset, ptl_hdr_data_t hdr_data) {
  return put(md, nullptr, request_of(target, pt_index, ac_index, match_bits, remote_offset),
             ack_req, hdr_data);
}

int PtlPutRegion(ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
                 ptl_ack_req_t ack_req, ptl_process_id_t target, ptl_pt_index_t pt_index,
                 ptl_ac_index_t ac_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                 ptl_hdr_data_t hdr_data) {
  const MdRegion region{local_offset, length};
  return put(md, &region, request_of(target, pt_index, ac_index, match_bits, remote_offset),
             ack_req, hdr_data);
}

int PtlGet(ptl_handle_md_t md, ptl_process_id_t target, ptl_pt_index_t pt_index,
           ptl_ac_index_t ac_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset) {
  return get(md, nullptr, request_of(target, pt_index, ac_index, match_bits, remote_offset));
}

int PtlGetRegion(ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
                 ptl_process_id_t target, ptl_pt_index_t pt_index, ptl_ac_index_t ac_index,
                 ptl_match_bits_t match_bits, ptl_size_t remote_offset) {
  const MdRegion region{local_offset, length};
  return get(md, &region, request_of(target, pt_index, ac_index, match_bits, remote_offset));
}

int PtlGetPut(ptl_handle_md_t get_md, ptl_handle_md_t put_md, ptl_process_id_t target,
              ptl_pt_index_t pt_index, ptl_ac_index_t ac_index, ptl_match_bits_t match_bits,
              ptl_size_t remote_offset, ptl_hdr_data_t hdr_data) {
  Call call(get_md, HandleKind::md);
  if (!call) return call.error(PTL_MD_INVALID);
  PortalsRequest request = request_of(target, pt_index, ac_index, match_bits, remote_offset);
  request.hdr_data = hdr_data;
  return call->getput(get_md, put_md, request);
}

// --- helpers outside the standard -------------------------------------------------------------

int PtlSetRank(ptl_handle_ni_t ni, unsigned int rank, unsigned int group_size) {
  const bool ask_launcher = rank == ~0u && group_size == ~0u;
  const RankOverride own{!ask_launcher, rank, group_size};
  const int rc = ask_launcher || rank < group_size ? PTL_OK : PTL_FAIL;
  if (ni == PTL_INVALID_HANDLE) {
    std::lock_guard guard(g_default_lock);
    if (g_inits.load() <= 0) return PTL_NO_INIT;
    if (rc == PTL_OK) g_next_rank = own;
    return rc;
  }
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (rc == PTL_OK) *rank_override(ni) = own;
  return rc;
}

int PtlGetRank(ptl_handle_ni_t ni, unsigned int* rank, unsigned int* group_size) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!rank || !group_size) return PTL_SEGV;
  const RankOverride group = group_of(call, ni);
  *rank = group.rank;
  *group_size = group.size;
  return PTL_OK;
}

int PtlGetRankId(ptl_handle_ni_t ni, unsigned int rank, ptl_process_id_t* id) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  if (!id) return PTL_SEGV;
  return find_rank(call, ni, rank, id) ? PTL_OK : PTL_FAIL;
}

int PtlSetNIDMap(ptl_handle_ni_t ni, const ptl_nid_t* map, unsigned int group_size) {
  return set_map(ni, kNids, map, group_size);
}

int PtlSetPIDMap(ptl_handle_ni_t ni, const ptl_pid_t* map, unsigned int group_size) {
  return set_map(ni, kPids, map, group_size);
}

int PtlGetNIDMap(ptl_handle_ni_t ni, ptl_nid_t* map, unsigned int group_size) {
  return get_map(ni, kNids, map, group_size);
}

int PtlGetPIDMap(ptl_handle_ni_t ni, ptl_pid_t* map, unsigned int group_size) {
  return get_map(ni, kPids, map, group_size);
}

int PtlProgress(ptl_handle_any_t handle, ptl_time_t timeout) {
  Call call(handle, HandleKind::none);
  if (!call) return call.error(PTL_HANDLE_INVALID);
  if (handle_kind(handle) != HandleKind::ni && !call->valid(handle)) return PTL_HANDLE_INVALID;
  call->progress(timeout == PTL_TIME_FOREVER ? -1 : int64_t{timeout});
  return PTL_OK;
}

unsigned int PtlNIDebug(ptl_handle_ni_t ni, unsigned int mask) {
  if (ni == PTL_INVALID_HANDLE) return g_debug_mask.exchange(mask);
  Call call(ni, HandleKind::ni);
  if (!call) return 0;
  const unsigned former = call->debug_mask;
  call->debug_mask = mask;
  return former;
}

int PtlTblDump(ptl_handle_ni_t ni, int pt_index) {
  Call call(ni, HandleKind::ni);
  if (!call) return call.error(PTL_NI_INVALID);
  return call->dump_table(ptl_pt_index_t(pt_index));
}

int PtlMEDump(ptl_handle_me_t me) {
  Call call(me, HandleKind::me);
  if (!call) return call.error(PTL_ME_INVALID);
  return call->dump_me(me);
}

}  // extern "C"
