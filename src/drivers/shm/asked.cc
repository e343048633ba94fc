// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What another process has asked for (ask.cc) is carried out in this process's memory.
#include <cstddef>
#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "core/base/pause.h"
#include "drivers/shm/flat.h"

namespace torii {
namespace {

using shm::Ask;
using shm::AskedAtomic;
using shm::AskKind;

constexpr int kRest = 64;  // pauses: a microsecond or two

bool sensible(const Ask& ask, uint32_t data) {
  switch (ask.kind) {
    case AskKind::put:
    case AskKind::put_of_many:
      return data == ask.bytes && data <= shm::kAskLongChunk;
    case AskKind::get:
    case AskKind::get_of_many:
      return data == 0 && ask.bytes <= shm::kAskLongChunk;
    case AskKind::deliver:
      return data == sizeof(uint64_t) && ask.bytes <= shm::kDeliverMax;
    case AskKind::atomic:
      return data == sizeof(AskedAtomic) && atomic_width(ask.bytes);
    default:
      return false;
  }
}

bool begins_get(const std::byte* ask) {
  AskKind kind;
  std::memcpy(&kind, ask + offsetof(Ask, kind), sizeof(kind));
  return shm::is_get(kind);
}

}  // namespace

[[gnu::hot]] void ShmDriver::carry_out(Peer& peer, const std::byte* bytes, uint32_t length,
                                       bool first) {
  constexpr uint32_t kLeast = shm::head_bytes(AskKind::answer);
  Ask ask;
  if (__builtin_expect(length < kLeast, 0)) return fail(peer, "it asks for nothing");
  std::memcpy(&ask, bytes, kLeast);
  if (shm::is_answer(ask.kind)) return take_data(peer, ask, bytes + kLeast, length - kLeast);
  if (__builtin_expect(length < sizeof(ask), 0)) return fail(peer, "it asks for nothing");
  std::memcpy(&ask.valid, bytes + offsetof(Ask, valid), sizeof(ask) - offsetof(Ask, valid));
  const uint64_t number = ++peer.asked;
  const auto low = static_cast<uint32_t>(number);
  if (__builtin_expect(!sensible(ask, length - sizeof(ask)) || ask.number != low, 0))
    return fail(peer, "it asks for what makes no sense");
  shm::Claim& claim = segment_.claim(peer.details->in_claim);
  claim.taking.store(number, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the sender runs the barrier
  if (__builtin_expect(number > claim.withdrawn.load(std::memory_order_relaxed), 1)) {
    if (shm::is_get(ask.kind)) {
      answer_get(peer, ask, first && ask.kind == AskKind::get);
    } else {
      change(peer, ask, bytes + sizeof(ask));
      // Of gets the answer tells, and the asking process looks at this line.
      claim.applied.store(number, std::memory_order_release);
    }
  }
  claim.seen.store(number, std::memory_order_release);
  const bool of_many = ask.kind == AskKind::put_of_many || ask.kind == AskKind::get_of_many;
  if (__builtin_expect(of_many, 0) && local_peers_ <= 2 && !peer.in.more()) rest(claim, number);
}

void ShmDriver::take_data(Peer& peer, const Ask& answer, const std::byte* bytes, uint32_t length) {
  const bool data = answer.kind != AskKind::delivered;
  if (length != (data ? answer.bytes : 0)) return fail(peer, "its answer makes no sense");
  if (answer.kind == AskKind::answers) return take_answers(peer, answer, bytes);
  take_answer(peer, answer, bytes);
}

inline void ShmDriver::change(Peer& peer, const Ask& ask, const std::byte* data) {
  if (ask.kind == AskKind::deliver) return deliver(peer, ask, data);
  if (ask.kind == AskKind::atomic) return update(peer, ask, data);
  if (std::byte* const to = asked_for(peer, ask, kRemoteWrite)) copy_bytes(to, data, ask.bytes);
}

// Who copies each frame as soon as it is there takes lines from its sender that are to be written
// next, for the processor fetches more than it was asked for: a row of puts of 1 KiB took 200 ns
// each, and takes 135 ns if some frames wait. And answers to gets that wait share a frame. Until
// the sender waits for what it has asked.
void ShmDriver::rest(const shm::Claim& claim, uint64_t number) const {
  for (int n = 0; n < kRest && claim.looked_for.load(std::memory_order_relaxed) < number; ++n)
    pause_briefly();
}

// Null: its export does not give that.
inline std::byte* ShmDriver::asked_for(Peer& peer, const Ask& ask, uint32_t access) {
  std::byte* const at =
      arena_ ? arena_->guarded(ask.slot, ask.valid, access, ask.offset, ask.bytes) : nullptr;
  if (__builtin_expect(!at, 0))
    static_cast<void>(refuse_key(peer, "asks for what its export does not give"));
  return at;
}

// What finds no room is not sent: the other process then reads.
inline void ShmDriver::answer_get(Peer& peer, const Ask& ask, bool lone) {
  if (!peer.out.base && !start_sending(peer)) return;
  if (ask.bytes > shm::ask_chunk_in(peer.out.lines))
    return fail(peer, "it asks for more than its ring takes");
  const std::byte* const from = asked_for(peer, ask, kRemoteRead);
  const uint32_t bytes = from ? ask.bytes : 0;
  // The line behind that of a lone one is still its sender's, and the answer would wait for it.
  if (!lone && gather_answer(peer, ask.number, from, bytes)) return;
  bool corrupt = false;
  if (peer.out.has_room(shm::ask_frame_bytes(bytes), &corrupt)) {
    send_ask(peer, {AskKind::answer, ask.number, bytes, 0, 0, 0}, from, bytes);
  } else if (corrupt) {
    refused(peer, true);
  }
}

// False: it is not one that shares a frame. Those before it have left. None waits for anything but
// gets behind it, for an upcall may take long.
inline bool ShmDriver::gather_answer(Peer& peer, uint32_t number, const std::byte* from,
                                     uint32_t bytes) {
  const bool begun = peer.answers && peer.answers->count > 0;
  const std::byte* const next = peer.in.next_of(shm::kKindAsk);
  const bool more = next && begins_get(next);
  if (!begun && !more) return false;
  if (!peer.answers) peer.answers = std::make_unique<shm::Answers>();
  shm::Answers& answers = *peer.answers;
  const bool fits = bytes > 0 && bytes <= shm::kAnswersEach;
  if (begun && (!fits || answers.first + answers.count != number ||
                answers.bytes + bytes > shm::kAnswersMost))
    send_answers(peer);
  if (!fits) return false;
  if (answers.count == 0) answers.first = number;
  copy_bytes(answers.data + answers.bytes, from, bytes);
  answers.bytes += bytes;
  answers.count++;
  if (!more) send_answers(peer);
  return true;
}

void ShmDriver::send_answers(Peer& peer) {
  shm::Answers& answers = *peer.answers;
  bool corrupt = false;
  if (peer.out.has_room(shm::ask_frame_bytes(answers.bytes), &corrupt)) {
    send_ask(peer, {AskKind::answers, answers.first, answers.bytes, answers.count, 0, 0},
             answers.data, answers.bytes);
  } else if (corrupt) {
    refused(peer, true);
  }
  answers.count = answers.bytes = 0;
}

// What cannot be written is not answered: as above.
void ShmDriver::deliver(Peer& peer, const Ask& ask, const std::byte* address) {
  if (!peer.out.base && !start_sending(peer)) return;
  bool corrupt = false;
  if (!peer.out.has_room(sizeof(Ask), &corrupt)) {
    if (corrupt) refused(peer, true);
    return;
  }
  std::byte* const from = asked_for(peer, ask, kRemoteRead);
  if (!from) {
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

void ShmDriver::update(Peer& peer, const Ask& ask, const std::byte* bytes) {
  AskedAtomic atomic;
  std::memcpy(&atomic, bytes, sizeof(atomic));
  std::byte* const at = asked_for(peer, ask, kRemoteUpdate);
  if (!at) return;
  if (static_cast<uint8_t>(atomic.op) >= kAtomicOps || atomic.result >= shm::kResults ||
      reinterpret_cast<uintptr_t>(at) % ask.bytes != 0)
    return fail(peer, "it asks for what makes no sense");
  const uint64_t before = apply_atomic(at, ask.bytes, atomic.op, atomic.operand, atomic.compare);
  segment_.claim(peer.details->in_claim)
      .results[atomic.result]
      .store(before, std::memory_order_relaxed);
}

}  // namespace torii
