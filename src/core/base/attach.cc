// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>

#include "core/base/log.h"

namespace torii {
namespace {

Status status_of(int error) {
  switch (error) {
    case ESRCH:
      return Status::peer_dead;
    case EFAULT:
      return Status::invalid;
    case ENOMEM:
      return Status::no_memory;
    default:
      return Status::denied;  // EPERM, ENOSYS, EACCES and what a seccomp profile invents
  }
}

iovec remote_range(uint64_t address, uint64_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};  // an address of the other process
}

}  // namespace

Status attach_move(const AttachTarget& target, bool write, AttachRanges local, AttachRanges remote,
                   uint64_t bytes, int* error) {
  TORII_ASSERT(local.count <= kAttachPieces && remote.count <= kAttachPieces);
  AttachCookie seen{};
  iovec here[kAttachPieces + 1], there[kAttachPieces + 1];
  const bool prove = target.cookie && !write;
  if (prove) {
    here[0] = {&seen, sizeof(seen)};
    there[0] = remote_range(target.cookie_address, sizeof(seen));
    std::copy_n(local.first, local.count, here + 1);
    std::copy_n(remote.first, remote.count, there + 1);
    local = {here, local.count + 1};
    remote = {there, remote.count + 1};
    bytes += sizeof(seen);
  } else if (target.cookie) {
    const Status same = attach_prove(target.pid, target.cookie_address, *target.cookie, error);
    if (same != Status::ok) return same;
  }
  const ssize_t n = (write ? process_vm_writev : process_vm_readv)(
      target.pid, local.first, local.count, remote.first, remote.count, 0);
  if (n < 0) {
    *error = errno;
    // The cookie comes first: if not even that is mapped, the driver there is closed.
    return prove && *error == EFAULT ? Status::peer_dead : status_of(*error);
  }
  if (prove && !(seen == *target.cookie)) return Status::peer_dead;
  // The kernel stops early only where memory is missing.
  return static_cast<uint64_t>(n) == bytes ? Status::ok : status_of(*error = EFAULT);
}

uint64_t attach_moment() {
#if defined(__x86_64__)
  return __rdtsc() >> 24;
#else
  return 0;
#endif
}

Status attach_prove(pid_t pid, uint64_t address, const AttachCookie& cookie, int* error) {
  AttachCookie seen{};
  const iovec local{&seen, sizeof(seen)};
  const iovec remote = remote_range(address, sizeof(seen));
  const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  if (n < 0) {
    *error = errno;
    return *error == EFAULT ? Status::peer_dead : status_of(*error);
  }
  return n == sizeof(seen) && seen == cookie ? Status::ok : Status::peer_dead;
}

void attach_permit() {
  char scope = '0';
  const int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t n = read(fd, &scope, 1);
  close(fd);
  if (n == 1 && scope == '1') prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

}  // namespace torii
