// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/remote.h"

#include <cstring>
#include <utility>

#include "core/base/copy.h"
#include "core/base/log.h"

namespace torii::shm {

Status RemoteMemory::import(PeerId id, std::span<const std::byte> bytes, uint32_t* remote) {
  Key key;
  if (bytes.size() != sizeof(key) || !peers_.knows(id)) return Status::invalid;
  Peer& peer = peers_[id];
  if (peer.stage == Stage::down) return Status::peer_dead;
  if (peer.stage != Stage::up) return Status::invalid;
  std::memcpy(&key, bytes.data(), sizeof(key));
  if (key.owner != static_cast<uint32_t>(peer.details->segment.address.cookie.words[1]) ||
      key.bytes > ~uint64_t{0} - key.base)
    return refuse_key(peer, "is not of its sender, or goes round the end of memory");
  Import import{key, id, true, nullptr};
  Status status = Status::ok;
  if (key.access & kGuarded) {
    status = import_guarded(peer, &import);
  } else if (key.arena.serial) {
    std::byte* at = nullptr;
    status = map(peer, key.arena, key.base, key.bytes, &at);
    if (status == Status::unsupported) import.key.arena = {};
    if (status != Status::invalid) status = Status::ok;
  }
  if (status != Status::ok) return status;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(imports_.size()));
    imports_.push_back({});
  }
  *remote = free_.back();
  free_.pop_back();
  imports_[*remote] = std::move(import);
  return Status::ok;
}

Status RemoteMemory::import_guarded(Peer& peer, Import* import) {
  auto region = std::make_unique<Guarded>();
  const Status status =
      peer.details->arena->guarded(peer.details->segment.address, import->key.arena, region.get());
  if (status == Status::invalid)
    return refuse_key(peer, "is of an export that has ended, or of none");
  if (status != Status::ok) return status;
  import->key = {region->base, region->bytes, region->access, import->key.owner,
                 region->allocation};
  if (region->allocation.serial) {
    const Status found = map(peer, region->allocation, region->base, region->bytes, &region->at);
    if (found == Status::invalid) return found;
    if (found != Status::ok) import->key.arena = {};
  }
  region->view = peer.details->arena;
  import->guarded = std::move(region);
  return Status::ok;
}

// Where that memory is mapped here; `unsupported`: nowhere.
Status RemoteMemory::map(Peer& peer, const ArenaKey& key, uint64_t base, uint64_t bytes,
                         std::byte** at) {
  const Status status =
      peer.details->arena->find(peer.details->segment.address, key, base, bytes, at);
  if (status != Status::invalid) return status;
  return refuse_key(peer, "is of memory that was given back, or beyond its bounds");
}

Status RemoteMemory::refuse_key(const Peer& peer, const char* what) {
  counters_.bad_keys++;
  TORII_WARN("shm: a memory key of process %u is refused: it %s", peer.pid(), what);
  return Status::invalid;
}

void RemoteMemory::drop(uint32_t remote) {
  TORII_ASSERT(remote < imports_.size() && imports_[remote].used);
  imports_[remote].used = false;
  imports_[remote].guarded.reset();
  free_.push_back(remote);
}

Status RemoteMemory::reach(uint32_t remote, Reach* out) const {
  if (!guarded(remote) || !imports_[remote].used) return Status::invalid;
  const Guarded& region = *imports_[remote].guarded;
  *out = Reach{region.bytes, region.access,    region.label,
               region.at,    region.word.word, region.word.valid};
  return Status::ok;
}

[[gnu::hot]] Status RemoteMemory::move(const Rma& rma, Peer& peer, bool write) {
  const Import& import = imports_[rma.remote];
  Status status = import.mapped() ? move_mapped(rma, peer, write) : Status::unsupported;
  if (status == Status::unsupported) {
    if (!peer.direct) return Status::denied;
    const iovec remote{reinterpret_cast<void*>(import.address(rma)), rma.bytes};
    status = attach(peer, write, {rma.pieces, rma.piece_count}, {&remote, 1}, rma.bytes);
  }
  if (write || status != Status::ok || !import.guarded) return status;
  // The bytes read may be somebody else's by now if the export ended meanwhile.
  std::atomic_thread_fence(acquire);
  return import.guarded->word.ended(relaxed) ? Status::invalid : Status::ok;
}

Status RemoteMemory::move_mapped(const Rma& rma, Peer& peer, bool write) {
  const Import& import = imports_[rma.remote];
  std::byte* at = nullptr;
  const Status status = map(peer, import.key.arena, import.address(rma), rma.bytes, &at);
  if (status != Status::ok) return status;
  for (uint32_t i = 0; i < rma.piece_count; i++) {
    const iovec& piece = rma.pieces[i];
    copy_bytes(write ? at : piece.iov_base, write ? piece.iov_base : at, piece.iov_len);
    at += piece.iov_len;
  }
  counters_.direct_bytes += rma.bytes;
  return Status::ok;
}

// A proof that the pid is the peer's holds for a moment: it names nobody else before the peer has
// ended, was waited for, and all other pids have been given out.
[[gnu::hot]] Status RemoteMemory::attach(Peer& peer, bool write, AttachRanges local,
                                         AttachRanges remote, uint64_t bytes) {
  if (!peer.there || peer.closed()) return Status::peer_dead;
  const uint64_t moment = attach_moment();
  const bool proved = moment != 0 && moment == peer.proved;
  const Segment& segment = peer.details->segment;
  const AttachTarget target{static_cast<pid_t>(peer.pid()),
                            proved ? nullptr : &segment.address.cookie,
                            segment.self_address + kCookieOffset};
  int error = 0;
  const Status status = attach_move(target, write, local, remote, bytes, &error);
  if (status == Status::ok) peer.proved = moment;
  if (status == Status::denied && peer.direct) peers_.downgrade(peer, error);
  return status;
}

// --- several by one call -------------------------------------------------------------------------

Coalescer::Coalescer(Sink& sink, Counters& counters, RemoteMemory& remote)
    : sink_(sink), counters_(counters), remote_(remote) {
  made_.reserve(kOwedMost);
  reporting_.reserve(kOwedMost);
}

void Coalescer::add(const Rma& rma, const Import& import, Peer& peer, bool write) {
  if (count_ > 0 && (peer_ != &peer || write_ != write)) make();
  peer_ = &peer;
  write_ = write;
  all_[count_++] = {rma.cookie, import.address(rma), rma.pieces[0],
                    import.guarded ? import.guarded->word : ExportWord{}};
  bytes_ += rma.bytes;
  owed_++;
}

void Coalescer::make() {
  iovec local[kGatherMost], remote[kGatherMost];
  Status status[kGatherMost];
  uint32_t ranges = 0;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count_; i++) {
    const Operation& one = all_[i];
    status[i] = one.word.ended() ? Status::invalid : Status::ok;
    if (status[i] != Status::ok) continue;
    local[ranges] = one.piece;
    remote[ranges++] = {reinterpret_cast<void*>(one.remote), one.piece.iov_len};
    bytes += one.piece.iov_len;
  }
  const Status together = remote_.attach(*peer_, write_, {local, ranges}, {remote, ranges}, bytes);
  if (together == Status::ok) counters_.gathered_accesses += ranges;
  // One may fail where the others need not: each goes by itself.
  for (unsigned i = 0; i < count_ && together != Status::ok; i++)
    if (status[i] == Status::ok)
      status[i] = remote_.attach(*peer_, write_, all_[i].piece, all_[i].remote);
  std::atomic_thread_fence(acquire);
  for (unsigned i = 0; i < count_; i++) {  // as in RemoteMemory::move()
    if (!write_ && status[i] == Status::ok && all_[i].word.ended()) status[i] = Status::invalid;
    made_.push_back({all_[i].cookie, status[i]});
  }
  count_ = 0;
  bytes_ = 0;
}

unsigned Coalescer::report() {
  if (count_ > 0) make();
  reporting_.swap(made_);
  const auto count = static_cast<unsigned>(reporting_.size());
  owed_ -= count;
  for (const Made& one : reporting_) sink_.done(one.cookie, one.status);
  reporting_.clear();
  return count;
}

}  // namespace torii::shm
