// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How many processors the processes on this node may use together.
#pragma once

#include <cstdint>
#include <string>

namespace torii {

// The processors that are online, or fewer if this process's control group has a set of its own or
// a quota: then possibly a fraction. Where one process is bound does not count: each may be bound
// to another processor. At least 0.01. Reads files; not for hot paths.
double usable_processors();

// The same for a list of control groups as in /proc/self/cgroup, and the place where their
// hierarchies are mounted. Both versions; `online` if nothing there says less.
double usable_processors(const std::string& cgroups, const std::string& mount, double online);

// May sched_yield in this process let process `pid` of this node run? Not if the kernel shares the
// processors among sessions first (autogroups) and that one belongs to another session.
bool yield_reaches(uint32_t pid);

}  // namespace torii
