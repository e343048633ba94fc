// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Portals 3.3 written down as simply as possible, to compare the library with: plain lists walked
// from the head, one value for every byte of memory, no protocol. It knows all processes and shares
// nothing with the library but the types of portals3.h.
//
// The test tells the model every call (with the return code of the library), every request in the
// order in which it reaches its target, and every event. The model learns what the standard leaves
// open, the times of END, ACK and REPLY, from the events; all else it foresees. Where an
// operation has no event that tells its end, it "may be over" until the network is at rest.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/portals3.h"

namespace torii::model {

// Mistakes that the model makes on purpose, to prove that the comparison finds them.
enum class Mutation : uint8_t {
  none,
  last_match_wins,
  appends_become_prepends,
  insert_before_goes_to_the_head,
  match_id_is_ignored,
  inactive_ends_the_search,
  unfit_ends_the_search,
  truncates_never_to_nothing,
  max_size_is_inclusive,
  local_offset_stays,
  ack_is_free,
  reply_is_free,
  ack_disable_is_ignored,
  retained_entries_go,
  update_keeps_the_offset,
  access_control_is_open,
  held_puts_come_last_first,
  drops_are_not_counted,
  getput_needs_one_permission,
  sends_tell_the_remote_offset,
  acks_tell_the_length_sent,
  unlinks_tell_nothing,
  kCount
};
const char* name_of(Mutation mutation);

// A byte of memory as the model knows it: its value, or kUnknown while (and after) several
// operations without order move it.
using Byte = int16_t;
inline constexpr Byte kUnknown = -1;

struct Criterion {
  ptl_process_id_t match_id{PTL_NID_ANY, PTL_PID_ANY};
  ptl_match_bits_t match_bits = 0;
  ptl_match_bits_t ignore_bits = 0;
  ptl_unlink_t unlink = PTL_RETAIN;
};

struct Access {
  ptl_process_id_t id{PTL_NID_ANY, PTL_PID_ANY};
  ptl_uid_t uid = PTL_UID_ANY;
  ptl_jid_t jid = PTL_JID_ANY;
  ptl_pt_index_t pt_index = PTL_PT_INDEX_ANY;
};

enum class Verb : uint8_t { put, get, getput };

// A request from the call on. Every request has a serial number, which its hdr_data (puts and
// getputs) or its match bits (gets and getputs) carry, so that events can be told apart.
struct Request {
  enum class State : uint8_t { sent, held, accepted, dropped };
  Verb verb = Verb::put;
  uint32_t serial = 0;
  unsigned from = 0, to = 0;
  ptl_pt_index_t pt_index = 0;
  ptl_ac_index_t ac_index = 0;
  uint64_t bits = 0, offset = 0, hdr_data = 0, length = 0;
  bool want_ack = false;

  State state = State::sent;
  uint64_t accepted = 0;
  bool ack_disabled = false;
  bool send_failed = false;
  std::vector<Byte> payload;  // what the initiator sends
  std::vector<Byte> answer;   // what the target sends back
};

inline constexpr unsigned kSerialShift = 24;
inline constexpr uint64_t kSerialBits = uint64_t{0xffffffff} << kSerialShift;

struct Link {
  bool known = false;
  ptl_seq_t value = 0;
};

struct Md;

struct Me {
  ptl_handle_me_t handle = PTL_INVALID_HANDLE;
  ptl_pt_index_t pt_index = 0;
  Criterion criterion;
  std::shared_ptr<Md> md;
};

struct Md {
  ptl_handle_md_t handle = PTL_INVALID_HANDLE;
  ptl_md_t user{};           // threshold: what is left
  std::vector<uint32_t> at;  // the place in memory of every byte
  uint64_t offset = 0;
  bool active = false;
  bool auto_unlink = false;
  bool due = false;  // to be unlinked when `busy` is 0
  bool gone = false;
  bool vague = false;           // nothing tells what is left of its threshold
  unsigned busy = 0;            // operations whose bytes may be moving
  int shown_threshold = 0;      // at the last event seen
  std::shared_ptr<Link> cause;  // link of the operation that made it due
  ptl_event_t cause_event{};    // what UNLINK must say
  Me* me = nullptr;
};

// One operation of one descriptor, from START to END.
struct Op {
  enum class Role : uint8_t { send, reply, target };
  Role role = Role::send;
  std::shared_ptr<Request> request;
  std::shared_ptr<Md> md;
  ptl_handle_eq_t eq = PTL_EQ_NONE;
  bool wants_start = false, wants_end = false;
  bool started = false;  // START was seen
  bool replied = false;  // the reply has used up its operation
  int start_threshold = 0;
  ptl_event_t event{};  // what its events must say
  std::shared_ptr<Link> link = std::make_shared<Link>();
  std::vector<uint32_t> at;  // memory that moves
  std::vector<Byte> before;  // writes: what was there
  std::vector<bool> torn;    // writes: another operation wrote this byte meanwhile
  bool writes = false;
  const std::vector<Byte>& source() const {
    return role == Role::target ? request->payload : request->answer;
  }
};

struct Registers {
  uint64_t drop_count = 0, drop_length = 0, denied = 0;
  uint64_t recv_count = 0, recv_length = 0;
  uint64_t send_count = 0, send_length = 0;
};

struct Process {
  static constexpr unsigned kPortals = 64;
  static constexpr unsigned kAccess = 64;
  ptl_process_id_t id{};
  ptl_uid_t uid = 0;
  ptl_jid_t jid = 0;
  bool dead = false;
  bool vague = false;               // the death of another process left its registers open
  std::span<unsigned char> memory;  // the real one
  std::vector<Byte> bytes;
  std::list<Me*> lists[kPortals];
  bool flow_control[kPortals] = {};
  std::list<std::shared_ptr<Request>> held[kPortals];
  Access access[kAccess];
  std::map<ptl_handle_me_t, std::unique_ptr<Me>> mes;
  std::map<ptl_handle_md_t, std::shared_ptr<Md>> mds;
  std::list<std::shared_ptr<Op>> ops;
  std::map<ptl_handle_eq_t, std::deque<std::shared_ptr<Op>>> starts;  // due events, in order
  std::map<ptl_handle_eq_t, ptl_seq_t> sequence;
  Registers registers;
  std::vector<uint32_t> mark, place;  // for overlap()
  uint32_t epoch = 0;
};

class Model {
 public:
  explicit Model(Mutation mutation = Mutation::none) : mutation_(mutation) {}
  void add_process(ptl_process_id_t id, ptl_uid_t uid, ptl_jid_t jid,
                   std::span<unsigned char> memory);
  void add_eq(unsigned p, ptl_handle_eq_t eq) { process(p).starts[eq]; }
  Process& process(unsigned p) { return *processes_[p]; }

  bool verbose = false;  // prints arrivals and events
  // The first difference, or empty.
  const std::string& failure() const { return failure_; }
  void fail(const std::string& text);

  // --- calls; `rc` and the handles are the library's answers -------------------------------
  void me_attach(unsigned p, ptl_pt_index_t pt, const Criterion& c, ptl_ins_pos_t position, int rc,
                 ptl_handle_me_t handle);
  void me_attach_any(unsigned p, ptl_pt_index_t pt, const Criterion& c, int rc,
                     ptl_handle_me_t handle);
  void me_insert(unsigned p, ptl_handle_me_t base, const Criterion& c, ptl_ins_pos_t position,
                 int rc, ptl_handle_me_t handle);
  void me_unlink(unsigned p, ptl_handle_me_t me, int rc);
  void md_attach(unsigned p, ptl_handle_me_t me, const ptl_md_t& md, ptl_unlink_t unlink, int rc,
                 ptl_handle_md_t handle);
  void md_bind(unsigned p, const ptl_md_t& md, ptl_unlink_t unlink, int rc, ptl_handle_md_t handle);
  void md_unlink(unsigned p, ptl_handle_md_t md, int rc);
  // Is the test queue of a call empty, before the call? `events`: the queue has some.
  enum class Quiet : uint8_t { yes, no, maybe };
  Quiet quiet(unsigned p, ptl_handle_eq_t eq, ptl_handle_md_t md, bool events);
  void md_update(unsigned p, ptl_handle_md_t md, const ptl_md_t& user, Quiet quiet, int rc);
  void memd_post(unsigned p, ptl_handle_me_t base, const Criterion& c, ptl_ins_pos_t position,
                 const ptl_md_t& md, ptl_unlink_t unlink, Quiet quiet, int rc, ptl_handle_me_t me,
                 ptl_handle_md_t handle);
  void flow_control(unsigned p, ptl_pt_index_t pt, bool on, int rc);
  void ac_entry(unsigned p, ptl_ac_index_t index, const Access& entry, int rc);

  // These three come before the library's call, because that makes progress; they return what
  // the library must return. `length` and `local` describe the region, or all of the descriptor.
  struct Region {
    bool all = true;
    uint64_t local = 0, length = 0;
  };
  int put(const std::shared_ptr<Request>& r, ptl_handle_md_t md, const Region& region,
          bool reachable);
  int get(const std::shared_ptr<Request>& r, ptl_handle_md_t md, const Region& region,
          bool reachable);
  int getput(const std::shared_ptr<Request>& r, ptl_handle_md_t get_md, ptl_handle_md_t put_md,
             bool reachable);

  // --- what happens ------------------------------------------------------------------------
  // The next request of one process reaches another.
  void arrive(unsigned from, unsigned to, Verb verb, uint64_t bits, uint64_t length);
  void event(unsigned p, ptl_handle_eq_t eq, const ptl_event_t& event);
  // All events of the process have been handed over.
  void drained(unsigned p);
  void die(unsigned p);
  // The network is at rest: nothing may be under way. `held` is PTL_SR_HELD_CUR of a survivor.
  void rest();
  void check_registers(unsigned p, ptl_handle_ni_t ni);

  // --- for the choice of calls -------------------------------------------------------------
  // Whether the descriptor exists, and what is left of its threshold, is known now.
  bool certain(unsigned p, const Md& md);
  bool may_get(const Md& md) const;  // the reply will be seen, or its time makes no difference
  bool has_replies(unsigned p, const Md& md);
  bool has_acks(const Md& md) const;
  bool touched(unsigned p, uint32_t at, uint32_t bytes);  // by an operation under way
  void scribble(unsigned p, uint32_t at, std::span<const unsigned char> bytes);
  uint64_t known_bytes = 0, compared_bytes = 0, events_seen = 0, accepted = 0, held_matches = 0;

 private:
  bool is(Mutation m) const { return mutation_ == m; }
  bool expect(int rc, int expected, const char* what);

  // portals_model.cc
  static int check_md(Process& s, const ptl_md_t& user);
  static std::vector<uint32_t> places(Process& s, const ptl_md_t& user);
  Me* add_me(Process& s, ptl_pt_index_t pt, const Criterion& c, ptl_handle_me_t handle);
  void add_md(Process& s, Me* me, const ptl_md_t& user, ptl_unlink_t unlink,
              ptl_handle_md_t handle);
  void remove_me(Process& s, Me* me);
  void remove_md(Process& s, const std::shared_ptr<Md>& md);

  // portals_model_target.cc
  bool accepts(const Md& md, const Request& r, uint64_t* offset, uint64_t* accepted) const;
  Me* walk(Process& s, const Request& r);
  bool admitted(const Process& s, const Request& r) const;
  void accept(Process& s, Me& me, const std::shared_ptr<Request>& r);
  void drop(Process& s, Request& r);
  void offer_held(Process& s, ptl_pt_index_t pt);
  bool consume(Md& md, const std::shared_ptr<Link>& link);
  void make_due(Md& md, const std::shared_ptr<Link>& link);
  std::shared_ptr<Op> begin(Process& s, Op::Role role, const std::shared_ptr<Request>& r,
                            const std::shared_ptr<Md>& md, ptl_event_kind_t start);
  int check_source(Process& s, ptl_handle_md_t md, const Region& region);
  int check_target(const Request& r, bool reachable) const;

  // portals_model_events.cc
  void start_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  void end_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  void reply_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  void ack_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  void unlink_event(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  std::shared_ptr<Op> find_op(Process& s, ptl_handle_eq_t eq, const ptl_event_t& e);
  bool check_link(Process& s, ptl_handle_eq_t eq, Link& link, const ptl_event_t& e);
  bool check_fields(const Process& s, const ptl_event_t& e, const ptl_event_t& expected);
  bool check_md_copy(const Process& s, const Md& md, const ptl_event_t& e, int most);
  void reply(const std::shared_ptr<Op>& op, uint64_t bytes);
  void finish(Process& s, const std::shared_ptr<Op>& op, bool ok);
  bool may_be_over(const Op& op) const;
  bool may_fail(const Request& r) const;
  void rest_acks();

  std::vector<Byte> read(const Process& s, std::span<const uint32_t> at) const;
  void begin_write(Process& s, Op& op);
  void end_write(Process& s, Op& op, uint64_t bytes, bool ok);
  void write_now(Process& s, std::span<const uint32_t> at, std::span<const Byte> data);
  void tear(Process& s, std::span<const uint32_t> at, Op* self);
  bool compare(Process& s, std::span<const uint32_t> at, const std::string& when);
  void compare_all(Process& s);

  Mutation mutation_;
  std::string failure_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::pair<unsigned, unsigned>, std::deque<std::shared_ptr<Request>>> on_the_way_;
  std::map<uint32_t, std::pair<std::shared_ptr<Request>, std::shared_ptr<Op>>> acks_due_;
};

}  // namespace torii::model
