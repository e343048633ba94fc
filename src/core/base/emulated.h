// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The emulated cluster that torii-fabric runs a job on, as it tells the processes by the variable
// TORII_FABRIC=SOCKET,NODES. The emulated node of a process is the node that Torii sees: processes
// of others share no memory with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace torii {

inline constexpr char kFabricVariable[] = "TORII_FABRIC";
inline constexpr uint32_t kNoEmulatedNode = ~0u;
inline constexpr uint32_t kEmulatedNodesMax = 1 << 16;

struct EmulatedCluster {
  std::string socket;  // abstract name of the emulator's
  uint32_t nodes = 0;
};

std::string emulated_cluster_text(const EmulatedCluster& cluster);
// False: the text is none of the above.
bool parse_emulated_cluster(std::string_view text, EmulatedCluster* out);
// Where this process runs. False with the reason in *why: not under torii-fabric, or the variable
// makes no sense.
bool find_emulated_cluster(EmulatedCluster* out, std::string* why);
// Is there such a variable?
bool on_emulated_cluster();

// The node of a rank: ranks are spread over the nodes in blocks, as evenly as they fit.
// kNoEmulatedNode: no emulated cluster.
uint32_t emulated_node(uint32_t rank, uint32_t size);

}  // namespace torii
