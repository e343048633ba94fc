// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Hand-made frames of the link.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "core/link/crc32c.h"
#include "core/link/header.h"
#include "trust.h"

namespace torii::test {

inline constexpr uint64_t kMs = 1000000;  // in nanoseconds
inline constexpr TagKey kKey = {std::byte{1}, std::byte{2}, std::byte{3}};

// The cipher of links in this process.
inline Cipher cipher_in_use() {
  Cipher cipher = Cipher::none;
  std::string why;
  find_cipher(params().link_cipher, &cipher, &why);
  return cipher;
}

// The keys of one direction: one tags frames, the other encrypts those with a payload.
struct FrameKey {
  FrameKey(const TagKey& of_tags) : tag(of_tags) {}
  TagKey tag;
  SecretKey cipher{};
};

inline std::string readable_frame_of(const link::Header& header, const std::string& payload,
                                     const FrameKey& key) {
  std::string out(link::kHeaderBytes, '\0');
  link::write_header(header, crc32c(0, payload.data(), payload.size()), key.tag,
                     std::as_bytes(std::span(payload)), reinterpret_cast<std::byte*>(out.data()));
  return out + payload;
}

// As the link makes them: encrypted if that is in use.
inline std::string frame_of(link::Header header, const std::string& payload = {},
                            const FrameKey& key = kKey) {
  const Cipher cipher = cipher_in_use();
  if (cipher == Cipher::none || !link::carries_frames(header.kind))
    return readable_frame_of(header, payload, key);
  std::string out(link::kHeaderBytes, '\0');
  auto* const head = reinterpret_cast<std::byte*>(out.data());
  const auto body = std::as_bytes(std::span(payload));
  header.sealed = true;
  header.whole = false;
  link::write_unsealed(header, 0, head);
  const CipherSeal seal(cipher);
  SealKey to, from;
  std::string sealed(payload.size() + seal.growth(), '\0');
  seal.add_keys({key.cipher, key.cipher}, &to, &from);
  const Sealing frame{head,
                      link::unsent_of(header),
                      &to,
                      body,
                      {},
                      false,
                      reinterpret_cast<std::byte*>(sealed.data())};
  seal.seal({&frame, 1});
  return out + sealed;
}

// The key of frames that the link of one process sends to that of another.
inline FrameKey key_between(const Keys& from, const Keys& to) {
  const SecretKey secret = PlainKeys::key(from.own(), to.own(), "link ");
  TagKey tag;
  std::copy_n(secret.begin(), tag.size(), tag.begin());
  FrameKey key(tag);
  key.cipher =
      PlainKeys::key(from.own(), to.own(), std::string("link  ") + cipher_name(cipher_in_use()));
  return key;
}

// How a process with these keys, at this address of the driver below, makes itself known.
inline std::string hello_of(std::vector<std::byte> address, const Keys& from, const Keys& to,
                            uint64_t number = 1) {
  address.insert(address.end(), from.own().begin(), from.own().end());
  std::byte who[link::kHelloBytes];
  link::write_hello({1, 2}, cipher_in_use(), who);
  address.insert(address.begin(), who, who + sizeof(who));
  link::Header header{link::Kind::hello, number, 0, 0};
  header.whole = true;
  return frame_of(header, {reinterpret_cast<const char*>(address.data()), address.size()},
                  key_between(from, to));
}

inline bool parses(const std::string& frame, link::Header* header) {
  return link::parse_header(std::as_bytes(std::span(frame)), header);
}

// Checks the tag of a frame that was parsed.
inline bool tag_is_right(const std::string& frame, const link::Header& header, const TagKey& key) {
  SealKey tag_only;
  tag_only.tag = key;
  return TagSeal().open(link::opening_of(std::as_bytes(std::span(frame)), header, tag_only));
}

inline bool believed(const std::string& frame, link::Header* header, const FrameKey& key = kKey) {
  return parses(frame, header) && tag_is_right(frame, *header, key.tag) &&
         link::checksum_is_right(std::as_bytes(std::span(frame)));
}

}  // namespace torii::test
