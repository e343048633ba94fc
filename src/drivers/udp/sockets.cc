// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which socket: one for everybody, one connected to each of the rails that are used most, one
// for each group. A connected one saves the system the search for the way. Any of them may have
// something; mostly it is the one that had something last.
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "drivers/udp/nic.h"

namespace torii::udp {
namespace {

constexpr size_t kDirectMax = 8;          // connected sockets
constexpr uint32_t kSendsForDirect = 32;  // before a peer gets one
constexpr uint64_t kIdleNs = 100000000;   // then another peer may have it
constexpr unsigned kAsksOfOne = 4;        // before the others are asked

}  // namespace

// Something is sent to the peer by this rail again: is that worth a socket? Not where a poll that
// misses a datagram costs a time slice of the others.
void UdpDriver::consider_direct(PeerId id, uint8_t number) {
  if (take_turns_) return;
  Rail& rail = peers_[id].rails[number];
  rail.used_ns = now_ns_;
  if (rail.direct.fd >= 0 || ++rail.sends < kSendsForDirect) return;
  rail.sends = 0;
  const auto rail_of = [&](const auto& one) -> Rail& {
    return peers_[one.first].rails[one.second];
  };
  if (direct_.size() == kDirectMax) {
    Rail& oldest = rail_of(*std::min_element(
        direct_.begin(), direct_.end(),
        [&](const auto& a, const auto& b) { return rail_of(a).used_ns < rail_of(b).used_ns; }));
    if (now_ns_ - oldest.used_ns < kIdleNs) return;
    retire_direct(oldest);
  }
  std::vector<Socket> at_port = {socket_};
  for (const auto& other : direct_) at_port.push_back(rail_of(other).direct);
  for (const Source& one : retired_) at_port.push_back(one.socket);
  rail.direct = open_connected_socket(at_port, own_.port, rail.path);
  if (rail.direct.fd < 0) {
    TORII_DEBUG("udp: no socket for %s alone: %m", to_text(rail.path).c_str());
    return;
  }
  if (segments_) enable_gro(rail.direct);
  keep_to_interfaces(rail.direct);
  direct_.push_back({id, number});
  list_sources();
}

// Datagrams that have arrived at the socket already are still received.
void UdpDriver::retire_direct(Rail& rail) {
  rail.sends = 0;
  if (rail.direct.fd < 0) return;
  std::erase_if(direct_,
                [&](const auto& one) { return &peers_[one.first].rails[one.second] == &rail; });
  retired_.push_back({std::exchange(rail.direct, {}), true, rail.path});
  list_sources();
}

void UdpDriver::list_sources() {
  sources_.assign(1, {socket_, false, {}});
  for (const auto& [id, number] : direct_) {
    const Rail& rail = peers_[id].rails[number];
    sources_.push_back({rail.direct, true, rail.path});
  }
  for (const PeerId id : groups_)
    if (peers_[id].hears) sources_.push_back({peers_[id].group_socket, false, {}, id});
  ready_.clear();
  for (const Source& one : sources_) ready_.push_back({one.socket.fd, POLLIN, 0});
  source_ = 0;
  asks_ = kAsksOfOne;
}

// Takes what one of the sockets has.
bool UdpDriver::fill(size_t most) {
  while (!retired_.empty()) {
    if (inbox_.fill(retired_.back(), most)) return true;
    end_socket(&retired_.back().socket);
    retired_.pop_back();
  }
  if (slept_) woken();
  if (sources_.size() > 1 && ++asks_ >= kAsksOfOne) choose_source();
  return inbox_.fill(sources_[source_], most);
}

// The next one that has something, beginning with the one after the present.
void UdpDriver::choose_source() {
  asks_ = 0;
  if (::poll(ready_.data(), ready_.size(), 0) <= 0) return;
  for (size_t i = 1; i <= sources_.size(); i++) {
    const size_t which = (source_ + i) % sources_.size();
    if (!ready_[which].revents) continue;
    source_ = which;
    return;
  }
}

// --- sleeping --------------------------------------------------------------------------------

// One socket is slept on as it is; several are in a list of the kernel's. It tells of each once,
// until the next arm(): while nobody sleeps a datagram costs nothing more than without the list.
Status UdpDriver::arm(int* fd) {
  if (!inbox_.empty() || !done_.empty() || !retired_.empty()) return Status::again;
  polls_to_skip_ = 0;
  *fd = socket_.fd;
  if (sources_.size() > 1) {
    if (!list_sleepers()) return Status::again;
    *fd = sleep_fd_;
  }
  pollfd set{*fd, POLLIN, 0};
  return ::poll(&set, 1, 0) == 1 ? Status::again : Status::ok;
}

bool UdpDriver::list_sleepers() {
  if (sleep_fd_ < 0) sleep_fd_ = epoll_create1(EPOLL_CLOEXEC);
  slept_ = true;
  for (const Source& one : sources_) {
    const int fd = one.socket.fd;
    if (std::find(armed_.begin(), armed_.end(), fd) != armed_.end()) continue;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.fd = fd;
    if (epoll_ctl(sleep_fd_, EPOLL_CTL_MOD, fd, &event) != 0 &&
        epoll_ctl(sleep_fd_, EPOLL_CTL_ADD, fd, &event) != 0)
      return false;
    armed_.push_back(fd);
  }
  return true;
}

// Which of the sockets woke a sleeper?
void UdpDriver::woken() {
  slept_ = false;
  epoll_event events[kDirectMax];
  const int n = epoll_wait(sleep_fd_, events, kDirectMax, 0);
  for (int i = 0; i < n; i++) {
    std::erase(armed_, events[i].data.fd);
    for (size_t which = 0; which < sources_.size(); which++)
      if (sources_[which].socket.fd == events[i].data.fd) source_ = which;
  }
  if (n > 1) asks_ = kAsksOfOne;
}

// Closes it; it is slept on no more.
void UdpDriver::end_socket(Socket* socket) {
  std::erase(armed_, socket->fd);
  close_socket(socket);
}

}  // namespace torii::udp
