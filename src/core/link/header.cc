// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/header.h"

#include "core/base/little_endian.h"
#include "core/link/crc32c.h"

namespace torii::link {
namespace {

constexpr size_t kTagAt = kSealedHeadBytes;
static_assert(kTagAt + 8 == kHeaderBytes);
constexpr uint8_t kKindBits = 0x0f;
constexpr uint8_t kWhole = 0x20;
constexpr uint8_t kAsk = 0x40;
constexpr uint8_t kSealed = 0x80;

}  // namespace

void write_header(const Header& header, uint32_t payload_crc, const TagKey& key,
                  std::span<const std::byte> payload, std::byte* out) {
  write_unsealed(header, payload_crc, out);
  SealKey tag_only;
  tag_only.tag = key;
  const Sealing frame{out, unsent_of(header), &tag_only, payload, {}, header.whole};
  TagSeal().seal({&frame, 1});
}

void write_unsealed(const Header& header, uint32_t payload_crc, std::byte* out) {
  const int flags =
      (header.whole ? kWhole : 0) | (header.ask ? kAsk : 0) | (header.sealed ? kSealed : 0);
  // Whole words: a sum over what was just written in parts waits until that is in the cache.
  const uint64_t first = uint64_t{kMagic} | uint64_t{kVersion} << 16 |
                         static_cast<uint64_t>(static_cast<int>(header.kind) | flags) << 24;
  store_little<uint64_t>(out, first);
  store_little<uint64_t>(out + 8, uint64_t{static_cast<uint32_t>(header.seq)} | header.ack << 32);
  store_little<uint64_t>(out + 16, header.sack);
  if (!header.sealed)
    store_little<uint64_t>(out, first | uint64_t{crc32c(payload_crc, out, kTagAt)} << 32);
}

void write_length(size_t bytes, std::byte* out) {
  store_little<uint16_t>(out, static_cast<uint16_t>(bytes));
}

size_t read_length(const std::byte* in) { return load_little<uint16_t>(in); }

void write_parts(const Parts& parts, std::byte* out) {
  store_little<uint32_t>(
      out, uint32_t{parts.count} | uint32_t{parts.begins} << 8 | uint32_t{parts.ends} << 9);
}

namespace {

// False: not what write_parts() writes, or nothing follows.
bool parse_parts(std::span<const std::byte> payload, Parts* out) {
  if (payload.size() <= kPartsBytes) return false;
  const auto word = load_little<uint32_t>(payload.data());
  out->count = static_cast<uint8_t>(word);
  out->begins = word >> 8 & 1;
  out->ends = word >> 9 & 1;
  return out->count > 0 && out->count <= kPartsMax && !(word >> 10);
}

}  // namespace

bool parse_header(std::span<const std::byte> frame, Header* out) {
  if (frame.size() < kHeaderBytes) return false;
  const std::byte* bytes = frame.data();
  if (load_little<uint16_t>(bytes) != kMagic || load_little<uint8_t>(bytes + 2) != kVersion)
    return false;
  const auto kind = load_little<uint8_t>(bytes + 3);
  out->kind = static_cast<Kind>(kind & kKindBits);
  out->whole = kind & kWhole;
  out->ask = kind & kAsk;
  out->seq = load_little<uint32_t>(bytes + 8);
  out->ack = load_little<uint32_t>(bytes + 12);
  out->sack = load_little<uint64_t>(bytes + 16);
  out->sealed = kind & kSealed;
  out->parts = {};
  if (out->kind < Kind::data || out->kind > Kind::hello ||
      kind & ~(kKindBits | kWhole | kAsk | kSealed))
    return false;
  const auto payload = frame.subspan(kHeaderBytes);
  if (out->sealed)
    return carries_frames(out->kind) && !out->whole && payload.size() >= kCipherGrowth;
  return parse_payload(payload, out);
}

bool parse_payload(std::span<const std::byte> payload, Header* header) {
  header->parts = {};
  switch (header->kind) {
    case Kind::part:
      return parse_parts(payload, &header->parts);
    case Kind::hello:
      return header->whole && payload.size() > kHelloBytes;
    case Kind::ack:
      return payload.empty() || (header->whole && payload.size() == kSackMoreBytes);
    default:
      return carries_frames(header->kind) || payload.empty();
  }
}

void write_hello(const Who& who, Cipher cipher, std::byte* out) {
  store_little<uint64_t>(out, who.job);
  store_little<uint32_t>(out + 8, who.rank);
  store_little<uint32_t>(out + 12, static_cast<uint32_t>(cipher));
}

Hello read_hello(std::span<const std::byte> payload) {
  return {{load_little<uint64_t>(payload.data()), load_little<uint32_t>(payload.data() + 8)},
          static_cast<Cipher>(load_little<uint32_t>(payload.data() + 12)),
          payload.subspan(kHelloBytes)};
}

void write_more(const MoreSack& more, std::byte* out) {
  for (size_t i = 0; i < more.size(); i++) store_little<uint64_t>(out + 8 * i, more[i]);
}

MoreSack read_more(std::span<const std::byte> payload) {
  MoreSack more{};
  if (payload.size() != kSackMoreBytes) return more;
  for (size_t i = 0; i < more.size(); i++) more[i] = load_little<uint64_t>(payload.data() + 8 * i);
  return more;
}

bool checksum_is_right(std::span<const std::byte> frame) {
  std::byte bytes[kTagAt];
  const auto first = load_little<uint64_t>(frame.data());
  store_little<uint64_t>(bytes, first & 0xffffffff);
  for (size_t at = 8; at < kTagAt; at += 8)
    store_little<uint64_t>(bytes + at, load_little<uint64_t>(frame.data() + at));
  const auto payload = frame.subspan(kHeaderBytes);
  return crc32c(crc32c(0, payload.data(), payload.size()), bytes, kTagAt) == first >> 32;
}

}  // namespace torii::link
