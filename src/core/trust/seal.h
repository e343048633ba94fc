// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Seals of frames between two processes. A tag proves who has sent a frame, and that its head is as
// it was. A cipher does that for all of the frame, and hides its body. README.md tells the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/trust/siphash.h"
#include "drivers/trust.h"

struct evp_cipher_st;  // of libcrypto

namespace torii {

enum class Cipher : uint8_t { none, aes_128_gcm, chacha20_poly1305 };
// Its name in TORII_LINK_CIPHER; of another number, "unknown".
const char* cipher_name(Cipher cipher);
// The cipher of this name. False: there is none, or libcrypto does not offer it; *why then holds a
// sentence for the user.
bool find_cipher(const std::string& name, Cipher* out, std::string* why);

inline constexpr size_t kSealedHeadBytes = 24;
inline constexpr size_t kCipherGrowth = 16;

class CipherKey;
struct EndCipherKey {
  void operator()(CipherKey* key) const;
};

// The keys of one direction between two processes.
struct SealKey {
  TagKey tag{};
  std::unique_ptr<CipherKey, EndCipherKey> cipher;  // null: its frames are only tagged
};

// A frame that leaves. 24 bytes of its head travel readable, with 8 of the seal behind them.
struct Sealing {
  std::byte* head = nullptr;  // 32 bytes, the last 8 are written
  uint64_t unsent = 0;        // under the seal, too: both ends know it, and it does not travel
  const SealKey* key = nullptr;
  std::span<const std::byte> body;
  std::span<const std::byte> rest;  // of the body
  bool whole = false;               // a tag covers `body`
  std::byte* out = nullptr;         // for a cipher: room for the sealed body
};

// One that has arrived.
struct Opening {
  const std::byte* head = nullptr;
  uint64_t unsent = 0;
  const SealKey* key = nullptr;
  std::span<const std::byte> body;
  bool whole = false;
  std::byte* out = nullptr;  // for a cipher: room for the body as it was
};

class Seal {
 public:
  virtual ~Seal() = default;
  // By so much a sealed body is longer. 0: it travels as it is, from its place.
  virtual size_t growth() const = 0;
  // For frames that leave together.
  virtual void seal(std::span<const Sealing> frames) const = 0;
  // Is the frame as the other process has sealed it? If not, `out` is of no use.
  virtual bool open(const Opening& frame) const = 0;
};

// SipHash of the head and, if the frame is `whole`, of the body.
class TagSeal final : public Seal {
 public:
  size_t growth() const override { return 0; }
  void seal(std::span<const Sealing> frames) const override;
  bool open(const Opening& frame) const override;
  // The tags that at most kSipLanes frames ought to have, computed side by side: of the heads only.
  static void expect(std::span<const Opening> frames, uint64_t* tags);
  static bool has(const std::byte* head, uint64_t tag);
};

// An AEAD cipher. Each call of seal() takes another nonce for each frame, so a frame may be sealed
// again, also with another body. It ends the process if libcrypto fails: nothing may leave then.
class CipherSeal final : public Seal {
 public:
  // One that find_cipher() has found.
  explicit CipherSeal(Cipher cipher);
  ~CipherSeal() override;
  Cipher cipher() const { return cipher_; }
  // Gives both directions their keys, once for these secrets: a second time would repeat nonces.
  // False: libcrypto failed.
  bool add_keys(const PairKeys& secrets, SealKey* to, SealKey* from) const;
  // The same for a group whose members all seal with one secret: each has a number of its own, and
  // so nonces of its own, for 2^48 frames.
  bool add_group_keys(const SecretKey& secret, uint16_t number, SealKey* to, SealKey* from) const;

  size_t growth() const override { return kCipherGrowth; }
  void seal(std::span<const Sealing> frames) const override;
  bool open(const Opening& frame) const override;

 private:
  bool add_key(const SecretKey& secret, bool seals, SealKey* out) const;

  const Cipher cipher_;
  evp_cipher_st* const method_;
};

}  // namespace torii
