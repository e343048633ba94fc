// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link's header of each frame to a lossy group, 32 bytes, all fields little-endian:
//
//    0       2      3      4          8        16       20      24      32
//    +-------+------+------+----------+--------+--------+-------+-------+
//    | magic | ver. | kind | checksum | number | sender | group |  tag  |
//    +-------+------+------+----------+--------+--------+-------+-------+
//
// kind        1; bit 5: the tag covers the payload; bit 7: the payload is encrypted
// checksum    as in header.h
// number      of the frame, from 1 for each sender
// sender      its number in the group
// group       made of the key: other groups' frames are recognized
// tag         of the 24 bytes before it, 8 zeros, and the payload if bit 5 says so. If the payload
//             is encrypted: the number of its nonce (core/trust/seal.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/link/header.h"

namespace torii::link {

inline constexpr size_t kGroupHeaderBytes = kHeaderBytes;

struct GroupHeader {
  uint64_t number = 0;
  uint32_t sender = 0;
  uint32_t group = 0;
  bool whole = false;
  bool sealed = false;
};

// Without its seal. `payload_crc` is the CRC-32C of the payload.
void write_group_header(const GroupHeader& header, uint32_t payload_crc, std::byte* out);
// The checks that need no key, but for the checksum. False: the frame is to be discarded.
bool parse_group_header(std::span<const std::byte> frame, GroupHeader* out);

// For Seal::open().
inline Opening opening_of(std::span<const std::byte> frame, const GroupHeader& header,
                          const SealKey& key) {
  return {frame.data(), 0, &key, frame.subspan(kGroupHeaderBytes), header.whole};
}

}  // namespace torii::link
