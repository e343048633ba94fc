// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A child of fork() has copies of its parent's network interfaces. They stay the parent's: the
// child neither uses nor closes them, and does not keep their sockets open when the parent has
// ended.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace torii {

// The process that made something.
class OwnerProcess {
 public:
  // This process is another one, a child of fork(). A system call: not for hot paths.
  bool forked() const { return getpid() != pid_; }

 private:
  pid_t pid_ = getpid();
};

// The things of one kind that this process has open, for the handler that runs in its children. A
// table and no list: a child finds it whole, whatever another thread of its parent was doing. A
// Value of 0 is none.
template <typename Value, size_t kPlaces>
class ForkTable {
 public:
  // False: the table is full.
  bool add(Value value) { return replace(Value{}, value); }
  void remove(Value value) { replace(value, Value{}); }
  template <typename Function>
  void each(Function function) {
    for (auto& place : places_)
      if (const Value value = place.load()) function(value);
  }

 private:
  bool replace(Value from, Value to) {
    for (auto& place : places_) {
      Value expected = from;
      if (place.load(std::memory_order_relaxed) == from &&
          place.compare_exchange_strong(expected, to))
        return true;
    }
    return false;
  }

  std::atomic<Value> places_[kPlaces] = {};
};

// How often this process has forked since this was first asked; in a child one more than in its
// parent before. A few ns.
uint64_t count_forks();

// The descriptor is closed in every child of a later fork(). At most some thousand; further ones
// stay open there.
void close_in_children(int fd);
// Before the descriptor is closed here.
void forget_in_children(int fd);

}  // namespace torii
