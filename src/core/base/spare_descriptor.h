// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#pragma once

#include <errno.h>
#include <fcntl.h>

#include "core/base/descriptor.h"

namespace torii {

// The error of a call that may succeed later, when something has been closed or freed.
inline bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

// A descriptor that is kept back, so that a file can be opened for a moment when the process has
// none left. One thread at a time.
class SpareDescriptor {
 public:
  // Keeps one again, if there is none. May be called at any time.
  void keep() {
    if (!kept_) kept_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  // As open(2), with the descriptor that was kept if there is no other. Empty: failed, with errno.
  Descriptor open(const char* path, int flags) {
    Descriptor fd(::open(path, flags));
    if (fd || (errno != EMFILE && errno != ENFILE) || !kept_) return fd;
    kept_.reset();
    return Descriptor(::open(path, flags));
  }

 private:
  Descriptor kept_;
};

}  // namespace torii
