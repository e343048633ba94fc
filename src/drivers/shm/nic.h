// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The `shm` driver. nic.cc and flat.h have the path of a frame; peers.cc who is there and who has
// gone; transfer.cc which way a put or get takes; ask.cc what the other process is asked to carry
// out, asked.cc carries it out; remote.cc exported memory, and what this process reads and writes
// alone; direct.cc memory that peers map; split.cc gets that both processes work at; wait.cc
// sleeping and waking.
//
// send() and poll() use no lock, no allocation and no system call while both sides are awake.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "drivers/interfaces.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/ask.h"
#include "drivers/shm/attach.h"
#include "drivers/shm/handover.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "drivers/shm/stores.h"
#include "drivers/shm/switch_points.h"

namespace torii {

class ShmDriver final : public Driver,
                        private Paths,
                        private Advice,
                        private MappedMemory,
                        private ShortFrames {
 public:
  explicit ShmDriver(const DriverEnv& env);
  ~ShmDriver() override;
  ShmDriver(const ShmDriver&) = delete;
  ShmDriver& operator=(const ShmDriver&) = delete;

  // Makes the segment; false with the reason and the remedy in *why.
  bool start(std::string* why);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override;
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override;
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override;
  void dealloc(void* base) override;
  Status put(const Rma& rma) override;
  Status get(const Rma& rma) override;
  Status atomic(const RemoteAtomic& atomic) override;
  Status arm(int* fd) override;
  Paths* paths() override { return this; }
  Advice* advice() override { return this; }
  MappedMemory* mapped_memory() override { return caps_.flags & kGuard ? this : nullptr; }
  ShortFrames* short_frames() override { return this; }

 private:
  uint32_t long_max(PeerId peer) const override;
  bool near(PeerId peer, const void* at) const override {
    return arena_ && arena_->contains(at) && peers_[peer].direct;
  }
  bool sooner_sent(uint32_t remote) const override;
  void look(PeerId peer) override;
  Status reach(uint32_t remote, Reach* out) override;
  bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                  uint32_t body_bytes) override;

  static constexpr uint32_t kNoClaim = ~0u;
  static constexpr unsigned kHotMax = 8;                // rings looked at in every poll
  static constexpr unsigned kIdleLooks = 2;             // others looked at in every poll
  static constexpr unsigned kClosingYields = 1u << 20;  // some hundred ms, or time slices
  static constexpr size_t kCookiesMax = 1024;           // of a kind, whose done() is due
  static constexpr unsigned kTurn = 16;  // most frames of one ring before the next has a turn

  // What is not needed to move a frame.
  struct Details {
    shm::Segment segment;  // the peer's; not mapped if it could not be opened or is awaited
    bool given = false;    // the peer handed it over: it cannot be opened again
    Descriptor request;    // the connection through which the segment comes
    bool awaited = false;  // the segment was asked for
    Mapping out_ring;
    Mapping in_ring;
    std::unique_ptr<uint64_t[]> stale;
    shm::ArenaView arena;  // the peer's
    Descriptor pidfd;
    Descriptor wake_fd;
    bool wake_kept = true;  // it stays open: one that was handed over cannot be opened again
    uint32_t out_claim = kNoClaim;  // ours in the peer's segment
    uint32_t in_claim = kNoClaim;   // the peer's in ours
    std::string note;               // why put and get are not possible, for the user
    bool wake_failed = false;       // its pipe could not be opened; reported
  };

  enum class Stage : uint8_t { unused, up, down };  // down: reported, id not yet given back

  struct Peer {
    alignas(shm::kLine) shm::RingSender out;  // base is null until a ring is claimed
    shm::BodyWriter writer;
    shm::Header* there = nullptr;
    PeerId id = kNoPeer;
    Stage stage = Stage::unused;
    bool fence = false;    // order a frame before the look at `sleeping` by a fence
    bool blocked = false;  // a frame was refused for lack of room
    bool direct = false;   // put and get are proved
    alignas(shm::kLine) shm::RingReceiver in;  // base is null until its claim is adopted
    uint64_t last_frame = 0;                   // value of ticks_
    unsigned gets_in_row = 0;                  // from it, that met no other (split.cc)
    uint64_t asked = 0;                        // number of its last ask
    uint64_t proved = 0;                       // the moment in which its pid was seen to be its own
    bool known = false;                        // the core has this id
    bool hot = false;
    bool listed = false;         // in hot_ or idle_
    bool broken = false;         // its ring is corrupt: never to be used again
    Status ending = Status::ok;  // not ok: to be reported when its ring is empty
    std::unique_ptr<Details> details;
    std::unique_ptr<shm::Asks> asks;        // what it was asked for
    std::unique_ptr<shm::Answers> answers;  // to it, that have not left; null: never any
  };

  struct Key {  // the wire form of a memory key
    uint64_t base;
    uint64_t bytes;
    uint32_t access;
    uint32_t owner;  // part of the owner's cookie
    shm::ArenaKey arena;
  };
  struct GuardedImport {
    shm::Guarded word;  // the owner's
    uint32_t slot = 0;  // of the guard
    std::byte* at = nullptr;
    std::shared_ptr<Mapping> memory;  // what holds `at`
  };
  struct Import {
    Key key{};
    PeerId peer = kNoPeer;
    bool used = false;
    std::unique_ptr<GuardedImport> guarded;  // null: the key is not guarded
  };
  struct Export {
    uint64_t base;
    uint64_t bytes;
  };
  // A get that both processes work at, as this side sees it. The shared part is the Split of the
  // same number in the own segment.
  struct OpenSplit {
    Peer* peer = nullptr;  // null: not in use
    uint32_t serial = 0;
    uint32_t pages = 0;
    uint32_t done = 0;  // by this process
    Status status = Status::ok;
    Rma rma{};
    iovec piece{};
  };
  // Puts, or gets, of one peer to be made by one system call.
  struct Gathered {
    uint64_t cookie;
    uint64_t remote;  // address there
    iovec piece;
    const std::atomic<uint64_t>* word;  // of a guarded key, or null
    uint64_t valid;
    // The export is no more.
    bool ended() const { return word && word->load(std::memory_order_acquire) != valid; }
  };
  struct Batch {
    void add(const Rma& rma, const Import& import);
    bool full() const;
    Peer* peer = nullptr;
    bool write = false;
    unsigned count = 0;
    uint64_t bytes = 0;
    Gathered all[shm::kGatherMost];
  };
  struct Made {
    uint64_t cookie;
    Status status;
  };
  struct CookieHash {
    size_t operator()(const shm::Cookie& c) const { return c.words[0]; }
  };

  // flat.h
  template <uint64_t kKind>
  bool send_lines(Peer& peer, const void* head, uint32_t head_bytes, const void* body,
                  uint32_t body_bytes);
  template <uint64_t kKind = shm::kKindFrame>
  bool send_flat(Peer& peer, const void* head, uint32_t head_bytes, const void* body,
                 uint32_t body_bytes);
  void send_ask(Peer& peer, const shm::Ask& ask, const void* body, uint32_t bytes);

  // nic.cc
  bool send_one(const Tx& tx);
  [[gnu::noinline]] bool send_any(const Tx& tx);
  [[gnu::noinline]] bool send_medium(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                                     uint32_t body_bytes);
  bool room_beside(const Tx& tx);
  void refused(Peer& peer, bool corrupt);
  // Frames that wait in the rings of those who have sent lately?
  bool arrived() const {
    for (unsigned i = 0; i < hot_count_; i++)
      if (__builtin_expect(!hot_[i]->in.empty(), 0)) return true;
    return false;
  }
  bool quiet(uint64_t now_ns) const;
  bool arrives() const;
  [[gnu::noinline]] unsigned poll_all(uint64_t now_ns, unsigned budget);
  unsigned drain(Peer& peer, unsigned most);
  unsigned poll_idle(unsigned budget);
  unsigned report_done();

  // peers.cc
  Peer* new_peer(const shm::Address& address);
  Status open_peer(Peer& peer, const shm::Address& address, std::string* why);
  bool use_segment(Peer& peer);
  Status await_segment(Peer& peer, std::string* why);
  void take_segment(Peer& peer);
  void lose_segment(Peer& peer, const std::string& why);
  void answer_requests();
  void prove_attach(Peer& peer);
  Status claim_ring(Peer& peer, std::string* why);
  Status reopen_segment(Peer& peer, std::string* why);
  bool take_claim(Peer& peer, uint32_t number, std::string* why);
  bool start_sending(Peer& peer);
  void read_news();
  void read_claim(uint32_t number);
  Peer* adopt(uint32_t number);
  void reject_claim(uint32_t number, const char* what);
  void list_ring(Peer& peer);
  void unlist_ring(Peer& peer);
  void promote(Peer& peer);
  void end(Peer& peer, Status status);
  void fail(Peer& peer, const char* what);
  void finish_endings();
  void finish(Peer& peer);
  void release_slot(Peer& peer);
  void forget_details(Peer& peer);
  void watch(Peer& peer);
  void check_peers(uint64_t now_ns);
  void say_goodbye();

  // transfer.cc
  Status check_rma(const Rma& rma, uint32_t access, const Import** import, Peer** peer);
  bool may_ask(const Rma& rma, const Import& import, const Peer& peer, bool write);
  bool ask_now(Peer& peer);
  uint64_t chunk_of(const Rma& rma, Peer& peer, bool write);
  Status ask(const Rma& rma, const Import& import, Peer& peer, bool write);
  bool ask_at_once(const Rma& rma, const GuardedImport& region, Peer& peer, shm::AskKind kind);
  [[gnu::noinline]] void ask_in_turn(const Rma& rma, const GuardedImport& region, Peer& peer,
                                     shm::AskKind kind);
  Status ask_atomic(const Rma& rma, const Import& import, Peer& peer, const RemoteAtomic& atomic);
  shm::OpenAsk& open_ask(const Rma& rma, const GuardedImport& region, Peer& peer, shm::AskKind kind,
                         uint64_t chunk);
  void send_asks(Peer& peer);
  void send_last(Peer& peer, shm::OpenAsk& open);
  bool send_ask_of(Peer& peer, shm::OpenAsk& open);
  Status transfer(const Rma& rma, bool write);
  [[gnu::noinline]] Status transfer_alone(const Rma& rma, Peer& peer, bool write, unsigned lone);

  // remote.cc
  Status move(const Rma& rma, Peer& peer, bool write);
  Status still_valid(const Rma& rma, bool write, Status status) const;
  Status attach(Peer& peer, bool write, uint64_t remote, const iovec* pieces, uint32_t piece_count,
                uint64_t bytes, int* error);
  static Status attach_target(const Peer& peer, uint64_t moment, shm::Target* out);
  void downgrade(Peer& peer, int error);
  Status refuse_key(const Peer& peer, const char* what);

  // gather.cc
  void make_together(Batch& batch, Status* status);
  Status gather_get(const Rma& rma, Peer& peer);
  bool gathers_on(unsigned frames) const;
  void finish_gathered();
  bool may_put_off(const Rma& rma, const Import& import, const Peer& peer, bool write) const;
  Status put_off(const Rma& rma, Peer& peer, bool write);
  void make_put_off();
  unsigned report_put_off();

  // direct.cc
  bool make_arena();
  bool forked() const;  // this is the child of one that opened the driver
  Status import_guarded(Peer& peer, Import* import);
  shm::ArenaKey arena_key(const void* base, uint64_t bytes) const;
  Status find_direct(Peer& peer, const shm::ArenaKey& key, uint64_t base, uint64_t bytes,
                     std::byte** at);
  Status move_direct(Peer& peer, const Rma& rma, bool write);

  // split.cc
  bool worth_splitting(const Rma& rma, Peer& peer) const;
  Status get_split(const Rma& rma, Peer& peer);
  void read_pages(OpenSplit& split, uint32_t first, uint32_t count);
  bool split_over(OpenSplit& split);
  unsigned finish_splits();
  void abandon_splits(const Peer& peer);
  void await_splits();
  void join_split(Peer& peer, const std::byte* bytes);
  bool exported(uint64_t base, uint64_t bytes) const;

  // ask.cc
  Status over(Peer& peer, const shm::OpenAsk& ask) const;
  void take_answer(Peer& peer, const shm::Ask& ask, const std::byte* bytes);
  void take_answers(Peer& peer, const shm::Ask& answers, const std::byte* bytes);
  unsigned finish_asks();
  unsigned finish_asks(Peer& peer);
  bool say_withdrawn(shm::Asks& asks);
  void withdraw(Peer& peer);
  void await_asks();
  unsigned do_withdrawn(Peer& peer);
  Status do_myself(Peer& peer, const shm::OpenAsk& ask);
  Status look_on(Peer& peer);
  Status finish_lone(Peer& peer);
  bool finish_counted(Peer& peer);
  bool take_lone_answer(Peer& peer);
  void retire_lone(Peer& peer);
  void stop_asking(Peer& peer);
  bool answered(Peer& peer);
  void retire_asks(Peer& peer);
  unsigned report_asks(Peer& peer, const shm::EndedAsks& ended);
  bool read_applied(Peer& peer);
  void abandon_asks(Peer& peer);

  // asked.cc
  void carry_out(Peer& peer, const std::byte* bytes, uint32_t length, bool first);
  void take_data(Peer& peer, const shm::Ask& answer, const std::byte* bytes, uint32_t length);
  void change(Peer& peer, const shm::Ask& ask, const std::byte* data);
  void rest(const shm::Claim& claim, uint64_t number) const;
  std::byte* asked_for(Peer& peer, const shm::Ask& ask, uint32_t access);
  void answer_get(Peer& peer, const shm::Ask& ask, bool lone);
  bool gather_answer(Peer& peer, uint32_t number, const std::byte* from, uint32_t bytes);
  void send_answers(Peer& peer);
  void deliver(Peer& peer, const shm::Ask& ask, const std::byte* address);
  void update(Peer& peer, const shm::Ask& ask, const std::byte* bytes);

  // wait.cc
  bool order_everybody() const;
  void start_waiting();
  bool make_wake_pipe();
  bool work_waiting();
  void wake(Peer& peer);
  void open_wake_fd(Peer& peer);
  void budget_descriptors();
  void wake_if_sleeping(Peer& peer) {
    if (__builtin_expect(peer.fence, 0)) std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(peer.there->sleeping.load(std::memory_order_relaxed) != 0, 0)) wake(peer);
  }

  Sink& sink_;
  Counters& counters_;
  shm::Header* header_ = nullptr;  // of the own segment
  uint64_t next_check_ns_ = 0;
  uint64_t ticks_ = 0;
  uint32_t news_seen_ = 0;
  unsigned endings_ = 0;  // peers with `ending`
  unsigned hot_count_ = 0;
  unsigned hot_next_ = 0;
  unsigned idle_next_ = 0;
  bool armed_ = false;
  Peer* hot_[kHotMax] = {};
  unsigned put_off_owed_ = 0;  // puts and gets taken by put_off() whose done() is due
  Peer* draining_ = nullptr;   // whose frames are being handed up
  std::vector<Peer*> idle_;
  std::vector<Peer> peers_;        // never moves: reserved for peers_max
  std::vector<uint64_t> cookies_;  // frames taken whose done() is due
  std::vector<uint64_t> reporting_;

  DriverCaps caps_;
  int refused_here_ = 0;  // errno of cross-memory attach to this process itself
  uint32_t local_peers_;
  bool take_turns_;
  const shm::SwitchPoints points_;
  shm::Segment segment_;
  uint32_t pid_ = 0;  // of the process that opened the driver; not of one forked since
  std::vector<PeerId> free_peers_;
  std::unordered_map<shm::Cookie, PeerId, CookieHash> by_cookie_;
  // For each own claim: the peer it was adopted for, or null; and where its ring goes on.
  std::vector<Peer*> claim_peer_;
  std::vector<uint32_t> claim_position_;
  std::vector<bool> claim_rejected_;

  shm::Giver giver_;
  std::vector<pollfd> watched_;  // pidfds and the giver's socket, rebuilt when watched_stale_
  std::vector<PeerId> watched_ids_;
  bool watched_stale_ = true;
  unsigned descriptors_most_ = 1;  // of each kind below
  unsigned pidfds_ = 0;
  unsigned wake_fds_ = 0;  // of peers, kept open
  SpareDescriptor spare_;
  unsigned awaited_ = 0;  // peers whose segments are awaited
  PeerId next_stat_ = 0;  // the next peer without a pidfd to check

  Batch gathered_;  // empty outside of drain()
  Batch put_off_;
  std::vector<Made> made_;  // of those put off
  std::vector<Made> reporting_made_;

  OpenSplit splits_[shm::kSplits];
  unsigned splits_open_ = 0;   // gets that wait for the other process's part
  bool side_by_side_ = false;  // each process of the job has a processor
  unsigned lone_ = 0;          // puts and gets since the last poll, of those not asked for alone
  bool crowded_ = false;       // the last time there were several: so there will be now
  std::vector<Peer*> asking_;  // of whom something was asked that is not over

  std::vector<Export> exports_;  // readable memory, by Region::driver_data
  std::vector<uint32_t> free_exports_;

  std::vector<Import> imports_;
  std::vector<uint32_t> free_imports_;

  shm::ArenaPointer arena_;  // made when memory is asked for
  bool no_arena_ = false;    // that was not possible

  Descriptor wake_read_;
  Descriptor wake_write_;
  uint32_t sleep_number_ = 0;
  bool registered_ = false;  // membarrier orders this process's sends
};

}  // namespace torii
