// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which way a put, get or atomic operation takes: by asking (what comes of it is in ask.cc), by
// both processes (split.cc), together with others (gather.cc), or by this one alone (remote.cc).
// Atomic operations: by asking, or not at all.
#include <algorithm>
#include <bit>
#include <memory>

#include "core/base/memcheck.h"
#include "drivers/shm/flat.h"

namespace torii {
namespace {

using shm::Ask;
using shm::AskKind;
using shm::Asks;
using shm::OpenAsk;

constexpr uint64_t kDelivering = 3;  // at a time; others are read meanwhile
// Longer gets are made by attach where the owner may have several to answer: they do not wait for
// each other then.
constexpr uint64_t kGetOfMany = 64 << 10;
// From so many under way on the owner may rest: before it takes long puts, and answers short gets.
constexpr uint32_t kFew = 8;
constexpr uint32_t kManyFrom = 512;
// A put that is alone goes in two or three frames if the owner is near: it copies the first one
// while the next is written. Where each line takes long, more frames are more of the lines for
// which one waits. Now and then such a put goes in one, which tells where the owner is.
constexpr uint64_t kHalvesFrom = shm::StoreChoice::kStringFrom;
constexpr uint64_t kHalvesMost = shm::kAskChunk;
constexpr uint64_t kShortHalves = 6 << 10;
constexpr unsigned kWholeEach = 16;

// What such an ask is called of which others are under way.
AskKind of_many(AskKind kind, uint32_t part) {
  if (kind == AskKind::put && part >= kManyFrom) return AskKind::put_of_many;
  if (kind == AskKind::get && part <= shm::kAnswersEach) return AskKind::get_of_many;
  return kind;
}

// It has enough to deliver.
bool busy(const Asks& asks) {
  return asks.count == shm::kAsks ||
         asks.posted - asks.claim.seen.load(std::memory_order_acquire) >= kDelivering;
}

}  // namespace

[[gnu::always_inline]] inline Status ShmDriver::check_rma(const Rma& rma, uint32_t access,
                                                          const Import** found, Peer** peer) {
  if (!(caps_.flags & kGet)) return Status::unsupported;
  if (rma.remote >= imports_.size() || rma.piece_count > caps_.pieces_max ||
      rma.bytes > caps_.remote_max)
    return Status::invalid;
  const Import& import = imports_[rma.remote];
  const Key& key = import.key;
  if (!import.used || import.peer != rma.peer || !(key.access & access) ||
      rma.remote_offset > key.bytes || rma.bytes > key.bytes - rma.remote_offset)
    return Status::invalid;
  uint64_t local = rma.piece_count ? rma.pieces[0].iov_len : 0;
  for (uint32_t i = 1; i < rma.piece_count; i++) local += rma.pieces[i].iov_len;
  if (local != rma.bytes) return Status::invalid;
  *found = &import;
  *peer = &peers_[rma.peer];
  if ((*peer)->stage != Stage::up || (*peer)->ending != Status::ok) return Status::peer_dead;
  if (import.guarded &&
      import.guarded->word.word->load(std::memory_order_acquire) != import.guarded->word.valid)
    return Status::invalid;
  return (*peer)->direct || key.arena.serial ? Status::ok : Status::denied;
}

// --- asking ----------------------------------------------------------------------------------

// Is that the way for such a put or get, and can the peer be looking?
[[gnu::always_inline]] inline bool ShmDriver::may_ask(const Rma& rma, const Import& import,
                                                      const Peer& peer, bool write) {
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
[[gnu::always_inline]] inline Status ShmDriver::ask(const Rma& rma, const Import& import,
                                                    Peer& peer, bool write) {
  const unsigned lone = lone_;
  if (!may_ask(rma, import, peer, write) || !ask_now(peer)) return Status::unsupported;
  if (rma.cookie == 0) {
    lone_ = lone;  // it comes again
    return Status::again;
  }
  if (peer.asks->count == shm::kAsks) return Status::again;
  const bool deliver = !write && rma.bytes > points_.ask_get_most;
  const AskKind kind = write ? AskKind::put : deliver ? AskKind::deliver : AskKind::get;
  if (rma.bytes < kHalvesFrom && !deliver && ask_at_once(rma, *import.guarded, peer, kind))
    return Status::pending;
  ask_in_turn(rma, *import.guarded, peer, kind);
  return Status::pending;
}

// Behind those that wait for room, and in frames of whatever size.
void ShmDriver::ask_in_turn(const Rma& rma, const GuardedImport& region, Peer& peer, AskKind kind) {
  const bool deliver = kind == AskKind::deliver;
  if (deliver) written_by_others(rma.pieces[0].iov_base, rma.pieces[0].iov_len);
  const uint64_t chunk = deliver ? rma.bytes : chunk_of(rma, peer, kind == AskKind::put);
  send_last(peer, open_ask(rma, region, peer, kind, chunk));
}

// A short put or get when none before it waits for room: what is to be remembered of it is written
// down while its frame is on its way. False: nothing happened.
[[gnu::always_inline]] inline bool ShmDriver::ask_at_once(const Rma& rma,
                                                          const GuardedImport& region, Peer& peer,
                                                          AskKind kind) {
  Asks& asks = *peer.asks;
  const auto part = static_cast<uint32_t>(rma.bytes);
  const uint32_t data = kind == AskKind::put ? part : 0;
  const uint32_t answer = part - data;
  bool corrupt;
  if (asks.sending < asks.count || asks.awaited + answer > segment_.ring_bytes / 2 ||
      !peer.out.has_room(shm::ask_frame_bytes(data), &corrupt))
    return false;
  const AskKind among = asks.count >= kFew ? of_many(kind, part) : kind;
  const Ask ask{among,
                static_cast<uint32_t>(++asks.posted),
                part,
                region.slot,
                region.word.valid,
                rma.remote_offset};
  send_flat<shm::kKindAsk>(peer, &ask, sizeof(ask), rma.pieces->iov_base, data);
  OpenAsk& open = open_ask(rma, region, peer, kind, shm::kAskChunk);
  open.first = open.last = asks.posted;
  open.sent = part;
  asks.many = among != kind;
  asks.sending++;
  asks.awaited += answer;
  return true;
}

// One more, behind the others. There is a place for it.
[[gnu::always_inline]] inline OpenAsk& ShmDriver::open_ask(const Rma& rma,
                                                           const GuardedImport& region, Peer& peer,
                                                           AskKind kind, uint64_t chunk) {
  Asks& asks = *peer.asks;
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
  open.first = open.last = open.sent = open.got = 0;
  if (asks.count++ == 0) {
    asks.idle = 0;
    asking_.push_back(&peer);
  }
  return open;
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
    const AskKind kind = asks.count > kFew ? of_many(open.kind, part) : open.kind;
    asks.many = kind != open.kind;
    const Ask ask{kind,       static_cast<uint32_t>(++asks.posted),
                  part,       open.slot,
                  open.valid, open.offset + open.sent};
    send_ask(peer, ask, data, bytes);
    asks.awaited += answer;
    open.last = asks.posted;
    open.sent += part;
  }
  return true;
}

// --- puts, gets and atomic operations --------------------------------------------------------

[[gnu::always_inline]] inline Status ShmDriver::transfer(const Rma& rma, bool write) {
  if (rma.cookie == 0 && rma.bytes <= points_.ask_alone_most && side_by_side_ &&
      rma.remote < imports_.size() && imports_[rma.remote].guarded)
    return Status::again;  // as a rule it is asked for
  const Import* import;
  Peer* peer;
  Status status = check_rma(rma, write ? kRemoteWrite : kRemoteRead, &import, &peer);
  if (status != Status::ok) return status;
  // One that is alone is made at once.
  if (__builtin_expect(lone_ > 0 || crowded_, 0) && may_put_off(rma, *import, *peer, write))
    return rma.cookie ? put_off(rma, *peer, write) : Status::again;
  const unsigned lone = lone_;
  status = ask(rma, *import, *peer, write);
  return __builtin_expect(status != Status::unsupported, 1)
             ? status
             : transfer_alone(rma, *peer, write, lone);
}

// Nobody is asked, or for its part only.
Status ShmDriver::transfer_alone(const Rma& rma, Peer& peer, bool write, unsigned lone) {
  const bool among_frames = !write && draining_ == &peer && !rma.soon;
  if (among_frames && rma.bytes > shm::kGatherLongest && peer.in.more()) return Status::again;
  if (!write && rma.bytes >= points_.split_min && side_by_side_ && worth_splitting(rma, peer)) {
    if (rma.cookie) return get_split(rma, peer);
    lone_ = lone;
    return Status::again;
  }
  if (__builtin_expect(among_frames, 0)) {
    const Status status = gather_get(rma, peer);
    if (status != Status::unsupported) return status;
  }
  return move(rma, peer, write);
}

[[gnu::hot]] Status ShmDriver::put(const Rma& rma) { return transfer(rma, true); }

[[gnu::hot]] Status ShmDriver::get(const Rma& rma) { return transfer(rma, false); }

// `unsupported`: the core asks in its way.
Status ShmDriver::ask_atomic(const Rma& rma, const Import& import, Peer& peer,
                             const RemoteAtomic& atomic) {
  if (!may_ask(rma, import, peer, true) || !ask_now(peer)) return Status::unsupported;
  Asks& asks = *peer.asks;
  const auto result = static_cast<uint32_t>(std::countr_one(asks.results));
  const uint64_t address = import.guarded->word.base + rma.remote_offset;
  if (asks.count == shm::kAsks || result == shm::kResults || address % atomic.width != 0)
    return Status::unsupported;
  asks.results |= 1u << result;
  OpenAsk& open = open_ask(rma, *import.guarded, peer, AskKind::atomic, shm::kAskChunk);
  open.atomic = {atomic.operand, atomic.compare, atomic.op, static_cast<uint8_t>(result), {}};
  send_last(peer, open);
  return asks.count == 1 ? look_on(peer) : Status::pending;
}

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
  const Status status = check_rma(rma, kRemoteUpdate, &import, &peer);
  return status == Status::ok ? ask_atomic(rma, *import, *peer, atomic) : status;
}

}  // namespace torii
