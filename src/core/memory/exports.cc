// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/exports.h"

#include <sys/random.h>

#include <cstring>
#include <utility>

#include "core/base/atomics.h"
#include "core/base/log.h"
#include "core/protocol/express.h"

namespace torii {

namespace {

constexpr uint64_t kReported = 5;  // refusals that are named in the log

const char* verb(const Arrival& a) {
  if (a.kind == wire::Kind::get) return "a read";
  return a.kind == wire::Kind::update ? "an atomic operation" : "a write";
}

}  // namespace

Exports::~Exports() {
  exports_.for_each([this](Export* e) {
    close(e);
    exports_.put(e);
  });
}

bool Exports::nonce(uint64_t* out) {
  if (nonces_left_ == 0) {
    if (getrandom(nonces_.data(), sizeof(nonces_), 0) != ssize_t(sizeof(nonces_))) {
      TORII_ERROR("the system gives no random numbers for memory keys: %m");
      return false;
    }
    nonces_left_ = nonces_.size();
  }
  *out = nonces_[--nonces_left_];
  return true;
}

Status Exports::make(void* base, uint64_t bytes, uint32_t access, uint64_t tag, Export** out) {
  if ((!base && bytes) || access == 0 || (access & ~kRightsAll) ||
      bytes > ~uint64_t{0} - reinterpret_cast<uintptr_t>(base))
    return Status::invalid;
  uint64_t random, label;
  do {
    if (!nonce(&random)) return Status::io_error;
    label = access_label(random, tag);
  } while (label == 0);
  Export* const e = exports_.get();
  if (!e) return Status::no_memory;
  e->owner = owner_;
  e->base = static_cast<std::byte*>(base);
  e->bytes = bytes;
  e->access = access;
  e->label.store(label, std::memory_order_release);
  ExportKey head;
  head.handle = exports_.handle(e);
  head.nonce = random;
  head.bytes = bytes;
  head.access = access;
  KeyWriter key(head);
  register_memory(e, label, &key);
  const auto written = key.bytes();
  e->key.assign(written.begin(), written.end());
  by_address_.emplace(e->base, e);
  *out = e;
  return Status::ok;
}

// With each driver that guards its keys; peers of the others ask by frames.
void Exports::register_memory(Export* e, uint64_t label, KeyWriter* key) {
  const auto& drivers = protocol_.drivers();
  const uint32_t access = (e->access & kMayRead ? kRemoteRead : 0u) |
                          (e->access & kMayWrite ? kRemoteWrite : 0u) |
                          (e->access & kMayUpdate ? kRemoteUpdate : 0u) | kGuarded;
  for (size_t i = 0; i < drivers.size() && e->bytes > 0; ++i) {
    if (!(drivers[i]->caps().flags & kGuard)) continue;
    Region region;
    region.label = label;
    if (protocol_.registrations().reg(*drivers[i], e->base, e->bytes, access, &region) !=
        Status::ok)
      continue;
    key->add(protocol_.driver_name(i), std::span(region.key).first(drivers[i]->caps().key_bytes));
    e->registrations.push_back({drivers[i].get(), region});
  }
}

// From now on no peer finds the memory.
void Exports::close(Export* e) {
  e->label.store(0);
  for (auto& r : e->registrations) r.driver->dereg(r.region);
  e->registrations.clear();
}

Status Exports::end(Export* e, torii_done_t done, void* arg) {
  close(e);
  if (e->busy == 0) {
    release(e);
    return Status::ok;
  }
  e->done = done;
  e->arg = arg;
  return Status::pending;
}

void Exports::release(Export* e) {
  const auto range = by_address_.equal_range(e->base);
  for (auto it = range.first; it != range.second; ++it) {
    if (it->second != e) continue;
    by_address_.erase(it);
    break;
  }
  if (e->done) completions_.push(e->done, e->arg, torii_result_t{});
  exports_.put(e);
}

bool Exports::revoke(void* base, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(base);
  for (auto it = by_address_.lower_bound(first);
       it != by_address_.end() && it->first < first + bytes; ++it) {
    Export* const e = it->second;
    if (e->bytes > uint64_t(first + bytes - it->first)) continue;
    close(e);
    if (e->busy == 0) continue;
    e->freed = base;
    ++used_[base];
  }
  return !used_.contains(base);
}

// No operation uses it any more.
void Exports::give_back(Export* e) {
  void* const base = std::exchange(e->freed, nullptr);
  if (--used_[base] > 0) return;
  used_.erase(base);
  unused_(unused_object_, base);
}

Export* Exports::find(uint64_t handle, uint64_t label) const {
  Export* const e = exports_.find(handle);
  return e && label != 0 && e->label.load(std::memory_order_relaxed) == label ? e : nullptr;
}

// --- what peers ask for --------------------------------------------------------------------

Status Exports::refused(const Arrival& a, const Export* e, const char* reason, Status why) {
  if (++counters_.exports_refused <= kReported)
    TORII_WARN("refused %s of %llu bytes at offset %llu of %s by %s: %s", verb(a),
               static_cast<unsigned long long>(a.env.length),
               static_cast<unsigned long long>(a.env.offset),
               e ? format_text("an export of %llu bytes", static_cast<unsigned long long>(e->bytes))
                       .c_str()
                 : "unknown memory",
               protocol_.describe(*a.peer).c_str(), reason);
  return why;
}

// The export that the request may touch, and where; null: refused, with the status to say.
Export* Exports::admit(const Arrival& a, uint32_t right, uint64_t length, std::byte** at,
                       Status* why) {
  Export* const e = find(a.env.bits, a.env.hdr_data);
  if (!e) {
    *why = refused(a, nullptr, "its key is stale or invented, or its tag is another one",
                   Status::denied);
    return nullptr;
  }
  if (!(e->access & right)) {
    *why = refused(a, e, "the export does not allow it", Status::denied);
    return nullptr;
  }
  *at = e->at(a.env.offset, length);
  if (*at) return e;
  *why = refused(a, e, "out of bounds", Status::invalid);
  return nullptr;
}

// The operation that used the memory has ended, well or not.
void Exports::over(Op* op, OpEvent, Status, uint64_t) {
  auto* const self = static_cast<Exports*>(op->owner.object);
  auto* const e = static_cast<Export*>(op->owner.argument);
  if (--e->busy > 0) return;
  if (e->freed) self->give_back(e);
  if (e->done) self->release(e);
}

// Several short ones: each is carried out or refused by itself; the answer tells of the first that
// was refused.
void Exports::on_puts(Arrival& a) {
  Status verdict = Status::ok;
  Arrival one = a;
  for (std::span<const std::byte> rest = a.payload; !rest.empty();) {
    wire::Place place;
    if (rest.size() >= wire::Place::kBytes) place = wire::read_place(rest.data());
    Status why = Status::ok;
    if (place.bytes == 0 || place.bytes > rest.size() - wire::Place::kBytes) {
      why = refused(a, nullptr, "what it says of its parts does not fit", Status::invalid);
      rest = {};
    } else {
      std::byte* at = nullptr;
      one.env.offset = place.offset;
      one.env.length = place.bytes;
      if (admit(one, kMayWrite, place.bytes, &at, &why)) {
        store_bytes(at, rest.data() + wire::Place::kBytes, place.bytes);
        ++counters_.exports_written;
      }
      rest = rest.subspan(wire::Place::kBytes + place.bytes);
    }
    if (verdict == Status::ok) verdict = why;
  }
  if (verdict != Status::ok) return protocol_.refuse(a, verdict);
  protocol_.settle(*a.peer, {a.peer_op, a.credit}, a.env.length, false);
}

void Exports::on_put(Arrival& a) {
  if (a.kind == wire::Kind::puts) return on_puts(a);
  std::byte* at = nullptr;
  Status why = Status::ok;
  Export* const e = admit(a, kMayWrite, a.env.length, &at, &why);
  if (!e) return protocol_.refuse(a, why);
  ++counters_.exports_written;
  const Owner owner{&Exports::over, this, e, {0, 0}};
  if (protocol_.accept(a, Data(at, a.env.length), a.env.length, false, owner, nullptr) ==
      Status::pending)
    ++e->busy;
}

void Exports::on_get(Arrival& a) {
  std::byte* at = nullptr;
  Status why = Status::ok;
  Export* const e = admit(a, kMayRead, a.env.length, &at, &why);
  if (!e) return protocol_.refuse(a, why);
  ++counters_.exports_read;
  const Owner owner{&Exports::over, this, e, {0, 0}};
  if (protocol_.reply(a, Data(at, a.env.length), a.env.length, owner, nullptr) == Status::pending)
    ++e->busy;
}

// Where the update's integer is; null: refused, with the status to say.
std::byte* Exports::integer(const Arrival& a, unsigned width, Status* why) {
  std::byte* at = nullptr;
  Export* const e = admit(a, kMayUpdate, width, &at, why);
  if (!e) return nullptr;
  if (reinterpret_cast<uintptr_t>(at) % width == 0) return at;
  *why = refused(a, e, "an atomic operation needs an aligned address", Status::invalid);
  return nullptr;
}

void Exports::on_update(Arrival& a) {
  const wire::Update& request = *a.update;
  Status why = Status::invalid;
  if (!atomic_width(request.width) || request.operation >= kAtomicOps) {
    why = refused(a, nullptr, "there is no such operation", why);
    return protocol_.refuse(a, why);
  }
  std::byte* const at = integer(a, request.width, &why);
  if (!at) return protocol_.refuse(a, why);
  const auto op = AtomicOp(request.operation);
  uint64_t old = 0;
  bool changed = true;
  if (request.locked) {
    const wire::LockWord word = wire::read_lock(a.payload.data());
    Arrival of_lock = a;
    of_lock.env.bits = word.bits;
    of_lock.env.hdr_data = word.label;
    of_lock.env.offset = word.offset;
    of_lock.env.length = sizeof(word.held);
    std::byte* const lock = integer(of_lock, sizeof(word.held), &why);
    if (!lock) return protocol_.refuse(a, why);
    changed = apply_locked(at, request.width, op, request.operand, request.compare, lock, word.held,
                           &old);
  } else {
    old = apply_atomic(at, request.width, op, request.operand, request.compare);
  }
  if (changed) ++counters_.exports_updated;
  protocol_.updated(a, old, !changed);
}

}  // namespace torii
