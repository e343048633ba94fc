// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What the link puts before each frame, 32 bytes, all fields little-endian:
//
//    0       2      3      4          8        12       16       24      32
//    +-------+------+------+----------+--------+--------+--------+-------+
//    | magic | ver. | kind | checksum |  seq   |  ack   |  sack  |  tag  |
//    +-------+------+------+----------+--------+--------+--------+-------+
//
// kind        bits 0-3: see Kind; bit 5: the tag covers the payload; bit 6: acknowledge it at once;
//             of a bye: the sender gives the receiver up
// seq         data, several, part: the number of this frame, from 0 for each pair and direction.
//             Others: their number, from 1 for each pair and direction. Its low half
// ack         all frames before this number have arrived; its low half
// sack        bit i: frame ack + 1 + i has arrived; the 192 after those follow an ack, if any has
// checksum    CRC-32C of the payload, then of the header with this field 0, without the tag
// tag         SipHash-2-4 of the 24 bytes before it, the high halves of seq and ack, and the
//             payload if bit 5 says so, by a key that only these two processes have, for this
//             direction
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/link/siphash.h"
#include "drivers/trust.h"

namespace torii::link {

inline constexpr uint16_t kMagic = 0x4b4c;
inline constexpr uint8_t kVersion = 8;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr uint32_t kSackBits = 256;
inline constexpr size_t kSackMoreBytes = (kSackBits - 64) / 8;
inline constexpr uint32_t kWindow = 256;  // frames of a pair under way; a power of 2

enum class Kind : uint8_t {
  data = 1,  // payload follows
  ack,       // the rest of `sack` follows, under the tag, or nothing
  bye,       // nothing follows: the sender closes
  probe,     // nothing follows: the sender asks for an ack, a sign of life
  several,   // as data; several frames of the core follow, each behind its length in 16 bits
  part,      // as data; parts of a long frame of the core's follow, behind 4 bytes (Parts)
  hello,     // who the sender is follows (Hello), under the tag
};

// Consecutive parts of one frame of the core's. Each has a number; `seq` is that of the first.
struct Parts {
  uint8_t count = 1;   // at most kPartsMax
  bool begins = true;  // the first one is the frame's first
  bool ends = true;    // the last one is its last
};
inline constexpr size_t kPartsBytes = 4;  // count, bit 0: begins, bit 1: ends, 0, 0
inline constexpr uint8_t kPartsMax = 64;
inline constexpr size_t kLongMax = 1 << 16;  // a frame of the core's in parts

// Has a number.
inline bool carries_frames(Kind kind) {
  return kind == Kind::data || kind == Kind::several || kind == Kind::part;
}

struct Header {
  Kind kind = Kind::ack;
  uint64_t seq = 0;
  uint64_t ack = 0;
  uint64_t sack = 0;
  bool whole = false;  // the tag covers the payload
  bool ask = false;    // acknowledge it at once
  Parts parts = {};    // of what was parsed
};

// Writes the header of a frame; `payload_crc` is the CRC-32C of the payload, which need only be
// there if the tag covers it.
void write_header(const Header& header, uint32_t payload_crc, const Key& key,
                  std::span<const std::byte> payload, std::byte* out);

// The same in two steps, for several frames whose tags do not cover the payload: first each without
// its tag, then all tags.
void write_untagged(const Header& header, uint32_t payload_crc, std::byte* out);
void write_tag(uint64_t tag, std::byte* out);

// A header in its place, with the whole numbers in it.
struct Numbered {
  const std::byte* bytes = nullptr;
  uint64_t seq = 0;
  uint64_t ack = 0;
  const Key* key = nullptr;
};
// At most kSipLanes.
void tags_of(std::span<const Numbered> headers, uint64_t* tags);

// Reads and checks what can be checked without a key: length, magic, version, kind. False: the
// frame is to be discarded. Nothing in the header may be believed yet; seq and ack are low halves.
bool parse_header(std::span<const std::byte> frame, Header* out);
// Was the tag made with this key? The header's seq and ack are whole numbers by now.
bool tag_is_right(std::span<const std::byte> frame, const Header& header, const Key& key);
bool tag_is_right(std::span<const std::byte> frame, uint64_t tag);
bool checksum_is_right(std::span<const std::byte> frame);

// The length of a frame that is one of several.
inline constexpr size_t kLengthBytes = 2;
void write_length(size_t bytes, std::byte* out);
size_t read_length(const std::byte* in);

void write_parts(const Parts& parts, std::byte* out);

// What follows a hello: the sender's job (8) and rank (4), as it says, and its address as for
// Driver::connect().
struct Hello {
  Who who;
  std::span<const std::byte> address;
};
inline constexpr size_t kHelloBytes = 12;  // before the address
void write_hello(const Who& who, std::byte* out);
Hello read_hello(std::span<const std::byte> payload);

// The rest of `sack` behind an ack, 64 bits a word.
using MoreSack = std::array<uint64_t, kSackMoreBytes / 8>;
void write_more(const MoreSack& more, std::byte* out);
MoreSack read_more(std::span<const std::byte> payload);

// The number nearest to `near` with this low half.
inline uint64_t whole_number(uint64_t near, uint32_t low) {
  return near + static_cast<uint64_t>(int64_t{static_cast<int32_t>(low - uint32_t(near))});
}

}  // namespace torii::link
