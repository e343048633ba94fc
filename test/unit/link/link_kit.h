// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Hand-made frames of the link.
#pragma once

#include <string>

#include "core/link/crc32c.h"
#include "core/link/header.h"

namespace torii::test {

inline constexpr uint64_t kMs = 1000000;  // in nanoseconds
inline constexpr link::Key kKey = {std::byte{1}, std::byte{2}, std::byte{3}};

inline std::string frame_of(const link::Header& header, const std::string& payload = {},
                            const link::Key& key = kKey) {
  std::string out(link::kHeaderBytes, '\0');
  link::write_header(header, crc32c(0, payload.data(), payload.size()), key,
                     std::as_bytes(std::span(payload)), reinterpret_cast<std::byte*>(out.data()));
  return out + payload;
}

inline bool parses(const std::string& frame, link::Header* header) {
  return link::parse_header(std::as_bytes(std::span(frame)), header);
}

inline bool believed(const std::string& frame, link::Header* header, const link::Key& key = kKey) {
  const auto bytes = std::as_bytes(std::span(frame));
  return parses(frame, header) && link::tag_is_right(bytes, *header, key) &&
         link::checksum_is_right(bytes);
}

}  // namespace torii::test
