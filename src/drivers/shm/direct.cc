// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory for the user in an arena that peers map: put and get copy to and from it without a system
// call.
#include <unistd.h>

#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/shm/nic.h"

namespace torii {

Status ShmDriver::alloc(uint64_t bytes, uint64_t alignment, void** base) {
  if (!(caps_.flags & kGet) || forked()) return Status::unsupported;
  *base = make_arena() ? arena_->alloc(bytes, alignment) : nullptr;
  return *base ? Status::ok : Status::no_memory;
}

bool ShmDriver::make_arena() {
  if (!arena_ && !no_arena_) {
    std::string why;
    arena_ = shm::Arena::make(segment_.address.cookie, &why);
    no_arena_ = !arena_;
    if (no_arena_)
      TORII_WARN("%s; large messages from and to such memory take longer", why.c_str());
  }
  return arena_ != nullptr;
}

// In the child of a fork the memory is a copy, which stays; that of the parent is not the child's.
void ShmDriver::dealloc(void* base) {
  if (!forked()) arena_->dealloc(base);
}

bool ShmDriver::forked() const { return static_cast<uint32_t>(getpid()) != pid_; }

shm::ArenaKey ShmDriver::arena_key(const void* base, uint64_t bytes) const {
  if (!arena_ || !arena_->contains(base)) return {};
  return arena_->key(base, bytes);
}

// As ArenaView::find(); a key that is refused is counted and reported.
Status ShmDriver::find_direct(Peer& peer, const shm::ArenaKey& key, uint64_t base, uint64_t bytes,
                              std::byte** at) {
  shm::ArenaView& arena = peer.details->arena;
  const Status status = arena.find(peer.details->segment.address, key, base, bytes, at);
  if (status != Status::invalid) return status;
  return refuse_key(peer, "is of memory that was given back, or beyond its bounds");
}

// The owner's word takes the place of what the key says.
Status ShmDriver::import_guarded(Peer& peer, Import* import) {
  shm::ArenaView& arena = peer.details->arena;
  const shm::Address& owner = peer.details->segment.address;
  auto guarded = std::make_unique<GuardedImport>();
  shm::Guarded& word = guarded->word;
  guarded->slot = import->key.arena.slot;
  const Status status = arena.guarded(owner, import->key.arena, &word);
  if (status == Status::invalid)
    return refuse_key(peer, "is of an export that has ended, or of none");
  if (status != Status::ok) return status;
  import->key.base = word.base;
  import->key.bytes = word.bytes;
  import->key.access = word.access;
  import->key.arena = word.allocation;
  if (word.allocation.serial) {
    const Status found =
        arena.pin(owner, word.allocation, word.base, word.bytes, &guarded->at, &guarded->memory);
    if (found == Status::invalid)
      return refuse_key(peer, "is of memory that was given back, or beyond its bounds");
    if (found != Status::ok) import->key.arena = {};
  }
  import->guarded = std::move(guarded);
  return Status::ok;
}

Status ShmDriver::reach(uint32_t remote, Reach* out) {
  if (remote >= imports_.size() || !imports_[remote].used || !imports_[remote].guarded)
    return Status::invalid;
  const GuardedImport& import = *imports_[remote].guarded;
  *out = Reach{import.word.bytes, import.word.access, import.word.label,
               import.at,         import.word.word,   import.word.valid};
  return Status::ok;
}

// The pieces of a transfer that was checked. `unsupported`: the memory is not mapped.
Status ShmDriver::move_direct(Peer& peer, const Rma& rma, bool write) {
  const Key& key = imports_[rma.remote].key;
  std::byte* at = nullptr;
  const Status status = find_direct(peer, key.arena, key.base + rma.remote_offset, rma.bytes, &at);
  if (status != Status::ok) return status;
  for (uint32_t i = 0; i < rma.piece_count; i++) {
    const iovec& piece = rma.pieces[i];
    if (!piece.iov_len) continue;
    if (write) {
      copy_bytes(at, piece.iov_base, piece.iov_len);
    } else {
      copy_bytes(piece.iov_base, at, piece.iov_len);
    }
    at += piece.iov_len;
  }
  counters_.direct_bytes += rma.bytes;
  return Status::ok;
}

}  // namespace torii
