// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory that processes share by a memfd: it has no name in any folder, and ends with the last
// process that has it. Sealed against shrinking, so that nobody who shares it can cause a SIGBUS.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "core/base/descriptor.h"

namespace torii {

// A mapping of shared memory; unmaps itself.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : base_(other.base_), bytes_(other.bytes_) {
    other.base_ = nullptr;
    other.bytes_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { unmap(); }

  // Maps [offset, offset + bytes) of the file, for writing as well if it `writes`; false with
  // errno.
  bool map(int fd, uint64_t offset, size_t bytes, bool writes = true);
  void unmap();
  // Takes page faults now rather than one by one on the way, and accesses each page, because a
  // hypervisor may leave its part of the work to the first access; best effort. `writes`: nobody
  // else writes to it now.
  void populate(size_t bytes_max, bool writes) const;
  std::byte* base() const { return base_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

// A new memfd, empty and without a size. No descriptor, with errno: the system does not let us.
Descriptor make_memory(const char* name = "torii");
// The same of a size that can neither shrink nor grow afterwards.
Descriptor make_sealed(uint64_t bytes, const char* name = "torii");
// Both, and maps it: nobody else can map it for writing, whoever has the descriptor. Without bytes
// there is no descriptor.
Descriptor make_sealed_for_readers(uint64_t bytes, const char* name, Mapping* writer);
// Is the file one that these could have made? Fills in *about.
bool sealed(int fd, struct stat* about);

}  // namespace torii
