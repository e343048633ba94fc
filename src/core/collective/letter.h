// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// What members of a group tell each other while they set up a team: messages to a tagged port that
// no user can open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.h"
#include "core/memory/key.h"
#include "core/torii.h"

namespace torii::team {

enum class LetterKind : uint8_t {
  offer = 1,  // from the leader: the key of the segment, or the reason why there is none
  answer,     // from a member: whether it has mapped the segment
  verdict     // from the leader: whether all have
};

struct Letter {
  LetterKind kind = LetterKind::offer;
  Status status = Status::ok;
  bool scarce = false;
  uint32_t member = 0;  // whom the status is about
  uint64_t order = 0;   // a number made of the members in their order
  std::span<const std::byte> key;
};

inline constexpr size_t kLetterHead = 24;
inline constexpr size_t kLetterMax = kLetterHead + kExportKeyMax;
using LetterBytes = std::array<std::byte, kLetterMax>;

// Returns the length.
size_t write_letter(const Letter& letter, LetterBytes* out);
// False: it is none. The key points into `bytes`.
bool read_letter(std::span<const std::byte> bytes, Letter* out);

}  // namespace torii::team
