// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Messages over drivers: eager, announced (rendezvous) by remote read, remote write or a stream
// of frames, get and reply, acknowledgement, flow control, failure of peers. Matching happens in
// the room above, which is asked once for every arriving request, in order per peer.
//
// Owner: one interface; the caller holds the interface's lock. Memory given to an operation stays
// the caller's and must not change (source) or be used (destination) until its last event.
#pragma once

#include <bitset>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/buffers.h"
#include "core/base/counters.h"
#include "core/base/inplace_vector.h"
#include "core/base/slot_pool.h"
#include "core/protocol/op.h"
#include "core/protocol/peer.h"
#include "core/protocol/registrations.h"
#include "core/protocol/wire.h"
#include "drivers/interfaces.h"

namespace torii {

// The space that a request addresses: one of the two kinds of match space, or exported memory.
enum class Space : uint8_t { portal, tagged, memory };

// The description of a request, apart from its payload.
struct Envelope {
  Space space = Space::portal;
  uint8_t index = 0;  // portal table entry or tagged port
  bool want_ack = false;
  bool ready = false;
  bool several = false;  // puts to exported memory, each behind its place, in one frame
  uint32_t ac_index = 0;
  uint64_t bits = 0;
  uint64_t hdr_data = 0;  // tagged: the low 32 bits are the user's
  uint64_t offset = 0;
  uint64_t length = 0;  // of the whole message
};

// A request that just arrived. Valid only during the upcall.
struct Arrival {
  Peer* peer;
  wire::Kind kind;  // put, puts, put_announce, get, getput or update
  Envelope env;
  // First bytes of an eager put; all bytes of getput and puts; an update's wire::LockWord.
  std::span<const std::byte> payload;
  // The protocol's own.
  std::span<const std::byte> key;
  uint64_t peer_op;
  uint32_t credit;
  const wire::Update* update = nullptr;  // of an update; env.length is its width
  bool soon = false;                     // the room above's: as Rma::soon, if it is announced

  // A put whose payload is all here.
  bool complete() const { return kind == wire::Kind::put && payload.size() == env.length; }
};

Arrival tagged_arrival(Peer& peer, const wire::Tagged& header, std::span<const std::byte> payload);

// The debt to the sender of a put whose payload the layer above keeps.
struct Debt {
  uint64_t peer_op = 0;
  uint32_t credit = 0;
};

// The room above: it owns matching.
class Upper {
 public:
  // A tagged put that came whole in one frame and wants no acknowledgement: as on_put for
  // tagged_arrival() of it, or place it and give back credit_units() of its payload.
  virtual void on_tagged(Peer& peer, wire::Tagged header, std::span<const std::byte> payload) {
    Arrival arrival = tagged_arrival(peer, header, payload);
    on_put(arrival);
  }
  // Must call exactly one of place, accept, postpone, hold, drop, bad_frame for the arrival.
  virtual void on_put(Arrival& arrival) = 0;
  // A get or getput: must call exactly one of reply, drop, bad_frame. For a getput, arrival.payload
  // has the whole put part, to be consumed before reply.
  virtual void on_get(Arrival& arrival) = 0;
  // An atomic operation on exported memory: must call exactly one of updated, drop, refuse.
  virtual void on_update(Arrival& arrival) = 0;
  // The peer is gone (peer_dead or peer_closed). Its operations have been told already.
  virtual void on_peer_down(Peer& peer, Status why) = 0;
  // The peer receives what is sent to this group, and asks whether this process does.
  virtual void on_joined(Peer&, uint64_t /* group */, bool /* asks */) {}
  // A frame to a lossy group that Protocol::join_lossy() has joined. `sender` as in Packet.
  virtual void on_lossy(uint8_t /* rail */, PeerId /* group */, uint32_t /* sender */,
                        std::span<const std::byte> /* frame */) {}

 protected:
  ~Upper() = default;
};

struct ProtocolConfig {
  Identity self;
  uint64_t eager_limit = 0;   // 0: the driver's advice
  uint64_t eager_window = 0;  // granted to each peer
  // Measures how long sources are waited for; in nanoseconds. None: for ever.
  uint64_t (*clock)(void* context) = nullptr;
  void* clock_context = nullptr;
};

class Protocol final {
 public:
  Protocol(const ProtocolConfig& config, Upper* upper, Counters* counters);
  ~Protocol();
  Protocol(const Protocol&) = delete;

  // Drivers are added best first: open one with next_sink(), then hand it over.
  Sink* next_sink();
  void add_driver(const std::string& name, std::unique_ptr<Driver> driver);

  // --- peers --------------------------------------------------------------------------------
  // This interface's address: identity and one address for each driver. At most kAddressBytes.
  // A short one leaves out what others learn by its first message, and what is for itself only; if
  // it is long all the same, also the drivers that do not reach other nodes, and then all of these
  // but the one with the shortest address.
  static constexpr size_t kAddressBytes = 1024;
  size_t address(std::byte* out, size_t capacity) const;
  // The part of such an address that is for this driver; empty: there is none.
  static std::span<const std::byte> address_for(std::string_view driver,
                                                std::span<const std::byte> address);
  size_t short_address(std::byte* out, size_t capacity) const;
  // Finds or makes the peer with that address; *why says why no driver reaches it. `peer_dead` and
  // `peer_closed` give the peer, too: operations with it end with that status.
  Status connect(std::span<const std::byte> address, Peer** out, std::string* why);
  // The connected peer of this job with these ids, or null.
  Peer* find_process(uint32_t nid, uint32_t pid) const;
  // The peer is one of this interface's.
  bool knows(const Peer& peer) const {
    return peer.number - 1 < peers_.size() && peers_[peer.number - 1].get() == &peer;
  }
  // How messages travel by that driver, the index of one.
  choice::Plan plan(uint8_t rail) const;
  // The peer is this process itself.
  bool is_self(const Peer& peer) const;
  // peer_dead or peer_closed, for a peer that is not up.
  static Status down_status(const Peer& peer);
  // "rank 3 on n1 (pid 77) by shm" and so on.
  std::string describe(const Peer& peer) const;
  // The same with what the driver says of the path, if it says something.
  std::string describe_path(const Peer& peer) const;

  // --- initiator ----------------------------------------------------------------------------
  // Sends a put. `ok`: the memory may be reused and nothing follows. `pending`: owes `sent`, and
  // with env.want_ack (always pending) `acked` or `dropped`; *out (may be null) is the operation.
  Status put(Peer& peer, const Envelope& env, const Data& source, const Owner& owner, Op** out);
  // Sends a tagged put that wants no acknowledgement if it fits one frame and can leave now.
  // `port` is its index, with wire::kReadyBit or without; `bytes` the sum of the pieces. False:
  // nothing happened; use put(). (express.h)
  bool put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user, const iovec* pieces,
               uint32_t piece_count, uint64_t bytes);
  // The same for memory in one piece.
  bool put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user, const void* base,
               uint64_t bytes);
  // The same for several messages of one sort, of which the first ones that can leave now do;
  // returns how many.
  struct Body {
    const iovec* pieces;
    uint32_t piece_count;
    uint64_t bytes;
  };
  size_t put_now(Peer& peer, uint8_t port, uint64_t bits, uint32_t user,
                 std::span<const Body> bodies);
  // Fetches env.length bytes. Owes `received` or `dropped`.
  Status get(Peer& peer, const Envelope& env, const Data& destination, const Owner& owner,
             Op** out);
  // Sends `source` (at most getput_max) and receives the old content. Owes `received` or
  // `dropped`; the source is copied before return.
  Status getput(Peer& peer, const Envelope& env, const Data& source, const Data& destination,
                const Owner& owner, Op** out);
  static constexpr uint32_t kGetputMax = 256;
  // Asks for an atomic operation on exported memory: all of `request` but kind, locked, credit and
  // op; under a lock unless `lock` is null. Owes `received`, with the old value in *old and its
  // bytes, or none if the lock was not free; or `dropped`.
  Status update(Peer& peer, wire::Update request, const wire::LockWord* lock, uint64_t* old,
                const Owner& owner);
  // Reads or writes `bytes` bytes at `offset` of memory that the peer's driver imported as
  // `remote`. `ok`: over; `pending`: the owner is told. An error: nothing was begun. `denied`, from
  // here or told: not this way, use frames. `again`: it is for access_later(); nothing happened.
  Status try_access(Peer& peer, uint32_t remote, uint64_t offset, void* base, uint64_t bytes,
                    bool reading, const AccessOwner& owner);
  // For an access that is too long for one piece, or has to wait for others.
  Status access_later(Peer& peer, uint32_t remote, uint64_t offset, void* base, uint64_t bytes,
                      bool reading, const AccessOwner& owner);
  // As try_access(), if it is over when this returns. False: nothing happened that try_access()
  // would not do again.
  bool access_now(Peer& peer, uint32_t remote, uint64_t offset, void* base, uint64_t bytes,
                  bool reading);
  // The caller waits for such accesses: as Advice::look().
  static void look(Peer& peer) {
    if (peer.state == PeerState::up && peer.advice) peer.advice->look(peer.route);
  }
  // An atomic operation on memory that the peer's driver imported; peer, old and cookie of `atomic`
  // are set here. `ok`: *before is what was there. `pending`: the caller sets the owner of
  // *under_way at once, which is told. Anything but `ok`, in the end or at once, says that nothing
  // has happened: ask the target.
  Status try_atomic(Peer& peer, RemoteAtomic atomic, uint64_t* before, RemoteAccess** under_way);
  // As put_now, for all of `peers` that are up, by one frame: `group` is their driver's name for
  // them, and all of them have joined it. Asks for no acknowledgement.
  bool multicast_now(PeerId group, std::span<Peer* const> peers, const Envelope& env,
                     const Data& source);
  // Tells the peer that this process has joined a group; `ask`: it shall answer with the same.
  void tell_joined(Peer& peer, uint64_t group, bool ask);
  // Joins a lossy group of the driver with that index, as LossyGroups::join_lossy(). Frames that
  // arrive are handed to Upper::on_lossy(). `unsupported`: it has none.
  Status join_lossy(uint8_t rail, const LossyMember& membership, PeerId* group);
  void leave_lossy(uint8_t rail, PeerId group);
  // How many bytes puts that share a frame may have, with their places.
  static uint64_t puts_max(const Peer& peer) {
    const DriverCaps& caps = peer.driver->caps();
    const uint32_t most = caps.long_max ? peer.long_max() : 0;
    const uint64_t bytes = std::max(caps.mtu, most) - sizeof(wire::Request);
    return std::min<uint64_t>(bytes, peer.plan.copied_max);
  }
  // Withdraws a put that no frame of has left yet. False: too late.
  bool withdraw(Op* op);

  // --- target -------------------------------------------------------------------------------
  // Places the first `accepted` bytes of the message. `ok`: they are in place; `pending`: owes
  // `received`. Acknowledges when asked to, unless `no_ack`.
  // For an arrival that is complete() it is just this:
  void place(const Arrival& arrival, const Data& destination, uint64_t accepted, bool no_ack);
  Status accept(Arrival& arrival, const Data& destination, uint64_t accepted, bool no_ack,
                const Owner& owner, Op** out);
  // For an arrival that is complete(): the caller keeps the payload and calls settle() with the
  // debt when it has placed `accepted` bytes of it; no_ack refuses it instead.
  Debt postpone(const Arrival& arrival);
  void settle(Peer& peer, const Debt& debt, uint64_t accepted, bool no_ack);
  // Gives credit for what the peer sent back to it; carried by frames that go there anyway.
  void give_back(Peer& peer, uint32_t units);
  // Keeps an unmatched put for later. Null if memory is exhausted: drop it then.
  Op* hold(Arrival& arrival);
  // Gives a held put its destination; returns as accept, and the held operation is consumed.
  Status claim(Op* held, const Data& destination, uint64_t accepted, bool no_ack,
               const Owner& owner, Op** out);
  // Gives up a held put.
  void discard(Op* held);
  // Refuses a request. Senders that wait for an answer learn `dropped`.
  void drop(Arrival& arrival);
  // The same with a reason, `denied` or `invalid`, which they learn instead.
  void refuse(Arrival& arrival, Status why);
  // For what a correct peer never sends: it is cut off, and `fault` of it says "what (thing
  // value)". Null: nobody knows who sent it, and the frame is only discarded.
  void bad_frame(Peer* peer, const char* what, const char* thing, uint64_t value);
  // Answers a get with the first `accepted` bytes of `source`. `ok`: the source is no longer
  // read; `pending`: owes `replied`.
  Status reply(Arrival& arrival, const Data& source, uint64_t accepted, const Owner& owner,
               Op** out);
  // Answers an update that was carried out, or was not because its lock was `old` (`busy`).
  void updated(const Arrival& arrival, uint64_t old, bool busy);

  // --- progress -----------------------------------------------------------------------------
  // Moves what can be moved; returns the number of events.
  unsigned progress(uint64_t now_ns) {
    unsigned events = 0;
    for (const auto& driver : drivers_) events += driver->poll(now_ns, kPollBudget);
    if (__builtin_expect(!drained(), 0)) events += push();
    return events;
  }
  // The same, but nothing more after the first event.
  unsigned progress_first(uint64_t now_ns) {
    for (const auto& driver : drivers_)
      if (const unsigned events = driver->poll(now_ns, 1)) return events;
    return __builtin_expect(drained(), 1) ? 0 : push();
  }
  // Nothing is waiting to be handed to a driver, and no remote read or write is under way or may
  // become necessary.
  bool drained() const { return listed_ == nullptr && moves_ == 0; }
  // Nor is anything that was handed to one still to reach its peer, as far as drivers know.
  bool delivered() const;
  // Most bytes that one remote read or write moves from now on.
  void limit_moves(uint64_t bytes) { move_max_ = bytes; }
  // Arms every driver; fills descriptors to sleep on. False: work is waiting, or a driver
  // cannot sleep.
  bool arm(std::vector<int>* fds);
  // Says goodbye to every peer.
  void say_bye();

  SlotPool<Op>& ops() { return ops_; }
  Buffers& buffers() { return buffers_; }
  Registrations& registrations() { return registrations_; }
  uint32_t accesses() const { return accesses_.used(); }  // that drivers have taken whole
  const std::vector<std::unique_ptr<Driver>>& drivers() const { return drivers_; }
  const std::string& driver_name(size_t index) const { return driver_names_[index]; }
  const Identity& self() const { return config_.self; }
  const std::vector<std::unique_ptr<Peer>>& peers() const { return peers_; }

 private:
  static constexpr unsigned kPollBudget = 64;  // events of one driver in a round of progress
  // Marks the cookie of an access, in the half of a handle that has the index: no pool is so large.
  static constexpr uint64_t kAccessCookie = uint64_t{1} << 31;
  // For frames that a source was asked for: it may be busy with those of others.
  static constexpr uint64_t kPatienceNs = 100000;
  static constexpr int kGivenUpAtOnce = 8;
  static constexpr uint64_t kMovedAtOnce = 256 << 10;
  static constexpr uint32_t kRunMost = 64;  // frames of a message for the driver at a time
  struct Run {  // those of one call: too much for the stacks of some threads
    std::byte heads[kRunMost][sizeof(wire::Control)];
    iovec pieces[kRunMost];
    InplaceVector<Tx, kRunMost> frames;
  };

  // One driver with the peers it names; its upcalls come back here.
  struct Rail final : Sink {
    Protocol* protocol = nullptr;
    uint8_t index = 0;
    std::vector<Peer*> by_route;
    std::vector<PeerId> lossy;  // groups that were joined
    void packet(PeerId from, std::span<const std::byte> frame) override;
    void packets(std::span<Packet> all) override;
    void done(uint64_t cookie, Status status) override;
    void peer_down(PeerId peer, Status status) override;
    void set(PeerId route, Peer* peer);
    Peer* get(PeerId route) const { return route < by_route.size() ? by_route[route] : nullptr; }
  };

  // peers.cc
  Peer* find_identity(const Identity& id) const;
  static bool next_address(std::span<const std::byte>* rest, std::string_view* name,
                           std::span<const std::byte>* address);
  Status reach(Peer& peer, std::span<const std::byte> addresses, size_t first, std::string* why);
  void prove(Peer& peer);
  bool reach_otherwise(Peer& peer);
  Peer* make_peer(const Identity& id);
  void set_route(Peer& peer, uint8_t rail, PeerId route);
  wire::Hello own_hello() const;
  using DriverSet = std::bitset<256>;  // as many as Peer::rail can name
  size_t write_address(std::byte* text, bool brief, const DriverSet& named) const;
  static bool parse_address(std::span<const std::byte> address, Identity* id, uint32_t* window,
                            std::span<const std::byte>* drivers);
  void queue_hello(Peer& peer);
  void on_hello(Rail& rail, PeerId from, const wire::Hello& hello);
  void fail_peer(Peer& peer, Status why);
  void fail_op(Op* op, Status why);
  Peer* stranger(Rail& rail, PeerId from);

  // send.cc
  Status request(wire::Kind kind, Peer& peer, const Envelope& env, const Data& source,
                 const Data& destination, const Owner& owner, Op** out);
  Op* make_op(Peer& peer, OpRole role, const Owner& owner);
  void free_op(Op* op);
  static bool near(const Peer& peer, const Data& source);
  bool export_memory(Op* op, uint32_t access);
  bool keeps(const Peer& peer, const Data& data, uint64_t bytes, uint32_t access);
  choice::Payload local_payload(const Op* op);
  bool register_local(Op* op);
  void deregister_local(Op* op);
  choice::Choice choose(Peer& peer, const Envelope& env, const Data& source);
  void count(choice::Choice choice);
  bool lend_copy(Op* op);
  void set_announced_head(Op* op, const Envelope& env);
  void set_request_head(Op* op, wire::Kind kind, const Envelope& env);
  void set_control_head(Op* op, wire::Kind kind, Status status, uint64_t length);
  Status start(Op* op, Op** out);
  void send_control(Peer& peer, wire::Kind kind, Status status, uint64_t op, uint64_t sender_op,
                    uint64_t length);
  template <typename H>
  void send_header(Peer& peer, H header);
  uint16_t take_credit(Peer& peer);
  void send_credit(Peer& peer);
  static void allow_express(Peer& peer);
  static bool may_put_now(const Peer& peer, uint64_t bytes, uint64_t cost);
  template <typename Send>
  bool put_now_by(Peer& peer, uint8_t port, uint64_t bits, uint32_t user, uint64_t bytes,
                  Send send);

  // frames.cc
  void queue_op(Op* op);
  void list_peer(Peer& peer);
  unsigned push();
  unsigned flush_listed();
  unsigned flush(Peer& peer);
  uint32_t send_next(Op* op);
  uint32_t stream_next(Op* op, uint32_t most);
  static uint32_t payload_head(const Op* op, wire::Kind kind, uint64_t offset, std::byte* out);
  static bool in_run(const Op* op, uint64_t left);
  static bool awaited(const Op* op);
  static bool lends(const Op* op, const DriverCaps& caps, uint64_t bytes);
  static bool ends_by_done(const Op* op, const DriverCaps& caps, uint64_t end, uint64_t bytes);
  static uint32_t longest(const Op* op, const DriverCaps& caps);
  static uint32_t bounded(const Op* op, const DriverCaps& caps, uint32_t frame, uint32_t head);
  uint32_t send_run(Op* op, wire::Kind kind, uint32_t most);
  bool send_frame(Op* op, const std::byte* head, uint32_t head_bytes, uint64_t offset,
                  uint64_t want);
  void frames_handed_over(Op* op);
  void source_done(Op* op, Status status);
  void conclude(Op* op, Status status, OpEvent answer, uint64_t bytes);

  // receive.cc
  void on_frame(Rail& rail, PeerId from, std::span<const std::byte> bytes);
  void on_announced(Peer& peer, const wire::Frame& frame);
  void on_request(Peer& peer, const wire::Frame& frame);
  void on_control(Peer& peer, const wire::Frame& frame);
  void on_more(Peer& peer, const wire::Frame& frame);
  void on_reply(Peer& peer, const wire::Frame& frame, bool announced);
  void on_update(Peer& peer, const wire::Frame& frame);
  void on_updated(Peer& peer, const wire::Updated& header);
  void on_finish(Op* op, Status status, uint64_t length);
  Op* find_op(Peer& peer, uint64_t handle) const;
  bool take_window(Peer& peer, uint64_t bytes, uint32_t* units);
  void answer_put(Peer& peer, uint64_t peer_op, Status verdict, uint64_t accepted);
  Status receive_eager(Op* op, std::span<const std::byte> payload, Op** out);
  void incoming_done(Op* op, Status status);

  // move.cc
  static void keep_key(Op* op, std::span<const std::byte> key);
  Status begin_incoming(Op* op, Op** out, bool answer_here);
  static bool may_stream(Op* op, const wire::Control& h);
  void on_stream(Peer& peer, const wire::Frame& frame);
  void on_data(Peer& peer, const wire::Frame& frame);
  void ask_stream(Op* op);
  bool ask_first(Op* op);
  void begin_move(Op* op);
  bool import_key(Op* op, Cap by);
  void wait_for_stream(Op* op);
  void stop_waiting(Op* op);
  void give_up_streams();
  void restart_stream(Op* op);
  bool comes_late(Peer& peer, Op* op, uint64_t offset);
  uint64_t time() const { return config_.clock ? config_.clock(config_.clock_context) : 0; }
  Rma rma_of(const Peer& peer, uint32_t remote, uint64_t offset, std::span<const iovec> pieces,
             uint64_t bytes) const;
  void start_move(Op* op);
  void enter_moves(Op* op);
  void leave_moves(Op* op);
  unsigned move_step(Op* op);
  void move_refused(Op* op);
  void move_by_frames(Op* op);
  bool waits_for_registration(Op* op);
  void move_finished(Op* op);
  Status issue(Peer& peer, uint32_t remote, uint64_t offset, void* base, uint64_t bytes,
               bool reading, uint64_t cookie);
  bool in_one_piece(const Peer& peer, uint64_t bytes) const;
  Status access_whole(Peer& peer, uint32_t remote, uint64_t offset, void* base, uint64_t bytes,
                      bool reading, const AccessOwner& owner);
  void access_done(RemoteAccess* access, Status status);
  static void access_event(Op* op, OpEvent event, Status status, uint64_t bytes);
  void access_over(Op* op, Status status);
  unsigned step_moves();
  unsigned step_moves(Peer& peer);

  ProtocolConfig config_;
  Upper* upper_;
  Counters* counters_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::vector<std::unique_ptr<Driver>> drivers_;
  std::vector<std::string> driver_names_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_multimap<uint64_t, Peer*> by_identity_;
  std::unordered_map<uint64_t, Peer*> by_process_;
  Buffers buffers_;  // of operations and unexpected messages
  SlotPool<Op> ops_;
  const std::unique_ptr<Run> run_ = std::make_unique<Run>();
  SlotPool<RemoteAccess>
      accesses_;  // their handles, with kAccessCookie, are cookies for drivers, too
  Registrations registrations_;
  uint32_t locals_ = 0;                  // operations that have Op::local
  uint64_t moved_in_call_ = 0;           // bytes, by drivers that move data inside the call
  uint32_t moves_ = 0;                   // remote reads and writes under way, or put off
  PeerQueue movers_;                     // peers of those with bytes left to issue
  uint64_t move_max_ = ~uint64_t{0};     // bytes of one of them
  uint32_t announced_ = 0;               // own messages that wait to be read, or are about to be
  OpList<&Op::queue> asked_;             // in stage `asked`, by Op::since_ns
  Peer* listed_ = nullptr;               // peers with something to send
  Op* starting_ = nullptr;               // operation inside its initiating call ...
  bool started_done_ = false;            // ... and it finished there,
  Status starting_status_ = Status::ok;  // with this
  std::vector<std::byte> staging_;       // packed bodies, one frame
};

}  // namespace torii
