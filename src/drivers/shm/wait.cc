// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Sleeping and waking. The sleeper says so in its segment and looks at its rings once more; a
// sender publishes a frame and looks whether the receiver sleeps. One of the two must see the
// other, which takes a full barrier between the store and the load on both sides. Sending is
// frequent and sleeping is not: the sleeper runs a barrier on all cores where senders run
// (membarrier), and the sender none.
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/log.h"
#include "drivers/shm/nic.h"

namespace torii {
namespace {

// From linux/membarrier.h (Linux 4.16).
constexpr int kMembarrierQuery = 0;
constexpr int kMembarrierGlobalExpedited = 1 << 1;
constexpr int kMembarrierRegisterGlobalExpedited = 1 << 2;

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

// Finds out who has to order what: see the head of this file.
void ShmDriver::start_waiting() {
  const long known = membarrier(kMembarrierQuery);
  const bool can = known > 0 && (known & kMembarrierGlobalExpedited) &&
                   (known & kMembarrierRegisterGlobalExpedited);
  registered_ = can && membarrier(kMembarrierRegisterGlobalExpedited) == 0;
  header_->needs_fence = registered_ ? 0 : 1;
  caps_.flags |= kWait;
}

// From here on every process that is registered sees what was stored before, and what they stored
// before is seen here. False: the system refuses.
bool ShmDriver::order_everybody() const {
  return registered_ && membarrier(kMembarrierGlobalExpedited) == 0;
}

bool ShmDriver::make_wake_pipe() {
  if (wake_read_) return true;
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    TORII_ERROR("shm: pipe2 failed: %m; raise the limit of open files (ulimit -n)");
    return false;
  }
  wake_read_.reset(ends[0]);
  wake_write_.reset(ends[1]);
  header_->wake_fd.store(ends[1], std::memory_order_release);
  return true;
}

Status ShmDriver::arm(int* fd) {
  if (!make_wake_pipe()) return Status::io_error;
  if (work_waiting()) return Status::again;
  char drained[256];
  while (read(wake_read_.get(), drained, sizeof(drained)) == sizeof(drained)) {
  }
  if (++sleep_number_ == 0) sleep_number_ = 1;
  armed_ = true;
  header_->sleeping.store(sleep_number_, std::memory_order_seq_cst);
  if (!order_everybody()) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (work_waiting()) {
    armed_ = false;
    header_->sleeping.store(0, std::memory_order_relaxed);
    return Status::again;
  }
  *fd = wake_read_.get();
  return Status::ok;
}

bool ShmDriver::work_waiting() {
  if (!cookies_.empty() || put_off_owed_ || endings_ || splits_open_ || !asking_.empty())
    return true;
  if (header_->news.load(std::memory_order_acquire) != news_seen_) return true;
  for (Peer& peer : peers_) {
    if (peer.in.base && !peer.in.empty()) return true;
    if (!peer.blocked || !peer.out.base) continue;
    if (peer.out.released->load(std::memory_order_acquire) + shm::kFirstPosition !=
        peer.out.consumed) {
      peer.blocked = false;  // there is room again: the refused frame can be offered
      return true;
    }
  }
  return false;
}

// The byte first, then the word: a sender killed in between wakes the sleeper all the same. The
// number keeps a late sender from clearing the word of the next sleep.
void ShmDriver::wake(Peer& peer) {
  uint32_t number = peer.there->sleeping.load(std::memory_order_relaxed);
  Details& d = *peer.details;
  if (!d.wake_fd && !d.wake_failed) open_wake_fd(peer);
  if (!d.wake_fd) return;
  if (number) {
    const char byte = 1;
    if (write(d.wake_fd.get(), &byte, 1) != 1 && errno != EAGAIN)
      TORII_DEBUG("shm: waking process %u failed: %m", d.segment.address.pid);
    peer.there->sleeping.compare_exchange_strong(number, 0, std::memory_order_relaxed);
  }
  if (d.wake_kept) return;
  d.wake_fd.reset();
  spare_.keep();
}

void ShmDriver::open_wake_fd(Peer& peer) {
  Details& d = *peer.details;
  const shm::Address& address = d.segment.address;
  const int number = peer.there->wake_fd.load(std::memory_order_acquire);
  if (number < 0 || shm::has_ended(address)) return;
  const std::string path = format_text("/proc/%u/fd/%d", address.pid, number);
  d.wake_fd = shm::open_pipe(path, &spare_);
  d.wake_kept = d.wake_fd && wake_fds_ < descriptors_most_;
  if (d.wake_kept) wake_fds_++;
  // One that woke up by itself may have ended meanwhile.
  if (d.wake_fd || peer.there->sleeping.load(std::memory_order_relaxed) == 0) return;
  if (is_shortage(errno)) return;
  d.wake_failed = true;
  TORII_WARN("shm: process %u sleeps and cannot be woken through %s: %m; it looks by itself later",
             address.pid, path.c_str());
}

}  // namespace torii
