// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/udp/wire.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "core/base/little_endian.h"

namespace torii::udp {
namespace {

constexpr uint16_t kMagic = 0x4455;
constexpr uint8_t kVersion = 5;
constexpr unsigned kKindBits = 3;
constexpr size_t kHostsAt = 16;  // in an address
constexpr size_t kMappedAt = 12;

bool is_ipv4(const in6_addr& host) { return IN6_IS_ADDR_V4MAPPED(&host); }

size_t host_bytes(const Address& address) {
  size_t bytes = 0;
  for (size_t i = 0; i < address.count; i++) bytes += is_ipv4(address.hosts[i]) ? 4 : 16;
  return bytes;
}

bool zeros(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool parse_piece(std::span<const std::byte> datagram, Header* out) {
  if (datagram.size() < kPieceBytes) return false;
  const std::byte* in = datagram.data();
  out->number = load_little<uint32_t>(in + 16);
  out->size = load_little<uint16_t>(in + 20);
  out->index = load_little<uint8_t>(in + 22);
  out->count = load_little<uint8_t>(in + 23);
  if (out->count < 2 || out->count > kPiecesMax || out->index >= out->count) return false;
  const size_t each = piece_bytes(out->size, out->count);
  return out->size <= kFrameMax && out->size > (out->count - 1) * each &&
         datagram.size() == kPieceBytes + each;
}

}  // namespace

size_t write_header(const Header& header, std::byte* out) {
  store_little<uint64_t>(out, uint64_t{kMagic} | uint64_t{kVersion} << 16 |
                                  uint64_t{static_cast<unsigned>(header.kind) |
                                           static_cast<unsigned>(header.padding) << kKindBits}
                                      << 24 |
                                  uint64_t{header.to} << 32);
  store_little<uint64_t>(out + 8, header.from);
  if (header.kind == Kind::data || header.kind == Kind::group) return kHeaderBytes;
  if (header.kind == Kind::longer) {
    store_little<uint32_t>(out + kHeaderBytes, header.size);
    return kLongerBytes;
  }
  if (header.kind == Kind::piece) {
    store_little<uint32_t>(out + 16, static_cast<uint32_t>(header.number));
    store_little<uint16_t>(out + 20, static_cast<uint16_t>(header.size));
    store_little<uint8_t>(out + 22, header.index);
    store_little<uint8_t>(out + 23, header.count);
    return kPieceBytes;
  }
  store_little<uint64_t>(out + 16, header.number);
  store_little<uint32_t>(out + 24, header.candidate);
  store_little<uint32_t>(out + 28, header.size);
  write_tag(header.tag, out);
  return kPingBytes;
}

void write_tag(uint64_t tag, std::byte* out) { store_little<uint64_t>(out + kTaggedBytes, tag); }

bool parse_header(std::span<const std::byte> datagram, Header* out) {
  if (datagram.size() < kHeaderBytes) return false;
  const std::byte* in = datagram.data();
  if (load_little<uint16_t>(in) != kMagic || load_little<uint8_t>(in + 2) != kVersion) return false;
  const unsigned kind = load_little<uint8_t>(in + 3) & ((1u << kKindBits) - 1);
  if (kind < static_cast<uint8_t>(Kind::data) || kind > static_cast<uint8_t>(Kind::piece))
    return false;
  *out = Header{};
  out->kind = static_cast<Kind>(kind);
  out->to = load_little<uint32_t>(in + 4);
  out->from = load_little<uint64_t>(in + 8);
  out->padding = load_little<uint8_t>(in + 3) >> kKindBits;
  if (out->from == 0) return false;
  if (out->kind == Kind::data || out->kind == Kind::group)
    return datagram.size() - kHeaderBytes >= out->padding;
  if (out->padding) return false;
  if (out->kind == Kind::piece) return parse_piece(datagram, out);
  if (out->kind == Kind::longer) {
    if (datagram.size() < kLongerBytes) return false;
    out->size = load_little<uint32_t>(in + kHeaderBytes);
    return out->size > 0;
  }
  if (datagram.size() < kPingBytes) return false;
  out->number = load_little<uint64_t>(in + 16);
  out->candidate = load_little<uint8_t>(in + 24);
  out->size = load_little<uint32_t>(in + 28);
  out->tag = load_little<uint64_t>(in + kTaggedBytes);
  const size_t size = out->kind == Kind::ping ? out->size : kPingBytes;
  return datagram.size() == size && zeros(datagram.subspan(25, 3));
}

bool add_host(Address* address, const in6_addr& host) {
  const size_t bytes = is_ipv4(host) ? 4 : 16;
  if (address->count == kCandidatesMax) return false;
  if (host_bytes(*address) + bytes > kAddressBytes - kHostsAt) return false;
  address->hosts[address->count++] = host;
  return true;
}

sockaddr_in6 group_address(uint64_t number, bool ipv6) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(static_cast<uint16_t>(0xc000 | (number >> 48 & 0x3fff)));
  uint8_t* host = out.sin6_addr.s6_addr;
  if (ipv6) {
    host[0] = 0xff;
    host[1] = 0x15;
    for (size_t i = 0; i < 8; i++) host[8 + i] = static_cast<uint8_t>(number >> (8 * i));
    return out;
  }
  host[10] = host[11] = 0xff;
  host[12] = 239;
  host[13] = static_cast<uint8_t>(192 | (number >> 16 & 3));
  host[14] = static_cast<uint8_t>(number >> 8);
  host[15] = static_cast<uint8_t>(number);
  return out;
}

bool has_host(const Address& address, const in6_addr& host) {
  for (size_t i = 0; i < address.count; i++)
    if (std::memcmp(&address.hosts[i], &host, sizeof(host)) == 0) return true;
  return false;
}

void write_address(const Address& address, std::byte* out) {
  std::memset(out, 0, kAddressBytes);
  store_little<uint16_t>(out, kMagic);
  store_little<uint8_t>(out + 2, kVersion);
  store_little<uint8_t>(out + 5, address.listens);
  store_little<uint8_t>(out + 6, static_cast<uint8_t>(address.port >> 8));
  store_little<uint8_t>(out + 7, static_cast<uint8_t>(address.port));
  store_little<uint64_t>(out + 8, address.number);
  std::byte* at = out + kHostsAt;
  for (const bool ipv4 : {true, false}) {
    for (size_t i = 0; i < address.count; i++) {
      const in6_addr& host = address.hosts[i];
      if (is_ipv4(host) != ipv4) continue;
      const size_t skip = ipv4 ? kMappedAt : 0;
      std::memcpy(at, host.s6_addr + skip, 16 - skip);
      at += 16 - skip;
      out[ipv4 ? 3 : 4] = static_cast<std::byte>(static_cast<uint8_t>(out[ipv4 ? 3 : 4]) + 1);
    }
  }
}

bool parse_address(std::span<const std::byte> bytes, Address* out) {
  if (bytes.size() != kAddressBytes) return false;
  const std::byte* in = bytes.data();
  if (load_little<uint16_t>(in) != kMagic || load_little<uint8_t>(in + 2) != kVersion) return false;
  const size_t ipv4 = load_little<uint8_t>(in + 3), ipv6 = load_little<uint8_t>(in + 4);
  *out = Address{};
  out->port =
      static_cast<uint16_t>(load_little<uint8_t>(in + 6) << 8 | load_little<uint8_t>(in + 7));
  out->number = load_little<uint64_t>(in + 8);
  const auto listens = load_little<uint8_t>(in + 5);
  if (listens > 1 || out->port == 0 || out->number == 0) return false;
  out->listens = listens;
  if (ipv4 + ipv6 == 0 || ipv4 + ipv6 > kCandidatesMax) return false;
  const size_t used = 4 * ipv4 + 16 * ipv6;
  if (used > kAddressBytes - kHostsAt || !zeros(bytes.subspan(kHostsAt + used))) return false;
  in += kHostsAt;
  for (size_t i = 0; i < ipv4 + ipv6; i++) {
    in6_addr& host = out->hosts[i];
    if (i < ipv4) host.s6_addr[10] = host.s6_addr[11] = 0xff;
    const size_t skip = i < ipv4 ? kMappedAt : 0;
    std::memcpy(host.s6_addr + skip, in, 16 - skip);
    in += 16 - skip;
    const bool multicast = skip ? (host.s6_addr[12] & 0xf0) == 0xe0 : host.s6_addr[0] == 0xff;
    if (multicast || (i >= ipv4 && is_ipv4(host))) return false;
  }
  out->count = static_cast<uint8_t>(ipv4 + ipv6);
  return true;
}

}  // namespace torii::udp
