// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/nic.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/pause.h"
#include "drivers/shm/attach.h"
#include "drivers/shm/flat.h"
#include "drivers/shm/shm.h"

namespace torii {
namespace {

constexpr uint32_t kPeersMax = 8192;
constexpr uint32_t kKeptShare = 16;    // of a ring, kept free of frames that leave room
constexpr unsigned kEndPolls = 20;     // for the end of what was asked for; about a microsecond
constexpr unsigned kLooksInPolls = 8;  // so long do they take
constexpr unsigned kLooksOfOne = 24;   // of who waits for one event

}  // namespace

ShmDriver::ShmDriver(const DriverEnv& env)
    : sink_(*env.sink),
      counters_(*env.counters),
      local_peers_(env.local_peers),
      take_turns_(env.take_turns),
      points_(shm::switch_points(params(), hardware(), env.take_turns)) {
  caps_.flags = kReliable | kPeerDown | kWait;
  caps_.mtu = shm::kMtu;
  caps_.long_max = shm::kLongMtu;
  caps_.inline_max = shm::kLongMtu;
  caps_.pieces_max = shm::kAttachPieces;
  caps_.batch_max = 16;
  caps_.address_bytes = sizeof(shm::Address);
  caps_.peers_max = kPeersMax;
  peers_.reserve(kPeersMax);
  cookies_.reserve(kCookiesMax);
  reporting_.reserve(kCookiesMax);
  made_.reserve(kCookiesMax);
  reporting_made_.reserve(kCookiesMax);
}

bool ShmDriver::start(std::string* why) {
  const uint64_t ring_bytes =
      shm::ring_bytes_for(local_peers_, params().shm_ring, points_.ring_most);
  caps_.eager_advice = shm::eager_limit_for(points_, ring_bytes);
  const uint32_t claims = shm::claims_for(local_peers_);
  giver_.listen(static_cast<uint32_t>(getpid()));
  if (!shm::create_segment(claims, ring_bytes, giver_.token(), &segment_, why)) return false;
  pid_ = segment_.address.pid;
  header_ = &segment_.header();
  claim_peer_.resize(claims);
  claim_position_.resize(claims, shm::kFirstPosition);
  claim_rejected_.resize(claims);
  int error = 0;
  if (params().shm_remote_read &&
      shm::attach_prove(static_cast<pid_t>(pid_), segment_.self_address + shm::kCookieOffset,
                        segment_.address.cookie, &error) == Status::ok) {
    shm::attach_permit();
    caps_.flags |= kPut | kGet | kGuard;
    caps_.key_bytes = sizeof(Key);
    caps_.remote_max = 4 << 20;
    remote_min = points_.offer_min;
    sent_below = std::min(points_.remote_min, points_.read_crossing_min);
    read_alone_min = points_.read_alone_min;
    read_crossing_min = points_.read_crossing_min;
    side_by_side_ = !take_turns_;
  } else if (params().shm_remote_read) {
    refused_here_ = error;
  }
  budget_descriptors();
  start_waiting();
  // Owners are asked only where they have a processor each and can order their peers.
  if (side_by_side_ && !header_->needs_fence) caps_.flags |= kAtomic;
  return true;
}

ShmDriver::~ShmDriver() {
  // A forked child has the mappings but is not the one the peers know.
  if (!header_ || static_cast<uint32_t>(getpid()) != pid_) return;
  await_splits();
  await_asks();
  say_goodbye();
}

void ShmDriver::address(std::byte* out) const {
  std::memcpy(out, &segment_.address, sizeof(segment_.address));
}

Status ShmDriver::connect(std::span<const std::byte> bytes, PeerId* out, std::string* why) {
  shm::Address address;
  if (bytes.size() != sizeof(address)) {
    *why = format_text(
        "shm: an address has %zu bytes, this one %zu; use the same Torii in all "
        "processes",
        sizeof(address), bytes.size());
    return Status::unreachable;
  }
  std::memcpy(&address, bytes.data(), sizeof(address));
  const auto known = by_cookie_.find(address.cookie);
  Peer* peer;
  if (known != by_cookie_.end()) {
    peer = &peers_[known->second];
    if (!(peer->details->segment.address == address)) {
      *why = "shm: the address is not the one its cookie belongs to; use what address() gave";
      return Status::unreachable;
    }
    if (peer->ending != Status::ok) {
      *why = format_text("shm: process %u has ended (%s); start it again", address.pid,
                         status_text(peer->ending));
      return peer->ending;
    }
  } else {
    peer = new_peer(address);
    if (!peer) {
      *why = format_text("shm: all %u peers are in use; disconnect one", kPeersMax);
      return Status::no_memory;
    }
    if (const Status status = open_peer(*peer, address, why); status != Status::ok) {
      release_slot(*peer);
      return status;
    }
  }
  if (peer->there && !peer->out.base) {
    if (const Status status = claim_ring(*peer, why); status != Status::ok) {
      if (!peer->known && !peer->in.base) release_slot(*peer);
      return status;
    }
  }
  peer->known = true;
  *out = peer->id;
  *why = peer->details->note;
  return Status::ok;
}

void ShmDriver::disconnect(PeerId id) {
  TORII_ASSERT(id < peers_.size() && peers_[id].stage != Stage::unused);
  Peer& peer = peers_[id];
  peer.known = false;
  // The rings of a process that lives are kept: frames taken are still sent, and whoever connects
  // again, on either side, goes on in them.
  if (peer.stage == Stage::down) release_slot(peer);
}

uint32_t ShmDriver::long_max(PeerId id) const {
  const uint32_t most = id < peers_.size() ? shm::frame_max_of(peers_[id].out.lines) : 0;
  return most > shm::kMtu ? most : 0;
}

size_t ShmDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    if (!send_one(tx)) break;
    taken++;
  }
  return taken;
}

namespace {

// Writes the frame of `tx` in one piece.
inline void gather(const Tx& tx, std::byte* to) {
  copy_bytes(to, tx.head, tx.head_bytes);
  to += tx.head_bytes;
  size_t left = tx.body_bytes;
  for (uint32_t i = 0; i < tx.piece_count; i++) {
    const iovec& piece = tx.pieces[i];
    TORII_ASSERT(piece.iov_len <= left);
    copy_bytes(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
    left -= piece.iov_len;
  }
  TORII_ASSERT(left == 0);
}

// The same for a frame of several lines: its first line is written last.
class LateFirstLine {
 public:
  explicit LateFirstLine(std::byte* to) : to_(to) {}
  void add(const void* source, size_t n) {
    const auto* from = static_cast<const std::byte*>(source);
    if (offset_ < shm::kFirstBytes) {
      const size_t part = std::min(n, shm::kFirstBytes - offset_);
      copy_bytes(first_ + offset_, from, part);
      offset_ += part;
      from += part;
      n -= part;
    }
    copy_bytes(to_ + offset_, from, n);
    offset_ += n;
  }
  void finish() { std::memcpy(to_, first_, shm::kFirstBytes); }

 private:
  std::byte* to_;
  size_t offset_ = 0;
  std::byte first_[shm::kFirstBytes];
};

void gather_long(const Tx& tx, std::byte* to) {
  LateFirstLine frame(to);
  frame.add(tx.head, tx.head_bytes);
  size_t left = tx.body_bytes;
  for (uint32_t i = 0; i < tx.piece_count; i++) {
    const iovec& piece = tx.pieces[i];
    TORII_ASSERT(piece.iov_len <= left);
    frame.add(piece.iov_base, piece.iov_len);
    left -= piece.iov_len;
  }
  TORII_ASSERT(left == 0);
  frame.finish();
}

}  // namespace

inline bool ShmDriver::send_one(const Tx& tx) {
  if (tx.leaves_room && !room_beside(tx)) return false;
  const bool flat = tx.piece_count <= 1 && !tx.cookie && tx.head_bytes <= shm::kFirstBytes;
  if (__builtin_expect(!flat, 0)) return send_any(tx);
  const void* const body = tx.body_bytes ? tx.pieces->iov_base : nullptr;
  return send_flat(peers_[tx.peer], tx.head, tx.head_bytes, body, tx.body_bytes) || send_any(tx);
}

[[gnu::hot]] bool ShmDriver::send_short(PeerId id, uint64_t word0, uint64_t word1, const void* body,
                                        uint32_t body_bytes) {
  Peer& peer = peers_[id];
  const uint32_t bytes = 2 * sizeof(word0) + body_bytes;
  std::byte* const to = bytes <= shm::kFirstBytes ? peer.out.reserve_line() : nullptr;
  if (!to) return send_medium(id, word0, word1, body, body_bytes);
  std::memcpy(to, &word0, sizeof(word0));
  std::memcpy(to + sizeof(word0), &word1, sizeof(word1));
  if (body_bytes) copy_bytes(to + 2 * sizeof(word0), body, body_bytes);
  peer.out.publish_line(to, bytes);
  wake_if_sleeping(peer);
  return true;
}

bool ShmDriver::send_medium(PeerId id, uint64_t word0, uint64_t word1, const void* body,
                            uint32_t body_bytes) {
  const uint64_t head[2] = {word0, word1};
  if (__builtin_expect(send_flat(peers_[id], head, sizeof(head), body, body_bytes), 1)) return true;
  return send_any(ShortTx(id, word0, word1, body, body_bytes).tx);
}

bool ShmDriver::send_any(const Tx& tx) {
  TORII_ASSERT(tx.peer < peers_.size() && tx.head_bytes <= kHeadMax);
  Peer& peer = peers_[tx.peer];
  if (__builtin_expect(!peer.out.base, 0) && !start_sending(peer)) return false;
  if (__builtin_expect(tx.cookie != 0, 0) && cookies_.size() >= kCookiesMax) return false;
  const uint32_t bytes = tx.head_bytes + tx.body_bytes;
  TORII_ASSERT(bytes <= shm::frame_max_of(peer.out.lines));
  bool corrupt = false;
  std::byte* to = peer.out.reserve(bytes, &corrupt);
  if (__builtin_expect(!to, 0)) {
    refused(peer, corrupt);
    return false;
  }
  if (bytes <= shm::kFirstBytes) {
    gather(tx, to);
  } else {
    gather_long(tx, to);
  }
  peer.out.publish(bytes);
  wake_if_sleeping(peer);
  if (__builtin_expect(tx.cookie != 0, 0)) cookies_.push_back(tx.cookie);
  return true;
}

// A process that computes reads nothing for long, and what its peers send meanwhile should be there
// when it looks.
bool ShmDriver::room_beside(const Tx& tx) {
  Peer& peer = peers_[tx.peer];
  if (!peer.out.base) return true;  // send_any() sees to it
  bool corrupt = false;
  const uint32_t kept = peer.out.lines / kKeptShare;
  const auto bytes = static_cast<uint32_t>(tx.head_bytes + tx.body_bytes + shm::kFirstBytes);
  if (peer.out.has_room_beside(bytes, kept, &corrupt)) return true;
  refused(peer, corrupt);
  return false;
}

void ShmDriver::refused(Peer& peer, bool corrupt) {
  peer.blocked = true;
  if (corrupt) fail(peer, "it claims to have read more than was sent");
}

// Most polls find nothing, and this is all they do; but for a look at what was asked for.
inline bool ShmDriver::quiet(uint64_t now_ns) const {
  return !arrived() && idle_.empty() && cookies_.empty() && put_off_owed_ == 0 && !armed_ &&
         splits_open_ == 0 && endings_ == 0 && now_ns < next_check_ns_ &&
         header_->news.load(std::memory_order_relaxed) == news_seen_;
}

// Whoever waits for one event looks several times, for a round of what it waits in takes longer
// than all of them. Each look ends before the next one begins: if many were under way when the
// line changes, the processor would have to begin anew behind the first.
inline bool ShmDriver::arrives() const {
  if (__builtin_expect(!side_by_side_ || hot_count_ == 0, 0)) return false;
  for (unsigned looks = 0; looks < kLooksOfOne; looks += hot_count_) {
    finish_reads();
    if (arrived()) return true;
  }
  return false;
}

// Whoever asks for one event gets a frame of the peer whose turn it is, if it has one, at once.
[[gnu::hot]] unsigned ShmDriver::poll(uint64_t now_ns, unsigned budget) {
  if (__builtin_expect(lone_ > 0, 0)) {
    crowded_ = lone_ > 1;
    lone_ = 0;
  }
  if (quiet(now_ns)) {
    if (__builtin_expect(!asking_.empty(), 0)) return finish_asks();
    if (budget != 1 || !arrives()) return 0;
  }
  if (budget == 1 && !armed_ && cookies_.empty() && put_off_owed_ == 0 && hot_count_ > 0)
    if (const unsigned count = drain(*hot_[hot_next_], 1)) return count;
  return poll_all(now_ns, budget);
}

[[gnu::hot]] unsigned ShmDriver::poll_all(uint64_t now_ns, unsigned budget) {
  if (__builtin_expect(armed_, 0)) {
    armed_ = false;
    header_->sleeping.store(0, std::memory_order_relaxed);
  }
  unsigned count = 0;
  if (__builtin_expect(!cookies_.empty(), 0)) count = report_done();
  if (__builtin_expect(put_off_owed_ != 0, 0)) count += report_put_off();
  for (unsigned n = hot_count_; n && count < budget; n--) {
    Peer& peer = *hot_[hot_next_];
    if (++hot_next_ >= hot_count_) hot_next_ = 0;
    count += drain(peer, std::min(kTurn, budget - count));
  }
  // Busy rings may use up the budget for ever: the others get a few frames beyond it.
  if (!idle_.empty()) count += poll_idle(std::max(budget - std::min(count, budget), kIdleLooks));
  if (__builtin_expect(header_->news.load(std::memory_order_relaxed) != news_seen_, 0)) read_news();
  if (__builtin_expect(now_ns >= next_check_ns_, 0)) check_peers(now_ns);
  if (__builtin_expect(splits_open_ != 0, 0)) count += finish_splits();
  if (__builtin_expect(!asking_.empty(), 0)) count += finish_asks();
  if (__builtin_expect(endings_ != 0, 0)) finish_endings();
  return count;
}

// Hands up at most `most` frames of that peer.
[[gnu::always_inline]] inline unsigned ShmDriver::drain(Peer& peer, unsigned most) {
  unsigned count = 0;
  unsigned spent = 0;  // long frames take as many turns as they take time
  draining_ = &peer;
  do {
    const std::byte* bytes;
    uint32_t length;
    const auto found = peer.in.peek(&bytes, &length);
    if (found == shm::RingReceiver::Found::nothing) break;
    if (__builtin_expect(found == shm::RingReceiver::Found::corrupt, 0)) {
      fail(peer, "a control word in its ring makes no sense");
      break;
    }
    if (__builtin_expect(found == shm::RingReceiver::Found::frame, 1)) {
      peer.known = true;
      if (count) peer.in.fetch_ahead();
      sink_.packet(peer.id, {bytes, length});
    } else if (found == shm::RingReceiver::Found::ask) {
      carry_out(peer, bytes, length, most == 1);
    } else {
      join_split(peer, bytes);
    }
    // The sender may be asleep because it had no room.
    if (__builtin_expect(peer.in.consume(), 0) && peer.there) wake_if_sleeping(peer);
    ++count;
    spent += length > shm::kMtu ? shm::kLongMtu / shm::kMtu + 1 : 1;
    if (__builtin_expect(peer.broken, 0)) break;
  } while (__builtin_expect(gathered_.count == 0, 1) ? spent < most : gathers_on(count));
  draining_ = nullptr;
  if (__builtin_expect(gathered_.count != 0, 0)) finish_gathered();
  if (count) {
    peer.last_frame = ++ticks_;
    if (__builtin_expect(peer.answers && peer.answers->count > 0, 0)) send_answers(peer);
  }
  return count;
}

// Who waits for what it has asked of that peer sees its end sooner than by rounds of progress.
void ShmDriver::look(PeerId id) {
  Peer& peer = peers_[id];
  if (!peer.asks || draining_) return;
  shm::Asks& asks = *peer.asks;
  for (unsigned n = 0; n < kEndPolls; n++) {
    if (asks.count == 0 || asks.withdrawing) return;
    if (arrived()) {
      if (!take_lone_answer(peer) && answered(peer)) drain(peer, 1);
      return;
    }
    if (!asks[0].answered() && asks.claim.applied.load(std::memory_order_acquire) != asks.applied &&
        finish_counted(peer))
      return;
    pause_briefly();
  }
  asks.idle += kLooksInPolls;
}

unsigned ShmDriver::poll_idle(unsigned budget) {
  unsigned count = 0;
  for (unsigned n = 0; n < kIdleLooks && !idle_.empty() && count < budget; n++) {
    if (idle_next_ >= idle_.size()) idle_next_ = 0;
    Peer& peer = *idle_[idle_next_++];
    const unsigned frames = drain(peer, std::min(kTurn, budget - count));
    if (frames) promote(peer);
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

std::unique_ptr<Driver> open_shm(const DriverEnv& env, std::string* why) {
  auto driver = std::make_unique<ShmDriver>(env);
  if (!driver->start(why)) return nullptr;
  return driver;
}

}  // namespace torii
