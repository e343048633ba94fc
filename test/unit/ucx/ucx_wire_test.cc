// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What ucx publishes and sends: nothing that was changed is taken.
#include <gtest/gtest.h>

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
  Bytes out(kAddressMax);
  out.resize(write_address({some_key(), 0x10d, worker}, out.data()));
  return out;
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
    EXPECT_EQ(bytes.size(), kAddressHead + size);
    Address out;
    ASSERT_TRUE(parse_address(bytes, &out));
    EXPECT_EQ(out.key, some_key());
    EXPECT_EQ(out.version, 0x10d);
    EXPECT_TRUE(std::ranges::equal(out.worker, std::span(worker).first(size)));
  }
}

TEST(UcxWire, ChangedAddressesAreRefused) {
  refuses_changes(address_of(random_bytes(1, 64)), [](std::span<const std::byte> bytes) {
    Address out;
    return parse_address(bytes, &out);
  });
}

TEST(UcxWire, HellosComeBack) {
  const Bytes address = address_of(random_bytes(1, 64));
  Bytes message(kHelloMax);
  message.resize(write_hello({7, 8, {9, 10}, address}, message.data()) + kTagBytes);
  Hello hello;
  Address from;
  ASSERT_TRUE(parse_hello(message, &hello, &from));
  EXPECT_EQ(hello.number, 7u);
  EXPECT_EQ(hello.first, 8u);
  EXPECT_EQ(hello.who.job, 9u);
  EXPECT_EQ(hello.who.rank, 10u);
  EXPECT_TRUE(std::ranges::equal(hello.address, address));
  EXPECT_EQ(from.key, some_key());
  for (size_t size = 0; size < message.size(); size++)
    EXPECT_FALSE(parse_hello(std::span(message).first(size), &hello, &from)) << size << " bytes";
}

TEST(UcxWire, ChangedKeysAreRefused) {
  const Bytes rkey = random_bytes(2, 27);
  KeyBytes key;
  write_key({0x7f0012345000, 1 << 20, kRemoteRead, rkey}, &key);
  MemoryKey out;
  ASSERT_TRUE(parse_key(key, &out));
  EXPECT_EQ(out.base, 0x7f0012345000u);
  EXPECT_EQ(out.bytes, 1u << 20);
  EXPECT_EQ(out.access, kRemoteRead);
  EXPECT_TRUE(std::ranges::equal(out.rkey, rkey));
  refuses_changes({key.begin(), key.end()}, [](std::span<const std::byte> bytes) {
    MemoryKey changed;
    return parse_key(bytes, &changed);
  });
}

TEST(UcxWire, KeysBeyondTheEndOfMemoryAreRefused) {
  KeyBytes key;
  write_key({~uint64_t{0} - 9, 11, kRemoteRead, random_bytes(2, 9)}, &key);
  MemoryKey out;
  EXPECT_FALSE(parse_key(key, &out));
}

TEST(UcxWire, ShortMessagesHaveNoPrefix) {
  std::byte bytes[kPrefixBytes];
  write_prefix({3, 4}, bytes);
  Prefix out;
  ASSERT_TRUE(parse_prefix(bytes, &out));
  EXPECT_EQ(out.to, 3u);
  EXPECT_EQ(out.seq, 4u);
  EXPECT_FALSE(parse_prefix(std::span(bytes).first(kPrefixBytes - 1), &out));
}

}  // namespace
}  // namespace torii::ucx
