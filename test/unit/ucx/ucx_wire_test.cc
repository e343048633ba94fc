// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The bytes that ucx publishes and sends: nothing that was changed is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/random.h"
#include "drivers/ucx/wire.h"

namespace torii::ucx {
namespace {

using Bytes = std::vector<std::byte>;
using Taken = std::function<bool(std::span<const std::byte>)>;

Bytes random_bytes(uint64_t seed, size_t size) {
  Random random(seed);
  Bytes out(size);
  for (std::byte& b : out) b = std::byte(random.next());
  return out;
}

PublicKey some_key() {
  PublicKey key;
  std::ranges::copy(random_bytes(5, key.size()), key.begin());
  return key;
}

Bytes address_of(std::span<const std::byte> worker) {
  AddressHead head;
  head.version = 0x10d;
  head.key = some_key();
  return seal(head, worker);
}

// With each bit flipped, cut, or longer, and as random bytes.
void refuses_changes(const Bytes& good, const Taken& taken) {
  ASSERT_TRUE(taken(good));
  for (size_t i = 0; i < 8 * good.size(); i++) {
    Bytes bad = good;
    bad[i / 8] ^= std::byte{1} << (i % 8);
    EXPECT_FALSE(taken(bad)) << "bit " << i;
  }
  for (size_t size = 0; size < good.size(); size++)
    EXPECT_FALSE(taken(std::span(good).first(size))) << size << " bytes";
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(taken(longer));
  for (uint64_t seed = 1; seed < 2000; seed++)
    EXPECT_FALSE(taken(random_bytes(seed, seed % (good.size() + 9))));
}

TEST(UcxWire, AddressesComeBack) {
  const Bytes worker = random_bytes(1, kWorkerMax);
  for (const size_t size : {size_t{1}, size_t{70}, kWorkerMax}) {
    const Bytes bytes = address_of(std::span(worker).first(size));
    AddressHead out;
    ASSERT_TRUE(parse_address(bytes, &out));
    EXPECT_EQ(out.key, some_key());
    EXPECT_EQ(out.version, 0x10d);
    EXPECT_TRUE(
        std::ranges::equal(std::span(bytes).subspan(sizeof(out)), std::span(worker).first(size)));
  }
}

TEST(UcxWire, ChangedAddressesAreRefused) {
  refuses_changes(address_of(random_bytes(1, 64)), [](std::span<const std::byte> bytes) {
    AddressHead out;
    return parse_address(bytes, &out);
  });
}

TEST(UcxWire, HellosComeBack) {
  const Bytes address = address_of(random_bytes(1, 64));
  Hello hello;
  hello.number = 7;
  hello.first = 8;
  hello.job = 9;
  hello.rank = 10;
  Bytes message(sizeof(hello) + address.size() + kTagBytes);
  std::memcpy(message.data(), &hello, sizeof(hello));
  std::ranges::copy(address, message.begin() + sizeof(hello));
  Hello out;
  AddressHead from;
  ASSERT_TRUE(parse_hello(message, &out, &from));
  EXPECT_EQ(std::memcmp(&out, &hello, sizeof(hello)), 0);
  EXPECT_EQ(from.key, some_key());
  for (size_t size = 0; size < message.size(); size++)
    EXPECT_FALSE(parse_hello(std::span(message).first(size), &out, &from)) << size << " bytes";
}

KeyHead some_memory() {
  KeyHead head;
  head.base = 0x7f0012345000;
  head.bytes = 1 << 20;
  head.access = kRemoteRead;
  return head;
}

TEST(UcxWire, ChangedKeysAreRefused) {
  const Bytes rkey = random_bytes(2, 27);
  const auto key = seal(some_memory(), rkey, kKeyMax);
  KeyHead out;
  ASSERT_TRUE(parse_key(key, &out));
  EXPECT_EQ(out.base, 0x7f0012345000u);
  EXPECT_EQ(out.bytes, 1u << 20);
  EXPECT_EQ(out.access, kRemoteRead);
  EXPECT_TRUE(std::ranges::equal(std::span(key).subspan(sizeof(out), rkey.size()), rkey));
  refuses_changes({key.begin(), key.end()}, [](std::span<const std::byte> bytes) {
    KeyHead changed;
    return parse_key(bytes, &changed);
  });
}

TEST(UcxWire, KeysBeyondTheEndOfMemoryAreRefused) {
  KeyHead head = some_memory(), out;
  head.base = ~uint64_t{0} - 9;
  head.bytes = 11;
  EXPECT_FALSE(parse_key(seal(head, random_bytes(2, 9), kKeyMax), &out));
}

TEST(UcxWire, KeysWithOtherRightsAreRefused) {
  KeyHead head = some_memory(), out;
  head.access |= kGuarded;
  EXPECT_FALSE(parse_key(seal(head, random_bytes(2, 9), kKeyMax), &out));
}

}  // namespace
}  // namespace torii::ucx
