// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What the link puts before each frame, 32 bytes, all fields little-endian:
//
//    0       2      3      4          8           12           16       20       24        32
//    +-------+------+------+----------+-----------+------------+--------+--------+---------+
//    | magic | ver. | kind | checksum |  session  | to session |  seq   |  ack   |  sack   |
//    +-------+------+------+----------+-----------+------------+--------+--------+---------+
//
// session     the sender's, one for each opening of a driver; a restarted process has another
// to session  the receiver's as far as the sender knows it, else 0; `ack` and `sack` count only
//             with it
// seq         data: the number of this frame, from 0 for each pair and direction, modulo 2^32
// ack         all frames before this number have arrived
// sack        bit i: frame ack + 1 + i has arrived
// checksum    CRC-32C of the payload, then of the header with this field 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torii::link {

inline constexpr uint16_t kMagic = 0x4b4c;
inline constexpr uint8_t kVersion = 2;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr uint32_t kWindow = 64;  // frames of a pair under way: as many as `sack` can name

enum class Kind : uint8_t {
  data = 1,  // payload follows
  ack,       // nothing follows
  bye,       // nothing follows: the sender closes
  probe,     // nothing follows: the sender asks for an ack, a sign of life
};

struct Header {
  Kind kind = Kind::ack;
  uint32_t session = 0;
  uint32_t to_session = 0;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint64_t sack = 0;
};

// Writes the header; `payload_crc` is the CRC-32C of what follows it.
void write_header(const Header& header, uint32_t payload_crc, std::byte* out);

// Reads and checks everything that can be checked without knowing the peer: length, magic,
// version, kind, checksum. False: the frame is to be discarded.
bool parse_header(std::span<const std::byte> frame, Header* out);

}  // namespace torii::link
