// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/header.h"

#include <cstring>

#include "core/link/crc32c.h"

namespace torii::link {
namespace {

template <typename T>
void store(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); i++) out[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename T>
T load(const std::byte* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); i++) value |= static_cast<T>(T(in[i]) << (8 * i));
  return value;
}

constexpr size_t kChecksumAt = 4;

}  // namespace

void write_header(const Header& header, uint32_t payload_crc, std::byte* out) {
  store<uint16_t>(out, kMagic);
  store<uint8_t>(out + 2, kVersion);
  store<uint8_t>(out + 3, static_cast<uint8_t>(header.kind));
  store<uint32_t>(out + kChecksumAt, 0);
  store<uint32_t>(out + 8, header.session);
  store<uint32_t>(out + 12, header.to_session);
  store<uint32_t>(out + 16, header.seq);
  store<uint32_t>(out + 20, header.ack);
  store<uint64_t>(out + 24, header.sack);
  store<uint32_t>(out + kChecksumAt, crc32c(payload_crc, out, kHeaderBytes));
}

bool parse_header(std::span<const std::byte> frame, Header* out) {
  if (frame.size() < kHeaderBytes) return false;
  std::byte bytes[kHeaderBytes];
  std::memcpy(bytes, frame.data(), kHeaderBytes);
  if (load<uint16_t>(bytes) != kMagic || load<uint8_t>(bytes + 2) != kVersion) return false;
  const auto kind = load<uint8_t>(bytes + 3);
  if (kind < static_cast<uint8_t>(Kind::data) || kind > static_cast<uint8_t>(Kind::probe))
    return false;
  const auto payload = frame.subspan(kHeaderBytes);
  if (kind != static_cast<uint8_t>(Kind::data) && !payload.empty()) return false;
  const auto checksum = load<uint32_t>(bytes + kChecksumAt);
  store<uint32_t>(bytes + kChecksumAt, 0);
  if (crc32c(crc32c(0, payload.data(), payload.size()), bytes, kHeaderBytes) != checksum)
    return false;
  out->kind = static_cast<Kind>(kind);
  out->session = load<uint32_t>(bytes + 8);
  out->to_session = load<uint32_t>(bytes + 12);
  out->seq = load<uint32_t>(bytes + 16);
  out->ack = load<uint32_t>(bytes + 20);
  out->sack = load<uint64_t>(bytes + 24);
  return out->session != 0;
}

}  // namespace torii::link
