// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shared by the drivers of emulated cards that reach a peer's memory: the keys of regions, and
// those of others that this process has imported.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <unordered_map>

#include "core/base/random.h"
#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// Key has `check` first, which recognizes keys that were damaged or made up, then at least `owner`
// and `bytes`, and no padding.
template <typename Key>
class CardKeys {
 public:
  explicit CardKeys(uint64_t fabric) : fabric_(fabric) {}

  void fill(Key key, Region* out) const {
    key.check = check_of(key);
    std::memcpy(out->key.data(), &key, sizeof(key));
  }
  // As in Driver.
  Status import(nic::Name owner, std::span<const std::byte> bytes, uint32_t* remote) {
    Key key;
    if (bytes.size() != sizeof(key)) return Status::invalid;
    std::memcpy(&key, bytes.data(), sizeof(key));
    if (key.check != check_of(key) || key.owner != owner) return Status::invalid;
    *remote = next_++;
    imports_[*remote] = key;
    return Status::ok;
  }
  void drop(uint32_t remote) { imports_.erase(remote); }
  // The key, if the transfer is inside of its memory; else null.
  const Key* find(const Rma& rma) const {
    const auto it = imports_.find(rma.remote);
    if (it == imports_.end()) return nullptr;
    const uint64_t bytes = it->second.bytes;
    const bool is_inside = rma.remote_offset <= bytes && rma.bytes <= bytes - rma.remote_offset;
    return is_inside ? &it->second : nullptr;
  }

 private:
  static_assert(std::has_unique_object_representations_v<Key> && sizeof(Key) % 8 == 0);
  uint64_t check_of(Key key) const {
    uint64_t words[sizeof(Key) / 8], check = fabric_;
    key.check = 0;
    std::memcpy(words, &key, sizeof(key));
    for (const uint64_t word : words) check = Random(check ^ word).next();
    return check;
  }

  const uint64_t fabric_;
  std::unordered_map<uint32_t, Key> imports_;
  uint32_t next_ = 0;
};

}  // namespace torii
