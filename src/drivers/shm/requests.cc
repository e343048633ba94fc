// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Target-assisted operations: the initiator, and below the target.
#include "drivers/shm/requests.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/atomics.h"
#include "core/base/copy.h"
#include "core/base/pause.h"

namespace torii::shm {
namespace {

constexpr unsigned kPatience = 200;               // polls in vain; some microseconds
constexpr unsigned kAtomicPolls = 256;            // for a sole one; less than a microsecond
constexpr unsigned kEndPolls = 20;                // of a caller that waits; about a microsecond
constexpr unsigned kPollsOfEnd = 8;               // of progress, which take as long
constexpr uint64_t kCancelledAtOnce = 256 << 10;  // bytes

// The target has begun with something and is not through.
bool at_work(const Claim& claim) {
  const uint64_t taking = claim.taking.load(acquire);
  return claim.seen.load(acquire) != taking;
}

// The target need not rest any longer.
void await_end(RequestQueue& queue) {
  if (std::exchange(queue.many, false)) queue.claim.awaited.store(queue.posted, relaxed);
}

RequestKind kind_of(const std::byte* request) {
  RequestKind kind;
  std::memcpy(&kind, request + offsetof(Request, kind), sizeof(kind));
  return kind;
}

constexpr int kRest = 64;  // pauses: a microsecond or two

bool sensible(const Request& request, uint32_t data) {
  switch (request.kind) {
    case RequestKind::put:
      return data == request.bytes && data <= kRequestLongChunk;
    case RequestKind::get:
      return data == 0 && request.bytes <= kRequestLongChunk;
    case RequestKind::atomic:
      return data == sizeof(AtomicRequest) && atomic_width(request.bytes);
    default:
      return false;
  }
}

// A target that copies each frame as soon as it is there takes lines from its sender that are to be
// written next, for the processor fetches more than it was asked for. And answers to gets that wait
// share a frame. Until the sender polls for their end.
void rest(const Claim& claim, uint64_t number) {
  for (int n = 0; n < kRest && claim.awaited.load(relaxed) < number; ++n) pause_briefly();
}

}  // namespace

[[gnu::hot]] void Requests::send_lines(Peer& peer, const Request& request, const void* data,
                                       uint32_t bytes) {
  const iovec piece{const_cast<void*>(data), bytes};
  write_frame(peer, kKindRequest, &request, head_bytes(request.kind), &piece, 1, bytes);
}

// Behind those that wait for room, and in frames of whatever size.
Status Requests::post_in_order(RequestKind kind, const Rma& rma, const Guarded& region,
                               Peer& peer) {
  uint64_t chunk = kRequestChunk;
  if (peer.requests->count > 0 && rma.bytes >= kRequestLongChunk)
    chunk = request_chunk_in(kind == RequestKind::put
                                 ? peer.out.lines
                                 : static_cast<uint32_t>(peers_.segment().ring_bytes / kLine));
  open(kind, rma, region, peer, chunk);
  send_waiting(peer);
  return Status::pending;
}

// A target that polls has carried out a short request before a round of progress would come to the
// question. But if somebody may be waiting for this process in the same way, that comes first.
Status Requests::post_atomic(const Rma& rma, const Guarded& region, Peer& peer,
                             const RemoteAtomic& atomic) {
  RequestQueue& queue = *peer.requests;
  const auto number = static_cast<uint32_t>(std::countr_one(queue.results));
  if (queue.count == kRequests || number == kResults ||
      (region.base + rma.remote_offset) % atomic.width != 0)
    return Status::unsupported;
  queue.results |= 1u << number;
  OpenRequest& one = open(RequestKind::atomic, rma, region, peer, kRequestChunk);
  one.atomic = {atomic.operand, atomic.compare, atomic.op, static_cast<uint8_t>(number), {}};
  send_waiting(peer);
  for (unsigned n = 0; n < kAtomicPolls && queue.count == 1 && !peers_.rings().arrived(); n++)
    if (queue.claim.applied.load(acquire) != queue.applied) return complete_sole(peer);
  return Status::pending;
}

// As many frames as there is room for, one after the other in the order of the operations.
void Requests::send_waiting(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  while (queue.sending < queue.count && send_parts(peer, queue[queue.sending])) queue.sending++;
}

// False: there was no room for all of it.
bool Requests::send_parts(Peer& peer, OpenRequest& one) {
  RequestQueue& queue = *peer.requests;
  if (one.sent == 0) one.first = queue.posted + 1;
  while (!one.refused && one.sent < one.bytes) {
    const auto part = static_cast<uint32_t>(std::min(one.chunk, one.bytes - one.sent));
    const uint32_t answer = one.kind == RequestKind::get ? part : 0;
    const void* data = nullptr;
    uint32_t bytes = 0;
    if (one.kind == RequestKind::put) {
      data = one.local + one.sent;
      bytes = part;
    } else if (one.kind == RequestKind::atomic) {
      data = &one.atomic;
      bytes = sizeof(one.atomic);
    }
    if (!has_room(peer, bytes, answer)) return false;
    queue.many = queue.count > kFew && lets_rest(one.kind, part);
    const auto number = static_cast<uint32_t>(++queue.posted);
    send(peer,
         {one.kind, queue.many, number, part, one.slot, one.word.valid, one.offset + one.sent},
         data, bytes);
    queue.awaited += answer;
    one.last = queue.posted;
    one.sent += part;
  }
  return true;
}

// Answers come in the order of the requests. One whose predecessor is missing, or to what was
// cancelled, is not used.
void Requests::take_answers(Peer& peer, const Request& answer, const std::byte* bytes,
                            uint32_t left) {
  const uint32_t answers = answer.slot;
  if (left != answer.bytes || answers == 0) return peers_.fail(peer, "its answer makes no sense");
  if (!peer.requests || peer.requests->cancelling) return;
  RequestQueue& queue = *peer.requests;
  const bool refused = answers == 1 && answer.bytes == 0;
  bool wrong = false;
  uint32_t i = 0, n = 0;
  for (; n < answers; n++) {
    const uint32_t number = answer.number + n;
    while (i < queue.count && !queue[i].awaits(number)) i++;
    if (i == queue.count) break;
    OpenRequest& one = queue[i];
    const uint64_t at = one.place_of(number);
    const auto part = static_cast<uint32_t>(std::min(one.chunk, one.bytes - at));
    wrong = !refused && (answers > 1 ? part > left : part != left);
    if (wrong || at != one.got) break;
    if (refused) {
      queue.awaited -= one.sent - one.got;
      one.refused = true;
      continue;
    }
    copy_bytes(one.local + at, bytes, part);
    bytes += part;
    left -= part;
    queue.awaited -= part;
    one.got += part;
  }
  if (n > 0) queue.idle = 0;
  // More is sent at once: a poll for one event brings no more than this answer, and meanwhile the
  // other process would have nothing to do.
  complete(peer);
  if (wrong || (n == answers && left > 0)) peers_.fail(peer, "it answers what was not requested");
}

unsigned Requests::progress() {
  unsigned count = 0;
  for (size_t i = 0; i < active_.size();) {
    Peer* const peer = active_[i];
    count += peer->requests->cancelling ? make_cancelled(*peer) : complete(*peer);
    if (i < active_.size() && active_[i] == peer) i++;
  }
  return count;
}

// The end is seen sooner than by rounds of progress. Other arrivals come first: somebody
// may be waiting for this process in the same way.
void Requests::poll_completion(Peer& peer) {
  if (!peer.requests) return;
  RequestQueue& queue = *peer.requests;
  for (unsigned n = 0; n < kEndPolls; n++) {
    if (queue.count == 0 || queue.cancelling) return;
    if (peers_.rings().arrived()) return take_arrived(peer);
    if (queue.claim.applied.load(acquire) != queue.applied && complete(peer) > 0) return;
    pause_briefly();
  }
  queue.idle += kPollsOfEnd;
}

// If an answer is the next that has come from there.
void Requests::take_arrived(Peer& peer) {
  const std::byte* bytes;
  uint32_t length;
  if (!peer.in.base || peer.in.peek(&bytes, &length) != RingReceiver::Found::request ||
      length < head_bytes(RequestKind::answer) || kind_of(bytes) != RequestKind::answer)
    return;
  peer.last_frame = peers_.tick();
  take(peer, bytes, length, false);
  if (peer.in.consume() && peer.there) peers_.wake_if_sleeping(peer);
}

// The result of the sole outstanding request, or `pending`.
Status Requests::complete_sole(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  if (!read_applied(peer) || !queue.carried_out(queue[0])) return Status::pending;
  const Status status = result(queue, queue[0]);
  free_first(peer);
  counters_.helped_accesses++;
  return status;
}

// False: the peer counts what was not requested.
inline bool Requests::read_applied(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  const uint64_t applied = queue.claim.applied.load(acquire);
  if (applied == queue.applied) return true;
  if (applied - queue.applied > queue.posted - queue.applied) {
    peers_.fail(peer, "it has done more than was requested");
    return false;
  }
  queue.applied = applied;
  queue.idle = 0;
  return true;
}

// The outcome of one that was carried out.
inline Status Requests::result(const RequestQueue& queue, const OpenRequest& one) const {
  if (one.kind == RequestKind::get) return one.refused ? Status::invalid : Status::ok;
  if (one.word.ended()) return Status::invalid;  // it may have been refused
  if (one.kind != RequestKind::atomic) return Status::ok;
  const uint64_t before = queue.claim.results[one.atomic.result].load(relaxed);
  std::memcpy(one.local, &before, sizeof(before));
  return Status::ok;
}

unsigned Requests::complete(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  if (!read_applied(peer)) return 0;
  if (queue.sending < queue.count) send_waiting(peer);
  await_end(queue);
  unsigned count = 0;
  for (; queue.count > 0 && queue.carried_out(queue[0]); count++)
    end_first(peer, result(queue, queue[0]));
  counters_.helped_accesses += count;
  if (count == 0 && ++queue.idle > kPatience && !at_work(queue.claim)) cancel(peer);
  return count;
}

inline void Requests::free_first(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  if (queue[0].kind == RequestKind::atomic) queue.results &= ~(1u << queue[0].atomic.result);
  queue.head++;
  if (queue.sending > 0) queue.sending--;
  if (--queue.count == 0) std::erase(active_, &peer);
}

// The upcall may request more.
inline void Requests::end_first(Peer& peer, Status status) {
  const uint64_t cookie = (*peer.requests)[0].cookie;
  free_first(peer);
  sink_.done(cookie, status);
}

// False: out of memory; again, later.
bool Requests::announce_cancel(RequestQueue& queue) const {
  queue.idle = 0;
  queue.claim.cancelled.store(queue.posted, release);
  return peers_.order_everybody();
}

void Requests::cancel(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  if (!announce_cancel(queue)) return;
  queue.cancelling = queue.absent = true;
  make_cancelled(peer);
}

unsigned Requests::make_cancelled(Peer& peer) {
  RequestQueue& queue = *peer.requests;
  if (at_work(queue.claim) || !read_applied(peer)) return 0;
  unsigned count = 0;
  for (uint64_t moved = 0; queue.count > 0 && moved < kCancelledAtOnce; count++) {
    moved += queue[0].bytes;
    end_first(peer, make(peer, queue[0]));
  }
  if (queue.count == 0) {
    queue.cancelling = false;
    queue.awaited = 0;
  }
  return count;
}

// Carries out the rest of a request that the target has not completed.
Status Requests::make(Peer& peer, const OpenRequest& one) {
  const RequestQueue& queue = *peer.requests;
  if (queue.carried_out(one)) return result(queue, one);
  if (one.kind == RequestKind::atomic) return Status::unsupported;
  const bool write = one.kind == RequestKind::put;
  uint64_t at = one.got;
  if (write && one.sent > 0 && queue.applied >= one.first)
    at = std::min((queue.applied - one.first + 1) * one.chunk, one.bytes);
  if (one.word.ended()) return Status::invalid;
  const iovec piece{one.local + at, one.bytes - at};
  const Status status = remote_.attach(peer, write, piece, one.remote + at);
  if (write || status != Status::ok) return status;
  std::atomic_thread_fence(acquire);  // as in RemoteMemory::move()
  return one.word.ended(relaxed) ? Status::invalid : status;
}

void Requests::close() {
  for (Peer* const peer : active_) {
    RequestQueue& queue = *peer->requests;
    if (!announce_cancel(queue)) sched_yield();  // what it has not begun by now it leaves alone
    for (unsigned n = 0; n < kClosingYields && at_work(queue.claim); n++) sched_yield();
  }
}

void Requests::end(Peer& peer) {
  peer.answers.reset();
  if (!peer.requests) return;
  RequestQueue& queue = *peer.requests;
  while (queue.count > 0)
    end_first(peer, queue.carried_out(queue[0]) ? result(queue, queue[0]) : Status::peer_dead);
  peer.requests.reset();
}

// --- the target ----------------------------------------------------------------------------------

[[gnu::hot]] void Requests::take(Peer& peer, const std::byte* bytes, uint32_t length, bool more) {
  constexpr uint32_t kLeast = head_bytes(RequestKind::answer);
  Request request;
  if (__builtin_expect(length < kLeast, 0)) return peers_.fail(peer, "it requests nothing");
  std::memcpy(&request, bytes, kLeast);
  if (request.kind == RequestKind::answer)
    return take_answers(peer, request, bytes + kLeast, length - kLeast);
  if (__builtin_expect(length < sizeof(request), 0))
    return peers_.fail(peer, "it requests nothing");
  std::memcpy(&request.valid, bytes + kLeast, sizeof(request) - kLeast);
  const uint64_t number = ++peer.requested;
  if (__builtin_expect(!sensible(request, length - sizeof(request)) ||
                           request.number != static_cast<uint32_t>(number),
                       0))
    return peers_.fail(peer, "it requests what makes no sense");
  Claim& claim = *peer.claim;
  claim.taking.store(number, relaxed);
  std::atomic_signal_fence(seq_cst);  // the sender runs the barrier
  if (__builtin_expect(number > claim.cancelled.load(relaxed), 1)) {
    if (request.kind == RequestKind::get) {
      answer_get(peer, request, more);
    } else {
      carry_out(peer, request, bytes + sizeof(request));
      // A get is over by its answer, so only this path stores to the line that the initiator polls.
      claim.applied.store(number, release);
    }
  }
  claim.seen.store(number, release);
  if (__builtin_expect(request.of_many, 0) && pair_ && !peer.in.more()) rest(claim, number);
}

inline void Requests::carry_out(Peer& peer, const Request& request, const std::byte* data) {
  if (request.kind == RequestKind::atomic) return update(peer, request, data);
  if (std::byte* const to = memory_of(peer, request, kRemoteWrite))
    copy_bytes(to, data, request.bytes);
}

// Null: its export does not give that.
inline std::byte* Requests::memory_of(Peer& peer, const Request& request, uint32_t access) {
  std::byte* const at =
      exports_.guarded(request.slot, request.valid, access, request.offset, request.bytes);
  if (__builtin_expect(!at, 0))
    static_cast<void>(remote_.refuse_key(peer, "requests what its export does not give"));
  return at;
}

// To `count` gets, the first of which has that number. An answer that finds no room is not sent:
// the initiator then reads.
inline void Requests::answer(Peer& peer, uint32_t first, uint32_t count, const std::byte* data,
                             uint32_t bytes) {
  if (has_room(peer, bytes))
    send(peer, {RequestKind::answer, 0, first, bytes, count, 0, 0}, data, bytes);
}

inline void Requests::answer_get(Peer& peer, const Request& request, bool more) {
  if (!peer.out.base && !peers_.start_sending(peer)) return;
  if (request.bytes > request_chunk_in(peer.out.lines))
    return peers_.fail(peer, "it requests more than its ring takes");
  const std::byte* const from = memory_of(peer, request, kRemoteRead);
  const uint32_t bytes = from ? request.bytes : 0;
  const bool begun = peer.answers && peer.answers->count > 0;
  // Else the line behind is still its sender's, and the answer would wait for it.
  const std::byte* const next =
      more && bytes <= kAnswersEach ? peer.in.next_of(kKindRequest) : nullptr;
  more = next && kind_of(next) == RequestKind::get;
  if (__builtin_expect(begun || more, 0) && batch_answer(peer, request.number, from, bytes, more))
    return;
  answer(peer, request.number, 1, from, bytes);
}

// Answers to short gets that arrived together share a frame. False: this one shares none, and those
// before it have left. None waits for anything but gets behind it, for an upcall may take long.
bool Requests::batch_answer(Peer& peer, uint32_t number, const std::byte* from, uint32_t bytes,
                            bool more) {
  if (!peer.answers) peer.answers = std::make_unique<AnswerBatch>();
  AnswerBatch& batch = *peer.answers;
  const bool fits = bytes > 0 && bytes <= kAnswersEach;
  if (batch.count > 0 &&
      (!fits || batch.first + batch.count != number || batch.bytes + bytes > kAnswersMost))
    send_batch(peer, batch);
  if (!fits) return false;
  if (batch.count == 0) batch.first = number;
  copy_bytes(batch.data + batch.bytes, from, bytes);
  batch.bytes += bytes;
  batch.count++;
  if (!more) send_batch(peer, batch);
  return true;
}

void Requests::send_batch(Peer& peer, AnswerBatch& batch) {
  answer(peer, batch.first, batch.count, batch.data, batch.bytes);
  batch.count = batch.bytes = 0;
}

void Requests::update(Peer& peer, const Request& request, const std::byte* data) {
  AtomicRequest atomic;
  std::memcpy(&atomic, data, sizeof(atomic));
  std::byte* const at = memory_of(peer, request, kRemoteUpdate);
  if (!at) return;
  if (static_cast<uint8_t>(atomic.op) >= kAtomicOps || atomic.result >= kResults ||
      reinterpret_cast<uintptr_t>(at) % request.bytes != 0)
    return peers_.fail(peer, "it requests what makes no sense");
  peer.claim->results[atomic.result].store(
      apply_atomic(at, request.bytes, atomic.op, atomic.operand, atomic.compare), relaxed);
}

}  // namespace torii::shm
