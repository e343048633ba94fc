// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Remote write. The initiator stores to the target's memory, which the target's card finds in its
// page table. Then a frame with the bytes that are no whole words asks the target whether that was
// memory of its own: there is no other answer from a store.
#include <algorithm>
#include <array>

#include "core/base/random.h"
#include "drivers/tnet/driver.h"

namespace torii {

using namespace nic::tnet;

// Recognizes keys that were damaged or made up.
uint64_t TnetDriver::check_of(const Key& key) const {
  uint64_t check = info_.fabric;
  for (const uint64_t word : {uint64_t{key.owner}, uint64_t{key.serial}, uint64_t{key.page},
                              uint64_t{key.offset}, key.bytes})
    check = Random(check ^ word).next();
  return check;
}

Status TnetDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (access & kGuarded) return Status::unsupported;
  if (!base || bytes == 0) return Status::invalid;
  const uint64_t in_page = reinterpret_cast<uintptr_t>(base) % kPageBytes;
  const uint64_t pages = (in_page + bytes + kPageBytes - 1) / kPageBytes;
  constexpr uint64_t kFirst = TnetLayout::kRegions / kPageBytes;
  *out = Region{base, bytes, access, {}, 0, out->label};
  const Status status =
      card_->map(base, bytes, nic::kCardReads | nic::kCardWrites, &out->driver_data);
  if (status != Status::ok || !(access & kRemoteWrite)) return status;
  // The next pages that no other region has, in turn: old keys stay wrong for long.
  uint64_t page = next_page_, tried = 0;
  for (bool free = false; !free; tried++) {
    if (page + pages > kPages - kFirst) page = 0;
    free = std::none_of(exported_.begin(), exported_.end(), [&](const auto& entry) {
      const Exported& e = entry.second;
      const bool overlaps = page < e.key.page + e.pages && e.key.page < page + pages;
      if (overlaps) page = e.key.page + e.pages;
      return overlaps;
    });
    if (pages <= kPages - kFirst && tried <= 2 * exported_.size() + 2) continue;
    card_->unmap(out->driver_data);
    return Status::no_memory;
  }
  next_page_ = static_cast<uint32_t>(page + pages);
  Key key{
      0,    info_.name, next_serial_++, static_cast<uint32_t>(page), static_cast<uint32_t>(in_page),
      bytes};
  key.check = check_of(key);
  std::memcpy(out->key.data(), &key, sizeof(key));
  exported_[key.serial] = {static_cast<std::byte*>(base), key, static_cast<uint32_t>(pages),
                           out->driver_data};
  nic::Control in{kMapPages, {kFirst + page, pages, out->driver_data - in_page}};
  return card_->control(in, &in);
}

void TnetDriver::dereg(Region& region) {
  Key key;
  std::memcpy(&key, region.key.data(), sizeof(key));
  if (const auto it = exported_.find(key.serial); it != exported_.end() && key.owner) {
    nic::Control in{kUnmapPages,
                    {TnetLayout::kRegions / kPageBytes + it->second.key.page, it->second.pages}};
    static_cast<void>(card_->control(in, &in));
    exported_.erase(it);
  }
  card_->unmap(region.driver_data);
  region = Region{};
}

Status TnetDriver::import(PeerId peer, std::span<const std::byte> bytes, uint32_t* remote) {
  Key key;
  if (bytes.size() != sizeof(key)) return Status::invalid;
  std::memcpy(&key, bytes.data(), sizeof(key));
  if (key.check != check_of(key) || key.owner != peers_[peer].name) return Status::invalid;
  *remote = next_import_++;
  imports_[*remote] = key;
  return Status::ok;
}

Status TnetDriver::put(const Rma& rma) {
  const auto import = imports_.find(rma.remote);
  if (import == imports_.end()) return Status::invalid;
  const Key& key = import->second;
  if (rma.remote_offset > key.bytes || rma.bytes > key.bytes - rma.remote_offset)
    return Status::invalid;
  Mate* const mate = find(key.owner);
  reap();
  if (!mate) return Status::peer_dead;
  if (rma.cookie == 0 || !is_ready(*mate) || !has_room() ||
      !mate->out.has_room(cell(mate->name).consumed))
    return Status::again;
  const auto bytes = static_cast<uint32_t>(rma.bytes);
  auto* const from = static_cast<std::byte*>(bytes ? rma.pieces[0].iov_base : nullptr);
  PutHead head{key.serial, next_put_++, rma.remote_offset, bytes, bytes, 0};
  if (bytes > caps_.inline_max) {
    if (!rma.local) return Status::invalid;
    const uint64_t target =
        TnetLayout::kRegions + uint64_t{key.page} * kPageBytes + key.offset + rma.remote_offset;
    head.front = static_cast<uint32_t>(-target % 4);
    head.back = (bytes - head.front) % 4;
    const auto offset = static_cast<uint64_t>(from - static_cast<std::byte*>(rma.local->base));
    const uint32_t endpoint = nic::endpoint_of(key.owner);
    const Status status = send_by_dma(rma.local->driver_data + offset + head.front,
                                      bytes - head.front - head.back, endpoint / info_.contexts,
                                      target + head.front, endpoint % info_.contexts, false);
    if (status != Status::ok) return status;
  }
  const std::array<iovec, 3> pieces{iovec{&head, sizeof(head)}, iovec{from, head.front},
                                    iovec{from + bytes - head.back, head.back}};
  if (!post(*mate, kPutEnd, pieces, sizeof(head) + head.front + head.back)) return Status::again;
  puts_[head.id] = {rma.peer, key.owner, rma.cookie};
  peers_[rma.peer].pending++;
  return Status::pending;
}

// At the target: writes what is left, and finds the answer.
void TnetDriver::finish_put(nic::Name from, std::span<const std::byte> frame) {
  PutHead head;
  if (frame.size() < sizeof(head)) return;
  std::memcpy(&head, frame.data(), sizeof(head));
  const std::span<const std::byte> edges = frame.subspan(sizeof(head));
  const auto it = exported_.find(head.serial);
  Status status = Status::invalid;
  if (it != exported_.end() && head.offset <= it->second.key.bytes &&
      head.bytes <= it->second.key.bytes - head.offset &&
      edges.size() == uint64_t{head.front} + head.back && edges.size() <= head.bytes) {
    std::byte* const to = it->second.base + head.offset;
    if (head.front) std::memcpy(to, edges.data(), head.front);
    if (head.back) std::memcpy(to + head.bytes - head.back, &edges[head.front], head.back);
    status = Status::ok;
  }
  replies_.push_back({from, {head.id, static_cast<uint32_t>(status)}});
}

void TnetDriver::answer_puts() {
  while (!replies_.empty()) {
    auto& [name, reply] = replies_.front();
    const iovec piece{&reply, sizeof(reply)};
    Mate* const mate = find(name);
    if (mate && card_->liveness().life(name) == nic::Life::there &&
        !post(*mate, kPutDone, {&piece, 1}, sizeof(reply)))
      return;
    replies_.pop_front();
  }
}

void TnetDriver::put_done(std::span<const std::byte> frame) {
  PutReply reply;
  if (frame.size() != sizeof(reply)) return;
  std::memcpy(&reply, frame.data(), sizeof(reply));
  const auto put = puts_.find(reply.id);
  if (put == puts_.end()) return;
  const bool good = reply.status == static_cast<uint32_t>(Status::ok);
  dones_.push_back({put->second.peer, put->second.cookie, good ? Status::ok : Status::invalid});
  puts_.erase(put);
}

// Nobody answers those to processes that have ended.
void TnetDriver::end_puts() {
  for (auto it = puts_.begin(); it != puts_.end();) {
    const Put& put = it->second;
    if (card_->liveness().life(put.name) == nic::Life::there) {
      ++it;
      continue;
    }
    dones_.push_back({put.peer, put.cookie, Status::peer_dead});
    it = puts_.erase(it);
  }
}

}  // namespace torii
