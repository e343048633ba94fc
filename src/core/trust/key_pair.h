// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A key pair of this process and the keys that it shares with others, by libcrypto: X25519
// (RFC 7748), or ECDH over P-256 (SP 800-56A) where the system permits no other curve, then HKDF
// with SHA-256 (RFC 5869). README.md tells how keys are derived.
#pragma once

#include <memory>
#include <string>

#include "drivers/trust.h"

namespace torii {

class KeyPair : public Keys {
 public:
  enum class Curve : uint8_t { x25519, p256 };

  // Draws a pair, of the first curve that libcrypto permits. Null with the reason in *why.
  static std::unique_ptr<KeyPair> draw(std::string* why);
  static std::unique_ptr<KeyPair> draw(Curve curve, std::string* why);
  virtual ~KeyPair() = default;

  // The curve of a public key.
  static Curve curve_of(const PublicKey& key);
};

// A key made of a secret that several processes share: each `purpose` has another one, and none
// tells anything of the others or of the secret. False: libcrypto failed.
bool derive_key(const SecretKey& secret, std::string_view purpose, SecretKey* out);

}  // namespace torii
