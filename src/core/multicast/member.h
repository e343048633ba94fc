// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One node of a group that multicasts reliably: broadcast, barrier, small allreduce and allgather
// with the other nodes, over a channel that loses datagrams. A state machine: time, datagrams and
// calls come in, datagrams leave by the channel, results are read. It has no threads, sockets or
// clock. All nodes call the same operations in the same order. See README.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/status.h"
#include "core/multicast/channel.h"
#include "core/multicast/gathering.h"
#include "core/multicast/outgoing.h"
#include "core/multicast/proof.h"
#include "core/multicast/receiver.h"
#include "core/multicast/releases.h"
#include "core/multicast/repairs.h"
#include "core/multicast/ring.h"
#include "core/multicast/sender.h"
#include "core/multicast/silence.h"

namespace torii::multicast {

enum class What : uint8_t { barrier, bcast, allreduce, allgather };

struct Call {
  What what = What::barrier;
  uint32_t root = 0;              // bcast
  uint64_t bytes = 0;             // of each node's part; alike at all nodes
  const std::byte* in = nullptr;  // this node's part; bcast: the root's
  std::byte* out = nullptr;       // the result; bcast: at the others. May be `in`
  Reduction reduction;            // allreduce
};

enum class State : uint8_t {
  setup,    // calls wait for the verdict about multicast
  open,     // see Outgoing::path()
  failed,   // a node has died, or nodes have called different operations
  closing,  // others are still answered
  gone,     // may be destroyed
};

class Member {
 public:
  static constexpr uint64_t kEagerMost = 64 << 10;  // more is sent when all are ready
  static constexpr uint32_t kWritersMost = 16;      // of an allgather, at a time
  static constexpr uint64_t kLingerNs = 1'000'000'000;
  static constexpr uint64_t kRing = 1 << 20;

  // At least two nodes, which begin within Proof::kVerdictNs. Channel and ring stay the caller's
  // and outlive this.
  Member(Channel& channel, const Identity& identity, std::span<std::byte> ring, uint64_t now);

  // Begins an operation; the one before is over. Its memory is the caller's again when status() is
  // not `pending`. `unsupported`, alike at all nodes: an allreduce of more than kSmallMax bytes.
  // `invalid`: no such root. After a failure: its status.
  Status begin(const Call& call, uint64_t now);
  // How the last operation goes. `invalid`: failed_node() has called another operation than others.
  // Any other error is what the owner of a node has told give_up().
  Status status() const { return status_; }
  uint32_t failed_node() const { return failed_node_; }
  uint32_t failed_detail() const { return failed_detail_; }
  // `ok`: operations are carried out.
  Status failure() const { return failed_ ? failure_ : Status::ok; }

  // A datagram of this group has arrived from node `from`.
  void receive(uint32_t from, std::span<const std::byte> datagram, uint64_t now);
  // Does what is due; to be called again at deadline(), UINT64_MAX if nothing is due.
  void poll(uint64_t now);
  uint64_t deadline() const;
  // Nothing is carried out any more, at any node, because of `node`: `peer_dead`, `peer_closed` or
  // `no_memory`. `detail` is the owner's, for the owners of the other nodes.
  void give_up(Status why, uint32_t node, uint32_t detail);

  // All nodes have had what was written to the stream.
  bool settled() const { return failed_ || releases_.released() >= stream_next_; }
  // This node calls nothing any more, but answers until nobody needs it: see state().
  void close(uint64_t now);
  State state(uint64_t now) const;

  const Outgoing& outgoing() const { return outgoing_; }
  // The number of first bytes, of a broadcast that this node receives, in the caller's memory.
  uint64_t arrived() const {
    return std::min(done_ > interval_.start ? done_ - interval_.start : 0, call_.bytes);
  }
  // Bytes of the stream before it are in the ring.
  uint64_t placed() const { return ring_.placed(); }
  uint32_t window() const { return sender_.window(); }
  uint64_t requests() const { return receiver_.requests(); }
  // Datagrams discarded: malformed, forged, or outside of the ring.
  uint64_t discarded() const { return discarded_ + receiver_.outside(); }

 private:
  enum class Phase : uint8_t { verdict, ready, stream, gather };

  bool writes() const { return call_.what == What::allgather || call_.root == outgoing_.self(); }
  uint64_t own_start() const { return interval_.start + interval_.stride * outgoing_.self(); }
  bool is_long() const { return interval_.end - interval_.start > kEagerMost; }
  void gather(std::span<const std::byte> in, uint64_t now);
  bool may_write() const;
  bool gathered(uint64_t now);
  bool stream(uint64_t now);
  void consume();
  void copy_parts(uint64_t to);
  void note_released(uint64_t now);
  void advance(uint64_t now);
  void finish(uint64_t now);
  void fail(uint32_t node, Status why, uint32_t detail, bool tell);
  Header failure_header() const;
  void settle(uint64_t now);
  bool dispatch(uint32_t from, const Header& header, std::span<const std::byte> payload,
                uint64_t now);

  Outgoing outgoing_;
  Ring ring_;
  Releases releases_;
  Silence silence_;
  Sender sender_;
  Receiver receiver_;
  Repairs repairs_;
  Gathering gathering_;
  Proof proof_;

  Call call_;
  Status status_ = Status::ok;
  Phase phase_ = Phase::verdict;
  Interval interval_;         // of the call
  uint64_t stream_next_ = 0;  // where the next one begins
  uint64_t advanced_at_ = 0;
  uint64_t done_ = 0;  // this node needs nothing before it
  bool writing_ = false;
  bool gathers_ = false;  // the last operation: others may still miss what this node gave

  bool failed_ = false;
  uint32_t failed_node_ = 0;
  uint32_t failed_detail_ = 0;
  Status failure_ = Status::ok;
  uint64_t close_at_ = UINT64_MAX;
  bool gone_ = false;  // poll() has found that it is time
  uint64_t discarded_ = 0;
};

// For reports, such as "by multicast".
const char* path_text(Path path);

}  // namespace torii::multicast
