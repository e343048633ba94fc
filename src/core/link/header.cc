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
constexpr size_t kTagAt = 32;
constexpr uint8_t kKindBits = 0x0f;
constexpr uint8_t kSendersKey = 0x10;
constexpr uint8_t kWhole = 0x20;
constexpr uint8_t kAsk = 0x40;

uint64_t tag_of(const std::byte* bytes, const Header& header, const Key& key,
                std::span<const std::byte> payload) {
  std::byte high[8];
  store<uint32_t>(high, static_cast<uint32_t>(header.seq >> 32));
  store<uint32_t>(high + 4, static_cast<uint32_t>(header.ack >> 32));
  SipHash hash(key);
  hash.add({bytes, kTagAt});
  hash.add(high);
  if (header.whole) hash.add(payload);
  return hash.finish();
}

}  // namespace

void write_header(const Header& header, uint32_t payload_crc, const Key& key,
                  std::span<const std::byte> payload, std::byte* out) {
  const int flags = (header.senders_key ? kSendersKey : 0) | (header.whole ? kWhole : 0) |
                    (header.ask ? kAsk : 0);
  store<uint16_t>(out, kMagic);
  store<uint8_t>(out + 2, kVersion);
  store<uint8_t>(out + 3, static_cast<uint8_t>(static_cast<int>(header.kind) | flags));
  store<uint32_t>(out + kChecksumAt, 0);
  store<uint32_t>(out + 8, header.session);
  store<uint32_t>(out + 12, header.to_session);
  store<uint32_t>(out + 16, static_cast<uint32_t>(header.seq));
  store<uint32_t>(out + 20, static_cast<uint32_t>(header.ack));
  store<uint64_t>(out + 24, header.sack);
  store<uint32_t>(out + kChecksumAt, crc32c(payload_crc, out, kTagAt));
  store<uint64_t>(out + kTagAt, tag_of(out, header, key, payload));
}

bool parse_header(std::span<const std::byte> frame, Header* out) {
  if (frame.size() < kHeaderBytes) return false;
  const std::byte* bytes = frame.data();
  if (load<uint16_t>(bytes) != kMagic || load<uint8_t>(bytes + 2) != kVersion) return false;
  const auto kind = load<uint8_t>(bytes + 3);
  out->kind = static_cast<Kind>(kind & kKindBits);
  out->senders_key = kind & kSendersKey;
  out->whole = kind & kWhole;
  out->ask = kind & kAsk;
  out->session = load<uint32_t>(bytes + 8);
  out->to_session = load<uint32_t>(bytes + 12);
  out->seq = load<uint32_t>(bytes + 16);
  out->ack = load<uint32_t>(bytes + 20);
  out->sack = load<uint64_t>(bytes + 24);
  const bool known = out->kind >= Kind::data && out->kind <= Kind::probe &&
                     !(kind & ~(kKindBits | kSendersKey | kWhole | kAsk));
  const bool more =
      out->kind == Kind::ack && out->whole && frame.size() == kHeaderBytes + kSackMoreBytes;
  return known && out->session && (out->kind == Kind::data || more || frame.size() == kHeaderBytes);
}

void write_more(const MoreSack& more, std::byte* out) {
  for (size_t i = 0; i < more.size(); i++) store<uint64_t>(out + 8 * i, more[i]);
}

MoreSack read_more(std::span<const std::byte> payload) {
  MoreSack more{};
  if (payload.size() != kSackMoreBytes) return more;
  for (size_t i = 0; i < more.size(); i++) more[i] = load<uint64_t>(payload.data() + 8 * i);
  return more;
}

bool tag_is_right(std::span<const std::byte> frame, const Header& header, const Key& key) {
  return load<uint64_t>(frame.data() + kTagAt) ==
         tag_of(frame.data(), header, key, frame.subspan(kHeaderBytes));
}

bool checksum_is_right(std::span<const std::byte> frame) {
  std::byte bytes[kTagAt];
  std::memcpy(bytes, frame.data(), kTagAt);
  const auto checksum = load<uint32_t>(bytes + kChecksumAt);
  store<uint32_t>(bytes + kChecksumAt, 0);
  const auto payload = frame.subspan(kHeaderBytes);
  return crc32c(crc32c(0, payload.data(), payload.size()), bytes, kTagAt) == checksum;
}

}  // namespace torii::link
