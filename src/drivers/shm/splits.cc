// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The reader asks the process whose memory it is to join in and starts at once: each takes the next
// few pages from a counter in the reader's segment. If the other process is busy elsewhere the
// reader does all of it, and the request, when it is found, is stale: its serial is not the
// counter's any more. Pages that were taken are waited for, so that nobody writes into memory that
// was given back.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "core/base/memcheck.h"
#include "drivers/shm/splits.h"

namespace torii::shm {
namespace {

// Pages taken at once: many, to save system calls, but few at the end, so that nobody waits long
// for a straggler.
constexpr uint32_t kTakeMax = 64;
constexpr uint32_t kTakeMin = 16;
constexpr uint32_t kShort = 16;  // pages of a get at which each of them works once

// One that is shorter is shared after so many in a row that met no other: while several are under
// way the other process has its own work to do.
constexpr uint64_t kAmongOthersMin = 64 << 10;
constexpr unsigned kInRow = 4;

constexpr uint64_t kMappedMin = 128 << 10;  // if both have the other's memory mapped

uint32_t pages_of(uint64_t bytes) { return static_cast<uint32_t>((bytes + kPage - 1) / kPage); }

uint64_t taken_word(uint32_t serial, uint32_t pages) { return uint64_t{serial} << 32 | pages; }

// How many to take at least. The first to come takes rather more than half of a short get: the
// other one has yet to see that it is asked.
uint32_t least_taken(uint32_t pages, bool first) {
  if (pages > kShort) return std::min(pages / 2, kTakeMin);
  return first ? (5 * pages + 7) / 8 : pages;
}

// Takes the next pages of the get with that serial; false if none is left. *first and *count are
// those taken last, at the start 0: a counter that runs backwards must keep nobody here for ever.
bool take_pages(Split& split, uint32_t serial, uint32_t pages, uint32_t* first, uint32_t* count) {
  const uint32_t behind = *first + *count;
  uint64_t seen = split.taken.load(acquire);
  for (;;) {
    const auto next = static_cast<uint32_t>(seen);
    if (seen >> 32 != serial || next >= pages || next < behind) return false;
    const uint32_t left = pages - next;
    *first = next;
    const uint32_t least = least_taken(pages, next == 0);
    *count = std::min(std::clamp(left / 4, least, kTakeMax), left);
    if (split.taken.compare_exchange_weak(seen, seen + *count, acq_rel)) return true;
  }
}

}  // namespace

// A reader that has the memory mapped is as fast alone, unless the other process has the reader's
// memory mapped as well.
bool Splits::worth(const Rma& rma, Peer& peer, bool meets_others) const {
  if (rma.alone || rma.piece_count != 1 || peer.out.room < 2) return false;
  peer.gets_in_row = meets_others ? 0 : std::min(peer.gets_in_row + 1, kInRow);
  if (rma.bytes < kAmongOthersMin && peer.gets_in_row < kInRow) return false;
  if (!remote_[rma.remote].mapped()) return true;
  return rma.bytes >= kMappedMin &&
         exports_.arena_key(rma.pieces[0].iov_base, rma.bytes).serial != 0;
}

Status Splits::get(const Rma& rma, Peer& peer) {
  uint32_t number = 0;
  while (number < kSplits && all_[number].peer) number++;
  std::byte* line = number < kSplits ? peer.out.reserve_line() : nullptr;
  if (!line) return remote_.move(rma, peer, false);
  OpenSplit& open = all_[number];
  Split& split = peers_.header().splits[number];
  open = {&peer, open.serial + 1, pages_of(rma.bytes), 0, Status::ok, rma, rma.pieces[0]};
  written_by_others(open.piece.iov_base, rma.bytes);
  split.written.store(0, relaxed);
  split.refused.store(0, relaxed);
  split.taken.store(taken_word(open.serial, 0), release);
  const SplitRequest request{number,
                             open.serial,
                             remote_[rma.remote].address(rma),
                             reinterpret_cast<uintptr_t>(open.piece.iov_base),
                             rma.bytes,
                             exports_.arena_key(open.piece.iov_base, rma.bytes)};
  std::memcpy(line, &request, sizeof(request));
  // A sleeper is not woken for it.
  peer.out.publish_line(line, sizeof(request), kKindSplit);

  uint32_t first = 0, count = 0;
  while (take_pages(split, open.serial, open.pages, &first, &count)) {
    if (open.status == Status::ok) read_pages(open, first, count);
    open.done += count;
  }
  if (split.taken.load(relaxed) != taken_word(open.serial, open.pages)) {
    peers_.fail(peer, "the pages handed out of a get make no sense");
    open.peer = nullptr;
    return Status::peer_dead;
  }
  if (open.done == open.pages) peer.gets_in_row = 0;  // it has not joined in
  if (!over(open)) {
    open_++;
    return Status::pending;
  }
  open.peer = nullptr;
  return open.status;
}

void Splits::read_pages(OpenSplit& open, uint32_t first, uint32_t count) {
  const uint64_t offset = uint64_t{first} * kPage;
  const uint64_t bytes = std::min(uint64_t{count} * kPage, open.rma.bytes - offset);
  const iovec piece{static_cast<std::byte*>(open.piece.iov_base) + offset, bytes};
  Rma part = open.rma;
  part.remote_offset += offset;
  part.pieces = &piece;
  part.bytes = bytes;
  open.status = remote_.move(part, *open.peer, false);
}

// All pages are in place, or given up. If the other process could not write some, reads all of
// them.
bool Splits::over(OpenSplit& open) {
  Split& split = peers_.header().splits[&open - all_];
  const uint32_t written = split.written.load(acquire);
  const uint32_t owed = open.pages - open.done;
  if (written < owed) return false;
  if (written > owed) {
    peers_.fail(*open.peer, "it counts more pages of a get than there are");
    open.status = Status::peer_dead;
  } else if (split.refused.load(relaxed) && open.status == Status::ok) {
    read_pages(open, 0, open.pages);
  }
  return true;
}

unsigned Splits::progress() {
  unsigned count = 0;
  for (OpenSplit& open : all_) {
    if (!open.peer || !over(open)) continue;
    open.peer = nullptr;
    open_--;
    count++;
    sink_.done(open.rma.cookie, open.status);
  }
  return count;
}

// The peer has ended: what it took and did not write is missing.
void Splits::end(const Peer& peer) {
  for (OpenSplit& open : all_) {
    if (open.peer != &peer) continue;
    const bool whole = over(open);
    open.peer = nullptr;
    open_--;
    sink_.done(open.rma.cookie, whole ? open.status : Status::peer_dead);
  }
}

// Pages that were taken are written within microseconds, unless the process that took them has no
// processor, or is dead.
void Splits::await() {
  for (OpenSplit& open : all_)
    for (unsigned n = 0; open.peer && n < kClosingYields && !over(open); n++) sched_yield();
}

void Splits::join(Peer& peer, const std::byte* bytes, uint32_t length) {
  SplitRequest request{};
  std::memcpy(&request, bytes, std::min<size_t>(length, sizeof(request)));
  if (length != sizeof(request) || request.split >= kSplits || request.bytes == 0 ||
      request.bytes > kRemoteMax)
    return peers_.fail(peer, "it asks to share a get that makes no sense");
  // A stale request may name memory that is not exported any more.
  if (!peer.there || !exports_.readable(request.source, request.bytes)) return;
  std::byte* mapped = nullptr;
  if (request.arena.serial &&
      peer.details->arena->find(peer.details->segment.address, request.arena, request.destination,
                                request.bytes, &mapped) != Status::ok)
    mapped = nullptr;  // given back, if the request is stale: no mistake of the peer's
  if (!mapped && !peer.direct) return;
  Split& split = peer.there->splits[request.split];
  uint32_t first = 0, count = 0;
  while (take_pages(split, request.serial, pages_of(request.bytes), &first, &count)) {
    const uint64_t offset = uint64_t{first} * kPage;
    const uint64_t part = std::min(uint64_t{count} * kPage, request.bytes - offset);
    const iovec piece{reinterpret_cast<void*>(request.source + offset), part};
    Status status = Status::ok;
    if (mapped) {
      copy_bytes(mapped + offset, piece.iov_base, part);
      counters_.direct_bytes += part;
    } else {
      status = remote_.attach(peer, true, piece, request.destination + offset);
    }
    if (status != Status::ok) split.refused.store(1, relaxed);
    split.written.fetch_add(count, release);
    if (status != Status::ok) return;
  }
}

}  // namespace torii::shm
