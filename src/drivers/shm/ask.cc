// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts and gets by the process whose memory it is. A system call that reaches
// into another process takes a microsecond or two; a frame is there in a tenth of that, if the
// other process is looking. So it is asked, by a frame in the ring, to move the bytes, and the
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
// An owner that ends a region in between refuses; the guard's word then tells the asking process
// that its put may not have been carried out.
#include <algorithm>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/shm/nic.h"

namespace torii {
namespace {

using shm::Ask;
using shm::AskKind;
using shm::Asks;
using shm::EndedAsks;
using shm::head_bytes;
using shm::OpenAsk;

constexpr uint32_t kChunk = 8192;          // bytes of one frame
constexpr uint32_t kLongChunk = 32 << 10;  // the same in long rings, where others are under way
constexpr uint64_t kDelivering = 3;        // at a time; others are read meanwhile
constexpr unsigned kPatience = 200;        // looks in vain; some microseconds
// Longer gets are made by attach where the owner may have several to answer: they do not wait for
// each other then.
constexpr uint64_t kGetOfMany = 64 << 10;
constexpr uint64_t kWithdrawnAtOnce = 256 << 10;  // bytes
constexpr unsigned kPauseMax = 1024;

// The most that a frame in a ring of so many lines brings.
constexpr uint32_t chunk_in(uint32_t lines) {
  return shm::frame_max_of(lines) > shm::kMtu ? kLongChunk : kChunk;
}

bool carried_out(const Asks& asks, const OpenAsk& open) {
  const uint64_t frames = (open.bytes + open.chunk - 1) / open.chunk;
  return open.sent == open.bytes && asks.applied + 1 >= open.first + frames;
}

bool sensible(const Ask& ask, uint32_t data) {
  switch (ask.kind) {
    case AskKind::put:
      return data == ask.bytes && data <= kLongChunk;
    case AskKind::get:
      return data == 0 && ask.bytes <= kLongChunk;
    case AskKind::deliver:
      return data == sizeof(uint64_t) && ask.bytes <= shm::kDeliverMax;
    default:
      return false;
  }
}

// The owner of the memory has begun with something and is not through.
bool at_work(const shm::Claim& claim) {
  const uint64_t taking = claim.taking.load(std::memory_order_acquire);
  return claim.seen.load(std::memory_order_acquire) != taking;
}

// It has enough to deliver.
bool busy(const Asks& asks) {
  return asks.count == shm::kAsks ||
         asks.posted - asks.claim.applied.load(std::memory_order_acquire) >= kDelivering;
}

// Of so much data, with padding.
constexpr uint32_t frame_bytes(uint32_t bytes) {
  return bytes + static_cast<uint32_t>(shm::kFirstBytes);
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

// `unsupported`: that is not the way.
[[gnu::hot]] Status ShmDriver::ask(const Rma& rma, Peer& peer, bool write) {
  const unsigned lone = lone_;
  if (!may_ask(rma, peer, write) || !ask_now(peer)) return Status::unsupported;
  if (rma.cookie == 0) {
    lone_ = lone;  // it comes again
    return Status::again;
  }
  Asks& asks = *peer.asks;
  if (asks.count == shm::kAsks) return Status::again;
  const GuardedImport& region = *imports_[rma.remote].guarded;
  auto* const local = static_cast<std::byte*>(rma.pieces->iov_base);
  const bool deliver = !write && rma.bytes > points_.ask_get_most;
  const auto ring =
      write ? peer.out.lines : static_cast<uint32_t>(segment_.ring_bytes / shm::kLine);
  const bool long_chunks = asks.count > 0 && rma.bytes >= kLongChunk;
  const uint64_t chunk = deliver ? rma.bytes : long_chunks ? chunk_in(ring) : kChunk;
  asks[asks.count] = {rma.cookie,
                      local,
                      region.word.base + rma.remote_offset,
                      rma.remote_offset,
                      rma.bytes,
                      region.word.word,
                      region.word.valid,
                      region.slot,
                      write,
                      deliver,
                      false,
                      chunk,
                      0,
                      0,
                      0};
  if (asks.count++ == 0) {
    asks.idle = 0;
    asking_.push_back(&peer);
  }
  send_asks(peer);
  return Status::pending;
}

// As many frames as there is room for, one after the other in the order of the operations.
void ShmDriver::send_asks(Peer& peer) {
  Asks& asks = *peer.asks;
  for (; asks.sending < asks.count; asks.sending++) {
    OpenAsk& open = asks[asks.sending];
    if (open.sent == 0) open.first = asks.posted + 1;
    while (!open.over && open.sent < open.bytes) {
      const auto part =
          static_cast<uint32_t>(std::min<uint64_t>(open.chunk, open.bytes - open.sent));
      const uint32_t answer = open.write || open.deliver ? 0 : part;
      const auto address = reinterpret_cast<uintptr_t>(open.local);
      // An answer that finds no room in our ring would be lost.
      if (asks.awaited + answer > segment_.ring_bytes / 2) return;
      bool corrupt = false;
      if (!peer.out.has_room(open.write ? frame_bytes(part) : sizeof(Ask) + sizeof(address),
                             &corrupt)) {
        if (corrupt) refused(peer, true);
        return;
      }
      const Ask ask{open.write     ? AskKind::put
                    : open.deliver ? AskKind::deliver
                                   : AskKind::get,
                    static_cast<uint32_t>(++asks.posted),
                    part,
                    open.slot,
                    open.valid,
                    open.offset + open.sent};
      if (open.deliver) {
        send_ask(peer, ask, &address, sizeof(address));
      } else {
        send_ask(peer, ask, open.local + open.sent, open.write ? part : 0);
      }
      asks.awaited += answer;
      open.sent += part;
    }
  }
}

// --- being asked -----------------------------------------------------------------------------

void ShmDriver::carry_out(Peer& peer, const std::byte* bytes, uint32_t length) {
  constexpr uint32_t kLeast = head_bytes(AskKind::answer);
  Ask ask{};
  if (length < kLeast) return fail(peer, "it asks for nothing");
  std::memcpy(&ask, bytes, kLeast);
  const uint32_t head = head_bytes(ask.kind);
  if (length < head) return fail(peer, "it asks for nothing");
  if (head > kLeast) {
    std::memcpy(&ask.valid, bytes + offsetof(Ask, valid), sizeof(ask.valid));
    std::memcpy(&ask.offset, bytes + offsetof(Ask, offset), sizeof(ask.offset));
  }
  const uint32_t data = length - head;
  if ((ask.kind == AskKind::answer && data == ask.bytes) ||
      (ask.kind == AskKind::delivered && data == 0))
    return take_answer(peer, ask, bytes + head);
  const uint64_t number = ++peer.asked;
  if (!sensible(ask, data) || ask.number != static_cast<uint32_t>(number))
    return fail(peer, "it asks for what makes no sense");
  shm::Claim& claim = segment_.claim(peer.details->in_claim);
  claim.taking.store(number, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the sender runs the barrier
  if (number > claim.withdrawn.load(std::memory_order_relaxed)) {
    if (ask.kind == AskKind::deliver) {
      deliver(peer, ask, bytes + head);
    } else if (ask.kind == AskKind::put) {
      std::byte* const to =
          arena_ ? arena_->guarded(ask.slot, ask.valid, kRemoteWrite, ask.offset, ask.bytes)
                 : nullptr;
      if (to) {
        copy_bytes(to, bytes + head, ask.bytes);
      } else {
        static_cast<void>(refuse_key(peer, "asks for what its export does not give"));
      }
    } else {
      answer_get(peer, ask);
    }
    claim.applied.store(number, std::memory_order_release);
  }
  claim.seen.store(number, std::memory_order_release);
}

// What finds no room is not sent: the other process then reads.
void ShmDriver::answer_get(Peer& peer, const Ask& ask) {
  if (!peer.out.base && !start_sending(peer)) return;
  if (ask.bytes > chunk_in(peer.out.lines))
    return fail(peer, "it asks for more than its ring takes");
  const std::byte* const from =
      arena_ ? arena_->guarded(ask.slot, ask.valid, kRemoteRead, ask.offset, ask.bytes) : nullptr;
  if (!from) static_cast<void>(refuse_key(peer, "asks for what its export does not give"));
  const uint32_t bytes = from ? ask.bytes : 0;
  bool corrupt = false;
  if (peer.out.has_room(frame_bytes(bytes), &corrupt)) {
    send_ask(peer, {AskKind::answer, ask.number, bytes, 0, 0, 0}, from, bytes);
  } else if (corrupt) {
    refused(peer, true);
  }
}

// What cannot be written is not answered: as above.
void ShmDriver::deliver(Peer& peer, const Ask& ask, const std::byte* address) {
  if (!peer.out.base && !start_sending(peer)) return;
  std::byte* const from =
      arena_ ? arena_->guarded(ask.slot, ask.valid, kRemoteRead, ask.offset, ask.bytes) : nullptr;
  bool corrupt = false;
  if (!peer.out.has_room(sizeof(Ask), &corrupt)) {
    if (corrupt) refused(peer, true);
    return;
  }
  if (!from) {
    static_cast<void>(refuse_key(peer, "asks for what its export does not give"));
    send_ask(peer, {AskKind::answer, ask.number, 0, 0, 0, 0}, nullptr, 0);
    return;
  }
  uint64_t to;
  std::memcpy(&to, address, sizeof(to));
  if (!peer.direct) return;
  const iovec piece{from, ask.bytes};
  int error = 0;
  const Status status = attach(peer, true, to, &piece, 1, ask.bytes, &error);
  if (status == Status::denied) downgrade(peer, error);
  if (status == Status::ok)
    send_ask(peer, {AskKind::delivered, ask.number, ask.bytes, 0, 0, 0}, nullptr, 0);
}

// Answers come in the order of the asks. One whose predecessor is missing, or of what was
// withdrawn, is not used.
void ShmDriver::take_answer(Peer& peer, const Ask& answer, const std::byte* bytes) {
  Asks* const asks = peer.asks.get();
  for (uint32_t i = 0; asks && !asks->withdrawing && i < asks->count; i++) {
    OpenAsk& open = (*asks)[i];
    const uint64_t at = uint64_t{answer.number - static_cast<uint32_t>(open.first)} * open.chunk;
    if (open.over || open.write || at >= open.sent) continue;
    const uint64_t part = std::min<uint64_t>(open.chunk, open.bytes - at);
    const bool delivered = answer.kind == AskKind::delivered;
    if (answer.bytes == 0 ? delivered : answer.bytes != part || delivered != open.deliver)
      return fail(peer, "it answers what was not asked");
    asks->idle = 0;
    if (at != open.got) return;
    EndedAsks ended;
    if (answer.bytes == 0) {
      if (!open.deliver) asks->awaited -= open.sent - open.got;
      ended.add(open, Status::invalid);
    } else {
      if (!delivered) {
        copy_bytes(open.local + at, bytes, part);
        asks->awaited -= part;
      }
      open.got += part;
      // At once: a poll for one event brings no more than this answer, and meanwhile the other
      // process would have nothing to do.
      if (asks->sending < asks->count) send_asks(peer);
      if (open.got < open.bytes) return;
      asks->penalty = 0;
      ended.add(open, Status::ok);
      counters_.helped_accesses++;
    }
    report_asks(peer, ended);
    return;
  }
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

unsigned ShmDriver::finish_asks(Peer& peer) {
  Asks& asks = *peer.asks;
  const uint64_t before = asks.applied;
  if (!read_applied(peer)) return 0;
  EndedAsks ended;
  for (uint32_t i = 0; asks.applied != before && i < asks.count; i++) {
    OpenAsk& open = asks[i];
    if (open.over || !open.write) continue;
    if (!carried_out(asks, open)) break;
    const bool guarded = open.word->load(std::memory_order_acquire) == open.valid;
    ended.add(open, guarded ? Status::ok : Status::invalid);
  }
  if (asks.sending < asks.count) send_asks(peer);
  if (ended.count > 0) {
    asks.penalty = 0;
    counters_.helped_accesses += ended.count;
    return report_asks(peer, ended);
  }
  if (++asks.idle > kPatience && !at_work(asks.claim)) withdraw(peer);
  return 0;
}

// The upcalls may ask for more.
unsigned ShmDriver::report_asks(Peer& peer, const EndedAsks& ended) {
  Asks& asks = *peer.asks;
  const bool asking = asks.count > 0;
  while (asks.count > 0 && asks[0].over) {
    asks.head++;
    asks.count--;
    if (asks.sending > 0) asks.sending--;
  }
  if (asking && asks.count == 0) {
    *std::find(asking_.begin(), asking_.end(), &peer) = asking_.back();
    asking_.pop_back();
  }
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
  uint64_t at = open.got;
  if (open.write && open.sent > 0 && peer.asks->applied >= open.first)
    at = std::min((peer.asks->applied - open.first + 1) * open.chunk, open.bytes);
  // What the owner has refused counts as applied, too: the word tells.
  if (open.word->load(std::memory_order_acquire) != open.valid) return Status::invalid;
  if (at == open.bytes) return Status::ok;
  const iovec piece{open.local + at, open.bytes - at};
  int error = 0;
  const Status status =
      attach(peer, open.write, open.remote + at, &piece, 1, piece.iov_len, &error);
  if (status == Status::denied) downgrade(peer, error);
  if (open.write || status != Status::ok) return status;
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
    ended.add(open, open.write && carried_out(asks, open) ? Status::ok : Status::peer_dead);
  }
  if (peer.asks) report_asks(peer, ended);
  peer.asks.reset();
}

}  // namespace torii
