// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/emulated.h"

#include <charconv>
#include <cstdlib>

#include "core/base/log.h"

namespace torii {

std::string emulated_cluster_text(const EmulatedCluster& cluster) {
  return format_text("%s,%u", cluster.socket.c_str(), cluster.nodes);
}

bool parse_emulated_cluster(std::string_view text, EmulatedCluster* out) {
  const size_t comma = text.rfind(',');
  if (comma == 0 || comma == text.npos || comma > 100) return false;
  const char* const end = text.data() + text.size();
  uint32_t nodes = 0;
  const auto [stop, error] = std::from_chars(text.data() + comma + 1, end, nodes);
  if (error != std::errc() || stop != end || nodes == 0 || nodes > kEmulatedNodesMax) return false;
  *out = {std::string(text.substr(0, comma)), nodes};
  return true;
}

bool find_emulated_cluster(EmulatedCluster* out, std::string* why) {
  const char* const text = getenv(kFabricVariable);
  if (text && parse_emulated_cluster(text, out)) return true;
  *why = text ? format_text("%s=%s: expected SOCKET,NODES, as torii-fabric sets it; leave it out",
                            kFabricVariable, text)
              : "there is an emulated card only under torii-fabric; start the job by it";
  return false;
}

bool on_emulated_cluster() { return getenv(kFabricVariable) != nullptr; }

uint32_t emulated_node(uint32_t rank, uint32_t size) {
  EmulatedCluster cluster;
  std::string why;
  if (!on_emulated_cluster() || !find_emulated_cluster(&cluster, &why)) return kNoEmulatedNode;
  if (size == 0) return 0;
  return static_cast<uint32_t>(uint64_t{rank % size} * cluster.nodes / size);
}

}  // namespace torii
