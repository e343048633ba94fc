// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/emulator/guest.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "core/base/log.h"

namespace torii::nic {

using namespace channel;

std::unique_ptr<Guest> Guest::open(Fabric& fabric, const Hello& hello, pid_t pid, std::string* why,
                                   bool* later) {
  *later = false;
  const size_t length = strnlen(hello.card, sizeof(hello.card));
  const std::string_view card(hello.card, length);
  if (hello.magic != kMagic || length == sizeof(hello.card)) {
    *why = format_text("process %d does not speak this version of Torii; use the same everywhere",
                       pid);
    return nullptr;
  }
  if (card != fabric.kind().name) {
    *why = format_text("torii-fabric emulates %s; use that driver, or torii-fabric --card %.*s",
                       fabric.kind().name, static_cast<int>(card.size()), card.data());
    return nullptr;
  }
  if (hello.node != channel::kAnyNode && hello.node >= fabric.nodes()) {
    *why = format_text("there is no emulated node %u; use 0 to %u", hello.node, fabric.nodes() - 1);
    return nullptr;
  }
  std::unique_ptr<Guest> guest(new Guest(fabric));
  guest->file_ = make_sealed(sizeof(Memory), "torii-channel");
  guest->doorbell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!guest->file_ || !guest->doorbell_ ||
      !guest->channel_.map(guest->file_.get(), 0, sizeof(Memory))) {
    *why =
        format_text("no memory or no descriptor for process %d: %m; raise ulimit -n and -v", pid);
    return nullptr;
  }
  std::memcpy(&guest->cookie_, hello.cookie, sizeof(guest->cookie_));
  guest->target_ = {pid, &guest->cookie_, hello.cookie_at};
  guest->card_ = fabric.open(hello.node, why, nullptr, guest.get());
  *later = !guest->card_ && fabric.is_closing(hello.node);
  if (!guest->card_) return nullptr;
  if (attach_prove(pid, hello.cookie_at, guest->cookie_, &guest->attach_error_) != Status::ok &&
      guest->attach_error_ == 0)
    guest->attach_error_ = ESRCH;
  return guest;
}

Guest::~Guest() {
  if (card_ && state_ != State::closed) fabric_.kill(card_->info().name);
}

Welcome Guest::welcome() const {
  const CardInfo& info = card_->info();
  Welcome out{};
  out.magic = kMagic;
  out.fabric = info.fabric;
  out.name = info.name;
  out.node = info.node;
  out.contexts = info.contexts;
  out.bar_bytes = info.bar_bytes;
  out.shared_address = info.shared_address;
  out.shared_bytes = fabric_.kind().shared_bytes;
  out.endpoints = fabric_.endpoints();
  out.memory_bytes = fabric_.kind().memory_bytes;
  out.attach_error = attach_error_;
  return out;
}

std::array<int, kDescriptorsMax> Guest::descriptors() const {
  const Lending lending = fabric_.lending(card_->info().name);
  return {file_.get(), lending.shared, doorbell_.get(), lending.event, lending.memory};
}

// --- the ring --------------------------------------------------------------------------------

bool Guest::has_work() const {
  return state_ == State::open && memory().tail.load(std::memory_order_acquire) != head_;
}

void Guest::say_asleep(bool asleep) {
  memory().asleep.store(asleep, std::memory_order_relaxed);
  if (asleep) std::atomic_thread_fence(std::memory_order_seq_cst);
}

unsigned Guest::refuse(const char* what, uint64_t value) {
  state_ = State::broken;
  fault_ = format_text("%s (%llu)", what, static_cast<unsigned long long>(value));
  return 0;
}

unsigned Guest::serve(unsigned most) {
  unsigned count = 0;
  Record record;
  for (; count < most && has_work() && next(&record); count++) {
    carry_out(record);
    memory().head.store(head_, std::memory_order_release);
  }
  return count;
}

// Takes the next record and its payload out of the ring.
bool Guest::next(Record* record) {
  const uint32_t ready = memory().tail.load(std::memory_order_acquire) - head_;
  if (ready > kRingBytes || ready < sizeof(*record) || ready % 8)
    return refuse("bytes in the ring that are no records", ready);
  ring_read(memory().ring, head_, record, sizeof(*record));
  const uint32_t bytes = record->kind == Kind::load ? 0 : record->bytes;
  if (record->bytes > kPieceMax || padded(bytes) > ready - sizeof(*record))
    return refuse("a record that is too long", record->bytes);
  payload_.resize(bytes);
  ring_read(memory().ring, head_ + sizeof(*record), payload_.data(), bytes);
  head_ += static_cast<uint32_t>(sizeof(*record)) + padded(bytes);
  return true;
}

void Guest::carry_out(const Record& record) {
  const bool aligned = record.at % 4 == 0 && record.bytes % 4 == 0;
  switch (record.kind) {
    case Kind::store:
      if (!aligned) break;
      if (record.bytes > 0) card_->write(record.at, payload_.data(), record.bytes);
      return;
    case Kind::load:
      if (!aligned) break;
      payload_.resize(record.bytes);
      card_->read(record.at, payload_.data(), record.bytes);
      return answer(record, Status::ok, payload_.data(), record.bytes);
    case Kind::control:
      if (record.bytes != sizeof(Control)) break;
      return control(record);
    case Kind::map:
    case Kind::unmap:
      if (record.bytes != sizeof(MapCall)) break;
      return map(record);
    case Kind::close:
      state_ = State::closed;
      return;
  }
  refuse("a record of kind, place or length that makes no sense",
         static_cast<uint32_t>(record.kind));
}

void Guest::control(const Record& record) {
  Control in, out;
  std::memcpy(&in, payload_.data(), sizeof(in));
  out = in;
  const Status status = card_->control(in, &out);
  answer(record, status, &out, sizeof(out));
}

void Guest::map(const Record& record) {
  MapCall call;
  uint64_t address = 0;
  std::memcpy(&call, payload_.data(), sizeof(call));
  Status status = Status::ok;
  if (record.kind == Kind::unmap) {
    card_->unmap(call.address);
  } else if (attach_error_ || call.rights > (kCardReads | kCardWrites) ||
             call.bytes > UINT64_MAX - call.base) {
    status = attach_error_ ? Status::no_memory : Status::invalid;
  } else {
    status = card_->map(reinterpret_cast<void*>(call.base), call.bytes,
                        static_cast<uint32_t>(call.rights), &address);
  }
  answer(record, status, &address, sizeof(address));
}

void Guest::answer(const Record& record, Status status, const void* bytes, uint32_t count) {
  if (record.question == 0) return;
  Memory& m = memory();
  if (count) std::memcpy(m.answer, bytes, count);
  m.status = static_cast<uint32_t>(status);
  m.bytes = count;
  m.head.store(head_, std::memory_order_release);  // nothing is pending that it could wait for
  m.answered.store(record.question, std::memory_order_release);
  // It says that it sleeps, and then looks once more.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (m.waiting.load(std::memory_order_relaxed))
    syscall(SYS_futex, &m.answered, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// --- its memory ------------------------------------------------------------------------------

// The cookie is read once in a moment: many writes are as short as a packet.
Status Guest::move(bool write, uintptr_t at, std::span<std::byte> here) {
  const iovec local{here.data(), here.size()}, remote{reinterpret_cast<void*>(at), here.size()};
  const uint64_t moment = attach_moment();
  AttachTarget target = target_;
  if (moment && moment == proved_at_) target.cookie = nullptr;
  int error = 0;
  const Status status = attach_move(target, write, {&local, 1}, {&remote, 1}, here.size(), &error);
  if (status == Status::ok) proved_at_ = moment;
  return status;
}

}  // namespace torii::nic
