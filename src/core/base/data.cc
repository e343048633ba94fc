// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/data.h"

#include <algorithm>

#include "core/base/copy.h"

namespace torii {

unsigned Data::slice_pieces(uint64_t offset, uint64_t n, iovec* out, unsigned max,
                            uint64_t* covered) const {
  *covered = 0;
  unsigned used = 0;
  for (uint32_t i = 0; i < count_ && n > 0 && used < max; ++i) {
    const uint64_t length = pieces_[i].iov_len;
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const uint64_t take = std::min<uint64_t>(length - offset, n);
    out[used++] = {static_cast<std::byte*>(pieces_[i].iov_base) + offset, take};
    *covered += take;
    n -= take;
    offset = 0;
  }
  return used;
}

void Data::copy_out_slow(uint64_t offset, void* to, size_t n) const {
  if (kind_ == Kind::functions) {
    if (n) pack_(base_, offset, to, n);
    return;
  }
  auto* target = static_cast<std::byte*>(to);
  for (uint32_t i = 0; i < count_ && n > 0; ++i) {
    const size_t length = pieces_[i].iov_len;
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const size_t take = std::min<size_t>(length - offset, n);
    copy_bytes(target, static_cast<const std::byte*>(pieces_[i].iov_base) + offset, take);
    target += take;
    n -= take;
    offset = 0;
  }
}

void Data::copy_in_slow(uint64_t offset, const void* from, size_t n) const {
  if (kind_ == Kind::functions) {
    if (n) unpack_(base_, offset, from, n);
    return;
  }
  auto* source = static_cast<const std::byte*>(from);
  for (uint32_t i = 0; i < count_ && n > 0; ++i) {
    const size_t length = pieces_[i].iov_len;
    if (offset >= length) {
      offset -= length;
      continue;
    }
    const size_t take = std::min<size_t>(length - offset, n);
    copy_bytes(static_cast<std::byte*>(pieces_[i].iov_base) + offset, source, take);
    source += take;
    n -= take;
    offset = 0;
  }
}

}  // namespace torii
