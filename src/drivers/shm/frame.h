// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Writing a frame into the ring of a peer. The receiver polls the first line, so its bytes are
// written last.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/shm/peers.h"

namespace torii::shm {

inline constexpr uint32_t kPadFrom = 192;  // bodies from this size on begin with a line

// Requests are made just before: word by word, for a processor that reads two at once waits until
// both have left its store buffer.
[[gnu::always_inline]] inline void write_words(std::byte* to, const Request& r, uint32_t bytes) {
  auto* const words = reinterpret_cast<uint64_t*>(to);
  struct Which {
    RequestKind kind;
    uint16_t of_many;
    uint32_t number;
  };
  const auto which = std::bit_cast<uint64_t>(Which{r.kind, r.of_many, r.number});
  const auto what = std::bit_cast<uint64_t>(std::array{r.bytes, r.slot});
  __atomic_store_n(words, which, __ATOMIC_RELAXED);
  __atomic_store_n(words + 1, what, __ATOMIC_RELAXED);
  if (bytes < sizeof(r)) return;
  __atomic_store_n(words + 2, r.valid, __ATOMIC_RELAXED);
  __atomic_store_n(words + 3, r.offset, __ATOMIC_RELAXED);
}

[[gnu::always_inline]] inline void write_head(std::byte* to, uint64_t kind, const void* head,
                                              uint32_t bytes) {
  if (kind == kKindRequest) return write_words(to, *static_cast<const Request*>(head), bytes);
  copy_bytes(to, head, bytes);
}

// A frame of any size. False: there is no room.
[[gnu::always_inline]] inline bool write_frame(Peer& peer, uint64_t kind, const void* head,
                                               uint32_t head_bytes, const iovec* pieces,
                                               uint32_t count, uint32_t body_bytes) {
  const uint32_t bytes = head_bytes + body_bytes;
  TORII_ASSERT(bytes <= kMtu || bytes <= frame_max_of(peer.out.lines));
  const uint32_t head_first = std::min<uint32_t>(head_bytes, kFirstBytes);
  const bool flat = count <= 1 && head_bytes == head_first;
  const uint32_t padding = flat && body_bytes >= kPadFrom ? kFirstBytes - head_bytes : 0;
  std::byte* const to = peer.out.reserve(bytes + padding);
  if (__builtin_expect(!to, 0)) return false;
  std::byte* at = to + kFirstBytes;
  uint32_t first = kFirstBytes - padding - head_first;  // of the body, in the first line
  if (__builtin_expect(flat, 1)) {
    const auto* const from = count ? static_cast<const std::byte*>(pieces->iov_base) : nullptr;
    first = std::min(first, body_bytes);
    if (body_bytes > first) peer.writer.write(at, from + first, body_bytes - first);
    write_head(to + padding, kind, head, head_first);
    copy_bytes(to + padding + head_first, from, first);
    peer.out.publish(bytes, padding, kind);
    return true;
  }
  std::byte line[kFirstBytes];
  uint32_t filled = 0;
  const auto add = [&](const void* from, size_t n) {
    const size_t part = std::min<size_t>(n, kFirstBytes - filled);
    copy_bytes(line + filled, from, part);
    copy_bytes(at, static_cast<const std::byte*>(from) + part, n - part);
    filled += static_cast<uint32_t>(part);
    at += n - part;
  };
  add(head, head_bytes);
  for (uint32_t i = 0; i < count; i++) add(pieces[i].iov_base, pieces[i].iov_len);
  TORII_ASSERT(at == to + std::max<size_t>(bytes, kFirstBytes));
  std::memcpy(to, line, kFirstBytes);
  peer.out.publish(bytes, padding, kind);
  return true;
}

}  // namespace torii::shm
