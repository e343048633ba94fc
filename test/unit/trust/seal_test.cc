// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Ciphers of frames: what travels, byte by byte, and what is refused.
#include "core/trust/seal.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstring>
#include <set>
#include <vector>

#include "core/base/little_endian.h"

namespace torii {
namespace {

constexpr size_t kHead = kSealedHeadBytes + 8;

const unsigned char* chars_of(const void* bytes) {
  return static_cast<const unsigned char*>(bytes);
}

class CipherTest : public testing::TestWithParam<Cipher> {
 protected:
  CipherTest() {
    for (size_t i = 0; i < secrets.to.size(); i++) {
      secrets.to[i] = static_cast<std::byte>(i);
      secrets.from[i] = static_cast<std::byte>(100 + i);
    }
    other = {secrets.from, secrets.to};
    EXPECT_TRUE(seal.add_keys(secrets, &to, &unused_from));
    EXPECT_TRUE(seal.add_keys(other, &unused_to, &from));
    for (size_t i = 0; i < kSealedHeadBytes; i++) head[i] = static_cast<std::byte>(200 + i);
  }
  // Sealed as one process does for the other.
  std::string sealed(const std::string& body, const std::string& rest = "") {
    std::string out(body.size() + rest.size() + seal.growth(), '\0');
    const Sealing frame{head,
                        kUnsent,
                        &to,
                        std::as_bytes(std::span(body)),
                        std::as_bytes(std::span(rest)),
                        false,
                        reinterpret_cast<std::byte*>(out.data())};
    seal.seal({&frame, 1});
    return out;
  }
  // The frame as the other one opens it, or "refused".
  std::string opened(const std::string& body, uint64_t unsent, const SealKey& key) {
    std::string out(body.size(), '\0');
    const bool right = seal.open({head, unsent, &key, std::as_bytes(std::span(body)), false,
                                  reinterpret_cast<std::byte*>(out.data())});
    return right ? out.substr(0, body.size() - seal.growth()) : "refused";
  }
  std::string opened(const std::string& body) { return opened(body, kUnsent, from); }
  uint64_t number() const { return load_little<uint64_t>(head + kSealedHeadBytes); }

  static constexpr uint64_t kUnsent = 0x0102030405060708;
  const CipherSeal seal{GetParam()};
  PairKeys secrets, other;
  SealKey to, from, unused_to, unused_from;
  std::byte head[kHead] = {};
};

TEST_P(CipherTest, WhatIsSealedIsOpenedByTheOtherProcess) {
  for (const size_t size : {0, 1, 15, 16, 17, 1500, 65000}) {
    const std::string body(size, 'b');
    EXPECT_EQ(opened(sealed(body)), body);
    EXPECT_EQ(opened(sealed("head", body)), "head" + body);
  }
  EXPECT_EQ(sealed(std::string(1000, 'b')).find("bbbb"), std::string::npos);
}

// The page for review, by libcrypto alone.
TEST_P(CipherTest, TheBytesAreThoseOfTheDescription) {
  sealed("another frame");
  const std::string body = "the body of a frame", text = sealed(body);
  EXPECT_EQ(number(), 1u);
  const bool aes = GetParam() == Cipher::aes_128_gcm;
  unsigned char nonce[12] = {}, associated[kHead];
  std::memcpy(nonce + 4, head + kSealedHeadBytes, 8);
  std::memcpy(associated, head, kSealedHeadBytes);
  store_little<uint64_t>(reinterpret_cast<std::byte*>(associated) + kSealedHeadBytes, kUnsent);
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  std::vector<unsigned char> out(body.size());
  unsigned char tag[kCipherGrowth];
  int bytes = 0;
  ASSERT_TRUE(EVP_EncryptInit_ex(context, aes ? EVP_aes_128_gcm() : EVP_chacha20_poly1305(),
                                 nullptr, chars_of(secrets.to.data()), nonce) &&
              EVP_EncryptUpdate(context, nullptr, &bytes, associated, sizeof(associated)) &&
              EVP_EncryptUpdate(context, out.data(), &bytes, chars_of(body.data()),
                                static_cast<int>(body.size())) &&
              EVP_EncryptFinal_ex(context, out.data() + bytes, &bytes) &&
              EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, sizeof(tag), tag));
  EVP_CIPHER_CTX_free(context);
  EXPECT_EQ(text.substr(0, body.size()), std::string(out.begin(), out.end()));
  EXPECT_EQ(text.substr(body.size()), std::string(tag, tag + sizeof(tag)));
}

TEST_P(CipherTest, EveryFlippedBitAndEveryCutIsNoticed) {
  const std::string body = "the body", text = sealed(body);
  ASSERT_EQ(opened(text), body);
  for (size_t bit = 0; bit < 8 * kHead; bit++) {
    const auto flip = static_cast<std::byte>(1 << bit % 8);
    head[bit / 8] ^= flip;
    EXPECT_EQ(opened(text), "refused") << "bit of the head: " << bit;
    head[bit / 8] ^= flip;
  }
  for (size_t bit = 0; bit < 8 * text.size(); bit++) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_EQ(opened(bad), "refused") << "bit of the body: " << bit;
  }
  for (size_t size = 0; size < text.size(); size++)
    EXPECT_EQ(opened(text.substr(0, size)), "refused") << size;
  EXPECT_EQ(opened(text, kUnsent + 1, from), "refused") << "what does not travel";
  EXPECT_EQ(opened(text, kUnsent, unused_from), "refused") << "sent back to its sender";
  EXPECT_EQ(opened(text), body) << "a refusal spoils nothing";
}

// A retransmission is sealed again, and its body may have changed.
TEST_P(CipherTest, EachSealingHasANonceOfItsOwn) {
  std::set<uint64_t> numbers;
  std::set<std::string> texts;
  for (int i = 0; i < 1000; i++) {
    texts.insert(sealed(i % 2 ? "the same" : "another", i % 3 ? "" : "rest"));
    numbers.insert(number());
  }
  EXPECT_EQ(numbers.size(), 1000u);
  EXPECT_EQ(texts.size(), 1000u);
}

INSTANTIATE_TEST_SUITE_P(Ciphers, CipherTest,
                         testing::Values(Cipher::aes_128_gcm, Cipher::chacha20_poly1305));

TEST(Ciphers, AreFoundByName) {
  for (const Cipher cipher : {Cipher::none, Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    Cipher found{};
    std::string why;
    EXPECT_TRUE(find_cipher(cipher_name(cipher), &found, &why)) << why;
    EXPECT_EQ(found, cipher);
  }
  for (const char* const name : {"", "aes", "AES-128-GCM", "aes-128-gcm ", "unknown"}) {
    Cipher found = Cipher::none;
    std::string why;
    EXPECT_FALSE(find_cipher(name, &found, &why)) << name;
    EXPECT_NE(why.find("'" + std::string(name) + "'"), std::string::npos) << why;
    EXPECT_NE(why.find("none, aes-128-gcm, chacha20-poly1305"), std::string::npos) << why;
  }
  EXPECT_STREQ(cipher_name(static_cast<Cipher>(9)), "unknown");
}

}  // namespace
}  // namespace torii
