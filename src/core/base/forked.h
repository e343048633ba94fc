// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A child of fork() has copies of its parent's network interfaces. They stay the parent's: the
// child neither uses nor closes them, and does not keep their sockets open when the parent has
// ended.
#pragma once

#include <unistd.h>

namespace torii {

// The process that made something.
class OwnerProcess {
 public:
  // This process is another one, a child of fork(). A system call: not for hot paths.
  bool forked() const { return getpid() != pid_; }

 private:
  pid_t pid_ = getpid();
};

// The descriptor is closed in every child of a later fork(). At most some thousand; further ones
// stay open there.
void close_in_children(int fd);
// Before the descriptor is closed here.
void forget_in_children(int fd);

}  // namespace torii
