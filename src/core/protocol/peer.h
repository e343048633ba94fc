// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The state that a process keeps of another one that it talks to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/copy.h"
#include "core/protocol/choice.h"
#include "core/protocol/op.h"

namespace torii {

// The identity of a process; travels in addresses and hellos.
struct Identity {
  uint64_t job = 0;
  uint32_t rank = ~0u;
  uint32_t nid = 0;
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint32_t os_pid = 0;
  char host[64] = {};
};

// A list through OpLink `Link` of operations.
template <OpLink Op::*Link>
struct OpList {
  Op* head = nullptr;
  Op* tail = nullptr;
  bool empty() const { return head == nullptr; }
  void push(Op* op) {
    (op->*Link) = {tail, nullptr};
    (tail ? (tail->*Link).next : head) = op;
    tail = op;
  }
  void remove(Op* op) {
    OpLink& link = op->*Link;
    (link.prev ? (link.prev->*Link).next : head) = link.next;
    (link.next ? (link.next->*Link).prev : tail) = link.prev;
    link = {};
  }
};

enum class PeerState : uint8_t { up, closed, dead };

struct Peer {
  // Hot: read for every message.
  PeerState state = PeerState::up;
  bool hello_sent = false;
  bool hello_received = false;
  bool remote_denied = false;  // remote read and write were refused once: use frames
  bool flushing = false;       // its backlog is being served further up the stack
  bool listed = false;         // in the list of peers with something to send
  bool moving = false;         // in the queue of peers with moves
  bool streamed = false;       // frames of payloads that were asked for have come
  bool silent = false;         // it was given up, and has not been heard since: ask for no more
  bool given_up = false;       // it was given up at least once: its frames may come late
  bool unproven = false;       // no frame has passed by its driver yet, and others are left
  bool in_row = false;  // it was sent a message of several frames, and has said nothing since
  uint8_t rail = 0;     // index of the driver among the interface's
  PeerId route = kNoPeer;
  Driver* driver = nullptr;
  ShortFrames* short_frames = nullptr;  // the driver's; null: it has none
  Advice* advice = nullptr;
  Paths* paths = nullptr;
  choice::Plan plan;       // how payloads travel by it
  uint64_t whole_max = 0;  // largest put or get that one call of the driver moves, as it is
  choice::Recent recent;
  uint64_t take_min = kNoSize;  // as Advice::take_min
  bool copied = false;          // a copy of an eager message is lent to the driver
  uint32_t express_end = 0;     // sizes below may use put_now; 0 unless up and greeted
  uint64_t streamed_ns = 0;     // the last time when `streamed` was found set, and cleared
  uint64_t number = 0;          // unique in this interface; the source in tagged matching
  uint64_t process = 0;         // nid << 32 | pid; the source in Portals matching
  // Eager credit, in units of wire::kCreditUnit.
  uint64_t credit = 0;         // may still be sent
  uint64_t window = 0;         // granted to the peer
  uint64_t in_use = 0;         // received from the peer and not yet given back
  uint32_t owed = 0;           // consumed here, to be given back
  uint32_t stream_frames = 0;  // that the first of `streams` has sent in its turn
  OpList<&Op::queue> backlog;  // frames waiting for room, in order
  OpList<&Op::queue> streams;  // sources sending data frames, taking turns
  OpList<&Op::queue> moves;    // remote reads and writes with bytes left to issue
  Op* inflow = nullptr;        // eager message whose `more` frames are arriving

  // As Paths::long_max().
  uint32_t long_max() const { return paths ? paths->long_max(route) : driver->caps().long_max; }

  // Cold.
  OpList<&Op::all> ops;
  Peer* next_listed = nullptr;
  Peer* next_moving = nullptr;
  Identity id;
  std::string path_note;             // why a better path was refused, for reports
  std::vector<std::byte> addresses;  // for all its drivers, as it gave them, while it is unproven
  std::string fault;                 // why it was cut off; empty: it was not
  void* context = nullptr;           // the face's
};

// For copy_bytes() from a frame of the peer's that is being handed up.
struct TakeFrom {
  const Peer& peer;
  void operator()(std::byte* to, const std::byte* from, size_t n) const {
    if (__builtin_expect(n >= peer.take_min, 0)) return peer.driver->take(to, from, n);
    copy_more(to, from, n);
  }
};

// Peers with moves, each once, first in first out.
struct PeerQueue {
  Peer* head = nullptr;
  Peer* tail = nullptr;
  bool empty() const { return head == nullptr; }
  void push(Peer& peer) {
    if (peer.moving) return;
    peer.moving = true;
    peer.next_moving = nullptr;
    (head ? tail->next_moving : head) = &peer;
    tail = &peer;
  }
  Peer& pop() {
    Peer& peer = *head;
    head = peer.next_moving;
    peer.moving = false;
    return peer;
  }
  // Those of another queue, which is not to be used any more.
  void append(const PeerQueue& more) {
    if (more.empty()) return;
    (head ? tail->next_moving : head) = more.head;
    tail = more.tail;
  }
};

}  // namespace torii
