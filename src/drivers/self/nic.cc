// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/self/nic.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/self/self.h"

namespace torii {
namespace {

constexpr size_t kRingBytes = 512 << 10;
constexpr uint32_t kMtu = 64 << 10;

// A frame lies in the ring behind this, rounded up to 16 bytes, in one piece.
struct alignas(16) Header {
  uint32_t bytes;
  bool skip;  // nothing here: go on at offset 0
};

constexpr size_t span_of(size_t frame_bytes) {
  return sizeof(Header) + ((frame_bytes + 15) & ~size_t{15});
}

}  // namespace

SelfDriver::SelfDriver(const DriverEnv& env) : sink_(*env.sink) {
  // kPeerDown: nobody is left to be told when the only peer, this process, is gone.
  caps_.flags = kReliable | kPeerDown | kPut | kGet | kWait;
  caps_.mtu = kMtu;
  caps_.inline_max = kMtu;
  caps_.pieces_max = 256;
  caps_.batch_max = 16;
  caps_.address_bytes = sizeof(identity_);
  caps_.key_bytes = sizeof(Key);
  caps_.peers_max = 1;
  caps_.remote_max = 4 << 20;
  caps_.eager_advice = 4096;
}

SelfDriver::~SelfDriver() {
  if (event_fd_ >= 0) close(event_fd_);
}

bool SelfDriver::start(std::string* why) {
  ring_.reset(new (std::nothrow) std::byte[kRingBytes]);
  if (!ring_) {
    *why = format_text("self: no memory for a queue of %zu bytes; free some", kRingBytes);
    return false;
  }
  if (getrandom(&identity_, sizeof(identity_), GRND_NONBLOCK) != sizeof(identity_)) {
    // Early at boot. Uniqueness within this host is enough: a pid and an address give that.
    identity_ = static_cast<uint64_t>(getpid()) << 40 ^ reinterpret_cast<uintptr_t>(this);
  }
  return true;
}

void SelfDriver::address(std::byte* out) const { std::memcpy(out, &identity_, sizeof(identity_)); }

Status SelfDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  if (address.size() != sizeof(identity_) ||
      std::memcmp(address.data(), &identity_, sizeof(identity_)) != 0) {
    *why = "self: the address is that of another process; use another driver for it";
    return Status::unsupported;
  }
  *peer = 0;
  return Status::ok;
}

void SelfDriver::disconnect(PeerId) {}

size_t SelfDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.peer == 0 && tx.head_bytes <= kHeadMax);
    TORII_ASSERT(tx.body_bytes <= caps_.mtu - tx.head_bytes);
    TORII_ASSERT(tx.piece_count <= caps_.pieces_max);
    if (tx.cookie && !done_.has_room()) break;
    if (!enqueue(tx)) break;
    done_.add(tx.cookie);
    taken++;
  }
  if (taken && armed_) wake();
  return taken;
}

bool SelfDriver::enqueue(const Tx& tx) {
  const size_t need = span_of(size_t{tx.head_bytes} + tx.body_bytes);
  const size_t to_end = kRingBytes - tail_;
  const size_t skip = need > to_end ? to_end : 0;
  if (need + skip > kRingBytes - used_) return false;
  if (skip) {
    new (&ring_[tail_]) Header{0, true};
    tail_ = 0;
  }
  new (&ring_[tail_]) Header{tx.head_bytes + tx.body_bytes, false};
  std::byte* to = &ring_[tail_] + sizeof(Header);
  if (tx.head_bytes) std::memcpy(to, tx.head, tx.head_bytes);
  to += tx.head_bytes;
  for (uint32_t i = 0; i < tx.piece_count; i++) {
    if (!tx.pieces[i].iov_len) continue;
    copy_bytes(to, tx.pieces[i].iov_base, tx.pieces[i].iov_len);
    to += tx.pieces[i].iov_len;
  }
  used_ += need + skip;
  tail_ += need;
  if (tail_ == kRingBytes) tail_ = 0;
  return true;
}

[[gnu::hot]] unsigned SelfDriver::poll(uint64_t, unsigned budget) {
  armed_ = false;
  return work() ? deliver(budget) : 0;
}

unsigned SelfDriver::deliver(unsigned budget) {
  unsigned count = done_.empty() ? 0 : done_.report(sink_);
  while (count < budget && used_) {
    const auto* header = reinterpret_cast<const Header*>(&ring_[head_]);
    if (header->skip) {
      used_ -= kRingBytes - head_;
      head_ = 0;
      continue;
    }
    const size_t span = span_of(header->bytes);
    // The frame keeps its place during the upcall, which may send.
    sink_.packet(0, {&ring_[head_] + sizeof(Header), header->bytes});
    used_ -= span;
    head_ += span;
    if (head_ == kRingBytes) head_ = 0;
    count++;
  }
  return count;
}

Status SelfDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if ((!base && bytes) || !access || (access & ~uint32_t{kRemoteRead | kRemoteWrite}))
    return Status::invalid;
  uint32_t slot;
  if (free_exported_.empty()) {
    slot = static_cast<uint32_t>(exported_.size());
    exported_.push_back({});
  } else {
    slot = free_exported_.back();
    free_exported_.pop_back();
  }
  Exported& e = exported_[slot];
  e = {static_cast<std::byte*>(base), bytes, access, e.generation + 1};
  *out = Region{base, bytes, access, {}, slot};
  const Key key{identity_, slot, e.generation};
  std::memcpy(out->key.data(), &key, sizeof(key));
  return Status::ok;
}

void SelfDriver::dereg(Region& region) {
  TORII_ASSERT(region.driver_data < exported_.size() && exported_[region.driver_data].access);
  exported_[region.driver_data].access = 0;
  free_exported_.push_back(static_cast<uint32_t>(region.driver_data));
  region = Region{};
}

Status SelfDriver::import(PeerId peer, std::span<const std::byte> bytes, uint32_t* remote) {
  Key key;
  if (peer != 0 || bytes.size() != sizeof(key)) return Status::invalid;
  std::memcpy(&key, bytes.data(), sizeof(key));
  if (key.owner != identity_ || key.slot >= exported_.size()) return Status::invalid;
  if (free_imports_.empty()) {
    *remote = static_cast<uint32_t>(imports_.size());
    imports_.push_back({});
  } else {
    *remote = free_imports_.back();
    free_imports_.pop_back();
  }
  imports_[*remote] = {key, true};
  return Status::ok;
}

void SelfDriver::drop(uint32_t remote) {
  TORII_ASSERT(remote < imports_.size() && imports_[remote].used);
  imports_[remote].used = false;
  free_imports_.push_back(remote);
}

std::byte* SelfDriver::resolve(const Rma& rma, uint32_t access) const {
  if (rma.peer != 0 || rma.bytes > caps_.remote_max || rma.piece_count > caps_.pieces_max)
    return nullptr;
  if (rma.remote >= imports_.size() || !imports_[rma.remote].used) return nullptr;
  const Key& key = imports_[rma.remote].key;
  const Exported& e = exported_[key.slot];
  if (e.generation != key.generation || !(e.access & access)) return nullptr;
  if (rma.remote_offset > e.bytes || rma.bytes > e.bytes - rma.remote_offset) return nullptr;
  uint64_t local = 0;
  for (uint32_t i = 0; i < rma.piece_count; i++) local += rma.pieces[i].iov_len;
  return local == rma.bytes ? e.base + rma.remote_offset : nullptr;
}

// memmove: both sides are memory of this process and may overlap.
Status SelfDriver::put(const Rma& rma) {
  std::byte* to = resolve(rma, kRemoteWrite);
  if (!to) return Status::invalid;
  for (uint32_t i = 0; i < rma.piece_count; to += rma.pieces[i++].iov_len)
    if (rma.pieces[i].iov_len) std::memmove(to, rma.pieces[i].iov_base, rma.pieces[i].iov_len);
  return Status::ok;
}

Status SelfDriver::get(const Rma& rma) {
  const std::byte* from = resolve(rma, kRemoteRead);
  if (!from) return Status::invalid;
  for (uint32_t i = 0; i < rma.piece_count; from += rma.pieces[i++].iov_len)
    if (rma.pieces[i].iov_len) std::memmove(rma.pieces[i].iov_base, from, rma.pieces[i].iov_len);
  return Status::ok;
}

Status SelfDriver::arm(int* fd) {
  if (work()) return Status::again;
  if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) {
    TORII_ERROR("self: eventfd failed: %m; raise the limit of open files (ulimit -n)");
    return Status::io_error;
  }
  uint64_t value;
  const ssize_t n = read(event_fd_, &value, sizeof(value));
  TORII_ASSERT(n == sizeof(value) || errno == EAGAIN);
  armed_ = true;
  *fd = event_fd_;
  return Status::ok;
}

void SelfDriver::wake() {
  armed_ = false;
  const uint64_t one = 1;
  const ssize_t n = write(event_fd_, &one, sizeof(one));
  TORII_ASSERT(n == sizeof(one));
}

std::unique_ptr<Driver> open_self(const DriverEnv& env, std::string* why) {
  auto driver = std::make_unique<SelfDriver>(env);
  if (!driver->start(why)) return nullptr;
  return driver;
}

}  // namespace torii
