// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The members of the job, and the secrets of two processes: for drivers of networks on which others
// can send. Public keys travel with addresses, through the launcher, where everybody may read them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace torii {

inline constexpr size_t kPublicKeyBytes = 32;
using PublicKey = std::array<std::byte, kPublicKeyBytes>;
using SecretKey = std::array<std::byte, 32>;

// The keys that two processes share, one for each direction.
struct PairKeys {
  SecretKey to;    // for what this process sends
  SecretKey from;  // for what it receives
};

// The key pair of this process's network interface. Each opening of an interface has another one,
// so a key is a session, too.
class Keys {
 public:
  virtual const PublicKey& own() const = 0;
  // The keys that this process shares with the one of that public key. Both compute the same,
  // others cannot. Each `purpose`, such as a driver's name, has its own. Takes some 0.1 ms. False:
  // that is no public key, or one of another curve than this process's.
  virtual bool agree(const PublicKey& peer, std::string_view purpose, PairKeys* out) const = 0;

 protected:
  ~Keys() = default;
};

// Tags for what a driver itself says to a peer's driver, such as whether a path works: by keys of
// the pair, one for each direction, which nothing else is tagged with. The driver sees to
// repetitions. A layer above the driver, which has the keys, offers this; `peer` is the driver's
// PeerId.
class Trust {
 public:
  // The tag of a text for that peer. False: there is no key for it (yet).
  virtual bool tag(uint32_t peer, std::span<const std::byte> text, uint64_t* out) const = 0;
  // Has that peer made this tag, of this text, for this process?
  virtual bool is_right(uint32_t peer, std::span<const std::byte> text, uint64_t tag) const = 0;

 protected:
  ~Trust() = default;
};

// A process, as its launcher names it. A stranger's is its own claim, which may be a lie.
struct Who {
  uint64_t job = 0;
  uint32_t rank = 0;
};

// The processes that may talk to this one.
class Members {
 public:
  virtual Who self() const = 0;
  // May the process at this address of the driver's talk to this one, as `who`? Yes, if it is the
  // address that this member of the job has published, or while everybody is welcome. May ask the
  // launcher, once for each process.
  virtual bool admits(const Who& who, std::span<const std::byte> address) = 0;
  // Is it certain that one is not admitted? No, if it may be welcome later, or if the launcher
  // cannot be asked now.
  virtual bool excludes(const Who& who) const = 0;

 protected:
  ~Members() = default;
};

}  // namespace torii
