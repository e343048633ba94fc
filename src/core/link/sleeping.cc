// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Sleeping while frames are under way: what has to be said is said before, and a timer rings when
// one has to go again.
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/link/link_driver.h"

namespace torii::link {

Alarm::~Alarm() {
  for (const int fd : {timer_, both_})
    if (fd >= 0) close(fd);
}

// A descriptor that turns readable with `other`, or after `ns`; -1: the system gives none.
int Alarm::set(int other, uint64_t ns) {
  if (timer_ < 0) timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (both_ < 0) both_ = epoll_create1(EPOLL_CLOEXEC);
  if (timer_ < 0 || both_ < 0) return -1;
  const itimerspec when{{},
                        {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)}};
  if (timerfd_settime(timer_, 0, &when, nullptr) != 0) return -1;
  epoll_event event{};
  event.events = EPOLLIN;
  // The descriptor of the driver below may be another one each time, with the same number.
  if (other_ >= 0) epoll_ctl(both_, EPOLL_CTL_DEL, other_, nullptr);
  other_ = other;
  if (epoll_ctl(both_, EPOLL_CTL_ADD, other, &event) != 0) return -1;
  if (!timer_listed_ && epoll_ctl(both_, EPOLL_CTL_ADD, timer_, &event) != 0) return -1;
  timer_listed_ = true;
  return both_;
}

// 0: the peer needs service now; else how long it can do without.
uint64_t LinkDriver::rest_of(PeerId id, Peer& peer) {
  if (peer.down != Status::ok || peer.slots.has(peer.expected)) return 0;
  if (peer.owes_ack) send_ack(id, peer);
  if (peer.owes_ack) return 0;
  if (peer.sent.empty()) return ~uint64_t{0};
  if (!peer.heard) return greeting_rest(peer);
  const size_t at = first_waiting(peer);
  const uint8_t next = rail_for(id, peer, peer.sent.size() - at);
  if (peer.flying == 0 || room_for(peer, peer.rails[next], at) > 0) return 0;
  uint64_t rest_ns = ~uint64_t{0};
  for (uint8_t i = 0; i < peer.rails.size(); i++) {
    if (!peer.rails[i].flying) continue;
    const Rail& rail = peer.rails[i];
    const uint64_t end_ns = std::max(peer.sent[oldest_flying(peer, i)].sent_ns, rail.restarted_ns) +
                            rail.timer.timeout_ns();
    rest_ns = std::min(rest_ns, end_ns > now_ns_ ? end_ns - now_ns_ : 0);
  }
  return rest_ns;
}

Status LinkDriver::arm(int* fd) {
  if (!(caps_.flags & kWait)) return below_->arm(fd);
  if (!completed_.empty()) return Status::again;
  uint64_t rest_ns = ~uint64_t{0};
  for (const PeerId id : active_) {
    rest_ns = std::min(rest_ns, rest_of(id, *peers_[id]));
    if (rest_ns == 0) return Status::again;
  }
  const Status status = below_->arm(fd);
  listening_ = status == Status::ok;
  if (status != Status::ok || rest_ns == ~uint64_t{0}) return status;
  *fd = alarm_.set(*fd, rest_ns);
  return *fd < 0 ? Status::again : Status::ok;
}

}  // namespace torii::link
