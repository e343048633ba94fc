// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The permissions of this machine and container, as far as they bear on the choice of paths.
#pragma once

#include <string>

namespace torii {

// Whether a process may read the memory of another one of the same user that allows it; "allowed"
// or the reason and the remedy. Found by trying, with two child processes.
std::string attach_fact();
// Cores this process may use: the affinity mask, and the control groups' quota where it is lower.
std::string cores_fact();
// Size and free bytes of /dev/shm.
std::string shared_memory_fact();
// Whether interfaces run a progress thread, and what that costs the application's own calls.
std::string progress_thread_fact();
// The RDMA devices of this node.
std::string rdma_fact();
// How much memory a process may lock, which is how much an RDMA device can reach; with the remedy
// if that is little and there is one.
std::string locked_memory_fact();
// Whether processes are numbered in a namespace of their own, as in containers.
std::string pid_namespace_fact();

}  // namespace torii
