// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The machine, as far as the speed of copies depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torii {

struct Hardware {
  std::string model = "unknown processor";  // as the kernel names it
  unsigned processors = 1;                  // online
  uint64_t caches[3] = {};  // bytes of the data caches of levels 1 to 3; 0: none, or unknown
  bool attach = false;      // the kernel lets a process use cross-memory attach at all
  uint64_t attach_ns = 0;   // what one call of it costs beside the copy; 0: unknown
  // The last-level cache spreads lines over slices by a hash (CPUID leaf 4, "complex indexing").
  bool hashed_cache = false;
};

// This machine; read once, from a dozen small files. (hwloc, which knows the same, takes 10 to
// 50 ms to load its plug-ins, in every process of a job.)
const Hardware& hardware();

// The machine as the files under `root` have it: proc/cpuinfo, sys/devices/system/cpu/cpu0/cache.
Hardware read_hardware(const std::string& root, unsigned processors, bool attach,
                       uint64_t attach_ns = 0);

// One line that tells machines apart whose measurements differ. Contains no brackets.
std::string signature_of(const Hardware& machine);

// The RDMA devices of this machine, as the kernel names them ("mlx5_0"), sorted.
std::vector<std::string> rdma_devices();

// Bytes with the largest suffix k, m or g that leaves a whole number, as parameters are written.
std::string size_text(uint64_t bytes);

}  // namespace torii
