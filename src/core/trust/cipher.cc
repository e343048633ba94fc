// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstring>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "core/trust/libcrypto.h"
#include "core/trust/seal.h"

namespace torii {

// Numbers are its nonces: a key of seal() counts, one of open() takes what has come.
class CipherKey {
 public:
  std::unique_ptr<EVP_CIPHER_CTX, Release<EVP_CIPHER_CTX_free>> context;
  uint64_t next = 0;
  uint64_t last = ~uint64_t{0};
};

void EndCipherKey::operator()(CipherKey* key) const { delete key; }

namespace {

struct CipherRow {
  const char* name;       // in TORII_LINK_CIPHER
  const char* algorithm;  // libcrypto's name
};
constexpr CipherRow kCipherRows[] = {
    {"none", nullptr}, {"aes-128-gcm", "AES-128-GCM"}, {"chacha20-poly1305", "ChaCha20-Poly1305"}};

constexpr unsigned kGroupNonceBits = 48;  // of those of a member

// 96 bits, of both ciphers: zeros, then the frame's number.
struct Nonce {
  explicit Nonce(uint64_t number) { store_little<uint64_t>(bytes + 4, number); }
  const unsigned char* data() const { return chars(bytes); }
  std::byte bytes[12] = {};
};

// The associated data: under the seal, and not hidden.
struct OpenText {
  OpenText(const std::byte* head, uint64_t unsent) {
    std::memcpy(bytes, head, kSealedHeadBytes);
    store_little<uint64_t>(bytes + kSealedHeadBytes, unsent);
  }
  std::byte bytes[kSealedHeadBytes + 8];
};

bool seal_one(EVP_CIPHER_CTX* context, uint64_t number, const Sealing& frame) {
  const OpenText text(frame.head, frame.unsent);
  int bytes = 0;
  std::byte* out = frame.out;
  if (EVP_EncryptInit_ex2(context, nullptr, nullptr, Nonce(number).data(), nullptr) <= 0 ||
      EVP_EncryptUpdate(context, nullptr, &bytes, chars(text.bytes), sizeof(text.bytes)) <= 0)
    return false;
  for (const auto part : {frame.body, frame.rest}) {
    if (part.empty()) continue;
    if (EVP_EncryptUpdate(context, chars(out), &bytes, chars(part.data()),
                          static_cast<int>(part.size())) <= 0)
      return false;
    out += bytes;
  }
  if (EVP_EncryptFinal_ex(context, chars(out), &bytes) <= 0) return false;
  out += bytes;
  OSSL_PARAM tag[] = {
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, out, kCipherGrowth),
      OSSL_PARAM_construct_end()};
  return EVP_CIPHER_CTX_get_params(context, tag) > 0;
}

}  // namespace

const char* cipher_name(Cipher cipher) {
  const auto row = static_cast<size_t>(cipher);
  return row < std::size(kCipherRows) ? kCipherRows[row].name : "unknown";
}

bool find_cipher(const std::string& name, Cipher* out, std::string* why) {
  std::string known;
  for (size_t i = 0; i < std::size(kCipherRows); i++) {
    const CipherRow& row = kCipherRows[i];
    known += std::string(known.empty() ? "" : ", ") + row.name;
    if (name != row.name) continue;
    EVP_CIPHER* const method =
        row.algorithm ? EVP_CIPHER_fetch(nullptr, row.algorithm, nullptr) : nullptr;
    if (row.algorithm && !method) {
      *why = format_text(
          "libcrypto (%s) does not offer %s; use another cipher, or change its configuration "
          "(openssl list -cipher-algorithms)",
          OpenSSL_version(OPENSSL_VERSION), row.algorithm);
      return false;
    }
    EVP_CIPHER_free(method);
    *out = static_cast<Cipher>(i);
    return true;
  }
  *why = format_text("there is no cipher '%s'; use one of %s", name.c_str(), known.c_str());
  return false;
}

CipherSeal::CipherSeal(Cipher cipher)
    : cipher_(cipher),
      method_(
          EVP_CIPHER_fetch(nullptr, kCipherRows[static_cast<size_t>(cipher)].algorithm, nullptr)) {
  TORII_ASSERT(method_);
}

CipherSeal::~CipherSeal() { EVP_CIPHER_free(method_); }

// AES takes the first half of a secret.
bool CipherSeal::add_key(const SecretKey& secret, bool seals, SealKey* out) const {
  out->cipher.reset(new CipherKey);
  out->cipher->context.reset(EVP_CIPHER_CTX_new());
  EVP_CIPHER_CTX* const context = out->cipher->context.get();
  return context && EVP_CipherInit_ex2(context, method_, chars(secret.data()), nullptr,
                                       seals ? 1 : 0, nullptr) > 0;
}

bool CipherSeal::add_keys(const PairKeys& secrets, SealKey* to, SealKey* from) const {
  return add_key(secrets.to, true, to) && add_key(secrets.from, false, from);
}

bool CipherSeal::add_group_keys(const SecretKey& secret, uint16_t number, SealKey* to,
                                SealKey* from) const {
  if (!add_key(secret, true, to) || !add_key(secret, false, from)) return false;
  to->cipher->next = uint64_t{number} << kGroupNonceBits;
  to->cipher->last = to->cipher->next | ((uint64_t{1} << kGroupNonceBits) - 1);
  return true;
}

void CipherSeal::seal(std::span<const Sealing> frames) const {
  for (const Sealing& frame : frames) {
    CipherKey& key = *frame.key->cipher;
    TORII_ASSERT(key.next <= key.last);
    const uint64_t number = key.next++;
    store_little<uint64_t>(frame.head + kSealedHeadBytes, number);
    TORII_ASSERT(seal_one(key.context.get(), number, frame));
  }
}

bool CipherSeal::open(const Opening& frame) const {
  if (frame.body.size() < kCipherGrowth) return false;
  EVP_CIPHER_CTX* const context = frame.key->cipher->context.get();
  const Nonce nonce(load_little<uint64_t>(frame.head + kSealedHeadBytes));
  const OpenText text(frame.head, frame.unsent);
  const auto hidden = frame.body.first(frame.body.size() - kCipherGrowth);
  std::byte came[kCipherGrowth];
  std::memcpy(came, hidden.data() + hidden.size(), sizeof(came));
  OSSL_PARAM tag[] = {
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, came, sizeof(came)),
      OSSL_PARAM_construct_end()};
  int bytes = 0;
  return EVP_DecryptInit_ex2(context, nullptr, nullptr, nonce.data(), tag) > 0 &&
         EVP_DecryptUpdate(context, nullptr, &bytes, chars(text.bytes), sizeof(text.bytes)) > 0 &&
         (hidden.empty() ||
          EVP_DecryptUpdate(context, chars(frame.out), &bytes, chars(hidden.data()),
                            static_cast<int>(hidden.size())) > 0) &&
         EVP_DecryptFinal_ex(context, chars(frame.out) + hidden.size(), &bytes) > 0;
}

}  // namespace torii
