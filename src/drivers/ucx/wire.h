// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The format of messages, addresses and memory keys; all fields are little-endian. UCX checks
// neither the addresses nor the memory keys that it is given: it gets none whose checksum is wrong.
//
// Each message of a connected peer begins with
//
//    0         4         8
//    +---------+---------+
//    |   to    |   seq   |   a frame follows, or nothing (bye)
//    +---------+---------+
//
// to    the number that the receiver has given the sender
// seq   counts the sender's messages, beginning with a number that the receiver has drawn
//
// hello     magic (2), version (1), zero (1), number of the receiver at its sender (4), first seq
//           (4), the sender's rank (4) and job (8) as it says, its address, tag (16) of all before
//           it by a key that only these two processes have
// address   magic (2), version (1), length of UCX's address (1), UCX's version (2), zeros (2),
//           checksum (8) of all other bytes, public key (32), UCX's address of the worker
// key       magic (2), length of UCX's key (1), Access bits (1), zeros (4), checksum (8) of all
//           other bytes, first address (8), bytes (8), UCX's key, zeros
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/driver.h"

namespace torii::ucx {

inline constexpr size_t kPrefixBytes = 8;
inline constexpr size_t kAddressHead = 48;
inline constexpr size_t kWorkerMax = kAddressMax - kAddressHead;  // UCX's address
inline constexpr size_t kHelloHead = 24;
inline constexpr size_t kTagBytes = 16;
inline constexpr size_t kHelloMax = kHelloHead + kAddressMax + kTagBytes;
inline constexpr size_t kKeyHead = 32;
inline constexpr size_t kRkeyMax = kKeyMax - kKeyHead;  // UCX's key

// Of UCX's active messages.
enum Id : unsigned { kFrame = 1, kBye, kHello };

struct Prefix {
  uint32_t to = 0;
  uint32_t seq = 0;
};
void write_prefix(const Prefix& prefix, std::byte* out);
// False: it is too short to have one.
bool parse_prefix(std::span<const std::byte> message, Prefix* out);

struct Address {
  PublicKey key{};
  uint16_t version = 0;               // of UCX: the major one in the high byte, the minor one
  std::span<const std::byte> worker;  // at most kWorkerMax bytes
};
// Returns the length.
size_t write_address(const Address& address, std::byte* out);
bool parse_address(std::span<const std::byte> bytes, Address* out);

struct Hello {
  uint32_t number = 0;
  uint32_t first = 0;
  Who who;
  std::span<const std::byte> address;  // as parse_address() takes it
};
// Without its tag. Returns the length.
size_t write_hello(const Hello& hello, std::byte* out);
// False: it is none. Nothing in it may be believed before the tag is right: of its last kTagBytes.
bool parse_hello(std::span<const std::byte> message, Hello* out, Address* address);

struct MemoryKey {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint32_t access = 0;              // kRemoteRead, kRemoteWrite
  std::span<const std::byte> rkey;  // at most kRkeyMax bytes
};
using KeyBytes = std::array<std::byte, kKeyMax>;
void write_key(const MemoryKey& key, KeyBytes* out);
bool parse_key(std::span<const std::byte> bytes, MemoryKey* out);

}  // namespace torii::ucx
