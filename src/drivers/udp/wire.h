// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver's datagrams, all fields little-endian. Each datagram begins with
//
//    0       2      3      4        8                16
//    +-------+------+------+--------+----------------+
//    | magic | ver. | kind |   to   |      from      |
//    +-------+------+------+--------+----------------+
//
// kind   bits 0-2; the others are 0, but see data
// to     the low half of the receiver's number, or of the group's: what is meant for another
//        process or group at this address and port is recognized
// from   the sender's number, drawn by lot when it opened
//
// data, group   a frame follows, then zeros, as many as the upper five bits of `kind` say
// longer        its length (4), then a frame that goes on in the next datagrams, which have no
//               header: all but the last are as long as this one. It arrives if the system joins
//               them again (UDP_GRO), and is lost otherwise.
// piece         number of the frame (4), its length (2), index (1) and number (1) of its pieces;
//               the piece. All have the same length, the last one with zeros behind it.
// ping          number (8), candidate (1), zeros (3), length of the datagram (4), tag (8), zeros up
//               to that length, to see whether this path carries it
// pong          number, candidate, zeros and length of the ping, tag (8)
//
// The number of a ping only rises, for each pair and direction. The tag is SipHash-2-4 of the 32
// bytes before it, by a key that only these two processes have, for this direction (Trust).
//
// An address, 64 bytes: magic (2), version (1), number of IPv4 addresses (1), of IPv6 addresses
// (1), 1 if the process listens at the TCP port of the same number, else 0 (1), port (2, in network
// order), number of the process (8), the addresses, zeros.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace torii::udp {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr size_t kLongerBytes = kHeaderBytes + 4;
inline constexpr size_t kPieceBytes = kHeaderBytes + 8;
inline constexpr size_t kTaggedBytes = kHeaderBytes + 16;  // of a ping or pong
inline constexpr size_t kPingBytes = kTaggedBytes + 8;     // and of a pong; without the zeros
inline constexpr size_t kPaddingMax = 31;
inline constexpr size_t kFrameMax = 9216;  // of a frame in pieces
inline constexpr size_t kPiecesMax = 8;
inline constexpr size_t kAddressBytes = 64;
inline constexpr size_t kCandidatesMax = 12;

enum class Kind : uint8_t { data = 1, group, ping, pong, longer, piece };

struct Header {
  Kind kind = Kind::data;
  uint32_t to = 0;
  uint64_t from = 0;
  uint64_t number = 0;  // ping, pong; piece: 32 bits
  // ping and pong
  uint8_t candidate = 0;
  uint32_t size = 0;  // of the ping; longer and piece: of the frame
  // data and group: zeros behind the frame, at most kPaddingMax
  uint8_t padding = 0;
  // piece
  uint8_t index = 0;
  uint8_t count = 0;
  uint64_t tag = 0;  // ping and pong
};

// The length of each piece, but for its header, where a frame of `size` bytes is sent in `count`.
inline size_t piece_bytes(size_t size, size_t count) { return (size + count - 1) / count; }

inline uint32_t tag_of(uint64_t number) { return static_cast<uint32_t>(number); }

// Writes what `kind` has before its frame or zeros: kHeaderBytes, kLongerBytes, kPieceBytes or
// kPingBytes.
size_t write_header(const Header& header, std::byte* out);
void write_tag(uint64_t tag, std::byte* out);  // of a ping or pong that is written
// False: not a datagram of this driver, or damaged in a field that can be checked.
bool parse_header(std::span<const std::byte> datagram, Header* out);

// Where a process can be found. IPv4 addresses are written as IPv6 does (::ffff:1.2.3.4).
struct Address {
  uint64_t number = 0;
  uint16_t port = 0;  // host order
  bool listens = false;
  uint8_t count = 0;
  std::array<in6_addr, kCandidatesMax> hosts{};
};

// Adds a host if there is room for it in kAddressBytes.
bool add_host(Address* address, const in6_addr& host);
bool has_host(const Address& address, const in6_addr& host);
// Where a group with this number is: in 239.192.0.0/14 (RFC 2365, for organizations) or ff15::/16
// (transient, site), at a port from 49152 on. IPv4 addresses as above.
sockaddr_in6 group_address(uint64_t number, bool ipv6);
void write_address(const Address& address, std::byte* out);
bool parse_address(std::span<const std::byte> bytes, Address* out);

}  // namespace torii::udp
