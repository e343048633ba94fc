// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Exported and imported memory; put and get by this process alone, which is by cross-memory attach
// unless the memory is mapped (direct.cc).
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/memcheck.h"
#include "drivers/shm/attach.h"
#include "drivers/shm/nic.h"

namespace torii {

Status ShmDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (!(caps_.flags & kGet)) return Status::unsupported;
  if ((!base && bytes) || !access ||
      (access & ~uint32_t{kRemoteRead | kRemoteWrite | kRemoteUpdate | kGuarded}))
    return Status::invalid;
  const bool guarded = access & kGuarded;
  if (guarded && (!(caps_.flags & kGuard) || forked() || !make_arena())) return Status::unsupported;
  *out = Region{base, bytes, access, {}, 0, out->label};
  const uint32_t rights = access & ~uint32_t{kGuarded};
  const Key key{reinterpret_cast<uintptr_t>(base), bytes, access,
                static_cast<uint32_t>(segment_.address.cookie.words[1]),
                guarded ? arena_->guard(base, bytes, rights, out->label) : arena_key(base, bytes)};
  if (guarded && !key.arena.serial) return Status::no_memory;
  std::memcpy(out->key.data(), &key, sizeof(key));
  if (access & (kRemoteWrite | kRemoteUpdate)) written_by_others(base, bytes);
  if (!(access & kRemoteRead)) return Status::ok;
  if (free_exports_.empty()) {
    free_exports_.push_back(static_cast<uint32_t>(exports_.size()));
    exports_.push_back({});
  }
  out->driver_data = free_exports_.back();
  free_exports_.pop_back();
  exports_[out->driver_data] = {key.base, bytes};
  return Status::ok;
}

void ShmDriver::dereg(Region& region) {
  if ((region.access & kGuarded) && !forked()) {
    Key key;
    std::memcpy(&key, region.key.data(), sizeof(key));
    arena_->unguard(key.arena.slot);
  }
  if (region.access & kRemoteRead) {
    exports_[region.driver_data] = {};
    free_exports_.push_back(static_cast<uint32_t>(region.driver_data));
  }
  region = Region{};
}

Status ShmDriver::import(PeerId id, std::span<const std::byte> bytes, uint32_t* remote) {
  if (!(caps_.flags & kGet)) return Status::unsupported;
  Key key;
  if (bytes.size() != sizeof(key) || id >= peers_.size()) return Status::invalid;
  Peer& peer = peers_[id];
  if (peer.stage == Stage::down) return Status::peer_dead;
  if (peer.stage != Stage::up) return Status::invalid;
  std::memcpy(&key, bytes.data(), sizeof(key));
  if (key.owner != static_cast<uint32_t>(peer.details->segment.address.cookie.words[1]) ||
      key.bytes > ~uint64_t{0} - key.base)
    return refuse_key(peer, "is not of its sender, or goes round the end of memory");
  Import import{key, id, true, nullptr};
  if (key.access & kGuarded) {
    if (const Status status = import_guarded(peer, &import); status != Status::ok) return status;
  } else if (key.arena.serial) {
    std::byte* at = nullptr;
    const Status status = find_direct(peer, key.arena, key.base, key.bytes, &at);
    if (status == Status::invalid) return status;
    if (status == Status::unsupported) import.key.arena = {};
  }
  if (free_imports_.empty()) {
    *remote = static_cast<uint32_t>(imports_.size());
    imports_.push_back({});
  } else {
    *remote = free_imports_.back();
    free_imports_.pop_back();
  }
  imports_[*remote] = std::move(import);
  return Status::ok;
}

// A peer that makes no mistakes never sends it: counted, reported the first few times.
Status ShmDriver::refuse_key(const Peer& peer, const char* what) {
  constexpr uint64_t kReported = 5;
  if (++counters_.bad_keys <= kReported)
    TORII_WARN("shm: a memory key of process %u is refused: it %s",
               peer.details->segment.address.pid, what);
  return Status::invalid;
}

void ShmDriver::drop(uint32_t remote) {
  TORII_ASSERT(remote < imports_.size() && imports_[remote].used);
  imports_[remote].used = false;
  imports_[remote].guarded.reset();
  free_imports_.push_back(remote);
}

// Not what is mapped, nor of a process that sleeps.
bool ShmDriver::sooner_sent(uint32_t remote) const {
  const Import& import = imports_[remote];
  const Peer& peer = peers_[import.peer];
  return !import.key.arena.serial && peer.there &&
         peer.there->sleeping.load(std::memory_order_relaxed) == 0;
}

// A transfer that was checked.
[[gnu::hot]] Status ShmDriver::move(const Rma& rma, Peer& peer, bool write) {
  Status status = Status::unsupported;
  if (imports_[rma.remote].key.arena.serial) status = move_direct(peer, rma, write);
  if (status != Status::unsupported) return still_valid(rma, write, status);
  if (!peer.direct) return Status::denied;
  int error = 0;
  status = attach(peer, write, imports_[rma.remote].key.base + rma.remote_offset, rma.pieces,
                  rma.piece_count, rma.bytes, &error);
  if (status == Status::denied) downgrade(peer, error);
  return still_valid(rma, write, status);
}

// What was read may be somebody else's by now if the export ended meanwhile.
inline Status ShmDriver::still_valid(const Rma& rma, bool write, Status status) const {
  const GuardedImport* const guarded = imports_[rma.remote].guarded.get();
  if (write || status != Status::ok || !guarded) return status;
  std::atomic_thread_fence(std::memory_order_acquire);
  return guarded->word.word->load(std::memory_order_relaxed) == guarded->word.valid
             ? Status::ok
             : Status::invalid;
}

// Whom a call of cross-memory attach is to reach. A proof that the pid is the peer's holds for a
// moment: it names nobody else before the peer has ended, was waited for, and all other pids have
// been given out. peer_dead: it has closed, there is nothing to reach.
Status ShmDriver::attach_target(const Peer& peer, uint64_t moment, shm::Target* out) {
  if (!peer.there ||
      peer.there->life.load(std::memory_order_acquire) != static_cast<uint32_t>(shm::Life::open))
    return Status::peer_dead;
  const bool proved = moment != 0 && moment == peer.proved;
  const shm::Segment& segment = peer.details->segment;
  *out = {static_cast<pid_t>(segment.address.pid), proved ? nullptr : &segment.address.cookie,
          segment.self_address + shm::kCookieOffset};
  return Status::ok;
}

// By cross-memory attach.
[[gnu::hot]] Status ShmDriver::attach(Peer& peer, bool write, uint64_t remote, const iovec* pieces,
                                      uint32_t piece_count, uint64_t bytes, int* error) {
  const uint64_t moment = shm::attach_moment();
  const shm::Transfer transfer{remote, pieces, piece_count, bytes};
  shm::Target target;
  Status status = attach_target(peer, moment, &target);
  if (status != Status::ok) return status;
  status = write ? shm::attach_write(target, transfer, error)
                 : shm::attach_read(target, transfer, error);
  if (status == Status::ok) peer.proved = moment;
  return status;
}

// From now on frames carry everything between us and that peer.
void ShmDriver::downgrade(Peer& peer, int error) {
  peer.direct = false;
  counters_.remote_read_fallback++;
  peer.details->note = format_text(
      "shm: cross-memory attach to process %u is refused (%s): large messages are copied twice; "
      "allow process_vm_readv in the seccomp profile, set kernel.yama.ptrace_scope to 0 or 1, run "
      "both as one user and dumpable",
      peer.details->segment.address.pid, strerror(error));
  TORII_INFO("%s", peer.details->note.c_str());
}

}  // namespace torii
