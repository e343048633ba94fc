// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A fabric of simulated cards inside one process. Time is virtual and every choice comes from one
// seed, so a run can be repeated exactly. The fabric loses nothing; drivers/fault does that. A
// fabric and all its cards belong to one thread; the fabric outlives its cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "drivers/driver.h"

namespace torii {

struct SimOptions {
  uint64_t seed = 1;
  // Cap bits of the cards. Without kReliable frames overtake each other, without kPeerDown nobody
  // hears of ended endpoints.
  uint32_t flags = kReliable | kPeerDown | kPut | kGet | kMulticast | kWait | kGuard | kAtomic;
  bool allocates = true;       // alloc gives memory that peers map
  uint32_t mtu = 4096;         // at least 512
  uint32_t long_max = 0;       // as in DriverCaps; longer frames than mtu are copied
  uint32_t inline_max = 1024;  // longer bodies are read from the sender's memory on arrival
  uint32_t pieces_max = 8;
  uint32_t peers_max = 1u << 24;
  uint64_t latency_min_ns = 0;  // each frame takes a random time in this range
  uint64_t latency_max_ns = 0;
  uint32_t depth = 64;  // frames on their way to one peer; more is back-pressure
  // Frames leave a card one after the other at this rate, and so they arrive; 0: at once.
  uint64_t port_mbytes_per_s = 0;
  uint64_t service_ns = 0;      // more for each frame that arrives, one after the other
  uint32_t lossy_depth = 4096;  // frames of lossy groups that wait for a card; more are lost
  bool pending_rma = false;     // put and get answer `pending` and move the bytes later
  // With kNeedsReg. Put, get, and bodies of frames, of more than inline_max bytes need a region.
  bool registers_local = false;
  bool tells_changes = false;      // current() knows of SimFabric::remap()
  uint64_t once_min = 64 << 10;    // as in RegisteredMemory
  uint32_t regions_max = 1 << 20;  // of each endpoint; more is `no_memory`
  uint64_t reg_ns = 0;             // how long a registration takes
  bool denied_rma = false;         // put and get turn out to be forbidden: all end with `denied`
  uint32_t again_ppm = 0;  // send, put, get and atomic refuse this often, times in a million
  // Frames are handed up in memory of the card, which take() moves bodies from this size on out of;
  // 0: in the processor's.
  uint32_t card_take_min = 0;
  bool tells_lives = false;  // life() knows of every peer whether its endpoint has ended
  uint32_t endpoints = 0;    // endpoints 0..n-1 can be connected to before they are opened
};

inline constexpr uint32_t kSimAddressBytes = 8;
inline constexpr uint32_t kSimKeyBytes = 16;

class SimCard;

class SimFabric {
 public:
  explicit SimFabric(const SimOptions& options = {});
  ~SimFabric();
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  // The card of the next endpoint: the first call gives number 0, then 1, and so on. Frames sent to
  // it before are waiting for it.
  std::unique_ptr<SimCard> plug_in();
  // Writes the address (kSimAddressBytes) of an endpoint, opened or not.
  void address(uint32_t number, std::byte* out) const;

  uint64_t now_ns() const;
  // Moves time forward. poll(now_ns) does the same when its argument is later than now_ns().
  void advance(uint64_t ns);
  // Time of the earliest undelivered event of open endpoints, ~0 if there is none. Looks at all.
  uint64_t next_event_ns() const;

  // The system has given these addresses other memory: what was registered there is no longer
  // reached.
  void remap(const void* base, uint64_t bytes);
  // Sudden death: frames still on their way from the endpoint are lost, its card becomes inert
  // (takes, delivers and reports nothing), connected peers hear peer_dead.
  void kill(std::span<const std::byte> address);

  struct Net;  // net.h

 private:
  std::unique_ptr<Net> net_;
};

}  // namespace torii
