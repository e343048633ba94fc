// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/udp/lifelines.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

namespace torii::udp {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kAcceptedMost = 64;  // the others wait in the kernel
constexpr uint64_t kTendNs = 1'000'000'000;
constexpr uint64_t kTryAgainNs = 1'000'000'000;
constexpr uint64_t kLineIdleNs = 2'000'000'000;  // then another peer may have the line
constexpr uint32_t kFreshMs = 1200;              // since the kernel there has answered
constexpr int kProbeSeconds = 1;

// The other end has closed, reset, or is not reached any more.
bool ended(const Socket& socket, int* error) {
  char byte;
  const ssize_t n = recv(socket.fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);
  *error = n < 0 ? errno : 0;
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

bool answered_lately(const Socket& socket) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  return getsockopt(socket.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
         info.tcpi_last_ack_recv < kFreshMs;
}

}  // namespace

Lifelines::~Lifelines() {
  close_socket(&listener_);
  for (Line& line : lines_) close_socket(&line.socket);
  for (Socket& socket : accepted_) close_socket(&socket);
}

bool Lifelines::listen(bool ipv6, uint16_t port) {
  listener_ = open_stream_socket(ipv6, port);
  if (listener_.fd >= 0 && ::listen(listener_.fd, kBacklog) == 0) return true;
  close_socket(&listener_);
  return false;
}

// The line of that peer, or one that it may have; null: others have them all.
Lifelines::Line* Lifelines::find(PeerId peer, uint64_t now_ns) {
  const auto known =
      std::ranges::find_if(lines_, [&](const Line& line) { return line.peer == peer; });
  if (known != lines_.end()) return &*known;
  if (lines_.size() < kMost) return &lines_.emplace_back();
  const auto oldest = std::ranges::min_element(lines_, {}, &Line::asked_ns);
  if (now_ns - oldest->asked_ns < kLineIdleNs) return nullptr;
  close_socket(&oldest->socket);
  *oldest = Line{};
  return &*oldest;
}

Life Lifelines::ask(PeerId peer, const sockaddr_in6& where, uint64_t now_ns) {
  Line* const line = find(peer, now_ns);
  if (!line) return Life::unknown;
  line->asked_ns = now_ns;
  const bool first = line->peer == kNoPeer;
  line->peer = peer;
  if (line->socket.fd >= 0) return look(*line);
  if (!first && now_ns - line->opened_ns < kTryAgainNs) return Life::unknown;
  return begin(*line, where, now_ns);
}

Life Lifelines::begin(Line& line, const sockaddr_in6& where, uint64_t now_ns) {
  line.opened_ns = now_ns;
  line.up = false;
  line.socket = open_stream_socket(!is_ipv4(where), 0);
  if (line.socket.fd < 0) return Life::unknown;
  keep_alive(line.socket, kProbeSeconds);
  NativeAddress native;
  to_native(where, line.socket.ipv6, &native);
  if (connect(line.socket.fd, reinterpret_cast<sockaddr*>(&native.ipv6), native.length) == 0 ||
      errno == EINPROGRESS)
    return look(line);
  const bool refused = errno == ECONNREFUSED;
  close_socket(&line.socket);
  return refused ? Life::gone : Life::unknown;
}

Life Lifelines::look(Line& line) {
  if (!line.up) {
    pollfd set{line.socket.fd, POLLOUT, 0};
    if (::poll(&set, 1, 0) <= 0) return Life::unknown;
    line.up = true;
  }
  int error = 0;
  if (!ended(line.socket, &error))
    return answered_lately(line.socket) ? Life::there : Life::unknown;
  close_socket(&line.socket);
  line.opened_ns = 0;  // it may be tried again at once
  return error == 0 || error == ECONNRESET || error == ECONNREFUSED ? Life::gone : Life::unknown;
}

void Lifelines::forget(PeerId peer) {
  const auto line = std::ranges::find_if(lines_, [&](const Line& one) { return one.peer == peer; });
  if (line == lines_.end()) return;
  close_socket(&line->socket);
  lines_.erase(line);
}

// Connections whose other end has gone would fill the kernel's queue.
void Lifelines::tend(uint64_t now_ns) {
  if (listener_.fd < 0 || now_ns - tended_ns_ < kTendNs) return;
  tended_ns_ = now_ns;
  std::erase_if(accepted_, [](Socket& socket) {
    int error;
    if (!ended(socket, &error)) return false;
    close_socket(&socket);
    return true;
  });
  while (accepted_.size() < kAcceptedMost) {
    const Socket socket = accept_stream(listener_);
    if (socket.fd < 0) return;
    accepted_.push_back(socket);
  }
}

}  // namespace torii::udp
