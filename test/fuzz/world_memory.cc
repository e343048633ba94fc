// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Exports of the interface and what peers ask of them; imports of theirs, and what they answer.
#include <algorithm>

#include "core/memory/key.h"
#include "fuzz/world.h"

namespace torii::fuzz {

namespace {

constexpr size_t kExportsMost = 6;
constexpr uint32_t kExportBytes = 3000;
constexpr uint64_t kTag = 9;

}  // namespace

// A third of the exports may not be written: what is in them stays.
void World::check_exports() {
  for (const auto& e : exports_)
    if (!(e->access & (TORII_MAY_WRITE | TORII_MAY_UPDATE)))
      require(
          std::all_of(e->memory.get(), e->memory.get() + e->bytes, [](char c) { return c == 'e'; }),
          "an export that must not be written is as it was");
}

void World::memory_step() {
  switch (in_.byte() % 8) {
    case 0:
      open_export();
      break;
    case 1:
      end_export();
      break;
    case 2:
      open_import();
      break;
    case 3:
      if (imports_.empty()) break;
      torii_import_drop(imports_.back());
      imports_.pop_back();
      break;
    case 4: {
      Lent* lent = lend(false);
      lent->bytes = 0;
      if (torii_flush(handle(), in_.byte() & 1 ? peer(0) : nullptr, done, lent) != TORII_PENDING)
        give_back(lent);
      break;
    }
    default:
      reach_out();
  }
  read_sent();
  check_exports();
}

void World::open_export() {
  if (exports_.size() >= kExportsMost) return;
  auto e = std::make_unique<Exported>();
  e->bytes = 1 + in_.below(kExportBytes);
  e->access = 1 + in_.byte() % 7;
  e->memory.reset(new (std::align_val_t{16}) char[e->bytes]);
  std::fill_n(e->memory.get(), e->bytes, 'e');
  require(torii_export(handle(), e->memory.get(), e->bytes, e->access, kTag, &e->handle) ==
          TORII_OK);
  e->key.resize(TORII_KEY_MAX);
  e->key.resize(torii_export_key(e->handle, e->key.data(), e->key.size()));
  exports_.push_back(std::move(e));
}

void World::ended(void* arg, const torii_result_t*) {
  auto* const e = static_cast<Exported*>(arg);
  auto& ending = e->world->ending_;
  std::erase_if(ending, [e](const auto& other) { return other.get() == e; });
}

// The memory goes as soon as it may; the key lives on.
void World::end_export() {
  if (exports_.empty()) return;
  const size_t at = in_.below(uint32_t(exports_.size()));
  std::unique_ptr<Exported> e = std::move(exports_[at]);
  exports_.erase(exports_.begin() + ptrdiff_t(at));
  e->world = this;
  old_keys_.push_back(e->key);
  if (old_keys_.size() > kExportsMost) old_keys_.erase(old_keys_.begin());
  Exported* const raw = e.get();
  ending_.push_back(std::move(e));
  if (torii_unexport(raw->handle, ended, raw) == TORII_OK) ending_.pop_back();
}

// A request of a peer that has the key of an export, or once had it, or has made it up.
void World::memory_frame() {
  ExportKey key;
  const std::string none(32, 1);
  const std::string& text = !exports_.empty() && in_.byte() % 8
                                ? exports_[in_.byte() % exports_.size()]->key
                            : old_keys_.empty() ? none
                                                : old_keys_.back();
  const bool known = parse_key(std::as_bytes(std::span(text)), &key);
  wire::Request h{};
  const unsigned kind = in_.below(5);
  if (kind == 3)
    return update_frame(known ? key.handle : in_.take<uint64_t>(), access_label(key.nonce, kTag));
  if (kind == 4)
    return puts_frame(known ? key.handle : in_.take<uint64_t>(), access_label(key.nonce, kTag));
  h.kind = wire::Kind(unsigned(wire::Kind::put) + kind);
  h.flags = uint8_t(wire::kMemorySpace | (in_.byte() & 1));
  h.credit = uint16_t(in_.below(8));
  h.bits = known ? key.handle : in_.take<uint64_t>();
  h.hdr_data = in_.byte() % 8 ? access_label(key.nonce, kTag) : in_.take<uint64_t>();
  h.offset = in_.byte() % 8 ? in_.below(kExportBytes) : in_.take<uint64_t>();
  h.op = 1 + in_.below(4);
  std::string memory_key, payload;
  if (h.kind == wire::Kind::put) payload = in_.text(600);
  if (h.kind == wire::Kind::put_announce && (in_.byte() & 1)) memory_key = in_.text(12);
  h.key_bytes = uint16_t(memory_key.size());
  const uint8_t size = in_.byte();
  h.length = payload.size() + (size < 64    ? 0
                               : size < 240 ? in_.below(kExportBytes)
                                            : in_.take<uint64_t>());
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  const unsigned from = in_.byte() % kFuzzPeers;
  if (h.kind == wire::Kind::put) more_at_[from] = payload.size();
  deliver(from, head, memory_key + payload);
  check_exports();
}

// Short puts, mostly with places that make sense.
void World::puts_frame(uint64_t handle, uint64_t label) {
  std::string payload;
  for (unsigned count = in_.below(6); count > 0; --count) {
    const std::string bytes = in_.text(40);
    std::byte place[wire::Place::kBytes];
    const uint64_t offset = in_.byte() % 8 ? in_.below(kExportBytes) : in_.take<uint64_t>() >> 16;
    wire::write_place({offset, uint16_t(in_.byte() % 8 ? bytes.size() : in_.take<uint16_t>())},
                      place);
    payload.append(reinterpret_cast<const char*>(place), sizeof(place)).append(bytes);
  }
  if (in_.byte() % 8 == 0) payload.resize(in_.below(uint32_t(payload.size() + 1)));
  wire::Request h{};
  h.kind = wire::Kind::puts;
  h.flags = in_.byte() % 8 ? wire::kMemorySpace | wire::kWantAck : in_.byte();
  h.credit = uint16_t(in_.below(8));
  h.bits = handle;
  h.hdr_data = in_.byte() % 8 ? label : in_.take<uint64_t>();
  h.length = in_.byte() % 8 ? payload.size() : in_.take<uint64_t>();
  h.op = 1 + in_.below(4);
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(in_.byte() % kFuzzPeers, head, payload);
  check_exports();
}

// An atomic operation, mostly one that there is, at an aligned offset.
void World::update_frame(uint64_t handle, uint64_t label) {
  wire::Update h{};
  h.kind = wire::Kind::update;
  h.operation = in_.byte() % 8 ? uint8_t(in_.byte() % 6) : in_.byte();
  h.credit = uint16_t(in_.below(8));
  h.width = in_.byte() % 8 ? uint8_t(in_.byte() & 1 ? 4 : 8) : in_.byte();
  h.bits = handle;
  h.label = in_.byte() % 8 ? label : in_.take<uint64_t>();
  h.offset = in_.byte() % 8 ? in_.below(kExportBytes) : in_.take<uint64_t>();
  if (in_.byte() % 8) h.offset &= ~uint64_t{7};
  h.operand = in_.byte();
  h.compare = in_.byte();
  h.op = 1 + in_.below(4);
  std::string lock;
  if (in_.byte() % 4 == 0) {
    h.locked = in_.byte() % 8 ? 1 : in_.byte();
    lock.resize(wire::LockWord::kBytes);
    wire::LockWord word{handle, in_.byte() % 8 ? label : in_.take<uint64_t>(), 0, in_.byte()};
    word.offset = in_.byte() % 8 ? in_.below(kExportBytes) & ~uint32_t{7} : in_.take<uint64_t>();
    wire::write_lock(word, reinterpret_cast<std::byte*>(lock.data()));
  }
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(in_.byte() % kFuzzPeers, head, lock + (in_.byte() % 16 ? "" : in_.text(8)));
  check_exports();
}

// An answer that the interface asked for, or did not ask for.
void World::updated_frame() {
  wire::Updated h{};
  h.kind = wire::Kind::updated;
  h.credit = uint16_t(in_.below(8));
  h.busy = in_.byte() % 8 == 0;
  h.op = some_handle();
  h.old = in_.byte();
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(in_.byte() % kFuzzPeers, head, "");
}

void World::open_import() {
  if (imports_.size() >= kExportsMost) return;
  std::string key = !exports_.empty() && (in_.byte() & 1) ? exports_[0]->key : in_.text(120);
  ExportKey parsed;
  if (parse_key(std::as_bytes(std::span(key)), &parsed))
    driver_->reach_says.label = access_label(parsed.nonce, kTag);
  driver_->reach_says.bytes = in_.below(kExportBytes);
  driver_->reach_says.access = in_.byte() % 8;
  torii_import_t* import = nullptr;
  if (torii_import(handle(), peer(in_.byte() % kFuzzPeers), key.data(), key.size(), kTag,
                   &import) == TORII_OK)
    imports_.push_back(import);
}

void World::reach_out() {
  if (imports_.empty()) return;
  torii_import_t* const import = imports_[in_.byte() % imports_.size()];
  const uint8_t choice = in_.byte(), what = choice % 4;
  const bool told = !(choice & 0x80);  // else what it uses is given back at the end
  const torii_done_t over = told ? done : nullptr;
  Lent* lent = lend(what != 1);
  if (what >= 2) lent->bytes = 8;
  const torii_data_t data = describe(lent, TORII_CONTIGUOUS);
  const uint64_t offset = in_.below(kExportBytes);
  int code;
  if (what == 0) {
    code = torii_read(import, offset, data.base, lent->bytes, over, lent);
  } else if (what == 1) {
    // Memory of a write that is over for its caller is the caller's again.
    const auto when = in_.byte() & 1 ? TORII_COMPLETE_LOCAL : TORII_COMPLETE_REMOTE;
    code = torii_write(import, offset, data.base, lent->bytes, when, over, lent);
  } else {
    const auto op = torii_atomic_op_t(in_.byte() % 6);
    const unsigned width = in_.byte() & 1 ? 4 : 8;
    const torii_lock_word_t lock{imports_[in_.byte() % imports_.size()], in_.below(kExportBytes),
                                 1};
    code = what == 2
               ? torii_atomic(import, offset, op, width, 1, 2, data.base, done, lent)
               : torii_atomic_locked(import, offset, op, width, 1, 2, data.base, &lock, done, lent);
  }
  if (code != TORII_PENDING) return give_back(lent);
  if (what < 2 && !told) posted_.push_back(lent);
  static_cast<void>(torii_import_test(import));
}

// The user has done with everything, before the interface closes.
void World::close_memory() {
  for (torii_import_t* import : imports_) torii_import_drop(import);
  imports_.clear();
  while (!exports_.empty()) end_export();
  progress();
  require(ending_.empty(), "every export has ended");
  for (Lent* lent : posted_) give_back(lent);
  posted_.clear();
}

}  // namespace torii::fuzz
