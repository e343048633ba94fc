// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The data that the processes of torii-check exchange: before the check where each of them is
// (Facts), after it what each of them saw of the others (Observations).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace torii::check {

inline constexpr uint32_t kNobody = ~uint32_t{0};
inline constexpr uint32_t kProbeBytes = 48;  // of a small frame
using Secret = std::array<std::byte, 16>;
using Bytes = std::vector<std::byte>;

// A network interface of a node, usable or not.
struct Interface {
  std::string name;
  uint32_t mtu = 0;
  bool up = false;
  bool carrier = false;                // a cable, or what takes its place, is plugged in
  bool bridge = false;                 // as those of containers, often without a way out
  bool wanted = true;                  // udp may use it, says TORII_UDP_INTERFACES
  std::vector<std::string> addresses;  // without those that are valid on one link only
};

// A driver in a process: its address for the others, or the reason why it does not open.
struct Endpoint {
  std::string driver;
  bool network = false;
  uint32_t mtu = 0;  // longest frame
  Bytes address;
  std::string why;  // empty: it is open
};

struct Facts {
  Secret dice{};      // drawn by each process; the lowest one's are the secret of the check
  std::string host;   // its name
  std::string place;  // processes with the same text share memory, network and process numbers
  uint32_t pid = 0;
  uint32_t processors = 0;
  std::string attach;  // cross-memory attach among this process's children: "allowed", or why not
  uint64_t shared_bytes = 0;  // of /dev/shm; 0: there is none
  uint64_t shared_free = 0;
  bool opens_network = true;    // a job like this check would open drivers for networks
  uint32_t receive_buffer = 0;  // bytes that the system gives a socket which asks for many
  std::vector<Interface> interfaces;
  std::vector<Endpoint> endpoints;
};

// One way to another process, as frames that were sent by it showed it.
struct RailSeen {
  uint32_t rail = 0;
  std::string interface;  // or transport and device; empty: the driver has no such thing
  std::string address;
  uint32_t mtu = 0;  // packets, as the system knows it
  uint32_t sent = 0;
  uint32_t answered = 0;
  uint64_t least_ns = 0;  // round trips; 0: nothing was answered
  uint64_t median_ns = 0;
  uint32_t longest_sent = 0;  // frames; 0: not tried often enough to tell
  uint32_t longest = 0;       // of those that arrived
};

// An address of another process that did not answer.
struct SilentAddress {
  std::string address;    // without port
  std::string interface;  // by which this process would send there
  bool asked = false;     // but packets came from there
};

struct PairSeen {
  uint32_t rank = kNobody;  // the other process
  std::string driver;       // the last that was tried
  std::string note;         // what the driver said
  std::vector<RailSeen> rails;
  std::vector<SilentAddress> silent;
};

// Probes that came from another process.
struct ProbesHeard {
  uint32_t rank = kNobody;
  uint32_t rail = 0;  // the sender's number of it
  uint32_t count = 0;
};

// Datagrams to all that came from another process.
struct MulticastHeard {
  uint32_t rank = kNobody;
  uint32_t last_ms = 0;  // when the last one did, from the beginning of that part of the check
  bool operator==(const MulticastHeard&) const = default;
};

struct Observations {
  std::vector<PairSeen> pairs;
  std::vector<ProbesHeard> heard;
  bool multicast = false;     // this process took part
  std::string multicast_why;  // why it could not
  std::vector<MulticastHeard> multicast_heard;
};

// The contribution of one process. A part that is missing has a reason.
struct Participant {
  std::string name;  // the host that was asked for; empty under a launcher
  std::string why;   // why facts or observations are missing
  bool present = false;
  bool reported = false;
  Facts facts;
  Observations seen;
};

Bytes encode(const Facts& facts);
Bytes encode(const Observations& seen);
// False: these bytes are none; *out is then undefined.
bool decode(std::span<const std::byte> bytes, Facts* out);
bool decode(std::span<const std::byte> bytes, Observations* out);

}  // namespace torii::check
