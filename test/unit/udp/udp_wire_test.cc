// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The bytes that the udp driver writes, and those that it believes.
#include "unit/udp/udp_kit.h"

namespace torii::udp {
namespace {

TEST(UdpWire, AddressesAreReadAsTheyWereWritten) {
  const Address in = address_of(0x1122334455667788, 0x1234, {"fd77::1", "10.1.2.3", "192.168.0.9"});
  Address out;
  ASSERT_TRUE(parse_address(written(in), &out));
  EXPECT_EQ(out.number, in.number);
  EXPECT_EQ(out.port, in.port);
  ASSERT_EQ(out.count, 3);
  const char* sorted[] = {"10.1.2.3", "192.168.0.9", "fd77::1"};
  for (size_t i = 0; i < 3; i++) {
    const in6_addr expected = host(sorted[i]);
    EXPECT_EQ(std::memcmp(&out.hosts[i], &expected, 16), 0) << sorted[i];
  }
  const Bytes bytes = written(in);
  EXPECT_EQ(bytes[6], std::byte{0x12}) << "the port is in network order";
  EXPECT_EQ(bytes[8], std::byte{0x88}) << "the number is little-endian";
  EXPECT_FALSE(out.listens);
  Address listening = in;
  listening.listens = true;
  ASSERT_TRUE(parse_address(written(listening), &out));
  EXPECT_TRUE(out.listens);
}

TEST(UdpWire, AnAddressHasRoomForSoManyHosts) {
  Address a;
  for (int i = 0; i < 12; i++) EXPECT_TRUE(add_host(&a, host("10.0.0.1")));
  EXPECT_FALSE(add_host(&a, host("10.0.0.1")));
  Address b;
  for (int i = 0; i < 3; i++) EXPECT_TRUE(add_host(&b, host("fd77::1")));
  EXPECT_FALSE(add_host(&b, host("fd77::1")));
  EXPECT_FALSE(add_host(&b, host("10.0.0.1")));
}

TEST(UdpWire, PaddingIsNoLongerThanTheDatagram) {
  Bytes datagram(kPingBytes);
  Header in{Kind::data, 7, 8}, out;
  in.padding = kPaddingMax;
  write_header(in, datagram.data());
  EXPECT_FALSE(parse_header(datagram, &out));
  datagram.resize(kHeaderBytes + kPaddingMax);
  ASSERT_TRUE(parse_header(datagram, &out));
  EXPECT_EQ(out.padding, kPaddingMax);
  EXPECT_EQ(out.kind, Kind::data);
  in.kind = Kind::ping;
  in.size = static_cast<uint32_t>(datagram.size());
  write_header(in, datagram.data());
  EXPECT_FALSE(parse_header(datagram, &out)) << "only frames are padded";
}

TEST(UdpWire, WrongAddressesAreRefused) {
  const Bytes good = written(address_of(7, 4000, {"10.1.2.3"}));
  Address out;
  ASSERT_TRUE(parse_address(good, &out));
  for (const size_t zero : {0, 2, 3, 8}) {  // magic, version, count, number
    Bytes bad = good;
    bad[zero] = std::byte{0};
    EXPECT_FALSE(parse_address(bad, &out)) << "byte " << zero;
  }
  for (const size_t set : {4, 5, 20, 63}) {  // IPv6 addresses that are not there, rests
    Bytes bad = good;
    bad[set] = std::byte{4};
    EXPECT_FALSE(parse_address(bad, &out)) << "byte " << set;
  }
  Bytes bad = good;
  bad[6] = bad[7] = std::byte{0};
  EXPECT_FALSE(parse_address(bad, &out)) << "port 0";
  bad = good;
  bad[16] = std::byte{239};
  EXPECT_FALSE(parse_address(bad, &out)) << "a multicast address";
  EXPECT_FALSE(parse_address(written(address_of(7, 4000, {"ff15::1"})), &out));
  EXPECT_FALSE(parse_address(std::span(good).first(63), &out));
}

TEST(UdpWire, DatagramsAreReadAsTheyWereWritten) {
  for (const Kind kind :
       {Kind::data, Kind::group, Kind::ping, Kind::pong, Kind::longer, Kind::piece}) {
    Header in;
    in.kind = kind;
    in.to = 0x01020304;
    in.from = 0x1122334455667788;
    std::byte bytes[64] = {};
    if (kind == Kind::ping || kind == Kind::pong) in.number = 99, in.candidate = 3, in.tag = 5;
    if (kind == Kind::pong || kind == Kind::longer) in.size = 1400;
    if (kind == Kind::ping) in.size = kPingBytes;
    if (kind == Kind::piece) in.size = 100, in.number = 0x1020304, in.index = 2, in.count = 3;
    const size_t size = write_header(in, bytes) + (kind == Kind::piece ? 34 : 0);
    Header out;
    ASSERT_TRUE(parse_header(std::span(bytes).first(size), &out));
    EXPECT_EQ(std::memcmp(&in.kind, &out.kind, sizeof(in.kind)), 0);
    EXPECT_TRUE(out.to == in.to && out.from == in.from && out.number == in.number &&
                out.candidate == in.candidate && out.size == in.size && out.tag == in.tag &&
                out.index == in.index && out.count == in.count);
    for (size_t cut = 0; cut < size; cut++)
      EXPECT_FALSE(parse_header(std::span(bytes).first(cut), &out)) << "cut at " << cut;
    if (kind == Kind::ping || kind == Kind::pong || kind == Kind::piece) {
      EXPECT_FALSE(parse_header(std::span(bytes).first(size + 1), &out)) << "too long";
    }
    bytes[2] = std::byte{77};
    EXPECT_FALSE(parse_header(std::span(bytes).first(size), &out)) << "another version";
  }
}

TEST(UdpWire, WrongPiecesAreRefused) {
  struct {
    uint32_t size, index, count, bytes;
    bool good;
  } const cases[] = {
      {9168, 7, 8, 1146, true},   {1000, 0, 2, 500, true},   {1001, 1, 2, 501, true},
      {1000, 2, 2, 500, false},   {1000, 0, 1, 1000, false}, {9000, 0, 9, 1000, false},
      {9217, 0, 8, 1153, false},  {1000, 0, 2, 501, false},  {1000, 0, 2, 499, false},
      {65535, 0, 8, 8192, false}, {5, 3, 4, 2, false},       {0, 0, 2, 0, false}};
  for (const auto& one : cases) {
    Header in{Kind::piece, 7, 8}, out;
    in.size = one.size;
    in.index = static_cast<uint8_t>(one.index);
    in.count = static_cast<uint8_t>(one.count);
    Bytes datagram(kPieceBytes + one.bytes);
    write_header(in, datagram.data());
    EXPECT_EQ(parse_header(datagram, &out), one.good)
        << one.size << " bytes, piece " << one.index << " of " << one.count;
  }
}

}  // namespace
}  // namespace torii::udp
