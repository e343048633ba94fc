// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/wire.h"

#include <algorithm>
#include <cstring>

#include "core/base/little_endian.h"

namespace torii::ucx {
namespace {

constexpr uint16_t kAddressMagic = 0x4155;
constexpr uint16_t kHelloMagic = 0x4855;
constexpr uint16_t kKeyMagic = 0x4b55;
constexpr uint8_t kVersion = 1;
constexpr size_t kSumAt = 8;  // of the 8 bytes of a checksum

bool all_zeros(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

// FNV-1a of all bytes but those of the checksum. A change of one byte always changes it.
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes.size(); i++)
    if (i < kSumAt || i >= kSumAt + 8)
      hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3;
  return hash;
}

void seal(std::span<std::byte> bytes) {
  store_little<uint64_t>(bytes.data() + kSumAt, checksum_of(bytes));
}

bool is_sealed(std::span<const std::byte> bytes) {
  return load_little<uint64_t>(bytes.data() + kSumAt) == checksum_of(bytes);
}

}  // namespace

void write_prefix(const Prefix& prefix, std::byte* out) {
  store_little<uint32_t>(out, prefix.to);
  store_little<uint32_t>(out + 4, prefix.seq);
}

bool parse_prefix(std::span<const std::byte> message, Prefix* out) {
  if (message.size() < kPrefixBytes) return false;
  *out = {load_little<uint32_t>(message.data()), load_little<uint32_t>(message.data() + 4)};
  return true;
}

size_t write_address(const Address& address, std::byte* out) {
  const size_t bytes = kAddressHead + address.worker.size();
  std::memset(out, 0, kAddressHead);
  store_little<uint16_t>(out, kAddressMagic);
  store_little<uint8_t>(out + 2, kVersion);
  store_little<uint8_t>(out + 3, static_cast<uint8_t>(address.worker.size()));
  store_little<uint16_t>(out + 4, address.version);
  std::ranges::copy(address.key, out + 16);
  std::ranges::copy(address.worker, out + kAddressHead);
  seal({out, bytes});
  return bytes;
}

bool parse_address(std::span<const std::byte> bytes, Address* out) {
  if (bytes.size() <= kAddressHead || bytes.size() > kAddressMax) return false;
  const std::byte* const in = bytes.data();
  if (load_little<uint16_t>(in) != kAddressMagic || load_little<uint8_t>(in + 2) != kVersion)
    return false;
  if (load_little<uint8_t>(in + 3) != bytes.size() - kAddressHead ||
      !all_zeros(bytes.subspan(6, 2)) || !is_sealed(bytes))
    return false;
  out->version = load_little<uint16_t>(in + 4);
  std::copy_n(in + 16, kPublicKeyBytes, out->key.begin());
  out->worker = bytes.subspan(kAddressHead);
  return true;
}

size_t write_hello(const Hello& hello, std::byte* out) {
  store_little<uint16_t>(out, kHelloMagic);
  store_little<uint16_t>(out + 2, kVersion);
  store_little<uint32_t>(out + 4, hello.number);
  store_little<uint32_t>(out + 8, hello.first);
  store_little<uint32_t>(out + 12, hello.who.rank);
  store_little<uint64_t>(out + 16, hello.who.job);
  std::ranges::copy(hello.address, out + kHelloHead);
  return kHelloHead + hello.address.size();
}

bool parse_hello(std::span<const std::byte> message, Hello* out, Address* address) {
  if (message.size() <= kHelloHead + kTagBytes || message.size() > kHelloMax) return false;
  const std::byte* const in = message.data();
  if (load_little<uint16_t>(in) != kHelloMagic || load_little<uint16_t>(in + 2) != kVersion)
    return false;
  out->number = load_little<uint32_t>(in + 4);
  out->first = load_little<uint32_t>(in + 8);
  out->who = {load_little<uint64_t>(in + 16), load_little<uint32_t>(in + 12)};
  out->address = message.subspan(kHelloHead, message.size() - kHelloHead - kTagBytes);
  return parse_address(out->address, address);
}

void write_key(const MemoryKey& key, KeyBytes* out) {
  out->fill(std::byte{0});
  std::byte* const at = out->data();
  store_little<uint16_t>(at, kKeyMagic);
  store_little<uint8_t>(at + 2, static_cast<uint8_t>(key.rkey.size()));
  store_little<uint8_t>(at + 3, static_cast<uint8_t>(key.access));
  store_little<uint64_t>(at + 16, key.base);
  store_little<uint64_t>(at + 24, key.bytes);
  std::ranges::copy(key.rkey, at + kKeyHead);
  seal(*out);
}

bool parse_key(std::span<const std::byte> bytes, MemoryKey* out) {
  if (bytes.size() != kKeyMax || load_little<uint16_t>(bytes.data()) != kKeyMagic) return false;
  const size_t rkey = load_little<uint8_t>(bytes.data() + 2);
  if (rkey == 0 || rkey > kRkeyMax || !is_sealed(bytes)) return false;
  out->access = load_little<uint8_t>(bytes.data() + 3);
  out->base = load_little<uint64_t>(bytes.data() + 16);
  out->bytes = load_little<uint64_t>(bytes.data() + 24);
  out->rkey = bytes.subspan(kKeyHead, rkey);
  return !(out->access & ~(kRemoteRead | kRemoteWrite)) && all_zeros(bytes.subspan(4, 4)) &&
         all_zeros(bytes.subspan(kKeyHead + rkey)) && out->base + out->bytes >= out->base;
}

}  // namespace torii::ucx
