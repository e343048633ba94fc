// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii.h, remote memory: checks arguments, takes the lock, calls inward.
#include <cstring>

#include "core/api/handles.h"
#include "core/api/torii_error.h"
#include "core/base/log.h"
#include "core/torii.h"

using namespace torii;

namespace {

static_assert(TORII_KEY_MAX == kExportKeyMax && TORII_KEY_NAME == kExportKeyName);
static_assert(int(kMayRead) == TORII_MAY_READ && int(kMayWrite) == TORII_MAY_WRITE &&
              int(kMayUpdate) == TORII_MAY_UPDATE);
static_assert(int(AtomicOp::add) == TORII_ATOMIC_ADD &&
              int(AtomicOp::bit_and) == TORII_ATOMIC_AND &&
              int(AtomicOp::bit_or) == TORII_ATOMIC_OR &&
              int(AtomicOp::bit_xor) == TORII_ATOMIC_XOR &&
              int(AtomicOp::swap) == TORII_ATOMIC_SWAP &&
              int(AtomicOp::compare_swap) == TORII_ATOMIC_CSWAP);

bool is_atomic(torii_atomic_op_t op, unsigned width) {
  return unsigned(op) < kAtomicOps && atomic_width(width);
}
int bad_atomic(const char* function, torii_atomic_op_t op, unsigned width) {
  return api_error(TORII_ERR_INVALID,
                   format_text("%s: operation %u on %u bytes; there are operations 0 to %u on 4 "
                               "and 8",
                               function, unsigned(op), width, kAtomicOps - 1u));
}

}  // namespace

extern "C" {

int torii_export(torii_ni_t* ni, void* base, size_t bytes, unsigned access, uint64_t tag,
                 torii_export_t** out) {
  if (!ni || !out || (!base && bytes > 0)) return bad_argument("torii_export", "null pointer");
  if (access == 0 || (access & ~kRightsAll))
    return api_error(TORII_ERR_INVALID,
                     format_text("torii_export: access %#x; it must be a sum of TORII_MAY_READ, "
                                 "TORII_MAY_WRITE and TORII_MAY_UPDATE",
                                 access));
  NiGuard guard(*ni_of(ni));
  Export* made = nullptr;
  const Status status = ni_of(ni)->exports().make(base, bytes, access, tag, &made);
  if (status != Status::ok)
    return api_error(code_of(status), format_text("torii_export: %zu bytes at %p: %s", bytes, base,
                                                  status_text(status)));
  *out = reinterpret_cast<torii_export_t*>(made);
  return TORII_OK;
}

size_t torii_export_key(const torii_export_t* exported, void* key, size_t capacity) {
  const auto* const e = reinterpret_cast<const Export*>(exported);
  if (!e) return 0;
  NiGuard guard(ni_of(e));
  if (key && e->key.size() <= capacity) std::memcpy(key, e->key.data(), e->key.size());
  return e->key.size();
}

int torii_unexport(torii_export_t* exported, torii_done_t done, void* arg) {
  if (!exported || !done) return bad_argument("torii_unexport", "null pointer");
  Ni& ni = ni_of(export_of(exported));
  NiGuard guard(ni);
  return code_of(ni.exports().end(export_of(exported), done, arg));
}

int torii_import(torii_ni_t* ni, torii_peer_t* peer, const void* key, size_t bytes, uint64_t tag,
                 torii_import_t** out) {
  if (!ni || !peer || !key || !out) return bad_argument("torii_import", "null pointer");
  NiGuard guard(*ni_of(ni));
  if (!ni_of(ni)->protocol().knows(*peer_of(peer)))
    return bad_argument("torii_import", "no peer of this interface");
  Import* made = nullptr;
  const Status status = ni_of(ni)->imports().make(
      *peer_of(peer), {static_cast<const std::byte*>(key), bytes}, tag, &made);
  if (status == Status::invalid)
    return api_error(
        TORII_ERR_INVALID,
        format_text("torii_import: %zu bytes that are no key of this version of Torii; "
                    "send what torii_export_key gave as it is",
                    bytes));
  if (status != Status::ok)
    return api_error(code_of(status), format_text("torii_import: %s", status_text(status)));
  *out = reinterpret_cast<torii_import_t*>(made);
  return TORII_OK;
}

int torii_import_drop(torii_import_t* import) {
  if (!import) return bad_argument("torii_import_drop", "null pointer");
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  ni.imports().end(import_of(import));
  return TORII_OK;
}

void* torii_import_address(const torii_import_t* handle) {
  if (!handle) return nullptr;
  const auto* const import = reinterpret_cast<const Import*>(handle);
  NiGuard guard(ni_of(import));
  return import->direct(0, 0, kMayRead) ? import->direct(0, 0, kMayWrite) : nullptr;
}

int torii_read(torii_import_t* import, uint64_t offset, void* base, uint64_t bytes,
               torii_done_t done, void* arg) {
  if (!import || (!base && bytes > 0)) return bad_argument("torii_read", "null pointer");
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  return code_of(ni.imports().read(*import_of(import), offset, base, bytes, done, arg));
}

int torii_write(torii_import_t* import, uint64_t offset, const void* base, uint64_t bytes,
                torii_completion_t when, torii_done_t done, void* arg) {
  if (!import || (!base && bytes > 0)) return bad_argument("torii_write", "null pointer");
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  return code_of(ni.imports().write(*import_of(import), offset, base, bytes,
                                    when == TORII_COMPLETE_LOCAL, done, arg));
}

int torii_import_test(torii_import_t* handle) {
  if (!handle) return bad_argument("torii_import_test", "null pointer");
  Import* const import = import_of(handle);
  NiGuard guard(ni_of(import));
  return code_of(Imports::test(*import));
}

[[gnu::hot]] int torii_read_now(torii_import_t* import, uint64_t offset, void* base,
                                uint64_t bytes) {
  if (!import || (!base && bytes > 0)) return TORII_EMPTY;
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  return ni.imports().read_now(*import_of(import), offset, base, bytes) ? TORII_OK : TORII_EMPTY;
}

[[gnu::hot]] int torii_write_now(torii_import_t* import, uint64_t offset, const void* base,
                                 uint64_t bytes) {
  if (!import || (!base && bytes > 0)) return TORII_EMPTY;
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  return ni.imports().write_now(*import_of(import), offset, base, bytes) ? TORII_OK : TORII_EMPTY;
}

int torii_atomic(torii_import_t* import, uint64_t offset, torii_atomic_op_t op, unsigned width,
                 uint64_t operand, uint64_t compare, void* old, torii_done_t done, void* arg) {
  if (!import || !done) return bad_argument("torii_atomic", "null pointer");
  if (!is_atomic(op, width)) return bad_atomic("torii_atomic", op, width);
  Ni& ni = ni_of(import_of(import));
  NiGuard guard(ni);
  return code_of(ni.imports().atomic(*import_of(import), offset, AtomicOp(op), width, operand,
                                     compare, old, done, arg));
}

int torii_atomic_locked(torii_import_t* import, uint64_t offset, torii_atomic_op_t op,
                        unsigned width, uint64_t operand, uint64_t compare, void* old,
                        const torii_lock_word_t* lock, torii_done_t done, void* arg) {
  if (!import || !lock || !lock->import || !done)
    return bad_argument("torii_atomic_locked", "null pointer");
  if (!is_atomic(op, width)) return bad_atomic("torii_atomic_locked", op, width);
  if (lock->held == 0)
    return bad_argument("torii_atomic_locked", "a lock that is 0 while it is held");
  const ImportedLock imported{import_of(lock->import), lock->offset, lock->held};
  Ni& ni = ni_of(import_of(import));
  if (&ni_of(imported.import) != &ni || imported.import->peer != import_of(import)->peer)
    return bad_argument("torii_atomic_locked", "the lock is another peer's than the integer");
  NiGuard guard(ni);
  const Status status = ni.imports().atomic_locked(*import_of(import), offset, AtomicOp(op), width,
                                                   operand, compare, old, imported, done, arg);
  return status == Status::again ? TORII_EMPTY : code_of(status);
}

int torii_flush(torii_ni_t* ni, torii_peer_t* peer, torii_done_t done, void* arg) {
  if (!ni || !done) return bad_argument("torii_flush", "null pointer");
  NiGuard guard(*ni_of(ni));
  return code_of(ni_of(ni)->imports().flush(peer_of(peer), done, arg));
}

int torii_limits(torii_ni_t* handle, const torii_peer_t* handle_of_peer, torii_limits_t* out) {
  if (!handle || !out || out->struct_bytes != sizeof(torii_limits_t))
    return bad_argument("torii_limits", "null pointer, or a structure of another version");
  Ni& ni = *ni_of(handle);
  NiGuard guard(ni);
  Protocol& protocol = ni.protocol();
  const auto* const peer = reinterpret_cast<const Peer*>(handle_of_peer);
  uint8_t rail = peer ? peer->rail : uint8_t(0);
  if (!peer && protocol.drivers().size() > 1 && protocol.driver_name(0) == "self") rail = 1;
  const choice::Plan plan = protocol.plan(rail);
  const DriverCaps& caps = protocol.drivers()[rail]->caps();
  out->frame = plan.small_max;
  out->eager = plan.eager_max;
  out->remote_bytes = caps.flags & kGuard ? caps.remote_max : 0;
  const DriverInfo* const info = find_driver(protocol.driver_name(rail));
  out->latency_ns = info ? info->latency_ns : 0;
  out->mbytes_per_s = info ? info->mbytes_per_s : 0;
  return TORII_OK;
}

}  // extern "C"
