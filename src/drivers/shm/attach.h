// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Cross-memory attach: reading and writing another process's memory by a system call. The kernel
// may refuse it (Yama, seccomp, missing rights), so it is proved by a real read before it is
// relied on.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>

#include "core/base/status.h"
#include "drivers/shm/layout.h"

namespace torii::shm {

inline constexpr uint32_t kAttachPieces = 256;  // most local ranges of one transfer

// One transfer between `bytes` bytes at `remote_base` of process `pid` and local memory.
struct Transfer {
  pid_t pid;
  uint64_t remote_base;
  const iovec* pieces;  // at most kAttachPieces, `bytes` bytes together
  uint32_t piece_count;
  uint64_t bytes;
  // The process must have this cookie at this address. It proves that the pid still names the
  // process it was: on a read in the same call, on a write in a call before. Null: proved already.
  const Cookie* cookie;
  uint64_t cookie_address;
};

// ok; peer_dead: the process is gone or its pid names another one now; denied: the system forbids
// it (*error says why); invalid: memory of either side is not mapped; no_memory.
Status attach_read(const Transfer& transfer, int* error);
Status attach_write(const Transfer& transfer, int* error);

// Reads the peer's cookie at `address`; ok, denied or peer_dead as above.
Status attach_prove(pid_t pid, uint64_t address, const Cookie& cookie, int* error);

// Allows peers to attach where Yama restricts it to ancestors (ptrace_scope 1); best effort.
void attach_permit();

}  // namespace torii::shm
