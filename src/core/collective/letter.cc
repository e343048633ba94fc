// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/letter.h"

#include <algorithm>

#include "core/base/little_endian.h"

namespace torii::team {

namespace {

constexpr uint8_t kLetterVersion = 2;  // changes with the layout of the segment, too

}  // namespace

//   version 1 | kind 1 | status 1 | scarce 1 | member 4 | order 8 | bytes of key 8 | key
size_t write_letter(const Letter& letter, LetterBytes* out) {
  const uint64_t first = uint64_t{kLetterVersion} | uint64_t(letter.kind) << 8 |
                         uint64_t(letter.status) << 16 | uint64_t{letter.scarce} << 24 |
                         uint64_t{letter.member} << 32;
  store_little(out->data(), first);
  store_little(out->data() + 8, letter.order);
  store_little(out->data() + 16, uint64_t{letter.key.size()});
  std::copy(letter.key.begin(), letter.key.end(), out->data() + kLetterHead);
  return kLetterHead + letter.key.size();
}

bool read_letter(std::span<const std::byte> bytes, Letter* out) {
  if (bytes.size() < kLetterHead || bytes.size() > kLetterMax) return false;
  const auto first = load_little<uint64_t>(bytes.data());
  const auto kind = uint8_t(first >> 8), status = uint8_t(first >> 16),
             scarce = uint8_t(first >> 24);
  if (uint8_t(first) != kLetterVersion || kind < uint8_t(LetterKind::offer) ||
      kind > uint8_t(LetterKind::verdict) || status > uint8_t(Status::io_error) || scarce > 1 ||
      load_little<uint64_t>(bytes.data() + 16) != bytes.size() - kLetterHead)
    return false;
  out->kind = LetterKind(kind);
  out->status = Status(status);
  out->scarce = scarce != 0;
  out->member = uint32_t(first >> 32);
  out->order = load_little<uint64_t>(bytes.data() + 8);
  out->key = bytes.subspan(kLetterHead);
  return true;
}

}  // namespace torii::team
