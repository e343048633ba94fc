// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames whose bytes are written at once, where they are made.
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/shm/nic.h"

namespace torii {
namespace shm {

inline constexpr uint32_t kPadFrom = 192;  // bodies from this size on begin with a line

// Asks are made just before: word by word, for a processor that reads two at once waits until both
// have left its store buffer.
[[gnu::always_inline]] inline void write_words(std::byte* to, const Ask& ask, uint32_t bytes) {
  auto* const words = reinterpret_cast<uint64_t*>(to);
  using Pair = std::array<uint32_t, 2>;
  const auto which = std::bit_cast<uint64_t>(Pair{static_cast<uint32_t>(ask.kind), ask.number});
  const auto what = std::bit_cast<uint64_t>(Pair{ask.bytes, ask.slot});
  __atomic_store_n(words, which, __ATOMIC_RELAXED);
  __atomic_store_n(words + 1, what, __ATOMIC_RELAXED);
  if (bytes < sizeof(ask)) return;
  __atomic_store_n(words + 2, ask.valid, __ATOMIC_RELAXED);
  __atomic_store_n(words + 3, ask.offset, __ATOMIC_RELAXED);
}

template <uint64_t kKind>
[[gnu::always_inline]] inline void write_head(std::byte* to, const void* head, uint32_t bytes) {
  if constexpr (kKind == kKindAsk) {
    write_words(to, *static_cast<const Ask*>(head), bytes);
  } else {
    copy_bytes(to, head, bytes);
  }
}

}  // namespace shm

// A frame of more than a line whose body is in one piece; false if send_any() has to look.
template <uint64_t kKind>
inline bool ShmDriver::send_lines(Peer& peer, const void* head, uint32_t head_bytes,
                                  const void* body, uint32_t body_bytes) {
  const uint32_t bytes = head_bytes + body_bytes;
  TORII_ASSERT(bytes <= shm::kMtu || bytes <= shm::frame_max_of(peer.out.lines));
  const uint32_t room = shm::kFirstBytes - head_bytes;
  const uint32_t padding = body_bytes >= shm::kPadFrom ? room : 0;
  std::byte* const to = peer.out.reserve_known(bytes + padding);
  if (!to) return false;
  const uint32_t first = room - padding;  // of the body, in the first line
  const auto* from = static_cast<const std::byte*>(body);
  peer.writer.write(to + shm::kFirstBytes, from + first, body_bytes - first);
  shm::write_head<kKind>(to + padding, head, head_bytes);
  copy_bytes(to + padding + head_bytes, from, first);
  peer.out.publish(bytes, padding, kKind);
  return true;
}

// The same of any length.
template <uint64_t kKind>
[[gnu::always_inline]] inline bool ShmDriver::send_flat(Peer& peer, const void* head,
                                                        uint32_t head_bytes, const void* body,
                                                        uint32_t body_bytes) {
  const uint32_t bytes = head_bytes + body_bytes;
  if (bytes <= shm::kFirstBytes) {
    std::byte* const to = peer.out.reserve_line();
    if (!to) return false;
    shm::write_head<kKind>(to, head, head_bytes);
    if (body_bytes) copy_bytes(to + head_bytes, body, body_bytes);
    peer.out.publish_line(to, bytes, kKind);
  } else if (!send_lines<kKind>(peer, head, head_bytes, body, body_bytes)) {
    return false;
  }
  wake_if_sleeping(peer);
  return true;
}

// Where has_room() said yes.
[[gnu::always_inline]] inline void ShmDriver::send_ask(Peer& peer, const shm::Ask& ask,
                                                       const void* body, uint32_t bytes) {
  send_flat<shm::kKindAsk>(peer, &ask, shm::head_bytes(ask.kind), body, bytes);
}

}  // namespace torii
