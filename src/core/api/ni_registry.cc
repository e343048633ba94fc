// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/api/ni_registry.h"

#include <atomic>
#include <mutex>

namespace torii {

namespace {

struct RegisteredNi {
  std::atomic<Portals*> portals{nullptr};
  std::atomic<uint32_t> epoch{0};  // how often this number was given out
  RankOverride rank;               // under the interface's lock
  RankMaps maps;                   // likewise
};

std::mutex g_lock;  // registering only; finding is free of locks
RegisteredNi g_interfaces[kMaxInterfaces];

}  // namespace

ptl_handle_ni_t ni_handle(NiTag tag) {
  const uint64_t epoch = g_interfaces[tag_ni(tag)].epoch.load(std::memory_order_acquire);
  return make_handle(HandleKind::ni, tag, epoch << 32);
}

ptl_handle_ni_t register_ni(Portals& portals, const ptl_ni_limits_t* desired) {
  std::lock_guard guard(g_lock);
  for (unsigned i = 0; i < kMaxInterfaces; ++i) {
    RegisteredNi& ni = g_interfaces[i];
    if (ni.portals.load()) continue;
    const uint32_t epoch = ni.epoch.load() + 1;
    ni.epoch.store(epoch, std::memory_order_release);
    ni.rank = {};
    ni.maps = {};
    const NiTag tag = make_tag(i, epoch);
    portals.host().lock();
    portals.open(tag, Portals::grant(desired));
    portals.host().unlock();
    ni.portals.store(&portals, std::memory_order_release);
    return ni_handle(tag);
  }
  return PTL_INVALID_HANDLE;
}

bool unregister_ni(ptl_handle_ni_t handle) {
  std::lock_guard guard(g_lock);
  Portals* portals = handle_kind(handle) == HandleKind::ni ? find_ni(handle) : nullptr;
  if (!portals) return false;
  g_interfaces[tag_ni(handle_tag(handle))].portals.store(nullptr, std::memory_order_release);
  portals->host().lock();
  portals->close();
  portals->host().unlock();
  return true;
}

Portals* find_ni(ptl_handle_any_t handle) {
  const HandleKind kind = handle_kind(handle);
  if (kind == HandleKind::none) return nullptr;
  const NiTag tag = handle_tag(handle);
  RegisteredNi& ni = g_interfaces[tag_ni(tag)];
  Portals* portals = ni.portals.load(std::memory_order_acquire);
  if (!portals || make_tag(tag_ni(tag), ni.epoch.load(std::memory_order_relaxed)) != tag)
    return nullptr;
  if (kind == HandleKind::ni && handle != ni_handle(tag)) return nullptr;
  return portals;
}

RankOverride* rank_override(ptl_handle_ni_t handle) {
  return &g_interfaces[tag_ni(handle_tag(handle))].rank;
}

RankMaps* rank_maps(ptl_handle_ni_t handle) {
  return &g_interfaces[tag_ni(handle_tag(handle))].maps;
}

}  // namespace torii
