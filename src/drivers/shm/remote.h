// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory of peers that this process may reach, and its own access to it: by load and store where it
// is mapped here, else by cross-memory attach.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/attach.h"
#include "drivers/interfaces.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/peers.h"
#include "drivers/shm/switch_points.h"

namespace torii::shm {

inline constexpr uint64_t kRemoteMax = 4 << 20;  // bytes of one put or get

struct Import {
  Key key{};
  PeerId peer = kNoPeer;
  bool used = false;
  std::unique_ptr<Guarded> guarded;  // null: the key is not guarded

  bool mapped() const { return key.arena.serial != 0; }
  uint64_t address(const Rma& rma) const { return key.base + rma.remote_offset; }
};

class RemoteMemory {
 public:
  RemoteMemory(Peers& peers, Counters& counters) : peers_(peers), counters_(counters) {}

  // As of Driver and MappedMemory.
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote);
  void drop(uint32_t remote);
  Status reach(uint32_t remote, Reach* out) const;

  const Import& operator[](uint32_t remote) const { return imports_[remote]; }
  bool guarded(uint32_t remote) const {
    return remote < imports_.size() && imports_[remote].guarded;
  }
  // May it be made? Its import and its peer.
  [[gnu::always_inline]] Status check(const Rma& rma, uint32_t access, const Import** import,
                                      Peer** peer) const;
  // Makes a put or get that was checked.
  Status move(const Rma& rma, Peer& peer, bool write);
  // By cross-memory attach. `denied`: the peer is not reached in this way any more.
  Status attach(Peer& peer, bool write, AttachRanges local, AttachRanges remote, uint64_t bytes);
  Status attach(Peer& peer, bool write, const iovec& local, uint64_t remote) {
    const iovec there{reinterpret_cast<void*>(remote), local.iov_len};
    return attach(peer, write, {&local, 1}, {&there, 1}, local.iov_len);
  }
  // A peer that makes no mistakes never sends that key: counted and reported.
  Status refuse_key(const Peer& peer, const char* what);

 private:
  Status import_guarded(Peer& peer, Import* import);
  Status map(Peer& peer, const ArenaKey& key, uint64_t base, uint64_t bytes, std::byte** at);
  Status move_mapped(const Rma& rma, Peer& peer, bool write);

  std::vector<Import> imports_;
  std::vector<uint32_t> free_;
  Peers& peers_;
  Counters& counters_;
};

inline Status RemoteMemory::check(const Rma& rma, uint32_t access, const Import** found,
                                  Peer** peer) const {
  if (rma.remote >= imports_.size() || rma.piece_count > kAttachPieces || rma.bytes > kRemoteMax)
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
  if (!(*peer)->up()) return Status::peer_dead;
  if (import.guarded && import.guarded->word.ended()) return Status::invalid;
  return (*peer)->direct || import.mapped() ? Status::ok : Status::denied;
}

static_assert(kGatherMost <= kAttachPieces);

// Puts or gets of one peer that are made together by one call of cross-memory attach, which costs
// as much as copying several KiB, whatever it copies:
// - While frames are handed up, a get of their sender waits for the frames that have arrived behind
//   it: they may request further gets.
// - Of several puts or gets between two polls, those of middling size wait until the next poll, or
//   until there are enough.
class Coalescer {
 public:
  Coalescer(Sink& sink, Counters& counters, RemoteMemory& remote);

  // Takes a put or get of one piece with a cookie, which done() follows. Those of another peer or
  // direction are made first.
  void add(const Rma& rma, const Import& import, Peer& peer, bool write);
  // Makes what was taken.
  void make();
  // The same, and reports all that was made.
  unsigned report();
  unsigned waiting() const { return count_; }
  bool full() const { return count_ == kGatherMost || bytes_ >= kGatherBytes; }
  // How many have no done() yet; is there room for one more?
  unsigned owed() const { return owed_; }
  bool has_room() const { return owed_ < kOwedMost; }

 private:
  static constexpr size_t kOwedMost = 1024;

  struct Operation {
    uint64_t cookie;
    uint64_t remote;  // address there
    iovec piece;
    ExportWord word;
  };
  struct Made {
    uint64_t cookie;
    Status status;
  };

  unsigned owed_ = 0;
  unsigned count_ = 0;
  uint64_t bytes_ = 0;
  Peer* peer_ = nullptr;
  bool write_ = false;
  Sink& sink_;
  Counters& counters_;
  RemoteMemory& remote_;
  std::vector<Made> made_;
  std::vector<Made> reporting_;
  Operation all_[kGatherMost];
};

}  // namespace torii::shm
