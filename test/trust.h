// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For drivers in tests: keys without a curve, which anybody who knows both public keys can compute,
// and a job of which everybody is a member.
#pragma once

#include <atomic>
#include <cstring>
#include <string_view>

#include "core/base/little_endian.h"
#include "drivers/trust.h"

namespace torii::test {

class PlainKeys final : public Keys {
 public:
  PlainKeys() {
    static std::atomic<uint64_t> drawn = 0;
    store_little<uint64_t>(own_.data(), ++drawn * 0x9e3779b97f4a7c15);
  }
  const PublicKey& own() const override { return own_; }
  bool agree(const PublicKey& peer, std::string_view purpose, PairKeys* out) const override {
    if (peer == PublicKey{}) return false;
    out->to = key(own_, peer, purpose);
    out->from = key(peer, own_, purpose);
    return true;
  }
  // The key by which one of them tags frames to the other.
  static SecretKey key(const PublicKey& from, const PublicKey& to, std::string_view purpose) {
    uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (const std::byte b : from) add(static_cast<uint8_t>(b));
    for (const std::byte b : to) add(static_cast<uint8_t>(b));
    for (const char c : purpose) add(static_cast<uint8_t>(c));
    SecretKey out;
    for (size_t at = 0; at < out.size(); at += 8) {
      add(1);
      store_little<uint64_t>(out.data() + at, hash);
    }
    return out;
  }

 private:
  PublicKey own_{};
};

struct Everybody final : Members {
  Who self() const override { return {1, 2}; }
  bool admits(const Who&, std::span<const std::byte>) override { return admit; }
  bool excludes(const Who&) const override { return certain; }

  bool admit = true;
  bool certain = true;
};

// For tests in which nobody is kept out.
inline Everybody& everybody() {
  static Everybody all;
  return all;
}

}  // namespace torii::test
