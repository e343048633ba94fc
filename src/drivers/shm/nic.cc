// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/nic.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/pause.h"
#include "drivers/shm/shm.h"

namespace torii {
namespace {

using shm::Import;
using shm::RequestKind;
using shm::RingReceiver;

constexpr size_t kCookiesMax = 1024;  // frames whose done() is due
constexpr unsigned kTurn = 16;        // most frames of one ring before the next has a turn
constexpr unsigned kIdlePolls = 2;    // of rings that were silent, in every poll
constexpr unsigned kPollsOfOne = 24;  // of a caller that waits for one event

}  // namespace

ShmDriver::ShmDriver(const DriverEnv& env)
    : sink_(*env.sink),
      counters_(*env.counters),
      points_(shm::switch_points(params(), hardware(), env.take_turns)),
      peers_(env, points_),
      side_by_side_(!env.take_turns),
      exports_(peers_.segment().address),
      remote_(peers_, counters_),
      requests_(sink_, counters_, peers_, remote_, exports_, env.local_peers <= 2),
      coalescer_(sink_, counters_, remote_),
      splits_(sink_, counters_, peers_, remote_, exports_) {
  caps_.flags = kReliable | kPeerDown | kWait;
  caps_.mtu = shm::kMtu;
  caps_.long_max = shm::kLongMtu;
  caps_.inline_max = shm::kLongMtu;
  caps_.pieces_max = kAttachPieces;
  caps_.batch_max = 16;
  caps_.address_bytes = sizeof(shm::Address);
  caps_.peers_max = shm::kPeersMax;
  cookies_.reserve(kCookiesMax);
  reporting_.reserve(kCookiesMax);
}

bool ShmDriver::start(std::string* why) {
  if (!peers_.start(why)) return false;
  caps_.eager_advice = shm::eager_limit_for(points_, peers_.segment().ring_bytes);
  side_by_side_ = side_by_side_ && peers_.attaches();
  if (!peers_.attaches()) return true;
  caps_.flags |= kPut | kGet | kGuard;
  // Targets are asked only where they have a processor each and can order their peers.
  if (side_by_side_ && !peers_.header().needs_fence) caps_.flags |= kAtomic;
  caps_.key_bytes = sizeof(shm::Key);
  caps_.remote_max = shm::kRemoteMax;
  remote_min = points_.offer_min;
  sent_below = std::min(points_.remote_min, points_.read_crossing_min);
  read_alone_min = points_.read_alone_min;
  read_crossing_min = points_.read_crossing_min;
  return true;
}

// A forked child has the mappings but is not the one the peers know.
ShmDriver::~ShmDriver() {
  if (!peers_.own_process()) return;
  splits_.await();
  requests_.close();
  peers_.say_goodbye();
}

void ShmDriver::address(std::byte* out) const {
  std::memcpy(out, &peers_.segment().address, sizeof(shm::Address));
}

uint32_t ShmDriver::long_max(PeerId id) const {
  const uint32_t most = peers_.knows(id) ? shm::frame_max_of(peers_[id].out.lines) : 0;
  return most > shm::kMtu ? most : 0;
}

// --- sending -------------------------------------------------------------------------------------

size_t ShmDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  while (taken < batch.size() && send_tx(batch[taken])) taken++;
  return taken;
}

[[gnu::hot]] bool ShmDriver::send_short(PeerId id, uint64_t word0, uint64_t word1, const void* body,
                                        uint32_t body_bytes) {
  Peer& peer = peers_[id];
  const uint32_t bytes = 2 * sizeof(word0) + body_bytes;
  std::byte* const to = bytes <= shm::kFirstBytes ? peer.out.reserve_line() : nullptr;
  if (!to) return send_tx(ShortTx(id, word0, word1, body, body_bytes).tx);
  std::memcpy(to, &word0, sizeof(word0));
  std::memcpy(to + sizeof(word0), &word1, sizeof(word1));
  if (body_bytes) copy_bytes(to + 2 * sizeof(word0), body, body_bytes);
  peer.out.publish_line(to, bytes);
  peers_.wake_if_sleeping(peer);
  return true;
}

[[gnu::hot]] bool ShmDriver::send_tx(const Tx& tx) {
  TORII_ASSERT(peers_.knows(tx.peer) && tx.head_bytes <= kHeadMax);
  Peer& peer = peers_[tx.peer];
  if (__builtin_expect(!peer.out.base, 0) && !peers_.start_sending(peer)) return false;
  if (__builtin_expect(tx.cookie != 0, 0) && cookies_.size() >= kCookiesMax) return false;
  if (__builtin_expect(!shm::write_frame(peer, shm::kKindFrame, tx.head, tx.head_bytes, tx.pieces,
                                         tx.piece_count, tx.body_bytes),
                       0)) {
    peers_.refused(peer);
    return false;
  }
  peers_.wake_if_sleeping(peer);
  if (__builtin_expect(tx.cookie != 0, 0)) cookies_.push_back(tx.cookie);
  return true;
}

// --- polling -------------------------------------------------------------------------------------

// Most polls find nothing, and this is all they do; but for requests.
inline bool ShmDriver::quiet(uint64_t now_ns) const {
  return !peers_.rings().arrived() && !peers_.rings().any_idle() && cookies_.empty() &&
         coalescer_.owed() == 0 && splits_.open() == 0 && peers_.quiet(now_ns);
}

// Whoever waits for one event looks several times, for a round of what it waits in takes longer
// than all of them. Each look ends before the next one begins: if many were under way when the
// line changes, the processor would have to begin anew behind the first.
inline bool ShmDriver::arrives() const {
  const unsigned rings = peers_.rings().hot_count();
  if (__builtin_expect(!side_by_side_ || rings == 0, 0)) return false;
  for (unsigned polls = 0; polls < kPollsOfOne; polls += rings) {
    finish_reads();
    if (peers_.rings().arrived()) return true;
  }
  return false;
}

// Whoever asks for one event gets a frame of the peer whose turn it is, if it has one, at once.
[[gnu::hot]] unsigned ShmDriver::poll(uint64_t now_ns, unsigned budget) {
  if (__builtin_expect(since_poll_ > 0, 0)) {
    crowded_ = since_poll_ > 1;
    since_poll_ = 0;
  }
  if (quiet(now_ns)) {
    if (__builtin_expect(requests_.outstanding(), 0)) return requests_.progress();
    if (budget != 1 || !arrives()) return 0;
  }
  if (budget == 1 && !peers_.armed() && cookies_.empty() && coalescer_.owed() == 0 &&
      peers_.rings().hot_count() > 0)
    if (const unsigned count = drain(peers_.rings().front(), 1)) return count;
  return poll_all(now_ns, budget);
}

[[gnu::hot]] unsigned ShmDriver::poll_all(uint64_t now_ns, unsigned budget) {
  if (__builtin_expect(peers_.armed(), 0)) peers_.disarm();
  unsigned count = 0;
  if (__builtin_expect(!cookies_.empty(), 0)) count = report_done();
  if (__builtin_expect(coalescer_.owed() != 0, 0)) count += coalescer_.report();
  for (unsigned n = peers_.rings().hot_count(); n && count < budget; n--)
    count += drain(peers_.rings().next_hot(), std::min(kTurn, budget - count));
  // Busy rings may use up the budget for ever: the others get a few frames beyond it.
  if (peers_.rings().any_idle())
    count += poll_idle(std::max(budget - std::min(count, budget), kIdlePolls));
  peers_.check(now_ns);
  if (__builtin_expect(splits_.open() != 0, 0)) count += splits_.progress();
  if (__builtin_expect(requests_.outstanding(), 0)) count += requests_.progress();
  if (__builtin_expect(peers_.endings() != 0, 0)) end_peers();
  return count;
}

// Is another frame of the same ring handed up? More than the ring's turn if the frames ask for gets
// that are made together.
inline bool ShmDriver::goes_on(unsigned frames, unsigned most) const {
  if (__builtin_expect(coalescer_.waiting() == 0, 1)) return frames < most;
  return !coalescer_.full() && frames < 2 * kTurn;
}

// Hands up at most `most` frames of that peer.
[[gnu::always_inline]] inline unsigned ShmDriver::drain(Peer& peer, unsigned most) {
  unsigned count = 0;
  draining_ = &peer;
  do {
    const std::byte* bytes;
    uint32_t length;
    const auto found = peer.in.peek(&bytes, &length);
    if (found == RingReceiver::Found::nothing) break;
    if (__builtin_expect(found == RingReceiver::Found::corrupt, 0)) {
      peers_.fail(peer, "a control word in its ring makes no sense");
      break;
    }
    if (__builtin_expect(found == RingReceiver::Found::frame, 1)) {
      peer.known = true;
      if (count) peer.in.fetch_ahead();
      sink_.packet(peer.id, {bytes, length});
    } else if (found == RingReceiver::Found::request) {
      requests_.take(peer, bytes, length, goes_on(count + 1, most));
    } else {
      splits_.join(peer, bytes, length);
    }
    // The sender may be asleep because it had no room.
    if (__builtin_expect(peer.in.consume(), 0) && peer.there) peers_.wake_if_sleeping(peer);
    ++count;
    if (__builtin_expect(peer.broken, 0)) break;
  } while (goes_on(count, most));
  draining_ = nullptr;
  if (__builtin_expect(coalescer_.waiting() != 0, 0)) coalescer_.report();
  if (count) peer.last_frame = peers_.tick();
  return count;
}

unsigned ShmDriver::poll_idle(unsigned budget) {
  unsigned count = 0;
  for (unsigned n = 0; n < kIdlePolls && peers_.rings().any_idle() && count < budget; n++) {
    Peer& peer = peers_.rings().next_idle();
    const unsigned frames = drain(peer, std::min(kTurn, budget - count));
    if (frames) peers_.rings().promote(peer);
    count += frames;
  }
  return count;
}

unsigned ShmDriver::report_done() {
  reporting_.swap(cookies_);
  for (const uint64_t cookie : reporting_) sink_.done(cookie, Status::ok);
  const auto count = static_cast<unsigned>(reporting_.size());
  reporting_.clear();
  return count;
}

void ShmDriver::end_peers() {
  for (size_t i = 0; i < peers_.all().size() && peers_.endings(); i++) {
    Peer& peer = peers_.all()[i];
    if (!shm::Peers::over(peer)) continue;
    if (coalescer_.owed()) coalescer_.report();
    if (splits_.open()) splits_.end(peer);
    requests_.end(peer);
    const Status status = peer.ending;
    if (peers_.retire(peer)) sink_.peer_down(peer.id, status);
  }
}

// A process that waits for a put or get polls for its end.
void ShmDriver::look(PeerId id) {
  if (!draining_) requests_.poll_completion(peers_[id]);
}

Status ShmDriver::arm(int* fd) {
  if (!cookies_.empty() || coalescer_.owed() || splits_.open() || requests_.outstanding())
    return Status::again;
  return peers_.arm(fd);
}

// --- puts, gets and atomic operations ------------------------------------------------------------

// Not what is mapped, nor of a process that sleeps.
bool ShmDriver::sooner_sent(uint32_t remote) const {
  const Peer& peer = peers_[remote_[remote].peer];
  return !remote_[remote].mapped() && peer.there && !peer.asleep();
}

// Several between two polls are made together.
bool ShmDriver::may_coalesce(const Rma& rma, const Import& import, const Peer& peer,
                             bool write) const {
  return points_.coalesce && rma.bytes >= (write ? shm::kCoalescePutMin : shm::kCoalesceGetMin) &&
         rma.bytes <= shm::kCoalesceMost && rma.piece_count == 1 && side_by_side_ && !draining_ &&
         peer.direct && !import.mapped() && coalescer_.has_room();
}

// Is the target to carry it out? `first`: since the last poll.
[[gnu::always_inline]] inline bool ShmDriver::may_request(const Rma& rma, const Import& import,
                                                          const Peer& peer, bool write,
                                                          bool first) const {
  const bool alone = first && !(peer.requests && peer.requests->count > 0);
  return rma.bytes > 0 && (rma.bytes <= points_.ask_alone_most || !alone) &&
         (write || !points_.coalesce || rma.bytes <= shm::kCoalesceMost) && import.guarded &&
         !import.mapped() && side_by_side_ && rma.piece_count == 1;
}

[[gnu::always_inline]] inline Status ShmDriver::transfer(const Rma& rma, bool write) {
  if (rma.cookie == 0 && rma.bytes <= points_.ask_alone_most && side_by_side_ &&
      remote_.guarded(rma.remote))
    return Status::again;  // as a rule it is requested
  if (!peers_.attaches()) return Status::unsupported;
  const Import* import;
  Peer* peer;
  Status status = remote_.check(rma, write ? kRemoteWrite : kRemoteRead, &import, &peer);
  if (status != Status::ok) return status;
  const bool first = since_poll_ == 0 && !crowded_;
  status = Status::unsupported;
  if (__builtin_expect(!first, 0) && may_coalesce(rma, *import, *peer, write)) {
    if (rma.cookie == 0) return Status::again;
    coalescer_.add(rma, *import, *peer, write);
    if (coalescer_.full()) coalescer_.make();
    status = Status::pending;
  } else if (may_request(rma, *import, *peer, write, first)) {
    status = requests_.post(write ? RequestKind::put : RequestKind::get, rma, *import, *peer);
  }
  if (__builtin_expect(status == Status::unsupported, 0))
    status = transfer_alone(rma, *import, *peer, write);
  if (rma.bytes > points_.ask_alone_most && status != Status::again) since_poll_++;
  return status;
}

// Without a request.
Status ShmDriver::transfer_alone(const Rma& rma, const Import& import, Peer& peer, bool write) {
  if (write) return remote_.move(rma, peer, true);
  const bool among_frames = draining_ == &peer && !rma.soon;
  const bool more = draining_ && draining_->in.more();
  if (among_frames && rma.bytes > shm::kGatherLongest && more) return Status::again;
  const bool meets_others = draining_ ? coalescer_.waiting() > 0 || more : since_poll_ > 0;
  if (rma.bytes >= points_.split_min && side_by_side_ && splits_.worth(rma, peer, meets_others))
    return rma.cookie ? splits_.get(rma, peer) : Status::again;
  if (!among_frames || !meets_others || rma.bytes > shm::kGatherLongest || rma.cookie == 0 ||
      rma.piece_count != 1 || !peer.direct || import.mapped() || coalescer_.full())
    return remote_.move(rma, peer, false);
  coalescer_.add(rma, import, peer, false);
  return Status::pending;
}

[[gnu::hot]] Status ShmDriver::put(const Rma& rma) { return transfer(rma, true); }

[[gnu::hot]] Status ShmDriver::get(const Rma& rma) { return transfer(rma, false); }

// `unsupported`: the core sends it by a frame.
Status ShmDriver::atomic(const RemoteAtomic& atomic) {
  if (!(caps_.flags & kAtomic)) return Status::unsupported;
  const iovec word{atomic.old, atomic.width};
  Rma rma;
  rma.peer = atomic.peer;
  rma.remote = atomic.remote;
  rma.remote_offset = atomic.remote_offset;
  rma.pieces = &word;
  rma.piece_count = 1;
  rma.bytes = atomic.width;
  rma.cookie = atomic.cookie;
  const Import* import;
  Peer* peer;
  const Status status = remote_.check(rma, kRemoteUpdate, &import, &peer);
  if (status != Status::ok) return status;
  if (!may_request(rma, *import, *peer, true, false)) return Status::unsupported;
  return requests_.post(RequestKind::atomic, rma, *import, *peer, &atomic);
}

std::unique_ptr<Driver> open_shm(const DriverEnv& env, std::string* why) {
  auto driver = std::make_unique<ShmDriver>(env);
  if (!driver->start(why)) return nullptr;
  return driver;
}

}  // namespace torii
