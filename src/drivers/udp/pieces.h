// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames that arrive in pieces, because a way carries no longer datagrams. Any piece may be lost,
// and anybody may send some, so there is room for so many frames, and the one to which nothing was
// added for longest gives way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drivers/udp/wire.h"

namespace torii::udp {

class Pieces {
 public:
  static constexpr size_t kFrames = 64;

  // Takes what is behind the header of a datagram, as parse_header() accepts it. Returns the frame,
  // valid until the next call, if that was its last piece, else nothing.
  std::span<const std::byte> add(const Header& header, std::span<const std::byte> piece);

 private:
  struct Frame {
    uint64_t from = 0;
    uint32_t to = 0;
    uint32_t number = 0;
    uint32_t size = 0;
    uint8_t count = 0;    // 0: none
    uint8_t present = 0;  // bit i: piece i
    uint64_t used = 0;    // calls_ then
    std::vector<std::byte> bytes;
  };
  Frame& frame_of(const Header& header);

  std::vector<Frame> frames_;
  uint64_t calls_ = 0;
};

}  // namespace torii::udp
