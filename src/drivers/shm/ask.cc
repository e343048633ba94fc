// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts, gets and atomic operations by the process whose memory it is (asked.cc). A system call that
// reaches into another process takes a microsecond or two; a frame is there in a tenth of that, if
// the other process is looking. So it is asked, by a frame in the ring, to move the bytes, and the
// asking process looks on: at the number of the last ask that was carried out, and for answers to
// gets. When nothing happens for some looks, because the other process computes, sleeps or is off
// its processor, what is not carried out is withdrawn, and done by cross-memory attach after all:
// nobody's progress but one's own is needed.
//
// Of many gets that are not short, some are asked for in another way: the owner of the memory
// writes them to their place by cross-memory attach, and this process reads others meanwhile. So
// both copy at once, and nothing twice.
//
// Withdrawing: either of the two must do a put, and not both. The owner of the memory writes the
// number of an ask that it begins with (`taking`) and looks at `withdrawn`; the asking process
// writes `withdrawn` and looks at `taking`. Asking is frequent and withdrawing is not: who
// withdraws runs a barrier on the processors of all (membarrier), the other one none. Then what is
// being carried out is waited for (it is a copy of a few KiB), and `applied` tells which are left.
//
// An atomic operation that was withdrawn is not done at all: the core then asks in its own way. Of
// one that was carried out the value before lies beside `applied`.
//
// An owner that ends a region in between refuses; the guard's word then tells the asking process
// that its put may not have been carried out.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/shm/nic.h"

namespace torii {
namespace {

using shm::Ask;
using shm::AskKind;
using shm::Asks;
using shm::EndedAsks;
using shm::OpenAsk;

constexpr unsigned kPatience = 200;               // looks in vain; some microseconds
constexpr unsigned kLooks = 256;                  // at one ask alone; less than a microsecond
constexpr uint64_t kWithdrawnAtOnce = 256 << 10;  // bytes
constexpr unsigned kPauseMax = 1024;

bool carried_out(const Asks& asks, const OpenAsk& open) {
  return open.sent == open.bytes && asks.applied >= open.last;
}

// The owner of the memory has begun with something and is not through.
bool at_work(const shm::Claim& claim) {
  const uint64_t taking = claim.taking.load(std::memory_order_acquire);
  return claim.seen.load(std::memory_order_acquire) != taking;
}

// The owner need not rest any longer.
void look_for_end(Asks& asks) {
  if (std::exchange(asks.many, false))
    asks.claim.looked_for.store(asks.posted, std::memory_order_relaxed);
}

}  // namespace

// --- one alone ---------------------------------------------------------------------------------

// An owner that is looking has carried out a short ask before a round of progress would come to
// the question. But if somebody may be waiting for this process in the same way, that comes first.
Status ShmDriver::look_on(Peer& peer) {
  const Asks& asks = *peer.asks;
  for (unsigned n = 0; n < kLooks && !arrived(); n++)
    if (asks.claim.applied.load(std::memory_order_acquire) != asks.applied)
      return finish_lone(peer);
  return Status::pending;
}

// The only one that is open: what came of it, or `pending`.
Status ShmDriver::finish_lone(Peer& peer) {
  Asks& asks = *peer.asks;
  const OpenAsk& open = asks[0];
  if (!read_applied(peer) || !carried_out(asks, open)) return Status::pending;
  const Status status = over(peer, open);
  retire_lone(peer);
  return status;
}

// More was carried out than when we looked: is anything over?
bool ShmDriver::finish_counted(Peer& peer) {
  Asks& asks = *peer.asks;
  if (__builtin_expect(asks.count > 1 || asks.sending == 0, 0)) return finish_asks(peer) > 0;
  const uint64_t cookie = asks[0].cookie;
  const Status status = finish_lone(peer);
  if (status == Status::pending) return false;
  sink_.done(cookie, status);
  return true;
}

// The only one that is open is a get, and what has come next from there is its answer, whole.
bool ShmDriver::take_lone_answer(Peer& peer) {
  constexpr uint32_t kHead = shm::head_bytes(AskKind::answer);
  Asks& asks = *peer.asks;
  const OpenAsk& open = asks[0];
  const std::byte* bytes;
  uint32_t length;
  Ask answer;
  if (asks.count != 1 || open.kind != AskKind::get || !peer.in.base ||
      peer.in.peek(&bytes, &length) != shm::RingReceiver::Found::ask ||
      length != kHead + open.bytes)
    return false;
  std::memcpy(&answer, bytes, kHead);
  if (answer.kind != AskKind::answer || answer.number != static_cast<uint32_t>(open.first) ||
      answer.bytes != open.bytes || open.sent != open.bytes || open.got != 0)
    return false;
  copy_bytes(open.local, bytes + kHead, answer.bytes);
  if (peer.in.consume()) wake_if_sleeping(peer);
  peer.last_frame = ++ticks_;
  asks.awaited = 0;
  const uint64_t cookie = open.cookie;
  retire_lone(peer);
  sink_.done(cookie, Status::ok);
  return true;
}

// The only one that is open is over.
inline void ShmDriver::retire_lone(Peer& peer) {
  Asks& asks = *peer.asks;
  look_for_end(asks);
  asks.head++;
  asks.count = asks.sending = asks.results = 0;
  asks.penalty = 0;
  counters_.helped_accesses++;
  stop_asking(peer);
}

// --- answers ----------------------------------------------------------------------------------

// Is an answer the next that has come from there?
bool ShmDriver::answered(Peer& peer) {
  const std::byte* bytes;
  uint32_t length;
  AskKind kind;
  if (!peer.in.base || peer.in.peek(&bytes, &length) != shm::RingReceiver::Found::ask ||
      length < sizeof(kind))
    return false;
  std::memcpy(&kind, bytes, sizeof(kind));
  return shm::is_answer(kind);
}

// Answers come in the order of the asks. One whose predecessor is missing, or of what was
// withdrawn, is not used.
void ShmDriver::take_answer(Peer& peer, const Ask& answer, const std::byte* bytes) {
  Asks* const asks = peer.asks.get();
  uint32_t i = 0;
  if (!asks || asks->withdrawing) return;
  OpenAsk* const open = asks->awaiting(answer.number, &i);
  if (!open) return;
  const uint64_t at = open->place_of(answer.number);
  const uint64_t part = std::min<uint64_t>(open->chunk, open->bytes - at);
  const bool delivered = answer.kind == AskKind::delivered;
  const bool deliver = open->kind == AskKind::deliver;
  if (answer.bytes == 0 ? delivered : answer.bytes != part || delivered != deliver)
    return fail(peer, "it answers what was not asked");
  look_for_end(*asks);
  asks->idle = 0;
  if (at != open->got) return;
  EndedAsks ended;
  if (answer.bytes == 0) {
    if (!deliver) asks->awaited -= open->sent - open->got;
    ended.add(*open, Status::invalid);
  } else {
    if (!delivered) {
      copy_bytes(open->local + at, bytes, part);
      asks->awaited -= part;
    }
    open->got += part;
    // At once: a poll for one event brings no more than this answer, and meanwhile the other
    // process would have nothing to do.
    if (asks->sending < asks->count) send_asks(peer);
    if (open->got < open->bytes) return;
    asks->penalty = 0;
    ended.add(*open, Status::ok);
    counters_.helped_accesses++;
  }
  report_asks(peer, ended);
}

void ShmDriver::take_answers(Peer& peer, const Ask& answers, const std::byte* bytes) {
  Asks* const asks = peer.asks.get();
  if (!asks || asks->withdrawing) return;
  EndedAsks ended;
  uint64_t left = answers.bytes;
  uint32_t i = 0, n = 0;
  bool lies = answers.slot == 0;
  for (; n < answers.slot; n++) {
    OpenAsk* const open = asks->awaiting(answers.number + n, &i);
    const uint64_t at = open ? open->place_of(answers.number + n) : 0;
    if (!open || at != open->got) break;
    const uint64_t part = std::min<uint64_t>(open->chunk, open->bytes - at);
    lies = open->kind != AskKind::get || part > left;
    if (lies) break;
    copy_bytes(open->local + at, bytes, part);
    bytes += part;
    left -= part;
    asks->awaited -= part;
    open->got += part;
    if (open->got == open->bytes) ended.add(*open, Status::ok);
  }
  look_for_end(*asks);
  if (n > 0) asks->idle = asks->penalty = 0;
  counters_.helped_accesses += ended.count;
  if (asks->sending < asks->count) send_asks(peer);
  report_asks(peer, ended);
  if (lies || (n == answers.slot && left > 0)) fail(peer, "it answers what was not asked");
}

// --- looking on ------------------------------------------------------------------------------

unsigned ShmDriver::finish_asks() {
  unsigned count = 0;
  for (size_t i = 0; i < asking_.size();) {
    Peer* const peer = asking_[i];
    count += peer->asks->withdrawing ? do_withdrawn(*peer) : finish_asks(*peer);
    if (i < asking_.size() && asking_[i] == peer) i++;
  }
  return count;
}

// False: the peer counts what it was not asked for.
bool ShmDriver::read_applied(Peer& peer) {
  Asks& asks = *peer.asks;
  const uint64_t applied = asks.claim.applied.load(std::memory_order_acquire);
  if (applied == asks.applied) return true;
  if (applied - asks.applied > asks.posted - asks.applied) {
    fail(peer, "it has done more than it was asked for");
    return false;
  }
  asks.applied = applied;
  asks.idle = 0;
  return true;
}

// What came of one that counts as carried out, as what the owner has refused does, too.
inline Status ShmDriver::over(Peer& peer, const OpenAsk& open) const {
  if (open.word->load(std::memory_order_acquire) != open.valid) return Status::invalid;
  if (open.kind != AskKind::atomic) return Status::ok;
  const uint64_t before =
      peer.asks->claim.results[open.atomic.result].load(std::memory_order_relaxed);
  std::memcpy(open.local, &before, sizeof(before));
  return Status::ok;
}

unsigned ShmDriver::finish_asks(Peer& peer) {
  Asks& asks = *peer.asks;
  const uint64_t before = asks.applied;
  if (!read_applied(peer)) return 0;
  EndedAsks ended;
  for (uint32_t i = 0; asks.applied != before && i < asks.count; i++) {
    OpenAsk& open = asks[i];
    if (open.over || open.answered()) continue;
    if (!carried_out(asks, open)) break;
    ended.add(open, over(peer, open));
  }
  if (asks.sending < asks.count) send_asks(peer);
  look_for_end(asks);
  if (ended.count > 0) {
    asks.penalty = 0;
    counters_.helped_accesses += ended.count;
    return report_asks(peer, ended);
  }
  if (++asks.idle > kPatience && !at_work(asks.claim)) withdraw(peer);
  return 0;
}

// The places of those that are over are free again.
void ShmDriver::retire_asks(Peer& peer) {
  Asks& asks = *peer.asks;
  const bool asking = asks.count > 0;
  while (asks.count > 0 && asks[0].over) {
    if (asks[0].kind == AskKind::atomic) asks.results &= ~(1u << asks[0].atomic.result);
    asks.head++;
    asks.count--;
    if (asks.sending > 0) asks.sending--;
  }
  if (asking && asks.count == 0) stop_asking(peer);
}

// Nothing is open any more.
inline void ShmDriver::stop_asking(Peer& peer) {
  if (__builtin_expect(asking_.back() != &peer, 0))
    *std::find(asking_.begin(), asking_.end(), &peer) = asking_.back();
  asking_.pop_back();
}

// The upcalls may ask for more.
unsigned ShmDriver::report_asks(Peer& peer, const EndedAsks& ended) {
  retire_asks(peer);
  for (unsigned i = 0; i < ended.count; i++) sink_.done(ended.list[i].cookie, ended.list[i].status);
  return ended.count;
}

// --- not waiting any longer ------------------------------------------------------------------

// False: out of memory; again, later.
bool ShmDriver::say_withdrawn(Asks& asks) {
  asks.idle = 0;
  asks.claim.withdrawn.store(asks.posted, std::memory_order_release);
  return order_everybody();
}

void ShmDriver::withdraw(Peer& peer) {
  Asks& asks = *peer.asks;
  if (!say_withdrawn(asks)) return;
  asks.withdrawing = asks.absent = true;
  asks.penalty = std::min(2 * asks.penalty + 1, kPauseMax);
  asks.pause = asks.penalty;
  do_withdrawn(peer);
}

unsigned ShmDriver::do_withdrawn(Peer& peer) {
  Asks& asks = *peer.asks;
  if (at_work(asks.claim)) return 0;
  if (!read_applied(peer)) return 0;
  EndedAsks ended;
  uint64_t moved = 0;
  uint32_t i = 0;
  for (; i < asks.count && moved < kWithdrawnAtOnce; i++) {
    if (asks[i].over) continue;
    moved += asks[i].bytes;
    ended.add(asks[i], do_myself(peer, asks[i]));
  }
  if (i == asks.count) {
    asks.withdrawing = false;
    asks.awaited = 0;
  }
  return report_asks(peer, ended);
}

// What is left of it.
Status ShmDriver::do_myself(Peer& peer, const OpenAsk& open) {
  if (open.kind == AskKind::atomic)
    return carried_out(*peer.asks, open) ? over(peer, open) : Status::unsupported;
  const bool write = open.kind == AskKind::put;
  uint64_t at = open.got;
  if (write && open.sent > 0 && peer.asks->applied >= open.first)
    at = std::min((peer.asks->applied - open.first + 1) * open.chunk, open.bytes);
  // What the owner has refused counts as applied, too: the word tells.
  if (open.word->load(std::memory_order_acquire) != open.valid) return Status::invalid;
  if (at == open.bytes) return Status::ok;
  const iovec piece{open.local + at, open.bytes - at};
  int error = 0;
  const Status status = attach(peer, write, open.remote + at, &piece, 1, piece.iov_len, &error);
  if (status == Status::denied) downgrade(peer, error);
  if (write || status != Status::ok) return status;
  std::atomic_thread_fence(std::memory_order_acquire);  // as still_valid()
  return open.word->load(std::memory_order_relaxed) == open.valid ? status : Status::invalid;
}

// Closing: nobody delivers any more to memory that is then given back. As for splits.
void ShmDriver::await_asks() {
  for (Peer* const peer : asking_) {
    if (!say_withdrawn(*peer->asks)) sched_yield();  // what it has not begun by now it leaves alone
    for (unsigned n = 0; n < kClosingYields && at_work(peer->asks->claim); n++) sched_yield();
  }
}

// The peer has ended.
void ShmDriver::abandon_asks(Peer& peer) {
  EndedAsks ended;
  for (uint32_t i = 0; peer.asks && i < peer.asks->count; i++) {
    const Asks& asks = *peer.asks;
    OpenAsk& open = (*peer.asks)[i];
    if (open.over) continue;
    const bool done = !open.answered() && carried_out(asks, open);
    ended.add(open, done ? over(peer, open) : Status::peer_dead);
  }
  if (peer.asks) report_asks(peer, ended);
  peer.asks.reset();
  peer.answers.reset();
}

}  // namespace torii
