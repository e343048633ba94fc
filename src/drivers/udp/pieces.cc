// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/udp/pieces.h"

#include <algorithm>
#include <cstring>

namespace torii::udp {

Pieces::Frame& Pieces::frame_of(const Header& header) {
  const auto known = std::ranges::find_if(frames_, [&](const Frame& one) {
    return one.count == header.count && one.size == header.size && one.number == header.number &&
           one.from == header.from && one.to == header.to;
  });
  if (known != frames_.end()) return *known;
  if (frames_.size() < kFrames) frames_.emplace_back();
  Frame& frame = *std::ranges::min_element(frames_, {}, &Frame::used);
  frame.from = header.from;
  frame.to = header.to;
  frame.number = header.number;
  frame.size = header.size;
  frame.count = header.count;
  frame.present = 0;
  frame.bytes.resize(header.count * piece_bytes(header.size, header.count));
  return frame;
}

std::span<const std::byte> Pieces::add(const Header& header, std::span<const std::byte> piece) {
  Frame& frame = frame_of(header);
  frame.used = ++calls_;
  std::memcpy(frame.bytes.data() + header.index * piece.size(), piece.data(), piece.size());
  frame.present |= static_cast<uint8_t>(1u << header.index);
  if (frame.present != (1u << frame.count) - 1) return {};
  frame.count = 0;
  frame.used = 0;
  return {frame.bytes.data(), frame.size};
}

}  // namespace torii::udp
