// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Arrival and end of peers, and the rings between us (peers.cc); sleeping and waking (wait.cc).
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/counters.h"
#include "core/base/sealed_memory.h"
#include "drivers/driver.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "drivers/shm/stores.h"
#include "drivers/shm/switch_points.h"

namespace torii::shm {

inline constexpr uint32_t kRequests = 64;  // outstanding to one peer

inline constexpr uint32_t kRequestChunk = 8192;          // bytes of one frame
inline constexpr uint32_t kRequestLongChunk = 32 << 10;  // in long rings, beside others

// The most that a frame in a ring of so many lines brings.
constexpr uint32_t request_chunk_in(uint32_t lines) {
  return frame_max_of(lines) > kMtu ? kRequestLongChunk : kRequestChunk;
}

struct OpenRequest {
  uint64_t cookie;
  std::byte* local;
  uint64_t remote;  // address in the peer
  uint64_t offset;  // in the region
  uint64_t bytes;
  ExportWord word;
  uint32_t slot;     // of the guard
  RequestKind kind;  // put, get or atomic
  bool refused;      // get: by the target
  uint64_t chunk;    // bytes of a frame, or of what a frame requests
  uint64_t first;    // number of its first frame
  uint64_t last;     // and of the last that has left
  uint64_t sent;     // bytes that were requested
  uint64_t got;      // get: bytes that have come
  AtomicRequest atomic;

  // Where the data of that request begin, if it is one of its.
  uint64_t place_of(uint32_t number) const {
    return uint64_t{number - static_cast<uint32_t>(first)} * chunk;
  }
  // Awaits the answer to that request?
  bool awaits(uint32_t number) const {
    return kind == RequestKind::get && !refused && place_of(number) < sent;
  }
};

// The requests to one peer, in the order of their numbers, in which they end.
struct RequestQueue {
  explicit RequestQueue(Claim& c) : claim(c), posted(c.seen.load(acquire)), applied(posted) {}
  OpenRequest& operator[](uint32_t i) { return open[(head + i) % kRequests]; }
  // Nothing of it is left to the target, which may have refused it.
  bool carried_out(const OpenRequest& one) const {
    if (one.kind == RequestKind::get) return one.refused || one.got == one.bytes;
    return one.sent == one.bytes && applied >= one.last;
  }

  Claim& claim;          // ours in the peer's segment
  uint64_t posted;       // number of the last frame
  uint64_t applied;      // what the peer had carried out when we looked, but for gets
  bool many = false;     // the last frame was one of many, and Claim::awaited is older
  uint64_t awaited = 0;  // bytes that gets have requested and that have not come
  unsigned idle = 0;     // polls since something happened
  bool cancelling = false;
  bool absent = false;  // it has not seen all that was cancelled
  uint32_t head = 0;
  uint32_t count = 0;
  uint32_t sending = 0;  // of them sent in full
  uint32_t results = 0;  // bit i: Claim::results[i] is in use
  std::array<OpenRequest, kRequests> open;
};

// Answers to short gets that wait for those behind them: they share a frame.
struct AnswerBatch {
  uint32_t first = 0;  // number of its request
  uint32_t count = 0;
  uint32_t bytes = 0;
  std::byte data[kAnswersMost];
};

inline constexpr uint32_t kNoClaim = ~0u;
inline constexpr unsigned kClosingYields = 1u << 20;  // some hundred ms, or time slices

// The state of a peer that is not needed to move a frame.
struct PeerDetails {
  Segment segment;       // the peer's; not mapped if it could not be opened or is awaited
  bool given = false;    // the peer handed it over: it cannot be opened again
  Descriptor request;    // the connection through which the segment comes
  bool awaited = false;  // the segment was asked for
  Mapping out_ring;
  Mapping in_ring;
  std::unique_ptr<uint64_t[]> stale;
  std::shared_ptr<ArenaView> arena = std::make_shared<ArenaView>();  // the peer's
  Descriptor pidfd;
  Descriptor wake_fd;
  bool wake_kept = true;          // it stays open: one that was handed over cannot be opened again
  uint32_t out_claim = kNoClaim;  // ours in the peer's segment
  uint32_t in_claim = kNoClaim;   // the peer's in ours
  std::string note;               // why put and get are not possible, for the user
  bool wake_failed = false;       // its pipe could not be opened; reported
};

enum class Stage : uint8_t { unused, up, down };  // down: reported, id not yet given back

struct Peer {
  alignas(kLine) RingSender out;  // base is null until a ring is claimed
  BodyWriter writer;
  Header* there = nullptr;
  PeerId id = kNoPeer;
  Stage stage = Stage::unused;
  bool fence = false;              // order a frame before the look at `sleeping` by a fence
  bool blocked = false;            // a frame was refused for lack of room
  bool direct = false;             // put and get are proved
  alignas(kLine) RingReceiver in;  // base is null until its claim is adopted
  uint64_t last_frame = 0;         // value of Peers::tick()
  unsigned gets_in_row = 0;        // from it, that met no other (splits.cc)
  uint64_t requested = 0;          // number of its last request
  Claim* claim = nullptr;          // its, in our segment
  uint64_t proved = 0;             // the moment in which its pid was seen to be its own
  bool known = false;              // the core has this id
  bool broken = false;             // its ring is corrupt: never to be used again
  Status ending = Status::ok;      // not ok: to be reported when its ring is empty
  std::unique_ptr<PeerDetails> details;
  std::unique_ptr<RequestQueue> requests;  // outstanding ones to it; null: never any
  std::unique_ptr<AnswerBatch> answers;    // to it, that have not left; null: never any

  // It may be alive, and frames may go to it.
  bool up() const { return stage == Stage::up && ending == Status::ok; }
  bool closed() const { return there->life.load(acquire) != static_cast<uint32_t>(Life::open); }
  bool asleep() const { return there->sleeping.load(relaxed) != 0; }
  uint32_t pid() const { return details->segment.address.pid; }
};

inline constexpr uint32_t kPeersMax = 8192;

// The rings in which frames may arrive. Those of the peers that sent last are looked at in every
// poll, the others by turns.
class RingList {
 public:
  void add(Peer& peer);
  void remove(const Peer& peer);  // if it is there
  // One of the others has sent: its ring takes the place of that which was silent longest.
  void promote(const Peer& peer);
  // The next one of either kind; there is one.
  Peer& next_hot() {
    Peer& peer = *hot_[hot_next_];
    if (++hot_next_ >= hot_count_) hot_next_ = 0;
    return peer;
  }
  Peer& next_idle() {
    if (idle_next_ >= idle_.size()) idle_next_ = 0;
    return *idle_[idle_next_++];
  }
  Peer& front() const { return *hot_[hot_next_]; }
  unsigned hot_count() const { return hot_count_; }
  bool any_idle() const { return !idle_.empty(); }
  // Have frames arrived from those who have sent lately?
  bool arrived() const {
    for (unsigned i = 0; i < hot_count_; i++)
      if (__builtin_expect(!hot_[i]->in.empty(), 0)) return true;
    return false;
  }

 private:
  static constexpr unsigned kHotMax = 8;

  unsigned hot_count_ = 0;
  unsigned hot_next_ = 0;
  unsigned idle_next_ = 0;
  Peer* hot_[kHotMax] = {};
  std::vector<Peer*> idle_;  // empty while there is room among the hot ones
};

class Peers {
 public:
  Peers(const DriverEnv& env, const SwitchPoints& points);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Makes this process's segment; false with the reason and the remedy in *why.
  bool start(std::string* why);
  // Tells the peers that this process closes. Nothing may follow.
  void say_goodbye();
  // This is the process that started, not one forked since.
  bool own_process() const;

  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why);
  void disconnect(PeerId peer);
  Peer& operator[](PeerId id) { return all_[id]; }
  const Peer& operator[](PeerId id) const { return all_[id]; }
  std::vector<Peer>& all() { return all_; }
  bool knows(PeerId id) const { return id < all_.size(); }

  const Segment& segment() const { return segment_; }
  Header& header() const { return *header_; }
  // This process can reach others' memory by cross-memory attach.
  bool attaches() const { return attaches_; }
  RingList& rings() { return rings_; }
  const RingList& rings() const { return rings_; }

  // Something is to be done by check() or end_peers().
  bool quiet(uint64_t now_ns) const {
    return endings_ == 0 && now_ns < next_check_ns_ && !armed_ && !news();
  }
  bool armed() const { return armed_; }
  void disarm() {
    armed_ = false;
    header_->sleeping.store(0, relaxed);
  }
  // Sees to what is new or due.
  void check(uint64_t now_ns) {
    if (__builtin_expect(news(), 0)) read_news();
    if (__builtin_expect(now_ns >= next_check_ns_, 0)) check_peers(now_ns);
  }
  unsigned endings() const { return endings_; }
  // Its end is to be reported: nothing that it sent is left.
  static bool over(const Peer& peer);
  // Gives up what is shared with a peer that is over. True: the core is to be told.
  bool retire(Peer& peer);

  // The first frame to a peer that connected to us. False: nothing can be sent.
  bool start_sending(Peer& peer);
  // There was no room for a frame.
  void refused(Peer& peer);
  // The peer's memory makes no sense: nothing of it is used any more.
  void fail(Peer& peer, const char* what);
  // From now on frames carry everything between us and that peer.
  void downgrade(Peer& peer, int error);
  uint64_t tick() { return ++ticks_; }

  // wait.cc
  // As Driver::arm().
  Status arm(int* fd);
  void wake_if_sleeping(Peer& peer) {
    if (__builtin_expect(peer.fence, 0)) std::atomic_thread_fence(seq_cst);
    std::atomic_signal_fence(seq_cst);
    if (__builtin_expect(peer.there->sleeping.load(relaxed) != 0, 0)) wake(peer);
  }
  // From here on every process that is registered sees what was stored before, and what they
  // stored before is seen here. False: the system refuses.
  bool order_everybody() const;

 private:
  struct CookieHash {
    size_t operator()(const Cookie& c) const { return c.words[0]; }
  };

  Peer* new_peer(const Address& address);
  Status open_peer(Peer& peer, const Address& address, std::string* why);
  bool use_segment(Peer& peer);
  Status await_segment(Peer& peer, std::string* why);
  void take_segment(Peer& peer);
  void lose_segment(Peer& peer, const std::string& why);
  void answer_requests();
  void prove_attach(Peer& peer);
  Status claim_ring(Peer& peer, std::string* why);
  bool take_claim(Peer& peer, uint32_t number, std::string* why);
  bool news() const { return header_->news.load(relaxed) != news_seen_; }
  void read_news();
  void read_claim(uint32_t number);
  Peer* adopt(uint32_t number);
  void reject_claim(uint32_t number, const char* what);
  void end(Peer& peer, Status status);
  void release_slot(Peer& peer);
  void forget_details(Peer& peer);
  void budget_descriptors();
  void watch(Peer& peer);
  void check_peers(uint64_t now_ns);

  // wait.cc
  void start_waiting();
  bool make_wake_pipe();
  bool work_waiting();
  void wake(Peer& peer);
  void open_wake_fd(Peer& peer);

  Header* header_ = nullptr;  // of the own segment
  uint64_t next_check_ns_ = 0;
  uint64_t ticks_ = 0;
  uint32_t news_seen_ = 0;
  unsigned endings_ = 0;  // peers with `ending`
  bool armed_ = false;
  RingList rings_;
  std::vector<Peer> all_;  // never moves: reserved for kPeersMax

  Counters& counters_;
  const uint32_t local_peers_;
  const uint32_t emulated_node_;
  const SwitchPoints& points_;
  Segment segment_;
  bool attaches_ = false;
  int refused_here_ = 0;  // errno of cross-memory attach to this process itself
  std::vector<PeerId> free_;
  std::unordered_map<Cookie, PeerId, CookieHash> by_cookie_;
  // For each own claim: the peer it was adopted for, or null; and where its ring goes on.
  std::vector<Peer*> claim_peer_;
  std::vector<uint32_t> claim_position_;
  std::vector<bool> claim_rejected_;

  Giver giver_;
  std::vector<pollfd> watched_;  // the giver's socket and pidfds; kept for their room
  std::vector<PeerId> watched_ids_;
  unsigned descriptors_most_ = 1;  // of each kind below
  unsigned pidfds_ = 0;
  unsigned wake_fds_ = 0;  // of peers, kept open
  SpareDescriptor spare_;
  unsigned awaited_ = 0;  // peers whose segments are awaited
  PeerId next_stat_ = 0;  // the next peer without a pidfd to check

  Descriptor wake_read_;
  Descriptor wake_write_;
  uint32_t sleep_number_ = 0;
  bool registered_ = false;  // membarrier orders this process's sends
};

}  // namespace torii::shm
