// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A simulated card's access to memory: its process's, and that of peers.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.h"
#include "drivers/fabric/net.h"

namespace torii {

Status SimCard::reg(Region* region) {
  const uint32_t access = region->access;
  if (!(options().flags & (kPut | kGet)) && access != kLocal) return Status::unsupported;
  if ((access & kLocal) && !local) return Status::unsupported;
  if ((access & kGuarded) && !(options().flags & kGuard)) return Status::unsupported;
  if (regions_.size() >= options().regions_max) return Status::no_memory;
  net_.now_ns += options().reg_ns;
  const SimKey key{number_, next_slot_++, net_.random.next()};
  region->driver_data = key.slot;
  std::memcpy(region->key.data(), &key, sizeof(key));
  regions_[key.slot] = *region;
  if (access & kGuarded) (guards_[key.slot] = &net_.guards.emplace_back())->store(key.tag);
  return Status::ok;
}

void SimCard::dereg(uint64_t region) {
  const auto slot = static_cast<uint32_t>(region);
  regions_.erase(slot);
  end_guard(slot);
}

void SimCard::end_guard(uint32_t slot) {
  const auto guard = guards_.find(slot);
  if (guard == guards_.end()) return;
  guard->second->store(0);
  guards_.erase(guard);
}

void SimCard::end_regions(const void* base, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(base);
  std::erase_if(regions_, [&](const auto& entry) {
    const auto* const at = static_cast<const std::byte*>(entry.second.base);
    if (at >= first + bytes || at + entry.second.bytes <= first) return false;
    end_guard(entry.first);
    return true;
  });
}

// The card reads and writes these pieces by itself: the region has to cover them.
void SimCard::check_local(uint64_t region, std::span<const iovec> pieces) const {
  const auto it = regions_.find(static_cast<uint32_t>(region));
  TORII_ASSERT(it != regions_.end() && (it->second.access & kLocal));
  const auto* const first = static_cast<const std::byte*>(it->second.base);
  for (const iovec& piece : pieces) {
    const auto* const at = static_cast<const std::byte*>(piece.iov_base);
    TORII_ASSERT(!piece.iov_len || (at >= first && at + piece.iov_len <= first + it->second.bytes));
  }
}

// The region that the key names, in its owner; null if it is gone, or never was.
const Region* SimCard::find_region(const SimKey& key) const {
  const SimCard* const owner = net_.endpoints[key.owner].card;
  if (!owner) return nullptr;
  const auto it = owner->regions_.find(key.slot);
  if (it == owner->regions_.end()) return nullptr;
  return std::memcmp(it->second.key.data(), &key, sizeof(key)) == 0 ? &it->second : nullptr;
}

Status SimCard::reach(const SimKey& key, Reach* out) const {
  const Region* const region = find_region(key);
  if (!region || !(region->access & kGuarded)) return Status::invalid;
  *out = Reach{
      region->bytes, region->access & ~uint32_t{kGuarded}, region->label, nullptr, nullptr, 0};
  const SimCard& owner = *net_.endpoints[key.owner].card;
  if (!owner.near(kNoPeer, region->base)) return Status::ok;
  out->at = static_cast<std::byte*>(region->base);
  out->guard = owner.guards_.at(key.slot);
  out->valid = key.tag;
  return Status::ok;
}

Status SimCard::alloc(uint64_t bytes, uint64_t alignment, void** base) {
  if (!options().allocates || !(options().flags & (kPut | kGet))) return Status::unsupported;
  void* made = nullptr;
  if (bytes > 1ull << 40 || posix_memalign(&made, std::max<uint64_t>(alignment, 4096), bytes) != 0)
    return Status::no_memory;
  allocations_[*base = made] = bytes;
  return Status::ok;
}

void SimCard::dealloc(void* base) {
  const auto it = allocations_.find(base);
  TORII_ASSERT(it != allocations_.end());
  end_regions(base, it->second);
  allocations_.erase(it);
  std::free(base);
}

bool SimCard::near(PeerId, const void* at) const {
  auto it = allocations_.upper_bound(const_cast<void*>(at));
  if (it == allocations_.begin()) return false;
  --it;
  return static_cast<const std::byte*>(at) < static_cast<std::byte*>(it->first) + it->second;
}

Status SimCard::post_later(SimItem&& item) {
  item.at_ns = net_.now_ns + net_.random_latency();
  last_event_ns_ = std::max(last_event_ns_, item.at_ns);
  net_.post(number_, std::move(item));
  return Status::pending;
}

Status SimCard::move(const Rma& rma, const SimKey& key, bool write) {
  if (dead()) return Status::invalid;
  if (net_.random.chance(options().again_ppm)) return Status::again;
  if (options().pending_rma && !rma.cookie) return Status::again;
  SimItem item;
  item.kind = SimItem::Kind::move;
  item.number = key.owner;
  item.write = write;
  item.key = key;
  item.offset = rma.remote_offset;
  item.length = rma.bytes;
  item.cookie = rma.cookie;
  item.pieces.assign(rma.pieces, rma.pieces + rma.piece_count);
  if (local && rma.bytes > options().inline_max) {
    TORII_ASSERT(rma.local);
    item.local = rma.local->driver_data;
    check_local(item.local, item.pieces);
  }
  return options().pending_rma ? post_later(std::move(item)) : carry_out(item);
}

Status SimCard::atomic(const RemoteAtomic& atomic, const SimKey& key) {
  if (dead()) return Status::invalid;
  if (net_.random.chance(options().again_ppm)) return Status::again;
  SimItem item;
  item.kind = SimItem::Kind::atomic;
  item.number = key.owner;
  item.key = key;
  item.offset = atomic.remote_offset;
  item.length = atomic.width;
  item.cookie = atomic.cookie;
  item.atomic = atomic;
  return options().pending_rma ? post_later(std::move(item)) : update(item);
}

// Checks a remote access as the target's card would. Null: the reason is in *status.
std::byte* SimCard::reachable(const SimItem& item, uint32_t access, Status* status) const {
  const SimEndpoint& target = net_.endpoints[item.number];
  *status = target.end != Status::ok ? target.end : Status::invalid;
  if (target.end != Status::ok) return nullptr;
  const Region* const region = find_region(item.key);
  if (!region || (region->access & access) != access || item.offset > region->bytes ||
      item.length > region->bytes - item.offset)
    return nullptr;
  return static_cast<std::byte*>(region->base) + item.offset;
}

Status SimCard::update(const SimItem& item) const {
  Status status;
  std::byte* const word = reachable(item, kRemoteUpdate | kGuarded, &status);
  if (!word) return status;
  const RemoteAtomic& atomic = item.atomic;
  if (reinterpret_cast<uintptr_t>(word) % atomic.width != 0) return Status::invalid;
  *atomic.old = apply_atomic(word, atomic.width, atomic.op, atomic.operand, atomic.compare);
  return Status::ok;
}

// All or nothing.
Status SimCard::carry_out(const SimItem& item) const {
  Status status;
  std::byte* remote = reachable(item, item.write ? kRemoteWrite : kRemoteRead, &status);
  if (!remote) return status;
  if (options().denied_rma) return Status::denied;
  if (!reaches(item.local)) return Status::invalid;
  for (const iovec& piece : item.pieces) {
    if (!piece.iov_len) continue;
    if (item.write) {
      std::memcpy(remote, piece.iov_base, piece.iov_len);
    } else {
      std::memcpy(piece.iov_base, remote, piece.iov_len);
    }
    remote += piece.iov_len;
  }
  return Status::ok;
}

}  // namespace torii
