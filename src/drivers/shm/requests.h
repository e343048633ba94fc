// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Target-assisted RMA: puts, gets and atomic operations that the process whose memory it is (the
// target) carries out. A frame in its ring requests it, which is sooner there than a system call
// reaches into another process, if the target polls. The initiator polls the number of the last
// request that was carried out, and its own ring for answers to gets.
//
// When nothing happens for some polls, what is not carried out is cancelled, and made by
// cross-memory attach after all: nobody's progress but one's own is needed. An atomic operation is
// then not made at all: the core sends it by a frame.
//
// Cancelling: either of the two must make a put, and not both. The target writes the number of a
// request that it begins with (`taking`) and reads `cancelled`; the initiator writes `cancelled`
// and reads `taking`. Requests are frequent and cancelling is not: the initiator runs a barrier on
// the processors of all (membarrier), the target none. Then what is being carried out is waited for
// (it is a copy of a few KiB), and `applied` tells which are left.
//
// A target that ends a region in between refuses; the word of the export then tells the initiator
// that its put may not have been carried out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/shm/frame.h"
#include "drivers/shm/remote.h"

namespace torii::shm {

class Requests {
 public:
  // `pair`: the node has no more than two processes of the job.
  Requests(Sink& sink, Counters& counters, Peers& peers, RemoteMemory& remote,
           const Exports& exports, bool pair)
      : sink_(sink),
        counters_(counters),
        peers_(peers),
        remote_(remote),
        exports_(exports),
        pair_(pair) {}

  // Requests an operation that was checked, of one piece, to guarded memory: put, get, or atomic
  // with what it is to do. `pending`: done() follows. `ok`: an atomic operation is over.
  // `again`: it has no cookie, or there is no room. `unsupported`: the peer does not poll.
  [[gnu::always_inline]] Status post(RequestKind kind, const Rma& rma, const Import& import,
                                     Peer& peer, const RemoteAtomic* atomic = nullptr);
  // A frame of the protocol: carries out a request, or takes an answer. `more`: another frame of
  // the peer is handed up right after this one, if there is one.
  void take(Peer& peer, const std::byte* bytes, uint32_t length, bool more);
  // Reports what is over; cancels what has been outstanding for too long. How many it reported.
  unsigned progress();
  // The caller waits for something of this peer: polls for it for about a microsecond.
  void poll_completion(Peer& peer);
  // The peer has ended.
  void end(Peer& peer);
  // This process closes, and nobody may write to its memory any more.
  void close();

  bool outstanding() const { return !active_.empty(); }

 private:
  bool responsive(Peer& peer) const;
  bool has_room(Peer& peer, uint32_t data) const;
  bool has_room(Peer& peer, uint32_t data, uint32_t answer) const;
  void send(Peer& peer, const Request& request, const void* data, uint32_t bytes);
  OpenRequest& open(RequestKind kind, const Rma& rma, const Guarded& region, Peer& peer,
                    uint64_t chunk);

  [[gnu::noinline]] static void send_lines(Peer& peer, const Request& request, const void* data,
                                           uint32_t bytes);
  [[gnu::noinline]] Status post_in_order(RequestKind kind, const Rma& rma, const Guarded& region,
                                         Peer& peer);
  Status post_atomic(const Rma& rma, const Guarded& region, Peer& peer, const RemoteAtomic& atomic);
  void send_waiting(Peer& peer);
  bool send_parts(Peer& peer, OpenRequest& one);
  void take_answers(Peer& peer, const Request& answer, const std::byte* bytes, uint32_t left);
  void take_arrived(Peer& peer);
  Status complete_sole(Peer& peer);
  void free_first(Peer& peer);
  void end_first(Peer& peer, Status status);
  bool read_applied(Peer& peer);
  Status result(const RequestQueue& queue, const OpenRequest& one) const;
  unsigned complete(Peer& peer);
  bool announce_cancel(RequestQueue& queue) const;
  void cancel(Peer& peer);
  unsigned make_cancelled(Peer& peer);
  Status make(Peer& peer, const OpenRequest& one);

  // of the target
  void carry_out(Peer& peer, const Request& request, const std::byte* data);
  std::byte* memory_of(Peer& peer, const Request& request, uint32_t access);
  void answer(Peer& peer, uint32_t first, uint32_t count, const std::byte* data, uint32_t bytes);
  void answer_get(Peer& peer, const Request& request, bool more);
  bool batch_answer(Peer& peer, uint32_t number, const std::byte* from, uint32_t bytes, bool more);
  void send_batch(Peer& peer, AnswerBatch& batch);
  void update(Peer& peer, const Request& request, const std::byte* data);

  Sink& sink_;
  Counters& counters_;
  Peers& peers_;
  RemoteMemory& remote_;
  const Exports& exports_;
  const bool pair_;
  std::vector<Peer*> active_;  // with outstanding requests
};

// From so many outstanding ones on the target may rest: before it takes long puts, and answers
// short gets.
inline constexpr uint32_t kFew = 8;
inline constexpr uint32_t kManyFrom = 512;  // bytes of a put

inline constexpr uint32_t kShortRequest = 4096;  // shorter ones need no thought of their frames

// May the target of many such requests rest?
constexpr bool lets_rest(RequestKind kind, uint32_t part) {
  return (kind == RequestKind::put && part >= kManyFrom) ||
         (kind == RequestKind::get && part <= kAnswersEach);
}

// Has the peer polled lately?
inline bool Requests::responsive(Peer& peer) const {
  if (peer.fence || !peer.direct || !peer.out.base || peer.asleep()) return false;
  if (__builtin_expect(!peer.requests, 0))
    peer.requests =
        std::make_unique<RequestQueue>(peer.details->segment.claim(peer.details->out_claim));
  RequestQueue& queue = *peer.requests;
  if (queue.cancelling) return false;
  if (queue.absent && queue.claim.seen.load(acquire) != queue.posted) return false;
  queue.absent = false;
  return true;
}

// For a frame with so much data, its head and its padding.
[[gnu::always_inline]] inline bool Requests::has_room(Peer& peer, uint32_t data) const {
  if (__builtin_expect(peer.out.has_room(data + uint32_t{kFirstBytes}), 1)) return true;
  peers_.refused(peer);
  return false;
}

// And for its answer: one that finds no room in our ring is lost.
[[gnu::always_inline]] inline bool Requests::has_room(Peer& peer, uint32_t data,
                                                      uint32_t answer) const {
  return peer.requests->awaited + answer <= peers_.segment().ring_bytes / 2 && has_room(peer, data);
}

// Where there is room.
[[gnu::always_inline]] inline void Requests::send(Peer& peer, const Request& request,
                                                  const void* data, uint32_t bytes) {
  const uint32_t head = head_bytes(request.kind);
  std::byte* const to = head + bytes <= kFirstBytes ? peer.out.reserve_line() : nullptr;
  if (to) {
    write_words(to, request, head);
    if (bytes) copy_bytes(to + head, data, bytes);
    peer.out.publish_line(to, head + bytes, kKindRequest);
  } else {
    send_lines(peer, request, data, bytes);
  }
  peers_.wake_if_sleeping(peer);
}

// One more, behind the others. There is a place for it.
[[gnu::always_inline]] inline OpenRequest& Requests::open(RequestKind kind, const Rma& rma,
                                                          const Guarded& region, Peer& peer,
                                                          uint64_t chunk) {
  RequestQueue& queue = *peer.requests;
  OpenRequest& one = queue[queue.count];
  one.cookie = rma.cookie;
  one.local = static_cast<std::byte*>(rma.pieces->iov_base);
  one.remote = region.base + rma.remote_offset;
  one.offset = rma.remote_offset;
  one.bytes = rma.bytes;
  one.word = region.word;
  one.slot = region.slot;
  one.kind = kind;
  one.refused = false;
  one.chunk = chunk;
  one.first = one.last = one.sent = one.got = 0;
  if (queue.count++ == 0) {
    queue.idle = 0;
    active_.push_back(&peer);
  }
  return one;
}

// A short one leaves at once, if none before it waits for room: what is to be remembered of it is
// written down while its frame is on its way.
inline Status Requests::post(RequestKind kind, const Rma& rma, const Import& import, Peer& peer,
                             const RemoteAtomic* atomic) {
  if (!responsive(peer)) return Status::unsupported;
  if (rma.cookie == 0) return Status::again;
  const Guarded& region = *import.guarded;
  if (atomic) return post_atomic(rma, region, peer, *atomic);
  RequestQueue& queue = *peer.requests;
  if (queue.count == kRequests) return Status::again;
  const auto bytes = static_cast<uint32_t>(rma.bytes);
  const uint32_t data = kind == RequestKind::put ? bytes : 0;
  if (rma.bytes >= kShortRequest || queue.sending < queue.count ||
      !has_room(peer, data, bytes - data))
    return post_in_order(kind, rma, region, peer);
  const bool many = queue.count >= kFew && lets_rest(kind, bytes);
  const auto number = static_cast<uint32_t>(++queue.posted);
  send(peer, {kind, many, number, bytes, region.slot, region.word.valid, rma.remote_offset},
       rma.pieces->iov_base, data);
  OpenRequest& one = open(kind, rma, region, peer, kRequestChunk);
  one.first = one.last = queue.posted;
  one.sent = bytes;
  queue.many = many;
  queue.sending++;
  queue.awaited += bytes - data;
  return Status::pending;
}

}  // namespace torii::shm
