// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The state that the cards of one fabric share. Private to drivers/fabric.
//
// Each endpoint has an inbox, a heap of items ordered by time. A frame lies in the inbox of its
// target, which takes it out, and puts `done` into the inbox of the sender. All that one endpoint
// does to another goes through an inbox.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/base/random.h"
#include "drivers/fabric/card.h"

namespace torii {

// Something that happens to an endpoint at a certain time.
struct SimItem {
  enum class Kind : uint8_t { frame, done, move, atomic, down };

  Kind kind = Kind::done;
  Status status = Status::ok;  // done, down
  uint32_t number = 0;         // frame: sender; move, atomic: target; down: who went
  uint32_t queue = 0;          // frame: the sender's, where it takes room
  uint32_t group = 0;          // frame: lossy group, it takes no room of the sender's; 0: none
  uint64_t at_ns = 0;          // 0: at once, before anything else
  uint64_t salt = 0;           // order of items of the same time
  uint64_t serial = 0;         // and of the same salt
  uint64_t cookie = 0;
  uint64_t local = kNoRegion;    // region of the memory in `pieces`, by slot
  std::vector<std::byte> bytes;  // frame: head and copied body
  std::vector<iovec> pieces;     // frame: body in the sender's memory; move: local memory
  bool write = false;            // move
  SimKey key{};
  uint64_t offset = 0;
  uint64_t length = 0;
  RemoteAtomic atomic;

  // Heap order: the earliest item is the largest.
  bool operator<(const SimItem& other) const {
    return std::tie(other.at_ns, other.salt, other.serial) < std::tie(at_ns, salt, serial);
  }
};

struct SimEndpoint {
  SimCard* card = nullptr;        // null before opening and after the end
  Status end = Status::ok;        // peer_closed or peer_dead once it has ended
  std::vector<SimItem> inbox;     // a heap; empty once ended
  std::set<uint32_t> neighbours;  // endpoints that know this one, or that it has sent to
  uint32_t lossy_waiting = 0;     // in the inbox, of lossy groups
};

struct SimFabric::Net {
  explicit Net(const SimOptions& o);

  // Puts an item into an inbox. Frames to an endpoint that has ended go back to the sender as
  // done(cookie) with the reason.
  void post(uint32_t number, SimItem item);
  void post_done(uint32_t number, uint64_t cookie, Status status);
  // An endpoint closes (peer_closed) or dies (peer_dead).
  void end(uint32_t number, Status status);
  // Gives a closing endpoint's frames on their way copies of their bodies, or drops a dead one's.
  void settle_frames_of(uint32_t number, bool died);
  void write_address(uint32_t number, std::byte* out) const;
  bool parse_address(std::span<const std::byte> address, uint32_t* number) const;
  uint64_t random_latency() {
    return random.between(options.latency_min_ns, options.latency_max_ns);
  }
  // How long so many bytes keep a port busy.
  uint64_t port_ns(size_t bytes) const {
    return options.port_mbytes_per_s ? bytes * 1000 / options.port_mbytes_per_s : 0;
  }

  const SimOptions options;
  Random random;
  uint32_t tag;    // in every address, so that another fabric's is refused
  uint32_t known;  // endpoints that may be connected to
  uint32_t opened = 0;
  uint64_t now_ns = 0;
  uint64_t serial = 0;
  std::map<uint32_t, SimEndpoint> endpoints;          // made on first use
  std::map<std::vector<std::byte>, uint32_t> groups;  // name -> number
  std::map<uint32_t, std::set<uint32_t>> members;     // of each group
  std::deque<std::atomic<uint64_t>> guards;           // of regions that are or were guarded
};

inline constexpr uint32_t kGroupBit = 1u << 31;  // in the number of a group
inline constexpr uint32_t kLossyBit = 1u << 30;  // and of a lossy one

}  // namespace torii
