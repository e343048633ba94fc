// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Is the process of a silent peer still there? Each process listens at the TCP port that has the
// number of its UDP port. A process that misses a peer connects there: the peer's kernel accepts
// and answers keepalive probes whether the process computes or is stopped, and resets the
// connection when the process ends. Nothing is ever sent by these connections, and nothing read
// from them is used.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <vector>

#include "drivers/interfaces.h"
#include "drivers/udp/net.h"

namespace torii::udp {

class Lifelines {
 public:
  Lifelines() = default;
  Lifelines(const Lifelines&) = delete;
  ~Lifelines();

  // Listens at this port. False: it is another program's, or there is no TCP.
  bool listen(bool ipv6, uint16_t port);
  const Socket& listener() const { return listener_; }
  // About the process at this address, which listens at its port; see Driver::life(). At most
  // kMost peers are watched, those that were asked about lately.
  Life ask(PeerId peer, const sockaddr_in6& where, uint64_t now_ns);
  void forget(PeerId peer);
  // Takes connections of peers, and closes those whose other end has gone. Now and then.
  void tend(uint64_t now_ns);

 private:
  static constexpr size_t kMost = 16;
  struct Line {
    PeerId peer = kNoPeer;
    Socket socket;  // fd -1: it could not be opened; tried again later
    bool up = false;
    uint64_t opened_ns = 0;
    uint64_t asked_ns = 0;
  };

  Line* find(PeerId peer, uint64_t now_ns);
  static Life begin(Line& line, const sockaddr_in6& where, uint64_t now_ns);
  static Life look(Line& line);

  Socket listener_;
  std::vector<Line> lines_;
  std::vector<Socket> accepted_;
  uint64_t tended_ns_ = 0;
};

}  // namespace torii::udp
