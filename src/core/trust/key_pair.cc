// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/trust/key_pair.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/trust/libcrypto.h"

namespace torii {
namespace {

using Pkey = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using PkeyContext = std::unique_ptr<EVP_PKEY_CTX, Release<EVP_PKEY_CTX_free>>;
using Kdf = std::unique_ptr<EVP_KDF, Release<EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, Release<EVP_KDF_CTX_free>>;

constexpr size_t kSecretBytes = 32;  // of both curves
constexpr size_t kPointBytes = 1 + kPublicKeyBytes;
constexpr size_t kWholePointBytes = 1 + 2 * kPublicKeyBytes;
constexpr unsigned char kEvenPoint = 2;  // SEC 1, section 2.3.3: compressed, y is even
// A bit in the last byte of a public key: an X25519 one never has it (RFC 7748, section 5), so
// those of P-256 are drawn until theirs has.
constexpr std::byte kP256Bit{0x80};

// A public key of P-256 is the x of a point, big-endian. A point and its opposite have the same x,
// and give the same secret.
Pkey p256_from(const PublicKey& key) {
  char group[] = "P-256";
  unsigned char point[kPointBytes] = {kEvenPoint};
  std::memcpy(point + 1, key.data(), key.size());
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)),
      OSSL_PARAM_construct_end()};
  const PkeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* out = nullptr;
  if (!context || EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &out, EVP_PKEY_PUBLIC_KEY, params) <= 0)
    return nullptr;
  return Pkey(out);
}

Pkey public_from(const PublicKey& key) {
  if (KeyPair::curve_of(key) == KeyPair::Curve::p256) return p256_from(key);
  return Pkey(
      EVP_PKEY_new_raw_public_key_ex(nullptr, "X25519", nullptr, chars(key.data()), key.size()));
}

bool x_of(EVP_PKEY* pair, PublicKey* out) {
  unsigned char point[kWholePointBytes];
  size_t bytes = 0;
  if (EVP_PKEY_get_octet_string_param(pair, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                      &bytes) <= 0 ||
      bytes < kPointBytes)
    return false;
  std::memcpy(out->data(), point + 1, out->size());
  return true;
}

bool public_of(EVP_PKEY* pair, KeyPair::Curve curve, PublicKey* out) {
  if (curve == KeyPair::Curve::p256) return x_of(pair, out);
  size_t bytes = out->size();
  return EVP_PKEY_get_raw_public_key(pair, chars(out->data()), &bytes) > 0 && bytes == out->size();
}

Pkey draw_pair(KeyPair::Curve curve) {
  return Pkey(curve == KeyPair::Curve::x25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")
                                              : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
}

// HKDF of a secret, without salt.
bool expand_secret(EVP_KDF* hkdf, std::span<const std::byte> secret, std::string info,
                   SecretKey* out) {
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(secret.data()),
                                        secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  const KdfContext context(EVP_KDF_CTX_new(hkdf));
  return context && EVP_KDF_derive(context.get(), chars(out->data()), out->size(), params) > 0;
}

class CryptoKeyPair final : public KeyPair {
 public:
  CryptoKeyPair(Pkey pair, const PublicKey& own, Kdf hkdf)
      : pair_(std::move(pair)), own_(own), hkdf_(std::move(hkdf)) {}

  const PublicKey& own() const override { return own_; }

  bool agree(const PublicKey& peer, std::string_view purpose, PairKeys* out) const override {
    if (curve_of(peer) != curve_of(own_)) return false;
    std::byte secret[kSecretBytes];
    const bool agreed = secret_with(peer, secret) &&
                        expand(secret, own_, peer, purpose, &out->to) &&
                        expand(secret, peer, own_, purpose, &out->from);
    OPENSSL_cleanse(secret, sizeof(secret));
    return agreed;
  }

 private:
  // libcrypto refuses a public key that gives the same secret with every private one.
  bool secret_with(const PublicKey& peer, std::byte* secret) const {
    const Pkey theirs = public_from(peer);
    const PkeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, pair_.get(), nullptr));
    size_t bytes = kSecretBytes;
    return theirs && context && EVP_PKEY_derive_init(context.get()) > 0 &&
           EVP_PKEY_derive_set_peer(context.get(), theirs.get()) > 0 &&
           EVP_PKEY_derive(context.get(), chars(secret), &bytes) > 0 && bytes == kSecretBytes;
  }

  bool expand(std::span<const std::byte> secret, const PublicKey& from, const PublicKey& to,
              std::string_view purpose, SecretKey* out) const {
    std::string info = "torii ";
    info += purpose;
    info.append(reinterpret_cast<const char*>(from.data()), from.size());
    info.append(reinterpret_cast<const char*>(to.data()), to.size());
    return expand_secret(hkdf_.get(), secret, std::move(info), out);
  }

  const Pkey pair_;
  const PublicKey own_;
  const Kdf hkdf_;
};

}  // namespace

KeyPair::Curve KeyPair::curve_of(const PublicKey& key) {
  return (key.back() & kP256Bit) == std::byte{0} ? Curve::x25519 : Curve::p256;
}

std::unique_ptr<KeyPair> KeyPair::draw(Curve curve, std::string* why) {
  Kdf hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  PublicKey own;
  for (Pkey pair = draw_pair(curve); hkdf && pair; pair = draw_pair(curve)) {
    if (!public_of(pair.get(), curve, &own)) break;
    if (curve_of(own) == curve)
      return std::make_unique<CryptoKeyPair>(std::move(pair), own, std::move(hkdf));
  }
  *why = format_text("libcrypto (%s) gives no key of %s", OpenSSL_version(OPENSSL_VERSION),
                     curve == Curve::x25519 ? "X25519" : "P-256");
  return nullptr;
}

bool derive_key(const SecretKey& secret, std::string_view purpose, SecretKey* out) {
  const Kdf hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  return hkdf && expand_secret(hkdf.get(), secret, "torii " + std::string(purpose), out);
}

std::unique_ptr<KeyPair> KeyPair::draw(std::string* why) {
  std::unique_ptr<KeyPair> pair = draw(Curve::x25519, why);
  if (!pair) pair = draw(Curve::p256, why);
  return pair;
}

}  // namespace torii
