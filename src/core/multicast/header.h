// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The header of each datagram of reliable multicast, 24 bytes, all fields little-endian:
//
//    0       2      3      4      6       8     12   16      20    24
//    +-------+------+------+------+-------+-----+----+-------+-----+
//    | magic | ver. | kind | node | flags | pos | op | check | arg |
//    +-------+------+------+------+-------+-----+----+-------+-----+
//
// node      who wrote the datagram; not who sent it, if it is passed on along a tree
// pos       a position in the stream of the group, in granules of 64 bytes; its low half
// op, arg   see Kind
// check     contribution, result: a digest of what the operation is; failed: see Kind
//
// The layer below proves that a member of the group has sent it, and that no bit has changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace torii::multicast {

inline constexpr uint16_t kMagic = 0x434d;
inline constexpr uint8_t kVersion = 2;
inline constexpr size_t kHeaderBytes = 24;
inline constexpr uint64_t kGranule = 64;     // bytes
inline constexpr uint32_t kNodesMax = 4096;  // of a group
inline constexpr size_t kSmallMax = 1024;    // bytes of a contribution or result
inline constexpr size_t kHolesBytes = 512;   // of a bitmap of missing granules
inline constexpr size_t kLeastFrame = kHeaderBytes + kSmallMax;

constexpr uint64_t whole_granules(uint64_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

enum class Kind : uint8_t {
  data = 1,      // bytes of the stream from pos on
  repair,        // the same, for a node that asked for them
  heartbeat,     // the sender has written up to pos
  nack,          // bitmap of missing granules, from pos on. kPart: the contribution of node `arg`
                 // to operation `op` is missing
  status,        // all nodes under `node` need nothing before pos; op: as with kAsk, what was
                 // asked for; arg: granules that one of them had to ask for, at most
  release,       // the same of all nodes
  contribution,  // of node `arg` to operation `op`, or of all nodes under `node`
  result,        // of operation `op`
  hello,         // proof that multicast arrives; op: its number; payload: bitmap of nodes that are
                 // to answer
  failed,        // node `arg` has failed; op: a Status; check: a number of the owner's
};
inline constexpr unsigned kKinds = 10;

inline constexpr uint16_t kAsk = 1;        // data, repair, heartbeat: tell when nothing is needed
                                           // before the position whose low half is `op`
                                           // contribution: tell the result; hello: the verdict
inline constexpr uint16_t kForward = 2;    // pass it on along the tree whose root is `node`
inline constexpr uint16_t kUnicast = 4;    // a copy for one node: no sign that multicast arrives
inline constexpr uint16_t kWaiting = 8;    // nack: after a silence, not because of a gap
inline constexpr uint16_t kPart = 16;      // nack: of a contribution
inline constexpr uint16_t kHeard = 32;     // hello: the answer to number `op`
inline constexpr uint16_t kDeaf = 64;      // hello: what you multicast does not arrive here
inline constexpr uint16_t kVerdict = 128;  // hello: the first proof is over; arg: 1 if by tree

struct Header {
  Kind kind = Kind::data;
  uint16_t node = 0;
  uint16_t flags = 0;
  uint64_t pos = 0;  // bytes; a multiple of kGranule
  uint32_t op = 0;
  uint32_t check = 0;
  uint32_t arg = 0;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
void encode(const Header& header, HeaderBytes* out);

// Checks all that can be checked without knowing the state of the group. `near` is a position of
// the stream less than 128 GiB away from the sender's. False: the datagram is to be discarded.
bool decode(std::span<const std::byte> datagram, uint64_t near, Header* out);

// The writer of a datagram, as it says of itself. It has at least kHeaderBytes.
uint32_t writer_of(std::span<const std::byte> datagram);
// The kind of a header that encode() has written.
Kind kind_of(std::span<const std::byte> header);

// The position nearest to `near` whose granule has this low half; 0 at the least.
uint64_t whole_position(uint64_t near, uint32_t low);
inline uint32_t low_half(uint64_t pos) { return static_cast<uint32_t>(pos / kGranule); }

}  // namespace torii::multicast
