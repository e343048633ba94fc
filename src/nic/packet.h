// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A packet on the links of a fabric.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace torii::nic {

// Shared by a process and its packets that are under way: it is the only owner once all have
// arrived.
struct Flight {};

// Virtual channels of a link: packets of one channel do not wait for those of another. Cards of
// which nothing else is said use the first one only.
inline constexpr unsigned kChannels = 3;

struct Packet {
  std::vector<std::byte> bytes;  // on the wire, without the CRC
  uint32_t crc = 0;              // as it is on the wire
  uint8_t channel = 0;
  uint8_t priority = 0;  // the output of a switch serves the highest first
  uint64_t tail_ns = 0;  // when its last byte is where the packet is
  // No part of the packet: for those who look after the fabric.
  std::shared_ptr<Flight> flight;
  uint64_t number = 0;  // in the order in which packets were sent
  uint32_t node = 0;    // their sender
};

// What these bytes, which are as many at least, begin with.
template <typename Header>
Header header_of(std::span<const std::byte> bytes) {
  Header out;
  std::memcpy(&out, bytes.data(), sizeof(out));
  return out;
}

// A header, and what follows it.
template <typename Header>
std::vector<std::byte> make_bytes(const Header& header, std::span<const std::byte> rest = {}) {
  std::vector<std::byte> out(sizeof(header) + rest.size());
  std::memcpy(out.data(), &header, sizeof(header));
  std::ranges::copy(rest, out.begin() + sizeof(header));
  return out;
}

// CRC-32 of IEEE 802.3.
uint32_t crc32(std::span<const std::byte> bytes);
inline void seal(Packet& packet) { packet.crc = crc32(packet.bytes); }
inline bool intact(const Packet& packet) { return packet.crc == crc32(packet.bytes); }

}  // namespace torii::nic
