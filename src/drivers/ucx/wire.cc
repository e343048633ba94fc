// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/wire.h"

#include <algorithm>
#include <cstring>

namespace torii::ucx {
namespace {

// FNV-1a of all bytes but those of the checksum. A change of one byte always changes it.
template <typename Head>
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes.size(); i++)
    if (i < offsetof(Head, checksum) || i >= offsetof(Head, checksum) + sizeof(uint64_t))
      hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3;
  return hash;
}

// Puts the head before the tail, which stands there already.
template <typename Head>
void write_sealed(Head head, std::span<std::byte> out) {
  std::memcpy(out.data(), &head, sizeof(head));
  head.checksum = checksum_of<Head>(out);
  std::memcpy(out.data(), &head, sizeof(head));
}

template <typename Head>
bool parse_sealed(std::span<const std::byte> bytes, size_t most, Head* head) {
  if (bytes.size() <= sizeof(Head) || bytes.size() > most) return false;
  std::memcpy(head, bytes.data(), sizeof(Head));
  return head->magic == Head{}.magic && head->checksum == checksum_of<Head>(bytes);
}

}  // namespace

std::vector<std::byte> write_address(const AddressHead& head, std::span<const std::byte> worker) {
  std::vector<std::byte> out(sizeof(head) + worker.size());
  std::ranges::copy(worker, out.begin() + sizeof(head));
  write_sealed(head, out);
  return out;
}

std::array<std::byte, kKeyMax> write_key(const KeyHead& head, std::span<const std::byte> rkey) {
  std::array<std::byte, kKeyMax> out{};
  std::ranges::copy(rkey, out.begin() + sizeof(head));
  write_sealed(head, out);
  return out;
}

bool parse_address(std::span<const std::byte> bytes, AddressHead* head) {
  return parse_sealed(bytes, kAddressMax, head) && head->zero == 0;
}

bool parse_key(std::span<const std::byte> bytes, KeyHead* head) {
  return bytes.size() == kKeyMax && parse_sealed(bytes, kKeyMax, head) &&
         !(head->access & ~(kRemoteRead | kRemoteWrite)) && head->base + head->bytes >= head->base;
}

bool parse_hello(std::span<const std::byte> message, Hello* hello, AddressHead* address) {
  if (message.size() < sizeof(Hello) + kTagBytes) return false;
  std::memcpy(hello, message.data(), sizeof(Hello));
  const auto bytes = message.first(message.size() - kTagBytes).subspan(sizeof(Hello));
  return hello->magic == Hello{}.magic && hello->zero == 0 && parse_address(bytes, address);
}

}  // namespace torii::ucx
