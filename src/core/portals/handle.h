// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The fields of a Portals handle: {kind:3, interface:4, epoch:5, index:20, generation:32}. The
// interface and its epoch (how often that number was given out) make the tag; index and
// generation are those of the interface's SlotPool.
#pragma once

#include <cstdint>

#include "core/portals3.h"

namespace torii {

enum class HandleKind : uint8_t { none = 0, ni = 1, me = 2, md = 3, eq = 4 };

inline constexpr unsigned kMaxInterfaces = 16;
inline constexpr uint32_t kHandleIndexes = 1u << 20;

// The 9 bits that name one life of one interface.
using NiTag = uint16_t;
constexpr NiTag make_tag(unsigned ni, unsigned epoch) { return NiTag(ni << 5 | (epoch & 31)); }
constexpr unsigned tag_ni(NiTag tag) { return tag >> 5; }

constexpr ptl_handle_any_t make_handle(HandleKind kind, NiTag tag, uint64_t slot) {
  const uint64_t index = uint32_t(slot);
  return uint64_t(kind) << 61 | uint64_t{tag} << 52 | index << 32 | slot >> 32;
}
// `none` for every value that is not one of the kinds, such as PTL_EQ_NONE.
constexpr HandleKind handle_kind(ptl_handle_any_t handle) {
  const unsigned kind = unsigned(handle >> 61);
  return kind <= unsigned(HandleKind::eq) ? HandleKind(kind) : HandleKind::none;
}
constexpr NiTag handle_tag(ptl_handle_any_t handle) { return NiTag(handle >> 52 & 0x1ff); }
// The SlotPool handle {generation:32, index:32}.
constexpr uint64_t handle_slot(ptl_handle_any_t handle) {
  return handle << 32 | (handle >> 32 & (kHandleIndexes - 1));
}

}  // namespace torii
