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

namespace torii {

inline constexpr uint32_t kAttachPieces = 64;  // most local ranges of one transfer

// Random: what has it is the process that it was.
struct AttachCookie {
  uint64_t words[2];
  bool operator==(const AttachCookie&) const = default;
};

// Whose memory is reached. The process must have this cookie at this address, which proves that the
// pid still names the process it was: on a read in the same call, on a write in a call before.
struct AttachTarget {
  pid_t pid;
  const AttachCookie* cookie;  // null: proved already
  uint64_t cookie_address;
};

// At most kAttachPieces ranges of memory, `bytes` bytes together.
struct AttachRanges {
  const iovec* first;
  uint32_t count;
};

// Moves `bytes` bytes between ranges there and ranges here, in their order, by one system call. ok;
// peer_dead: the process is gone or its pid names another one now; denied: the system forbids it
// (*error says why); invalid: memory of either side is not mapped; no_memory. An error: some bytes
// may have been moved.
Status attach_move(const AttachTarget& target, bool write, AttachRanges local, AttachRanges remote,
                   uint64_t bytes, int* error);

// Counts spans of 3 to 10 ms; always 0 where the processor has no counter for it.
uint64_t attach_moment();

// Reads the peer's cookie at `address`; ok, denied or peer_dead as above.
Status attach_prove(pid_t pid, uint64_t address, const AttachCookie& cookie, int* error);

// Allows peers to attach where Yama restricts it to ancestors (ptrace_scope 1); best effort.
void attach_permit();

}  // namespace torii
