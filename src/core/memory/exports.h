// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory of this process that peers may reach: the target's side. A request by frames is
// checked here against the export itself; what a driver does without asking, it may do only with a
// key that it guards (kGuard). The caller holds the interface's lock.
#pragma once

#include <atomic>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "core/memory/key.h"
#include "core/protocol/protocol.h"
#include "core/torii.h"
#include "core/tport/completion_queue.h"

namespace torii {

struct Export {
  void* owner = nullptr;  // the interface, for the C API
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  uint32_t access = 0;             // AccessRight bits
  std::atomic<uint64_t> label{0};  // what a peer must show; 0: nobody has access any more
  uint32_t busy = 0;               // operations of peers that use the memory
  void* freed = nullptr;           // the allocation to be given back when they have ended
  torii_done_t done = nullptr;
  void* arg = nullptr;
  struct Registration {
    Driver* driver;
    Region region;
  };
  std::vector<Registration> registrations;
  std::vector<std::byte> key;

  // The address of a range that lies inside; null otherwise.
  std::byte* at(uint64_t offset, uint64_t length) const {
    return offset > bytes || length > bytes - offset ? nullptr : base + offset;
  }
};

class Exports {
 public:
  Exports(Protocol& protocol, Counters& counters, CompletionQueue& completions, void* owner)
      : protocol_(protocol), counters_(counters), completions_(completions), owner_(owner) {}
  ~Exports();
  Exports(const Exports&) = delete;

  Status make(void* base, uint64_t bytes, uint32_t access, uint64_t tag, Export** out);
  // Nobody reaches the memory any more. `ok`: it is over; `pending`: operations that had begun
  // still use the memory, and `done` follows.
  Status end(Export* e, torii_done_t done, void* arg);
  // The memory is given back: exports in it are worth nothing from now on. One that is larger is of
  // more than this memory. False: operations of peers still use it; `unused` follows.
  bool revoke(void* base, uint64_t bytes);
  // Tells `object` that nobody uses memory any more that revoke() said is used.
  void on_unused(void (*unused)(void* object, void* base), void* object) {
    unused_ = unused;
    unused_object_ = object;
  }
  // For this process as its own peer: the export, if the label is its.
  Export* find(uint64_t handle, uint64_t label) const;

  // As Upper's, for requests to exported memory.
  void on_put(Arrival& arrival);
  void on_get(Arrival& arrival);
  void on_update(Arrival& arrival);

 private:
  bool nonce(uint64_t* out);
  void register_memory(Export* e, uint64_t label, KeyWriter* key);
  void close(Export* e);
  void release(Export* e);
  Export* admit(const Arrival& a, uint32_t right, uint64_t length, std::byte** at, Status* why);
  std::byte* integer(const Arrival& a, unsigned width, Status* why);
  void on_puts(Arrival& a);
  Status refused(const Arrival& a, const Export* e, const char* reason, Status why);
  static void over(Op* op, OpEvent event, Status status, uint64_t bytes);
  void give_back(Export* e);

  Protocol& protocol_;
  Counters& counters_;
  CompletionQueue& completions_;
  void* owner_;
  SlotPool<Export> exports_;
  std::multimap<const std::byte*, Export*> by_address_;
  std::unordered_map<void*, uint32_t> used_;  // revoked memory: its exports with operations
  void (*unused_)(void* object, void* base) = nullptr;
  void* unused_object_ = nullptr;
  std::array<uint64_t, 32> nonces_{};
  size_t nonces_left_ = 0;
};

}  // namespace torii
