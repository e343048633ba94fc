// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The processors that a tool may bind its processes to.
#pragma once

#include <vector>

namespace torii {

// The system's numbers of the processors in this process's affinity mask: first one of each core,
// cores that are close to each other side by side, then the cores' other threads. Without hwloc, or
// if it cannot tell, in the order of their numbers.
std::vector<int> usable_cores();

}  // namespace torii
