// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link's header of each frame, 32 bytes, all fields little-endian:
//
//    0       2      3      4          8        12       16       24      32
//    +-------+------+------+----------+--------+--------+--------+-------+
//    | magic | ver. | kind | checksum |  seq   |  ack   |  sack  |  tag  |
//    +-------+------+------+----------+--------+--------+--------+-------+
//
// kind        bits 0-3: see Kind; bit 5: the tag covers the payload; bit 6: acknowledge it at once;
//             of a bye: the sender gives the receiver up; of a hello: it has waited for the
//             deadline, and asks for a bye if it will not be heard; bit 7: the payload is encrypted
// seq         data, several, part: the number of this frame, from 0 for each pair and direction.
//             Others: their number, from 1 for each pair and direction. Its low half
// ack         all frames before this number have arrived; its low half
// sack        bit i: frame ack + 1 + i has arrived; the 192 after those follow an ack, if any has
// checksum    CRC-32C of the payload, then of the header with this field 0, without the tag; 0 if
//             the payload is encrypted
// tag         of the 24 bytes before it, the high halves of seq and ack, and the payload if bit 5
//             says so. If the payload is encrypted: the number of its nonce (core/trust/seal.h)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/trust/seal.h"
#include "drivers/trust.h"

namespace torii::link {

inline constexpr uint16_t kMagic = 0x4b4c;
inline constexpr uint8_t kVersion = 9;
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
  bool whole = false;   // the tag covers the payload
  bool ask = false;     // acknowledge it at once
  Parts parts = {};     // of what was parsed
  bool sealed = false;  // the payload is encrypted
};

// Writes the header of a frame that is not encrypted; `payload_crc` is the CRC-32C of the payload,
// which need only be there if the tag covers it.
void write_header(const Header& header, uint32_t payload_crc, const TagKey& key,
                  std::span<const std::byte> payload, std::byte* out);
// The same without its seal.
void write_unsealed(const Header& header, uint32_t payload_crc, std::byte* out);

// The high halves of seq and ack are under the seal, too, and do not travel.
inline uint64_t unsent_of(const Header& header) {
  return header.seq >> 32 | header.ack >> 32 << 32;
}
// For Seal::open(); the header's seq and ack are whole numbers by now.
inline Opening opening_of(std::span<const std::byte> frame, const Header& header,
                          const SealKey& key) {
  return {frame.data(), unsent_of(header), &key, frame.subspan(kHeaderBytes), header.whole};
}

// Reads and checks what can be checked without a key: length, magic, version, kind, and the payload
// if it is readable. False: the frame is to be discarded. Nothing in the header may be believed
// yet; seq and ack are low halves.
bool parse_header(std::span<const std::byte> frame, Header* out);
// The payload of a frame of this kind; sets `parts`. False: it is none.
bool parse_payload(std::span<const std::byte> payload, Header* header);
bool checksum_is_right(std::span<const std::byte> frame);

// The length of a frame that is one of several.
inline constexpr size_t kLengthBytes = 2;
void write_length(size_t bytes, std::byte* out);
size_t read_length(const std::byte* in);

void write_parts(const Parts& parts, std::byte* out);

// The payload of a hello: the sender's job (8) and rank (4), as it says, its cipher (4), and its
// address as for Driver::connect().
struct Hello {
  Who who;
  Cipher cipher = Cipher::none;
  std::span<const std::byte> address;
};
inline constexpr size_t kHelloBytes = 16;  // before the address
void write_hello(const Who& who, Cipher cipher, std::byte* out);
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
