// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/imports.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/tport/ports.h"

namespace torii {

namespace {

constexpr uint64_t kRefusalsNamed = 5;  // refusals that are named in the log

constexpr AccessRight right_to(bool reading) { return reading ? kMayRead : kMayWrite; }

// By the driver; the target then has the word.
constexpr bool is_refusal(Status status) {
  return status == Status::denied || status == Status::invalid || status == Status::unsupported;
}

// Writes that share a frame.
constexpr uint64_t kGatheredEach = 2048;
constexpr uint64_t kGatheredMost = 16
                                   << 10;  // of all in a frame; the next ones overlap with its way
constexpr uint32_t kGatheredFrames = 64;   // under way to a peer, for they are copies

}  // namespace

// Waits for one epoch of each peer it concerns.
struct Flush {
  unsigned epochs = 1;  // and the call itself
  Status status = Status::ok;
  torii_done_t done;
  void* arg;
};

Imports::~Imports() {
  for (auto& [peer, traffic] : traffic_)
    for (auto& epoch : traffic->epochs)
      if (epoch.flush && --epoch.flush->epochs == 0) delete epoch.flush;
  operations_.for_each([](Operation* op) { delete[] op->gathered; });
  imports_.for_each([](Import* import) {
    if (import->remote != kNoRemote) import->peer->driver->drop(import->remote);
  });
}

Traffic& Imports::traffic_with(Peer& peer) {
  auto& traffic = traffic_[&peer];
  if (!traffic) traffic = std::make_unique<Traffic>();
  return *traffic;
}

Status Imports::make(Peer& peer, std::span<const std::byte> bytes, uint64_t tag, Import** out) {
  ExportKey key;
  if (!parse_key(bytes, &key)) return Status::invalid;
  if (peer.state != PeerState::up) return Protocol::down_status(peer);
  Import* const import = imports_.get();
  if (!import) return Status::no_memory;
  import->imports = this;
  import->owner = owner_;
  import->peer = &peer;
  import->handle = key.handle;
  import->label = access_label(key.nonce, tag);
  import->traffic = &traffic_with(peer);
  reach(import, key);
  *out = import;
  return Status::ok;
}

// Looks for a direct way; what it may do and where it ends is the word of the owner, not the key's.
void Imports::reach(Import* import, const ExportKey& key) {
  Peer& peer = *import->peer;
  if (protocol_.is_self(peer)) {
    const Export* const e = exports_.find(import->handle, import->label);
    if (!e) return;
    import->bytes = e->bytes;
    import->access = e->access;
    import->at = e->base;
    import->guard = &e->label;
    import->valid = import->label;
    return;
  }
  const DriverCaps& caps = peer.driver->caps();
  const auto driver_key = key.of(protocol_.driver_name(peer.rail));
  Reach reach;
  MappedMemory* const mapped = peer.driver->mapped_memory();
  if (!mapped || driver_key.size() != caps.key_bytes ||
      peer.driver->import(peer.route, driver_key, &import->remote) != Status::ok) {
    import->remote = kNoRemote;
    return;
  }
  if (mapped->reach(import->remote, &reach) != Status::ok || reach.label != import->label) {
    peer.driver->drop(import->remote);
    import->remote = kNoRemote;
    return;
  }
  import->bytes = reach.bytes;
  import->access = (reach.access & kRemoteRead ? kMayRead : 0u) |
                   (reach.access & kRemoteWrite ? kMayWrite : 0u) |
                   (reach.access & kRemoteUpdate ? kMayUpdate : 0u);
  import->driver =
      import->access & ((caps.flags & kGet ? kMayRead : 0u) | (caps.flags & kPut ? kMayWrite : 0u) |
                        (caps.flags & kAtomic ? kMayUpdate : 0u));
  import->at = reach.at;
  import->guard = reach.guard;
  import->valid = reach.valid;
}

void Imports::end(Import* import) {
  import->at = nullptr;
  import->ending = true;
  if (import->pending == 0) release(import);
}

void Imports::release(Import* import) {
  if (import->remote != kNoRemote) import->peer->driver->drop(import->remote);
  imports_.put(import);
}

void Imports::on_peer_down(Peer& peer) {
  imports_.for_each([&](Import* import) {
    if (import->peer == &peer) import->at = nullptr;
  });
}

// --- what is under way ----------------------------------------------------------------------

// One more access. Returns its epoch.
inline uint64_t Imports::count(Import& import) {
  Traffic& traffic = *import.traffic;
  ++pending_;
  ++import.pending;
  ++traffic.pending;
  ++traffic.last->pending;
  return traffic.number;
}

// It is no longer under way: flushes that waited for it may be over.
inline void Imports::uncount(Import& import, uint64_t epoch) {
  Traffic& traffic = *import.traffic;
  --pending_;
  --traffic.pending;
  if (--traffic.of(epoch).pending == 0) end_epochs(traffic);
  if (--import.pending == 0 && import.ending) release(&import);
}

void Imports::end_epochs(Traffic& traffic) {
  while (traffic.first != traffic.number && traffic.epochs.front().pending == 0) {
    const Traffic::Epoch over = traffic.epochs.front();
    Flush* const flush = over.flush;
    traffic.epochs.pop_front();
    ++traffic.first;
    if (over.failed != Status::ok) flush->status = over.failed;
    if (--flush->epochs > 0) continue;
    torii_result_t result{};
    result.code = code_of(flush->status);
    completions_.push(flush->done, flush->arg, result);
    delete flush;
  }
}

// The end of an access. Where nobody is called, torii_import_test and the flush that waits for it
// will tell what failed.
inline void Imports::tell(Import& import, uint64_t epoch, Status status, uint64_t bytes,
                          torii_done_t done, void* arg) {
  if (done) {
    torii_result_t& result = completions_.push(done, arg);
    result.source = reinterpret_cast<torii_peer_t*>(import.peer);
    if (status == Status::ok) {
      result.bytes = bytes;
    } else {
      result.code = status == Status::again ? TORII_EMPTY : code_of(status);
    }
    return;
  }
  if (status == Status::ok) return;
  Traffic& traffic = *import.traffic;
  traffic.of(epoch).failed = status;
  import.failed = status;
  failed_ = true;
}

// --- operations ----------------------------------------------------------------------------

// One whose epoch is still to be said.
inline Imports::Operation* Imports::operation(Import& import, Kind kind, uint64_t offset,
                                              uint64_t bytes, torii_done_t done, void* arg) {
  Operation* const op = operations_.get();
  if (!op) return nullptr;
  op->import = &import;
  op->imports = this;
  op->kind = kind;
  op->offset = offset;
  op->bytes = bytes;
  op->done = done;
  op->arg = arg;
  return op;
}

Imports::Operation* Imports::begin(Import& import, Kind kind, uint64_t offset, uint64_t bytes,
                                   torii_done_t done, void* arg) {
  Operation* const op = operation(import, kind, offset, bytes, done, arg);
  if (op) op->epoch = count(import);
  return op;
}

void Imports::forget(Operation* op) {
  Import& import = *op->import;
  const uint64_t epoch = op->epoch;
  if (op->gathered) {
    spare_.emplace_back(op->gathered);
    --import.traffic->gathers;
  }
  operations_.put(op);
  uncount(import, epoch);
}

void Imports::tell_refused(const Operation* op, Status status) {
  if (++counters_.accesses_refused > kRefusalsNamed) return;
  TORII_WARN("%s of %llu bytes at offset %llu was refused by %s: %s",
             op->gathered              ? "one of several writes"
             : op->kind == Kind::read  ? "a read"
             : op->kind == Kind::write ? "a write"
                                       : "an atomic operation",
             static_cast<unsigned long long>(op->bytes),
             static_cast<unsigned long long>(op->offset),
             protocol_.describe(*op->import->peer).c_str(),
             status == Status::denied ? "the key is stale, of another tag, or gives no such right"
                                      : "out of bounds, or not aligned");
}

// Ends an operation whose call answered `pending`.
void Imports::end(Operation* op, Status status) {
  if (status == Status::denied || status == Status::invalid) tell_refused(op, status);
  tell(*op->import, op->epoch, status, op->bytes, op->done, op->arg);
  forget(op);
}

// While something is under way, the driver may rather have the owner's help, which takes a while;
// and if it had it the last time, it will again.
inline bool Imports::at_once(const Import& import, uint64_t offset, void* base, uint64_t bytes,
                             bool reading) {
  if (import.pending > 0 || import.later ||
      !protocol_.access_now(*import.peer, import.remote, offset, base, bytes, reading))
    return false;
  ++counters_.direct_accesses;
  return true;
}

[[gnu::hot]] bool Imports::transfer_now(Import& import, uint64_t offset, void* base, uint64_t bytes,
                                        bool reading) {
  return by_driver(import, offset, bytes, right_to(reading)) &&
         at_once(import, offset, base, bytes, reading);
}

// By the driver in one piece, which needs no operation. Nothing happened if it is a refusal, and if
// it is `again`: then the driver has no room.
[[gnu::always_inline]] inline Status Imports::post(Import& import, uint64_t offset, void* base,
                                                   uint64_t bytes, bool reading, torii_done_t done,
                                                   void* arg) {
  if (!by_driver(import, offset, bytes, right_to(reading))) return Status::unsupported;
  if (import.traffic->gathered) send_gathered(*import.traffic);
  if (at_once(import, offset, base, bytes, reading)) return Status::ok;
  const AccessOwner owner{&Imports::posted_event,
                          &import,
                          import.traffic->number,
                          {reinterpret_cast<uintptr_t>(done), reinterpret_cast<uintptr_t>(arg)}};
  const Status status =
      protocol_.try_access(*import.peer, import.remote, offset, base, bytes, reading, owner);
  import.later = status == Status::pending;
  if (import.later) count(import);
  if (status == Status::ok) ++counters_.direct_accesses;
  return status;
}

[[gnu::hot]] Status Imports::read_any(Import& import, uint64_t offset, void* base, uint64_t bytes,
                                      torii_done_t done, void* arg) {
  const Status posted = post(import, offset, base, bytes, true, done, arg);
  if (posted != Status::again && !is_refusal(posted)) return posted;
  send_gathered(*import.traffic);
  Operation* const op = begin(import, Kind::read, offset, bytes, done, arg);
  if (!op) return Status::no_memory;
  op->base = static_cast<std::byte*>(base);
  return posted == Status::again ? transfer_later(op) : transfer_by_frames(op);
}

[[gnu::hot]] Status Imports::write_any(Import& import, uint64_t offset, const void* base,
                                       uint64_t bytes, bool local, torii_done_t done, void* arg) {
  const Status posted = post(import, offset, const_cast<void*>(base), bytes, false, done, arg);
  if (posted != Status::again && !is_refusal(posted)) return posted;
  if ((local || !done) && gather(import, offset, base, bytes))
    return done ? Status::ok : Status::pending;
  send_gathered(*import.traffic);
  Operation* const op = begin(import, Kind::write, offset, bytes, done, arg);
  if (!op) return Status::no_memory;
  op->base = static_cast<std::byte*>(const_cast<void*>(base));
  op->local = local && done;
  return posted == Status::again ? transfer_later(op) : transfer_by_frames(op);
}

// A short write for which the target has to be asked, while something is under way there, goes with
// those behind it: they share a frame and an answer, and the way through all layers. False: it does
// not. Nobody but the flush is told of its end.
bool Imports::gather(Import& import, uint64_t offset, const void* base, uint64_t bytes) {
  Traffic& traffic = *import.traffic;
  if (bytes == 0 || bytes > kGatheredEach || traffic.pending == 0 ||
      traffic.gathers > kGatheredFrames || offset >> wire::Place::kOffsetBits ||
      by_driver(import, offset, bytes, kMayWrite))
    return false;
  auto* op = static_cast<Operation*>(traffic.gathered);
  const uint64_t more = wire::Place::kBytes + bytes;
  const uint64_t most = std::min(protocol_.puts_max(*import.peer), kGatheredMost);
  if (2 * more > most) return false;
  if (op && (op->import != &import || op->bytes + more > most)) {
    send_gathered(traffic);
    op = nullptr;
  }
  if (!op) {
    op = begin(import, Kind::write, 0, 0, nullptr, nullptr);
    if (!op) return false;
    if (spare_.empty()) {
      op->gathered = new std::byte[kGatheredMost];
    } else {
      op->gathered = spare_.back().release();
      spare_.pop_back();
    }
    op->base = op->gathered;
    traffic.gathered = op;
    ++traffic.gathers;
    gathering_.push_back(&traffic);
  }
  std::byte* const out = op->gathered + op->bytes;
  wire::write_place({offset, static_cast<uint16_t>(bytes)}, out);
  copy_bytes(out + wire::Place::kBytes, base, bytes);
  op->bytes += more;
  ++counters_.asked_accesses;
  return true;
}

void Imports::send_gathered(Traffic& traffic) {
  if (!traffic.gathered) return;
  auto* const op = static_cast<Operation*>(std::exchange(traffic.gathered, nullptr));
  std::erase(gathering_, &traffic);
  const Status status = begin_frames(op);
  if (status != Status::ok && status != Status::pending) end(op, status);
}

void Imports::push() {
  while (!gathering_.empty()) send_gathered(*gathering_.back());
}

// The driver's refusals are asked once more of the target, by an operation in its place.
void Imports::posted_event(const RemoteAccess& over, Status status) {
  Import& import = *static_cast<Import*>(over.owner.object);
  Imports& self = *import.imports;
  const uint64_t epoch = over.owner.argument;
  const auto done = reinterpret_cast<torii_done_t>(over.owner.words[0]);
  auto* const arg = reinterpret_cast<void*>(over.owner.words[1]);
  if (__builtin_expect(is_refusal(status), 0)) {
    Operation* const op = self.operation(import, over.reading ? Kind::read : Kind::write,
                                         over.offset, over.bytes, done, arg);
    if (op) {
      op->epoch = epoch;
      op->base = static_cast<std::byte*>(over.base);
      return self.ask_again(op);
    }
  }
  if (status == Status::ok) ++self.counters_.direct_accesses;
  self.tell(import, epoch, status, over.bytes, done, arg);
  self.uncount(import, epoch);
}

// By the driver, when it has room.
Status Imports::transfer_later(Operation* op) {
  Import& import = *op->import;
  const AccessOwner owner{&Imports::driver_event, this, reinterpret_cast<uintptr_t>(op)};
  const Status status = protocol_.access_later(*import.peer, import.remote, op->offset, op->base,
                                               op->bytes, op->kind == Kind::read, owner);
  import.later = status == Status::pending;
  if (import.later) return status;
  if (is_refusal(status)) return transfer_by_frames(op);
  if (status == Status::ok) ++counters_.direct_accesses;
  forget(op);
  return status;
}

// An operation that the driver refused is requested of the target.
void Imports::ask_again(Operation* op) {
  op->local = false;
  const Status status = op->kind == Kind::atomic ? begin_atomic(op, nullptr) : begin_frames(op);
  if (status != Status::ok && status != Status::pending) end(op, status);
}

void Imports::driver_event(const RemoteAccess& over, Status status) {
  auto* const self = static_cast<Imports*>(over.owner.object);
  auto* const operation = reinterpret_cast<Operation*>(over.owner.argument);
  if (is_refusal(status)) return self->ask_again(operation);
  if (status == Status::ok) {
    ++self->counters_.direct_accesses;
    if (operation->kind == Kind::atomic)
      store_old(operation->base, operation->atomic.width, over.value);
  }
  self->end(operation, status);
}

Status Imports::transfer_by_frames(Operation* op) {
  const Status status = begin_frames(op);
  if (status != Status::pending && !op->left) forget(op);
  return status;
}

// `ok`: a write whose memory may be reused; its end is still to come.
Status Imports::begin_frames(Operation* op) {
  Import& import = *op->import;
  const Owner owner{&Imports::frame_event, this, op, {0, 0}};
  const bool nested = op->in_call;
  Envelope env;
  env.space = Space::memory;
  env.bits = import.handle;
  env.hdr_data = import.label;
  env.offset = op->offset;
  env.length = op->bytes;
  env.several = op->gathered != nullptr;
  env.want_ack = op->kind == Kind::write;
  op->in_call = true;
  const Data data(op->base, op->bytes);
  const Status status = op->kind == Kind::read
                            ? protocol_.get(*import.peer, env, data, owner, nullptr)
                            : protocol_.put(*import.peer, env, data, owner, nullptr);
  op->in_call = nested;
  if (status != Status::pending) return status;
  if (!op->gathered) ++counters_.asked_accesses;
  if (!op->left) return Status::pending;
  op->done = nullptr;  // the call says that the memory may be reused
  return Status::ok;
}

Status Imports::atomic_any(Import& import, uint64_t offset, AtomicOp op, unsigned width,
                           uint64_t operand, uint64_t compare, void* old, const ImportedLock* lock,
                           torii_done_t done, void* arg) {
  send_gathered(*import.traffic);
  if (!operations_.ready()) return Status::no_memory;
  const RemoteAtomic asked = {kNoPeer, import.remote, offset,  op, uint8_t(width),
                              operand, compare,       nullptr, 0};
  RemoteAccess* under_way = nullptr;
  if (!lock && by_driver(import, offset, width, kMayUpdate)) {
    uint64_t before = 0;
    const Status status = protocol_.try_atomic(*import.peer, asked, &before, &under_way);
    if (status == Status::ok) {
      ++counters_.direct_accesses;
      store_old(old, width, before);
      return status;
    }
  }
  Operation* const o = begin(import, Kind::atomic, offset, width, done, arg);
  o->base = static_cast<std::byte*>(old);
  o->locked = lock != nullptr;
  o->atomic = asked;
  if (under_way) {
    under_way->owner = {&Imports::driver_event, this, reinterpret_cast<uintptr_t>(o)};
    return Status::pending;
  }
  const Status status = begin_atomic(o, lock);
  if (status != Status::pending) forget(o);
  return status;
}

// By frames.
Status Imports::begin_atomic(Operation* op, const ImportedLock* lock) {
  Import& import = *op->import;
  const Owner owner{&Imports::frame_event, this, op, {0, 0}};
  wire::Update request{};
  request.operation = uint8_t(op->atomic.op);
  request.width = op->atomic.width;
  request.bits = import.handle;
  request.label = import.label;
  request.offset = op->offset;
  request.operand = op->atomic.operand;
  request.compare = op->atomic.compare;
  wire::LockWord word;
  if (lock) word = {lock->import->handle, lock->import->label, lock->offset, lock->held};
  const Status status =
      protocol_.update(*import.peer, request, lock ? &word : nullptr, &op->old, owner);
  if (status == Status::pending) ++counters_.asked_accesses;
  return status;
}

Status Imports::atomic_locked(Import& import, uint64_t offset, AtomicOp op, unsigned width,
                              uint64_t operand, uint64_t compare, void* old,
                              const ImportedLock& lock, torii_done_t done, void* arg) {
  std::byte* const at = import.direct(offset, width, kMayUpdate);
  std::byte* const word = lock.import->direct(lock.offset, sizeof(lock.held), kMayUpdate);
  if (!at || !word || reinterpret_cast<uintptr_t>(at) % width != 0 ||
      reinterpret_cast<uintptr_t>(word) % sizeof(lock.held) != 0)
    return atomic_any(import, offset, op, width, operand, compare, old, &lock, done, arg);
  uint64_t before;
  if (!apply_locked(at, width, op, operand, compare, word, lock.held, &before))
    return Status::again;
  store_old(old, width, before);
  ++counters_.direct_accesses;
  return Status::ok;
}

// The outcome of an operation that was requested of the target.
void Imports::frame_event(Op* op, OpEvent event, Status status, uint64_t bytes) {
  auto* const self = static_cast<Imports*>(op->owner.object);
  auto* const o = static_cast<Operation*>(op->owner.argument);
  if (event == OpEvent::sent && status == Status::ok) {
    if (!o->local) return;
    if (o->in_call) {
      o->left = true;
    } else if (o->done) {
      torii_result_t result{};
      result.bytes = o->bytes;
      result.source = reinterpret_cast<torii_peer_t*>(o->import->peer);
      self->completions_.push(o->done, o->arg, result);
      o->done = nullptr;
    }
    return;
  }
  if (status == Status::ok && event == OpEvent::dropped) status = Status::denied;
  const uint64_t expected = o->kind == Kind::atomic ? sizeof(uint64_t) : o->bytes;
  const bool busy = o->locked && event == OpEvent::received && bytes == 0;
  if (status == Status::ok && bytes != expected) status = busy ? Status::again : Status::corrupt;
  if (status == Status::ok && o->kind == Kind::atomic) store_old(o->base, o->atomic.width, o->old);
  self->end(o, status);
}

// --- flush ---------------------------------------------------------------------------------

// From here on all see what was stored. System calls and atomic instructions need no fence.
Status Imports::flush(Peer* peer, torii_done_t done, void* arg) {
  if (std::exchange(stored_, false)) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (pending_ == 0 && !failed_) return Status::ok;
  if (peer) {
    const auto it = traffic_.find(peer);
    if (it != traffic_.end()) send_gathered(*it->second);
  } else {
    push();
  }
  Status status = Status::ok;
  Flush* flush = nullptr;
  const auto wait_for = [&](Traffic& traffic) {
    if (traffic.pending == 0) {
      Status& failed = traffic.last->failed;
      if (failed != Status::ok) status = std::exchange(failed, Status::ok);
      return;
    }
    if (!flush) flush = new Flush{1, Status::ok, done, arg};
    ++flush->epochs;
    traffic.last->flush = flush;
    traffic.last = &traffic.epochs.emplace_back();
    ++traffic.number;
  };
  if (peer) {
    const auto it = traffic_.find(peer);
    if (it != traffic_.end()) wait_for(*it->second);
  } else {
    for (auto& [other, traffic] : traffic_) wait_for(*traffic);
    failed_ = false;
  }
  if (!flush) return status;
  if (status != Status::ok) flush->status = status;
  --flush->epochs;
  return Status::pending;
}

}  // namespace torii
