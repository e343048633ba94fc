// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The format of messages, addresses and memory keys, in the byte order of the machine, as UCX's own
// addresses are. UCX checks neither the addresses nor the memory keys that it is given: it gets
// none whose checksum is wrong.
//
// address   AddressHead, UCX's address of the worker
// key       KeyHead, UCX's key, zeros: kKeyMax bytes
// frame     Prefix, the frame
// bye       Prefix with kBye
// hello     Hello, the sender's address, tag (kTagBytes) of all before it by a key that only these
//           two processes have
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drivers/driver.h"

namespace torii::ucx {

struct AddressHead {
  uint32_t magic = 0x01415554;  // the highest byte is the version of the format
  uint16_t version = 0;         // of UCX: major in the high byte, minor
  uint16_t zero = 0;
  uint64_t checksum = 0;  // of all other bytes
  PublicKey key{};
};
struct KeyHead {
  uint32_t magic = 0x014b5554;
  uint32_t access = 0;    // kRemoteRead, kRemoteWrite
  uint64_t checksum = 0;  // of all other bytes
  uint64_t base = 0;
  uint64_t bytes = 0;
};
struct Prefix {
  uint32_t to = 0;   // the number that the receiver has given the sender; with kBye, the last one
  uint32_t seq = 0;  // counts the sender's messages, from a number that the receiver has drawn
};
struct Hello {
  uint64_t magic = 0x01485554ffffffff;  // as a Prefix to nobody
  uint32_t number = 0;                  // of the receiver at its sender
  uint32_t first = 0;                   // first seq that the sender expects
  uint64_t job = 0;                     // of the sender, as it says
  uint32_t rank = 0;
  uint32_t zero = 0;
};

inline constexpr unsigned kMessageId = 1;   // of UCX's active messages
inline constexpr uint32_t kBye = 1u << 31;  // of Prefix::to
inline constexpr size_t kTagBytes = 16;
inline constexpr size_t kWorkerMax = kAddressMax - sizeof(AddressHead);  // UCX's address
inline constexpr size_t kRkeyMax = kKeyMax - sizeof(KeyHead);            // UCX's key

std::vector<std::byte> write_address(const AddressHead& head, std::span<const std::byte> worker);
std::array<std::byte, kKeyMax> write_key(const KeyHead& head, std::span<const std::byte> rkey);
// False: it was changed on its way, or is none.
bool parse_address(std::span<const std::byte> bytes, AddressHead* head);
bool parse_key(std::span<const std::byte> bytes, KeyHead* head);
// False: it is none. Nothing in it may be believed before the tag is right: of its last kTagBytes.
bool parse_hello(std::span<const std::byte> message, Hello* hello, AddressHead* address);

}  // namespace torii::ucx
