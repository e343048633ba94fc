// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/shm/attach.h"

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

namespace torii::shm {
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

// The pieces of a transfer that are not yet moved.
class Remaining {
 public:
  // `lead`, if given, comes before the pieces and stays until it is dropped.
  Remaining(const Transfer& t, const iovec* lead) {
    if (lead) ranges_[count_++] = *lead;
    std::copy(t.pieces, t.pieces + t.piece_count, ranges_ + count_);
    count_ += t.piece_count;
  }
  const iovec* ranges() const { return ranges_ + first_; }
  unsigned long count() const { return count_ - first_; }
  void advance(size_t n) {
    while (first_ < count_ && n >= ranges_[first_].iov_len) n -= ranges_[first_++].iov_len;
    if (first_ == count_) return;
    ranges_[first_].iov_base = static_cast<char*>(ranges_[first_].iov_base) + n;
    ranges_[first_].iov_len -= n;
  }

 private:
  iovec ranges_[kAttachPieces + 1];
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

// Where it is not proved already, by a call of its own.
Status prove(const Target& target, int* error) {
  if (!target.cookie) return Status::ok;
  return attach_prove(target.pid, target.cookie_address, *target.cookie, error);
}

iovec remote_range(uint64_t address, uint64_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};  // an address of the other process
}

}  // namespace

Status attach_read(const Target& target, const Transfer& t, int* error) {
  Cookie seen{};
  const iovec lead{&seen, sizeof(seen)};
  Remaining local(t, target.cookie ? &lead : nullptr);
  uint64_t moved = 0;
  while (moved < t.bytes) {
    const bool prove = target.cookie && moved == 0;
    const iovec remote[2] = {remote_range(target.cookie_address, sizeof(Cookie)),
                             remote_range(t.remote_base + moved, t.bytes - moved)};
    const ssize_t n = process_vm_readv(target.pid, local.ranges(), local.count(), remote + !prove,
                                       prove ? 2 : 1, 0);
    if (n < 0) {
      *error = errno;
      // The cookie comes first: if not even that is mapped, the driver there is closed.
      return prove && *error == EFAULT ? Status::peer_dead : status_of(*error);
    }
    size_t got = static_cast<size_t>(n);
    if (prove) {
      if (got < sizeof(seen) || !(seen == *target.cookie)) return Status::peer_dead;
      if (got == sizeof(seen)) return status_of(*error = EFAULT);
      local.advance(sizeof(seen));
      got -= sizeof(seen);
    }
    if (!got) return status_of(*error = EFAULT);
    local.advance(got);
    moved += got;
  }
  return Status::ok;
}

Status attach_read_all(const Target& target, const iovec* local, const iovec* remote,
                       uint32_t count, uint64_t bytes, int* error) {
  TORII_ASSERT(count <= kAttachPieces);
  Cookie seen{};
  iovec here[kAttachPieces + 1], there[kAttachPieces + 1];
  uint32_t ranges = 0;
  uint64_t wanted = bytes;
  if (target.cookie) {
    here[ranges] = {&seen, sizeof(seen)};
    there[ranges++] = remote_range(target.cookie_address, sizeof(Cookie));
    wanted += sizeof(seen);
  }
  std::copy(local, local + count, here + ranges);
  std::copy(remote, remote + count, there + ranges);
  ranges += count;
  const ssize_t n = process_vm_readv(target.pid, here, ranges, there, ranges, 0);
  if (n < 0) return status_of(*error = errno);
  if (target.cookie && !(seen == *target.cookie)) return Status::peer_dead;
  return static_cast<uint64_t>(n) == wanted ? Status::ok : status_of(*error = EFAULT);
}

Status attach_write_all(const Target& target, const iovec* local, const iovec* remote,
                        uint32_t count, uint64_t bytes, int* error) {
  if (const Status same = prove(target, error); same != Status::ok) return same;
  const ssize_t n = process_vm_writev(target.pid, local, count, remote, count, 0);
  if (n < 0) return status_of(*error = errno);
  return static_cast<uint64_t>(n) == bytes ? Status::ok : status_of(*error = EFAULT);
}

Status attach_write(const Target& target, const Transfer& t, int* error) {
  if (const Status same = prove(target, error); same != Status::ok) return same;
  Remaining local(t, nullptr);
  uint64_t moved = 0;
  while (moved < t.bytes) {
    const iovec remote = remote_range(t.remote_base + moved, t.bytes - moved);
    const ssize_t n = process_vm_writev(target.pid, local.ranges(), local.count(), &remote, 1, 0);
    if (n < 0) return status_of(*error = errno);
    if (n == 0) return status_of(*error = EFAULT);
    local.advance(static_cast<size_t>(n));
    moved += static_cast<size_t>(n);
  }
  return Status::ok;
}

uint64_t attach_moment() {
#if defined(__x86_64__)
  return __rdtsc() >> 24;
#else
  return 0;
#endif
}

Status attach_prove(pid_t pid, uint64_t address, const Cookie& cookie, int* error) {
  Cookie seen{};
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

}  // namespace torii::shm
