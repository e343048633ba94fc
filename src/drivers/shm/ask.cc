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
#include <bit>
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

constexpr uint64_t kDelivering = 3;  // at a time; others are read meanwhile
constexpr unsigned kPatience = 200;  // looks in vain; some microseconds
constexpr unsigned kLooks = 256;     // at one ask alone; less than a microsecond
// Longer gets are made by attach where the owner may have several to answer: they do not wait for
// each other then.
constexpr uint64_t kGetOfMany = 64 << 10;
constexpr uint64_t kWithdrawnAtOnce = 256 << 10;  // bytes
// From so many under way on the owner may rest: before it takes long puts, and answers short gets.
constexpr uint32_t kFew = 8;
constexpr uint32_t kManyFrom = 512;
constexpr unsigned kPauseMax = 1024;
// A put that is alone goes in two or three frames if the owner is near: it copies the first one
// while the next is written. Where each line takes long, more frames are more of the lines for
// which one waits. Now and then such a put goes in one, which tells where the owner is.
constexpr uint64_t kHalvesFrom = shm::StoreChoice::kStringFrom;
constexpr uint64_t kHalvesMost = shm::kAskChunk;
constexpr uint64_t kShortHalves = 6 << 10;
constexpr unsigned kWholeEach = 16;

bool carried_out(const Asks& asks, const OpenAsk& open) {
  const uint64_t frames = (open.bytes + open.chunk - 1) / open.chunk;
  return open.sent == open.bytes && asks.applied + 1 >= open.first + frames;
}

// The owner of the memory has begun with something and is not through.
bool at_work(const shm::Claim& claim) {
  const uint64_t taking = claim.taking.load(std::memory_order_acquire);
  return claim.seen.load(std::memory_order_acquire) != taking;
}

// What such an ask is called of which others are under way.
AskKind of_many(const OpenAsk& open, uint32_t part) {
  if (open.kind == AskKind::put && part >= kManyFrom) return AskKind::put_of_many;
  if (open.kind == AskKind::get && part <= shm::kAnswersEach) return AskKind::get_of_many;
  return open.kind;
}

// The owner need not rest any longer.
void look_for_end(Asks& asks) {
  if (std::exchange(asks.many, false))
    asks.claim.looked_for.store(asks.posted, std::memory_order_relaxed);
}

// It has enough to deliver.
bool busy(const Asks& asks) {
  return asks.count == shm::kAsks ||
         asks.posted - asks.claim.seen.load(std::memory_order_acquire) >= kDelivering;
}

}  // namespace

// --- asking ----------------------------------------------------------------------------------

// Is that the way for such a put or get, and can the peer be looking?
inline bool ShmDriver::may_ask(const Rma& rma, const Peer& peer, bool write) {
  const Import& import = imports_[rma.remote];
  const Asks* const asks = peer.asks.get();
  const bool long_of_many = !write && rma.bytes > kGetOfMany && local_peers_ > 2;
  if ((long_of_many || rma.bytes > points_.ask_alone_most) && lone_++ == 0 && !crowded_ &&
      !(asks && asks->count > 0))
    return false;
  if (!write && rma.bytes > points_.ask_get_most &&
      (rma.bytes > points_.deliver_most || (asks && busy(*asks))))
    return false;
  return rma.bytes > 0 && import.guarded && !import.key.arena.serial && side_by_side_ &&
         rma.piece_count == 1 && !peer.fence && peer.direct && peer.out.base &&
         peer.there->sleeping.load(std::memory_order_relaxed) == 0;
}

// Has the peer looked lately?
inline bool ShmDriver::ask_now(Peer& peer) {
  if (!peer.asks)
    peer.asks = std::make_unique<Asks>(peer.details->segment.claim(peer.details->out_claim));
  Asks& asks = *peer.asks;
  if (asks.withdrawing) return false;
  if (asks.pause > 0) {
    asks.pause--;
    return false;
  }
  if (asks.absent && asks.claim.seen.load(std::memory_order_acquire) != asks.posted) return false;
  asks.absent = false;
  return true;
}

// Bytes of a frame that brings data, or of what a frame asks for.
inline uint64_t ShmDriver::chunk_of(const Rma& rma, Peer& peer, bool write) {
  Asks& asks = *peer.asks;
  if (asks.count > 0 && rma.bytes >= shm::kAskLongChunk)
    return shm::ask_chunk_in(write ? peer.out.lines
                                   : static_cast<uint32_t>(segment_.ring_bytes / shm::kLine));
  if (write && asks.count == 0 && rma.bytes >= kHalvesFrom && rma.bytes <= kHalvesMost &&
      peer.writer.near() && ++asks.halves % kWholeEach != 0)
    return rma.bytes <= kShortHalves ? 2048 : 4096;
  return shm::kAskChunk;
}

// `unsupported`: that is not the way.
[[gnu::hot]] Status ShmDriver::ask(const Rma& rma, Peer& peer, bool write) {
  const unsigned lone = lone_;
  if (!may_ask(rma, peer, write) || !ask_now(peer)) return Status::unsupported;
  if (rma.cookie == 0) {
    lone_ = lone;  // it comes again
    return Status::again;
  }
  if (peer.asks->count == shm::kAsks) return Status::again;
  const bool deliver = !write && rma.bytes > points_.ask_get_most;
  OpenAsk& open = open_ask(rma, peer,
                           write     ? AskKind::put
                           : deliver ? AskKind::deliver
                                     : AskKind::get,
                           deliver ? rma.bytes : chunk_of(rma, peer, write));
  send_last(peer, open);
  return Status::pending;
}

// One more, behind the others. There is a place for it.
[[gnu::always_inline]] inline OpenAsk& ShmDriver::open_ask(const Rma& rma, Peer& peer, AskKind kind,
                                                           uint64_t chunk) {
  Asks& asks = *peer.asks;
  const GuardedImport& region = *imports_[rma.remote].guarded;
  OpenAsk& open = asks[asks.count];
  open.cookie = rma.cookie;
  open.local = static_cast<std::byte*>(rma.pieces->iov_base);
  open.remote = region.word.base + rma.remote_offset;
  open.offset = rma.remote_offset;
  open.bytes = rma.bytes;
  open.word = region.word.word;
  open.valid = region.word.valid;
  open.slot = region.slot;
  open.kind = kind;
  open.over = false;
  open.chunk = chunk;
  open.first = open.sent = open.got = 0;
  if (asks.count++ == 0) {
    asks.idle = 0;
    asking_.push_back(&peer);
  }
  return open;
}

// `unsupported`: the core asks in its way.
Status ShmDriver::ask_atomic(const Rma& rma, Peer& peer, const RemoteAtomic& atomic) {
  if (!may_ask(rma, peer, true) || !ask_now(peer)) return Status::unsupported;
  Asks& asks = *peer.asks;
  const auto result = static_cast<uint32_t>(std::countr_one(asks.results));
  const uint64_t address = imports_[rma.remote].guarded->word.base + rma.remote_offset;
  if (asks.count == shm::kAsks || result == shm::kResults || address % atomic.width != 0)
    return Status::unsupported;
  asks.results |= 1u << result;
  OpenAsk& open = open_ask(rma, peer, AskKind::atomic, shm::kAskChunk);
  open.atomic = {atomic.operand, atomic.compare, atomic.op, static_cast<uint8_t>(result), {}};
  send_last(peer, open);
  return asks.count == 1 ? look_on(peer) : Status::pending;
}

// An owner that is looking has carried out a short ask before a round of progress would come to
// the question. But if somebody may be waiting for this process in the same way, that comes first.
Status ShmDriver::look_on(Peer& peer) {
  Asks& asks = *peer.asks;
  OpenAsk& open = asks[0];
  for (unsigned n = 0; n < kLooks && !arrived(); n++) {
    if (asks.claim.applied.load(std::memory_order_acquire) == asks.applied) continue;
    if (!read_applied(peer) || !carried_out(asks, open)) return Status::pending;
    const Status status = over(peer, open);
    open.over = true;
    retire_asks(peer);
    asks.penalty = 0;
    counters_.helped_accesses++;
    return status;
  }
  return Status::pending;
}

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

// As many frames as there is room for, one after the other in the order of the operations.
void ShmDriver::send_asks(Peer& peer) {
  Asks& asks = *peer.asks;
  while (asks.sending < asks.count && send_ask_of(peer, asks[asks.sending])) asks.sending++;
}

// The last one, behind those that found no room.
inline void ShmDriver::send_last(Peer& peer, OpenAsk& open) {
  Asks& asks = *peer.asks;
  if (asks.sending + 1 < asks.count) {
    send_asks(peer);
  } else if (send_ask_of(peer, open)) {
    asks.sending++;
  }
}

// False: there was no room for all of it.
inline bool ShmDriver::send_ask_of(Peer& peer, OpenAsk& open) {
  Asks& asks = *peer.asks;
  if (open.sent == 0) open.first = asks.posted + 1;
  while (!open.over && open.sent < open.bytes) {
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(open.chunk, open.bytes - open.sent));
    const auto address = reinterpret_cast<uintptr_t>(open.local);
    const void* data = nullptr;
    uint32_t bytes = 0, answer = 0;
    switch (open.kind) {
      case AskKind::get:
        answer = part;
        break;
      case AskKind::put:
        data = open.local + open.sent;
        bytes = part;
        break;
      case AskKind::deliver:
        data = &address;
        bytes = sizeof(address);
        break;
      default:
        data = &open.atomic;
        bytes = sizeof(open.atomic);
    }
    // An answer that finds no room in our ring would be lost.
    if (asks.awaited + answer > segment_.ring_bytes / 2) return false;
    const uint32_t frame = open.kind == AskKind::put ? shm::ask_frame_bytes(part)
                                                     : static_cast<uint32_t>(sizeof(Ask)) + bytes;
    bool corrupt = false;
    if (!peer.out.has_room(frame, &corrupt)) {
      if (corrupt) refused(peer, true);
      return false;
    }
    const AskKind kind = asks.count > kFew ? of_many(open, part) : open.kind;
    asks.many = kind != open.kind;
    const Ask ask{kind,       static_cast<uint32_t>(++asks.posted),
                  part,       open.slot,
                  open.valid, open.offset + open.sent};
    send_ask(peer, ask, data, bytes);
    asks.awaited += answer;
    open.sent += part;
  }
  return true;
}

// --- answers ----------------------------------------------------------------------------------

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
  if (asking && asks.count == 0) {
    if (asking_.back() != &peer) *std::find(asking_.begin(), asking_.end(), &peer) = asking_.back();
    asking_.pop_back();
  }
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
