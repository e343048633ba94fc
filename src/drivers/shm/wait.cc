// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Sleeping and waking, and who has ended.
//
// The sleeper says so in its segment and looks at its rings once more; a sender publishes a frame
// and looks whether the receiver sleeps. One of the two must see the other, which takes a full
// barrier on both sides. Sending is frequent and sleeping is not: the sleeper runs the barrier on
// all cores where senders run (membarrier).
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/log.h"
#include "drivers/shm/peers.h"

#include <algorithm>

namespace torii::shm {
namespace {

// From linux/membarrier.h (Linux 4.16).
constexpr int kMembarrierGlobalExpedited = 1 << 1;
constexpr int kMembarrierRegisterGlobalExpedited = 1 << 2;

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

constexpr uint64_t kCheckIntervalNs = 50'000'000;
constexpr uint64_t kAwaitIntervalNs = 1'000'000;  // the same while segments are awaited
constexpr unsigned kStatsPerCheck = 16;
constexpr rlim_t kProgramsFiles = 64;  // descriptors that the program may need
constexpr rlim_t kDescriptorsMost = 16384;

}  // namespace

// Finds out who has to order what: see the head of this file.
void Peers::start_waiting() {
  registered_ = membarrier(kMembarrierRegisterGlobalExpedited) == 0;
  header_->needs_fence = registered_ ? 0 : 1;
}

bool Peers::order_everybody() const {
  return registered_ && membarrier(kMembarrierGlobalExpedited) == 0;
}

bool Peers::make_wake_pipe() {
  if (wake_read_) return true;
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    TORII_ERROR("shm: pipe2 failed: %m; raise the limit of open files (ulimit -n)");
    return false;
  }
  wake_read_.reset(ends[0]);
  wake_write_.reset(ends[1]);
  header_->wake_fd.store(ends[1], release);
  return true;
}

Status Peers::arm(int* fd) {
  if (!make_wake_pipe()) return Status::io_error;
  if (work_waiting()) return Status::again;
  char drained[256];
  while (read(wake_read_.get(), drained, sizeof(drained)) == sizeof(drained)) {
  }
  if (++sleep_number_ == 0) sleep_number_ = 1;
  armed_ = true;
  header_->sleeping.store(sleep_number_, seq_cst);
  if (!order_everybody()) std::atomic_thread_fence(seq_cst);
  if (work_waiting()) {
    armed_ = false;
    header_->sleeping.store(0, relaxed);
    return Status::again;
  }
  *fd = wake_read_.get();
  return Status::ok;
}

bool Peers::work_waiting() {
  if (endings_) return true;
  if (header_->news.load(acquire) != news_seen_) return true;
  for (Peer& peer : all_) {
    if (peer.in.base && !peer.in.empty()) return true;
    if (!peer.blocked || !peer.out.base) continue;
    if (peer.out.released->load(acquire) + kFirstPosition != peer.out.consumed) {
      peer.blocked = false;  // there is room again: the refused frame can be offered
      return true;
    }
  }
  return false;
}

// The byte first, then the word: a sender killed in between wakes the sleeper all the same. The
// number keeps a late sender from clearing the word of the next sleep.
void Peers::wake(Peer& peer) {
  uint32_t number = peer.there->sleeping.load(relaxed);
  PeerDetails& d = *peer.details;
  if (!d.wake_fd && !d.wake_failed) open_wake_fd(peer);
  if (!d.wake_fd) return;
  if (number) {
    const char byte = 1;
    if (write(d.wake_fd.get(), &byte, 1) != 1 && errno != EAGAIN)
      TORII_DEBUG("shm: waking process %u failed: %m", d.segment.address.pid);
    peer.there->sleeping.compare_exchange_strong(number, 0, relaxed);
  }
  if (d.wake_kept) return;
  d.wake_fd.reset();
  spare_.keep();
}

void Peers::open_wake_fd(Peer& peer) {
  PeerDetails& d = *peer.details;
  const Address& address = d.segment.address;
  const int number = peer.there->wake_fd.load(acquire);
  if (number < 0 || has_ended(address)) return;
  const std::string path = format_text("/proc/%u/fd/%d", address.pid, number);
  d.wake_fd = open_pipe(path, &spare_);
  d.wake_kept = d.wake_fd && wake_fds_ < descriptors_most_;
  if (d.wake_kept) wake_fds_++;
  // One that woke up by itself may have ended meanwhile.
  if (d.wake_fd || peer.there->sleeping.load(relaxed) == 0) return;
  if (is_shortage(errno)) return;
  d.wake_failed = true;
  TORII_WARN("shm: process %u sleeps and cannot be woken through %s: %m; it looks by itself later",
             address.pid, path.c_str());
}

// --- which processes have ended ------------------------------------------------------------------

// The limit on open files is the whole program's: what it may need comes first.
void Peers::budget_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t left = limit.rlim_cur > kProgramsFiles ? limit.rlim_cur - kProgramsFiles : 0;
  descriptors_most_ = static_cast<unsigned>(std::clamp<rlim_t>(left / 4, 1, kDescriptorsMost));
  spare_.keep();
}

void Peers::watch(Peer& peer) {
  const Address& address = peer.details->segment.address;
  next_check_ns_ = 0;
  if (address.pid == segment_.address.pid || pidfds_ >= descriptors_most_) return;
  Descriptor fd(static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0)));
  // The process of that pid may be a later one: then the check by start time finds out.
  if (!fd || has_ended(address)) return;
  peer.details->pidfd = std::move(fd);
  pidfds_++;
}

void Peers::check_peers(uint64_t now_ns) {
  next_check_ns_ = now_ns + (awaited_ ? kAwaitIntervalNs : kCheckIntervalNs);
  spare_.keep();
  std::vector<PeerId> dead;
  watched_.assign(1, {giver_.fd(), POLLIN, 0});  // a number below 0 is passed over
  watched_ids_.assign(1, kNoPeer);
  for (const Peer& peer : all_) {
    if (peer.stage != Stage::up || !peer.details->pidfd) continue;
    watched_.push_back({peer.details->pidfd.get(), POLLIN, 0});
    watched_ids_.push_back(peer.id);
  }
  ::poll(watched_.data(), watched_.size(), 0);
  if (watched_[0].revents) answer_requests();
  for (size_t i = 1; i < watched_.size(); i++)
    if (watched_[i].revents) dead.push_back(watched_ids_[i]);
  for (size_t i = 0; i < all_.size() && awaited_; i++) {
    Peer& peer = all_[i];
    if (peer.up() && peer.details->awaited) take_segment(peer);
  }
  unsigned looks = 0;
  for (size_t n = all_.size(); n && looks < kStatsPerCheck; n--) {
    if (next_stat_ >= all_.size()) next_stat_ = 0;
    Peer& peer = all_[next_stat_++];
    if (peer.stage != Stage::up || peer.details->pidfd) continue;
    if (peer.pid() == segment_.address.pid) continue;
    looks++;
    if (has_ended(peer.details->segment.address)) dead.push_back(peer.id);
  }
  // All that a dead process wrote is complete now: the rings it claimed, the frames in them, and
  // whether it closed in good order.
  read_news();
  for (const PeerId id : dead) end(all_[id], Status::peer_dead);
}

}  // namespace torii::shm
