// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/group_header.h"

#include "core/base/little_endian.h"
#include "core/link/crc32c.h"

namespace torii::link {
namespace {

constexpr uint16_t kGroupMagic = 0x474c;
constexpr uint8_t kGroupVersion = 1;
constexpr unsigned kGroupKind = 1;
constexpr unsigned kGroupWhole = 0x20;
constexpr unsigned kGroupSealed = 0x80;

}  // namespace

void write_group_header(const GroupHeader& header, uint32_t payload_crc, std::byte* out) {
  const unsigned kind =
      kGroupKind | (header.whole ? kGroupWhole : 0) | (header.sealed ? kGroupSealed : 0);
  const uint64_t first =
      uint64_t{kGroupMagic} | uint64_t{kGroupVersion} << 16 | uint64_t{kind} << 24;
  store_little<uint64_t>(out, first);
  store_little<uint64_t>(out + 8, header.number);
  store_little<uint64_t>(out + 16, uint64_t{header.sender} | uint64_t{header.group} << 32);
  if (!header.sealed)
    store_little<uint64_t>(out, first | uint64_t{crc32c(payload_crc, out, kSealedHeadBytes)} << 32);
}

bool parse_group_header(std::span<const std::byte> frame, GroupHeader* out) {
  if (frame.size() < kGroupHeaderBytes) return false;
  const std::byte* const in = frame.data();
  const auto kind = load_little<uint8_t>(in + 3);
  if (load_little<uint16_t>(in) != kGroupMagic || load_little<uint8_t>(in + 2) != kGroupVersion ||
      (kind & ~(kGroupWhole | kGroupSealed)) != kGroupKind)
    return false;
  out->whole = kind & kGroupWhole;
  out->sealed = kind & kGroupSealed;
  out->number = load_little<uint64_t>(in + 8);
  out->sender = load_little<uint32_t>(in + 16);
  out->group = load_little<uint32_t>(in + 20);
  if (!out->sealed) return true;
  // The fields that an encrypted one leaves empty are no place for other bytes.
  return !out->whole && load_little<uint32_t>(in + 4) == 0 &&
         frame.size() >= kGroupHeaderBytes + kCipherGrowth;
}

}  // namespace torii::link
