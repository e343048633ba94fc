// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Hand-made frames of the link.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/link/crc32c.h"
#include "core/link/header.h"
#include "trust.h"

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

// The key of frames that the link of one process sends to that of another.
inline link::Key key_between(const Keys& from, const Keys& to) {
  const SecretKey secret = PlainKeys::key(from.own(), to.own(), "link ");
  link::Key key;
  std::copy_n(secret.begin(), key.size(), key.begin());
  return key;
}

// How a process with these keys, at this address of the driver below, makes itself known.
inline std::string hello_of(std::vector<std::byte> address, const Keys& from, const Keys& to,
                            uint64_t number = 1) {
  address.insert(address.end(), from.own().begin(), from.own().end());
  std::byte who[link::kHelloBytes];
  link::write_hello({1, 2}, who);
  address.insert(address.begin(), who, who + sizeof(who));
  link::Header header{link::Kind::hello, number, 0, 0};
  header.whole = true;
  return frame_of(header, {reinterpret_cast<const char*>(address.data()), address.size()},
                  key_between(from, to));
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
