// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The interfaces that Portals handles of this process can name: the one that PtlNIInit opens,
// and in simulations any number of others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/portals/portals.h"

namespace torii {

// Makes `portals` open (with Portals::grant(desired)) and known; returns its handle, or
// PTL_INVALID_HANDLE if kMaxInterfaces are known. It must live until unregister_ni().
ptl_handle_ni_t register_ni(Portals& portals, const ptl_ni_limits_t* desired = nullptr);
// Closes it; its handles become invalid. False: no such interface.
bool unregister_ni(ptl_handle_ni_t ni);
// The interface of a handle of any kind (the object itself may be gone), or null.
Portals* find_ni(ptl_handle_any_t handle);
// The handle of a registered interface.
ptl_handle_ni_t ni_handle(NiTag tag);

// The rank and size that PtlSetRank gave to an interface.
struct RankOverride {
  bool set = false;
  uint32_t rank = 0;
  uint32_t size = 0;
};

// The pid of this process on its node, as the program wants it. With PTL_PID_ANY, `map` has the pid
// of each rank of `group` (not set: of the job); if it is empty, the launcher says.
struct PidRequest {
  ptl_pid_t pid = PTL_PID_ANY;
  std::span<const ptl_pid_t> map;
  RankOverride group;
};

// How PtlNIInit comes to its interface.
struct NiOpener {
  // `invalid`: that pid cannot be had; *why has one sentence for the user.
  Status (*open)(const PidRequest& request, Portals** out, std::string* why);
  void (*close)(Portals* portals);
  // The last PtlFini, with the interface closed: this process has no part in the job any more.
  void (*leave)();
};
// Replaces the opener; null: PtlNIInit finds no interface. Returns the former one.
const NiOpener* set_ni_opener(const NiOpener* opener);

// The rank and size that PtlSetRank gave to the interface.
RankOverride* rank_override(ptl_handle_ni_t ni);

// The ids that PtlSetNIDMap and PtlSetPIDMap gave to the ranks; empty: those of the launcher.
struct RankMaps {
  std::vector<ptl_nid_t> nids;
  std::vector<ptl_pid_t> pids;
};
RankMaps* rank_maps(ptl_handle_ni_t ni);

}  // namespace torii
