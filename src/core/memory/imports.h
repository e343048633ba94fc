// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory of peers that this process may reach: the initiator's side. An access that surely is
// allowed goes the direct way: load, store and the processor's atomics where the memory is mapped
// here, else the driver's put and get. Everything else is requested of the target by frames, and
// the target decides: so a refusal is known at both ends. The caller holds the interface's lock.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/atomics.h"
#include "core/base/copy.h"
#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "core/memory/exports.h"
#include "core/protocol/protocol.h"
#include "core/torii.h"
#include "core/tport/completion_queue.h"

namespace torii {

class Imports;
struct Flush;
struct Import;

// As torii_lock_word_t.
struct ImportedLock {
  Import* import = nullptr;
  uint64_t offset = 0;
  uint64_t held = 0;
};

// The operations under way to a peer. A flush ends an epoch, and is over when all up to it are.
struct Traffic {
  struct Epoch {
    uint32_t pending = 0;
    Status failed = Status::ok;  // of an operation that could tell nobody
    Flush* flush = nullptr;
  };
  std::deque<Epoch> epochs{1};
  Epoch* last = &epochs.back();  // kept, as its number, because a deque would compute them
  uint64_t number = 0;           // of the last
  uint64_t first = 0;            // of epochs.front()
  uint32_t pending = 0;          // accesses in all of them
  uint32_t gathers = 0;          // operations of several short writes each
  void* gathered = nullptr;      // an Imports::Operation: short writes that have not left yet

  Epoch& of(uint64_t which) {
    return which == first ? epochs.front() : which == number ? *last : epochs[which - first];
  }
};

struct Import {
  Imports* imports = nullptr;
  void* owner = nullptr;  // the interface, for the C API
  // Where the memory is mapped here; null: nowhere. Only while *guard is `valid`.
  std::byte* at = nullptr;
  const std::atomic<uint64_t>* guard = nullptr;
  uint64_t valid = 0;
  uint64_t bytes = 0;   // the owner's word if there is a direct way
  uint32_t access = 0;  // AccessRight bits, as above
  uint32_t driver = 0;  // those that the driver serves
  uint32_t remote = kNoRemote;
  Peer* peer = nullptr;
  uint64_t handle = 0;  // of the export in its owner
  uint64_t label = 0;
  Traffic* traffic = nullptr;
  uint32_t pending = 0;        // accesses that have not ended
  Status failed = Status::ok;  // of one that could tell nobody
  bool ending = false;
  bool later = false;  // what the driver did last was not over in the call

  // The address of a range that may be touched here and now; null: ask the target.
  std::byte* direct(uint64_t offset, uint64_t length, uint32_t right) const {
    if (__builtin_expect(!at || !(access & right) || offset > bytes || length > bytes - offset ||
                             guard->load(std::memory_order_acquire) != valid,
                         0))
      return nullptr;
    return at + offset;
  }
};

class Imports {
 public:
  Imports(Protocol& protocol, Counters& counters, CompletionQueue& completions, Exports& exports,
          void* owner)
      : protocol_(protocol),
        counters_(counters),
        completions_(completions),
        exports_(exports),
        owner_(owner) {}
  ~Imports();
  Imports(const Imports&) = delete;

  // `invalid`: no key. A fault of a key in good form shows when it is used.
  Status make(Peer& peer, std::span<const std::byte> key, uint64_t tag, Import** out);
  // Operations that are pending go on.
  void end(Import* import);

  // As torii_read, torii_write, torii_atomic and torii_flush.
  Status read(Import& import, uint64_t offset, void* base, uint64_t bytes, torii_done_t done,
              void* arg) {
    if (load(import, offset, base, bytes)) return Status::ok;
    return read_any(import, offset, base, bytes, done, arg);
  }
  Status write(Import& import, uint64_t offset, const void* base, uint64_t bytes, bool local,
               torii_done_t done, void* arg) {
    if (store(import, offset, base, bytes)) return Status::ok;
    return write_any(import, offset, base, bytes, local, done, arg);
  }
  // If it is over in the call, and so needs no operation. False: nothing happened.
  bool read_now(Import& import, uint64_t offset, void* base, uint64_t bytes) {
    return load(import, offset, base, bytes) || transfer_now(import, offset, base, bytes, true);
  }
  bool write_now(Import& import, uint64_t offset, const void* base, uint64_t bytes) {
    return store(import, offset, base, bytes) ||
           transfer_now(import, offset, const_cast<void*>(base), bytes, false);
  }
  Status atomic(Import& import, uint64_t offset, AtomicOp op, unsigned width, uint64_t operand,
                uint64_t compare, void* old, torii_done_t done, void* arg) {
    std::byte* const at = import.direct(offset, width, kMayUpdate);
    if (__builtin_expect(at && reinterpret_cast<uintptr_t>(at) % width == 0, 1)) {
      store_old(old, width, apply_atomic(at, width, op, operand, compare));
      ++counters_.direct_accesses;
      return Status::ok;
    }
    return atomic_any(import, offset, op, width, operand, compare, old, nullptr, done, arg);
  }
  // As torii_atomic_locked, of one peer; `again`: the lock is not free.
  Status atomic_locked(Import& import, uint64_t offset, AtomicOp op, unsigned width,
                       uint64_t operand, uint64_t compare, void* old, const ImportedLock& lock,
                       torii_done_t done, void* arg);
  // As torii_import_test.
  static Status test(Import& import) {
    if (import.pending > 0) Protocol::look(*import.peer);
    return import.pending > 0 ? Status::pending : std::exchange(import.failed, Status::ok);
  }
  // Flushes the operations to all peers if `peer` is null.
  Status flush(Peer* peer, torii_done_t done, void* arg);

  // Short writes wait for others?
  bool gathers() const { return !gathering_.empty(); }
  // Sends them.
  void push();

  // No more direct ways to that peer.
  void on_peer_down(Peer& peer);

 private:
  enum class Kind : uint8_t { read, write, atomic };
  struct Operation {
    Import* import = nullptr;
    Imports* imports = nullptr;
    torii_done_t done = nullptr;
    void* arg = nullptr;
    Kind kind = Kind::read;
    bool local = false;    // write: complete when the memory may be reused
    bool in_call = false;  // the call that began it has not returned
    bool left = false;     // it said so during the call
    // For an atomic operation:
    bool locked = false;  // the answer may be that its lock is not free
    RemoteAtomic atomic;
    uint64_t old = 0;
    uint64_t epoch = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::byte* base = nullptr;
    std::byte* gathered = nullptr;  // several short writes, each behind its place; `bytes` in all
  };

  // False: the memory is not mapped, or the owner has to be asked.
  bool load(const Import& import, uint64_t offset, void* base, uint64_t bytes) {
    const std::byte* const at = import.direct(offset, bytes, kMayRead);
    if (!at) return false;
    load_bytes(base, at, bytes);
    // Had it ended meanwhile, these may be somebody else's: then the target is asked, and refuses.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (__builtin_expect(import.guard->load(std::memory_order_relaxed) != import.valid, 0))
      return false;
    ++counters_.direct_accesses;
    return true;
  }
  bool store(const Import& import, uint64_t offset, const void* base, uint64_t bytes) {
    std::byte* const at = import.direct(offset, bytes, kMayWrite);
    if (!at) return false;
    store_bytes(at, base, bytes);
    stored_ = true;
    ++counters_.direct_accesses;
    return true;
  }
  static void store_old(void* old, unsigned width, uint64_t value) {
    if (!old) return;
    const uint32_t half = uint32_t(value);
    // Two calls: of one with two sizes the compiler makes rep movsq.
    if (width == 8) {
      std::memcpy(old, &value, sizeof(value));
    } else {
      std::memcpy(old, &half, sizeof(half));
    }
  }
  Status read_any(Import& import, uint64_t offset, void* base, uint64_t bytes, torii_done_t done,
                  void* arg);
  Status write_any(Import& import, uint64_t offset, const void* base, uint64_t bytes, bool local,
                   torii_done_t done, void* arg);
  Status atomic_any(Import& import, uint64_t offset, AtomicOp op, unsigned width, uint64_t operand,
                    uint64_t compare, void* old, const ImportedLock* lock, torii_done_t done,
                    void* arg);
  void reach(Import* import, const ExportKey& key);
  // The driver can, and the export allows it.
  static bool by_driver(const Import& import, uint64_t offset, uint64_t bytes, uint32_t right) {
    return (import.driver & right) && offset <= import.bytes && bytes <= import.bytes - offset &&
           bytes != 0 && !import.ending;
  }
  bool at_once(const Import& import, uint64_t offset, void* base, uint64_t bytes, bool reading);
  bool transfer_now(Import& import, uint64_t offset, void* base, uint64_t bytes, bool reading);
  Traffic& traffic_with(Peer& peer);
  Status post(Import& import, uint64_t offset, void* base, uint64_t bytes, bool reading,
              torii_done_t done, void* arg);
  static void posted_event(const RemoteAccess& over, Status status);
  uint64_t count(Import& import);
  void uncount(Import& import, uint64_t epoch);
  void end_epochs(Traffic& traffic);
  Operation* operation(Import& import, Kind kind, uint64_t offset, uint64_t bytes,
                       torii_done_t done, void* arg);
  Operation* begin(Import& import, Kind kind, uint64_t offset, uint64_t bytes, torii_done_t done,
                   void* arg);
  bool gather(Import& import, uint64_t offset, const void* base, uint64_t bytes);
  void send_gathered(Traffic& traffic);
  Status transfer_later(Operation* op);
  Status transfer_by_frames(Operation* op);
  Status begin_frames(Operation* op);
  Status begin_atomic(Operation* op, const ImportedLock* lock);
  void ask_again(Operation* op);
  void tell(Import& import, uint64_t epoch, Status status, uint64_t bytes, torii_done_t done,
            void* arg);
  void tell_refused(const Operation* op, Status status);
  void end(Operation* op, Status status);
  void forget(Operation* op);
  void release(Import* import);
  static Status lost(OpEvent event, Status status);
  static void driver_event(const RemoteAccess& over, Status status);
  static void frame_event(Op* op, OpEvent event, Status status, uint64_t bytes);

  Protocol& protocol_;
  Counters& counters_;
  CompletionQueue& completions_;
  Exports& exports_;
  void* owner_;
  SlotPool<Import> imports_;
  SlotPool<Operation> operations_;
  std::unordered_map<Peer*, std::unique_ptr<Traffic>> traffic_;
  std::vector<Traffic*> gathering_;                  // those with something gathered
  std::vector<std::unique_ptr<std::byte[]>> spare_;  // memory of gathered writes
  uint32_t pending_ = 0;                             // accesses to all peers
  bool failed_ = false;                              // an epoch may have failed
  bool stored_ = false;                              // by this process itself, since the last fence
};

}  // namespace torii
