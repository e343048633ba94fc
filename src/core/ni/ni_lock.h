// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The lock of an interface, as strong as its users need it. The progress thread is a visitor: it
// comes in only while nobody else is inside, and it knows whether somebody was since it last
// looked. For an application of one thread the lock then costs two plain stores: the visitor says
// that it comes, makes the kernel run a barrier on all processors where this process runs
// (membarrier), and looks whether the application is inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace torii {

class NiLock {
 public:
  enum class Kind : uint8_t {
    none,     // one thread
    outer,    // one thread at a time: the application has a lock of its own
    mutex,    // several threads
    biased,   // one thread at a time, and the visitor
    visited,  // several threads, and the visitor
    forked    // nobody: this process is a child of the one whose interface it is
  };

  enum class Users : uint8_t {
    one_thread,
    in_turn,  // several threads, under a lock of their own
    threads   // several at once
  };

  // The kind for these users. Registers the process for the barrier that `biased` needs.
  static Kind kind_for(Users users, bool visitor);
  Kind kind() const { return kind_; }
  // While nobody uses the lock.
  void use(Kind kind) { kind_ = kind; }

  void lock() {
    if (__builtin_expect(kind_ <= Kind::outer, 1)) return;
    if (kind_ == Kind::mutex) return mutex_.lock();
    kind_ == Kind::biased ? enter() : enter_visited();
  }
  // False: another thread of the application is inside.
  bool try_lock() {
    if (__builtin_expect(kind_ <= Kind::outer, 1)) return true;
    if (kind_ == Kind::mutex) return mutex_.try_lock();
    if (kind_ != Kind::biased) return try_enter_visited();
    enter();
    return true;
  }
  void unlock() {
    if (__builtin_expect(kind_ <= Kind::outer, 1)) return;
    if (kind_ == Kind::mutex) return mutex_.unlock();
    count_turn(std::memory_order_release);
    if (kind_ == Kind::visited) mutex_.unlock();
  }

  // For the visitor. False: somebody is inside, or about to be.
  bool visit();
  void leave();
  // Somebody waits for the visitor to leave.
  bool visitor_in_the_way() const { return wanted_.load(std::memory_order_relaxed); }
  // Changes whenever the application takes the lock or gives it back; odd while it is inside.
  uint32_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  void count_turn(std::memory_order order) {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, order);
  }
  void enter() {
    count_turn(std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(visitor_.load(std::memory_order_acquire), 0)) enter_after_visitor();
  }
  [[gnu::noinline]] void enter_after_visitor();
  [[gnu::noinline]] void enter_visited();
  [[gnu::noinline]] bool try_enter_visited();
  void await_visitor();
  void refuse_children() const;

  Kind kind_ = Kind::none;
  std::atomic<bool> visitor_{false};  // is inside, or about to look whether it can be
  std::atomic<bool> wanted_{false};
  std::atomic<uint32_t> turns_{0};
  std::mutex mutex_;  // biased: the visitor's, and who has to wait for it
};

}  // namespace torii
