// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The Portals 3.3 state of one network interface: portal table, match entries, memory
// descriptors, event queues, access control, and the operations between them and the protocol.
//
// Owner: one interface. Every function and upcall runs under the interface's lock. Functions
// return the codes of the standard; handles and values come straight from the user and are
// checked here, result pointers by the caller. See README.md for the life of a message.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "core/portals/access_control.h"
#include "core/portals/eq.h"
#include "core/portals/handle.h"
#include "core/portals/md.h"
#include "core/portals/me.h"
#include "core/portals/portal_table.h"
#include "core/portals/transfer.h"
#include "core/protocol/protocol.h"

namespace torii {

// The services that Portals needs of the interface it belongs to.
class PortalsHost {
 public:
  // The interface's lock. Not recursive.
  virtual void lock() = 0;
  virtual void unlock() = 0;
  // The process with these ids, connected if need be. Null with the reason in *why: it cannot be
  // reached. A process that died stays resolvable.
  virtual Peer* resolve(uint32_t nid, uint32_t pid, std::string* why) = 0;
  // One bounded round of progress; the caller holds the lock. Returns the number of events.
  virtual unsigned progress() = 0;
  // Gives up the lock, sleeps until something may have arrived, wake() is called or
  // `milliseconds` (-1: no limit) are over, and takes the lock again. False: it cannot sleep now,
  // because work is waiting. One thread at a time.
  virtual bool sleep(int milliseconds) = 0;
  // Ends the sleep() of another thread. Called with the lock held, while a thread sleeps.
  virtual void wake() = 0;
  // This process is a child of the one that opened the interface: lock() is refused.
  virtual bool forked() const { return false; }
  virtual uint64_t now_ns() = 0;
  // An operation of so many bytes has begun and goes on. Called with the lock held.
  virtual void begun(uint64_t /* bytes */) {}
  // The job: how many processes, and the ids of one; false: no such rank. Under the lock.
  virtual uint32_t job_size() = 0;
  virtual bool rank_ids(uint32_t rank, uint32_t* nid, uint32_t* pid) = 0;

 protected:
  ~PortalsHost() = default;
};

// The arguments that all requests have in common.
struct PortalsRequest {
  ptl_process_id_t target{PTL_NID_ANY, PTL_PID_ANY};
  ptl_pt_index_t pt_index = 0;
  ptl_ac_index_t ac_index = 0;
  ptl_match_bits_t match_bits = 0;
  ptl_size_t remote_offset = 0;
  ptl_hdr_data_t hdr_data = 0;
  bool want_ack = false;
};

// Part of a descriptor; without one, all of it.
struct MdRegion {
  ptl_size_t offset = 0;
  ptl_size_t length = 0;
};

// The values that a match entry is made from.
struct MeCriterion {
  ptl_process_id_t match_id{PTL_NID_ANY, PTL_PID_ANY};
  ptl_match_bits_t match_bits = 0;
  ptl_match_bits_t ignore_bits = 0;
  ptl_unlink_t unlink = PTL_RETAIN;
};

class Portals final {
 public:
  Portals(Protocol& protocol, Counters& counters, PortalsHost& host, const ptl_ni_limits_t& limits);
  ~Portals();
  Portals(const Portals&) = delete;

  // The limits for those asked for; null: the defaults.
  static ptl_ni_limits_t grant(const ptl_ni_limits_t* desired);

  // PtlNIInit and PtlNIFini. Before open and after close all requests are dropped. `tag` names the
  // interface in handles; `limits` come from grant(). Operations pending at close() end without
  // events.
  void open(NiTag tag, const ptl_ni_limits_t& limits);
  void close();
  bool is_open() const { return open_; }
  const ptl_ni_limits_t& limits() const { return limits_; }
  NiTag tag() const { return tag_; }
  PortalsHost& host() { return host_; }
  const Identity& self() const { return protocol_.self(); }

  // --- upcalls, for Space::portal ---------------------------------------------------------
  void on_put(Arrival& arrival);
  void on_get(Arrival& arrival);
  void on_peer_down(Peer& peer, Status why);

  // --- objects (objects.cc) ---------------------------------------------------------------
  int me_attach(ptl_pt_index_t pt_index, const MeCriterion& criterion, ptl_ins_pos_t position,
                ptl_handle_me_t* out);
  int me_attach_any(ptl_pt_index_t* pt_index, const MeCriterion& criterion, ptl_handle_me_t* out);
  int me_insert(ptl_handle_me_t base, const MeCriterion& criterion, ptl_ins_pos_t position,
                ptl_handle_me_t* out);
  int me_unlink(ptl_handle_me_t me);
  int md_attach(ptl_handle_me_t me, const ptl_md_t& md, ptl_unlink_t unlink, ptl_handle_md_t* out);
  int md_bind(const ptl_md_t& md, ptl_unlink_t unlink, ptl_handle_md_t* out);
  int md_unlink(ptl_handle_md_t md);
  int md_update(ptl_handle_md_t md, ptl_md_t* old_md, const ptl_md_t* new_md,
                ptl_handle_eq_t test_eq);
  int memd_post(ptl_handle_me_t base, const MeCriterion& criterion, ptl_ins_pos_t position,
                const ptl_md_t& md, ptl_unlink_t unlink, ptl_handle_me_t* me_out,
                ptl_handle_md_t* md_out, ptl_handle_eq_t test_eq);
  int eq_alloc(ptl_size_t count, ptl_eq_handler_t handler, ptl_handle_eq_t* out);
  int eq_free(ptl_handle_eq_t eq);
  int ac_entry(ptl_ac_index_t index, const AccessEntry& entry);
  int flow_control(ptl_pt_index_t pt_index, bool on);
  // Does the handle name an object of this interface?
  bool valid(ptl_handle_any_t handle) const;

  // --- initiator (initiator.cc) -----------------------------------------------------------
  int put(ptl_handle_md_t md, const MdRegion* region, const PortalsRequest& request);
  int get(ptl_handle_md_t md, const MdRegion* region, const PortalsRequest& request);
  int getput(ptl_handle_md_t get_md, ptl_handle_md_t put_md, const PortalsRequest& request);

  // --- events (events.cc) -----------------------------------------------------------------
  // PtlEQPoll; `milliseconds` 0 does not wait, -1 waits for ever. Gives up the lock meanwhile.
  int eq_poll(const ptl_handle_eq_t* eqs, int count, int64_t milliseconds, ptl_event_t* event,
              int* which);
  int eq_peek(ptl_handle_eq_t eq, ptl_event_t* event);
  // Progress, and if there was nothing to do a sleep of at most so long.
  void progress(int64_t milliseconds);
  // Are there events for handlers? Asked before the lock is given up; then run_handlers() is
  // called without the lock.
  bool handlers_due() const { return !handler_queues_.empty(); }
  void run_handlers();

  // --- queries (status.cc) ----------------------------------------------------------------
  int status_register(ptl_sr_index_t index, ptl_sr_value_t* value) const;
  int dump_table(ptl_pt_index_t pt_index) const;
  int dump_me(ptl_handle_me_t me) const;
  uint32_t debug_mask = 0;  // PTL_DBG_*
  ptl_jid_t jid() const { return jid_of(protocol_.self()); }
  static ptl_jid_t jid_of(const Identity& id);

 private:
  // A match: the entry that accepts a request, and where.
  struct Match {
    Me* me = nullptr;
    uint64_t offset = 0;
    uint64_t accepted = 0;
  };

  // The one checked accessor of each kind.
  template <typename T>
  T* find(const SlotPool<T>& pool, HandleKind kind, ptl_handle_any_t handle) const {
    if (handle_kind(handle) != kind || handle_tag(handle) != tag_) return nullptr;
    return pool.find(handle_slot(handle));
  }
  Me* find_me(ptl_handle_me_t handle) const { return find(mes_, HandleKind::me, handle); }
  Md* find_md(ptl_handle_md_t handle) const { return find(mds_, HandleKind::md, handle); }
  Eq* find_eq(ptl_handle_eq_t handle) const { return find(eqs_, HandleKind::eq, handle); }
  ptl_handle_md_t handle_of(const Md* md) const {
    return make_handle(HandleKind::md, tag_, SlotPool<Md>::handle(md));
  }
  ptl_handle_me_t handle_of(const Me* me) const {
    return make_handle(HandleKind::me, tag_, SlotPool<Me>::handle(me));
  }

  // objects.cc
  int make_me(PortalEntry& portal, uint32_t pt_index, const MeCriterion& criterion, Me** out);
  int check_md(const ptl_md_t& md, Memory* memory, uint64_t* eq) const;
  int make_md(const ptl_md_t& md, ptl_unlink_t unlink, Md** out);
  int test_quiet(ptl_handle_eq_t test_eq, const Md* md) const;
  void read_md(const Md& md, ptl_md_t* out) const;
  void remove_me(Me* me);
  void remove_md(Md* md);

  // initiator.cc
  int find_source(ptl_handle_md_t handle, const MdRegion* region, Md** md, Memory* memory) const;
  int find_target(ptl_process_id_t id, Peer** peer);
  Transfer* make_transfer(Transfer::Kind kind, Md* md, const Peer& peer,
                          const PortalsRequest& request, uint64_t length);
  static Envelope envelope(const PortalsRequest& request, uint64_t length);
  int begun(uint64_t bytes);
  void sent(Transfer* t, ptl_ni_fail_t fail);
  void acked(Transfer* t, uint64_t bytes, ptl_ni_fail_t fail);
  void replied_to(Transfer* t, uint64_t bytes, ptl_ni_fail_t fail);
  void unanswered(Transfer* t);

  // target.cc
  bool admitted(const Arrival& arrival) const;
  Match search(PortalEntry& portal, const Peer& peer, const Envelope& env, unsigned needed) const;
  static bool accepts(const Me& me, const Envelope& env, unsigned needed, Match* match);
  void refuse(Arrival& arrival, const char* reason);
  void count_drop(const Peer& peer, const Envelope& env, const char* reason);
  Transfer* accept(const Match& match, const Peer& peer, const Envelope& env,
                   ptl_event_kind_t start);
  bool hold(PortalEntry& portal, Arrival& arrival);
  bool claim(PortalEntry& portal, HeldPut* held, Me& me);
  void armed(Me& me);
  void drop_held(PortalEntry& portal, HeldPut* held);
  void target_done(Transfer* t, Status status);

  // transfer.cc
  static ptl_ni_fail_t fail_type(Status status);
  static void notify(Op* op, OpEvent event, Status status, uint64_t bytes);
  void on_event(Transfer* t, OpEvent event, Status status, uint64_t bytes);
  void on_failure(Transfer* t, ptl_ni_fail_t fail);
  void begin(Transfer* t, ptl_event_kind_t start);
  void end(Transfer* t, ptl_event_kind_t kind, ptl_ni_fail_t fail);
  void free_transfer(Transfer* t);
  void unlink_when_done(Md* md, const ptl_event_t& cause);
  void release(Md* md);
  void settle(Md* md);

  // events.cc
  void post(Eq* eq, uint64_t eq_slot, ptl_event_t& event, ptl_event_kind_t kind, const Md& md);
  int scan(const ptl_handle_eq_t* eqs, int count, ptl_event_t* event, int* which);
  void wait(int64_t milliseconds);
  void wake_waiters();

  Protocol& protocol_;
  Counters& counters_;
  PortalsHost& host_;
  ptl_ni_limits_t limits_;
  NiTag tag_ = 0;
  bool open_ = false;

  PortalTable table_;
  AccessControl access_;
  SlotPool<Me> mes_;
  SlotPool<Md> mds_;
  SlotPool<Eq> eqs_;
  SlotPool<Transfer> transfers_;
  SlotPool<HeldPut> held_;

  // Queues with events for their handlers, as pool handles.
  std::vector<uint64_t> handler_queues_;
  uint32_t scan_start_ = 0;  // where the next PtlEQPoll begins

  // Threads that wait for events: one sleeps in the host, the others here until it is woken.
  bool sleeping_ = false;
  uint32_t followers_ = 0;
  std::mutex follow_mutex_;
  std::condition_variable follow_;
  uint64_t follow_turn_ = 0;  // under follow_mutex_

  struct {
    uint64_t drop_count = 0, drop_length = 0, denied = 0;
    uint64_t recv_count = 0, recv_length = 0;
    uint64_t send_count = 0, send_length = 0;
    uint64_t events_lost = 0;
  } totals_;
};

}  // namespace torii
