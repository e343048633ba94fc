// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/sealed_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace torii {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr auto kTmpfs = 0x01021994;  // where ordinary memfds live; touching others may fail

// False with errno.
bool set_size(int fd, uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;  // ftruncate would not fail but kill the process by SIGXFSZ
    return false;
  }
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fcntl(fd, F_ADD_SEALS, kSeals) == 0;
}

}  // namespace

Descriptor make_memory(const char* name) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = static_cast<int>(syscall(SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL));
  if (fd < 0 && errno == EINVAL)  // a kernel older than the flag
    fd = static_cast<int>(syscall(SYS_memfd_create, name, flags));
  return Descriptor(fd);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap();
    base_ = other.base_;
    bytes_ = other.bytes_;
    other.base_ = nullptr;
    other.bytes_ = 0;
  }
  return *this;
}

bool Mapping::map(int fd, uint64_t offset, size_t bytes, bool writes) {
  unmap();
  void* at = mmap(nullptr, bytes, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd,
                  static_cast<off_t>(offset));
  if (at == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(at);
  bytes_ = bytes;
  return true;
}

void Mapping::unmap() {
  if (base_) munmap(base_, bytes_);
  base_ = nullptr;
  bytes_ = 0;
}

void Mapping::populate(size_t bytes_max, bool writes) const {
  const size_t bytes = !base_ ? 0 : bytes_ < bytes_max ? bytes_ : bytes_max;
  const int saved = errno;
  constexpr size_t kPage = 4096;  // at least
  if (bytes && madvise(base_, bytes, MADV_POPULATE_WRITE) == 0) {
    for (size_t at = 0; at < bytes; at += kPage) {
      auto& word = *reinterpret_cast<std::atomic<uint64_t>*>(base_ + at);
      const uint64_t value = word.load(std::memory_order_relaxed);
      if (writes) word.store(value, std::memory_order_relaxed);
    }
  }
  errno = saved;
}

Descriptor make_sealed(uint64_t bytes, const char* name) {
  Descriptor fd = make_memory(name);
  if (fd && !set_size(fd.get(), bytes)) fd.reset();
  return fd;
}

Descriptor make_sealed_for_readers(uint64_t bytes, const char* name, Mapping* writer) {
  Descriptor fd = bytes ? make_memory(name) : Descriptor();
  if (fd &&
      (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || !writer->map(fd.get(), 0, bytes) ||
       fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE) != 0))
    fd.reset();
  return fd;
}

bool sealed(int fd, struct stat* about) {
  struct statfs where;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && fstatfs(fd, &where) == 0 &&
         where.f_type == kTmpfs && fstat(fd, about) == 0;
}

}  // namespace torii
