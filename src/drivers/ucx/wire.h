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
// question  nothing: the answer is the card's
// hello     Hello, the sender's address, tag (kTagBytes) of all before it by a key that only these
//           two processes have
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/fnv.h"
#include "drivers/driver.h"

namespace torii::ucx {

struct AddressHead {
  uint64_t checksum = 0;        // of all that follows
  uint32_t magic = 0x02415554;  // the highest byte is the version of the format
  uint32_t version = 0;         // of UCX: major << 8 | minor
  PublicKey key{};
};
struct KeyHead {
  uint64_t checksum = 0;  // of all that follows
  uint32_t magic = 0x024b5554;
  uint32_t access = 0;  // kRemoteRead, kRemoteWrite
  uint64_t base = 0;
  uint64_t bytes = 0;
};
struct Prefix {
  uint32_t to = 0;   // the number that the receiver has given the sender; with kBye, the last one
  uint32_t seq = 0;  // counts the sender's messages, from a number that the receiver has drawn
};
struct Hello {
  uint64_t magic = 0x02485554ffffffff;  // as a Prefix to nobody
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

// An address or a key under a checksum: the head, UCX's, and zeros up to `least` bytes.
template <typename Head>
std::vector<std::byte> seal(const Head& head, std::span<const std::byte> of_ucx, size_t least = 0) {
  std::vector<std::byte> out(std::max(sizeof(head) + of_ucx.size(), least));
  std::memcpy(out.data(), &head, sizeof(head));
  std::ranges::copy(of_ucx, out.begin() + sizeof(head));
  const uint64_t checksum = fnv1a(std::span(out).subspan(sizeof(checksum)));
  std::memcpy(out.data(), &checksum, sizeof(checksum));
  return out;
}

// Its head. False: it was changed on its way, or is none.
template <typename Head>
bool unseal(std::span<const std::byte> bytes, Head* head) {
  if (bytes.size() <= sizeof(Head)) return false;
  std::memcpy(head, bytes.data(), sizeof(Head));
  return head->magic == Head{}.magic &&
         head->checksum == fnv1a(bytes.subspan(sizeof(head->checksum)));
}

inline bool parse_address(std::span<const std::byte> bytes, AddressHead* head) {
  return bytes.size() <= kAddressMax && unseal(bytes, head);
}
inline bool parse_key(std::span<const std::byte> bytes, KeyHead* head) {
  return bytes.size() == kKeyMax && unseal(bytes, head) &&
         !(head->access & ~(kRemoteRead | kRemoteWrite)) && head->base + head->bytes >= head->base;
}
// False: it is none. Nothing in it may be believed before the tag is right: of its last kTagBytes.
inline bool parse_hello(std::span<const std::byte> message, Hello* hello, AddressHead* address) {
  if (message.size() < sizeof(Hello) + kTagBytes) return false;
  std::memcpy(hello, message.data(), sizeof(Hello));
  const auto bytes = message.first(message.size() - kTagBytes).subspan(sizeof(Hello));
  return hello->magic == Hello{}.magic && hello->zero == 0 && parse_address(bytes, address);
}

}  // namespace torii::ucx
