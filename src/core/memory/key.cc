// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/memory/key.h"

#include <algorithm>
#include <cstring>

#include "core/protocol/wire.h"

namespace torii {

namespace {

constexpr uint8_t kKeyVersion = 1;

struct Head {
  uint8_t version;
  uint8_t count;
  uint16_t access;
  uint16_t bytes;  // of the whole key
  uint16_t reserved;
  uint64_t handle;
  uint64_t nonce;
  uint64_t size;
};
static_assert(sizeof(Head) == kExportKeyName);

// In both directions.
void swap(Head* h) {
  using wire::little;
  h->access = little(h->access);
  h->bytes = little(h->bytes);
  h->handle = little(h->handle);
  h->nonce = little(h->nonce);
  h->size = little(h->size);
}

// Takes one text with its length off the front; false: it does not fit.
bool take_text(std::span<const std::byte>* rest, std::span<const std::byte>* out) {
  if (rest->empty()) return false;
  const size_t bytes = size_t((*rest)[0]);
  if (bytes > rest->size() - 1) return false;
  *out = rest->subspan(1, bytes);
  *rest = rest->subspan(1 + bytes);
  return true;
}

}  // namespace

KeyWriter::KeyWriter(const ExportKey& key) : used_(sizeof(Head)) {
  Head head{};
  head.version = kKeyVersion;
  head.access = uint16_t(key.access);
  head.handle = key.handle;
  head.nonce = key.nonce;
  head.size = key.bytes;
  swap(&head);
  std::memcpy(bytes_.data(), &head, sizeof(head));
}

void KeyWriter::add(std::string_view driver, std::span<const std::byte> key) {
  if (driver.size() > 255 || driver.size() + key.size() + 2 > bytes_.size() - used_) return;
  bytes_[used_++] = std::byte(driver.size());
  std::transform(driver.begin(), driver.end(), bytes_.begin() + used_,
                 [](char c) { return std::byte(c); });
  used_ += driver.size();
  bytes_[used_++] = std::byte(key.size());
  std::copy(key.begin(), key.end(), bytes_.begin() + used_);
  used_ += key.size();
  bytes_[offsetof(Head, count)] = std::byte(uint8_t(bytes_[offsetof(Head, count)]) + 1);
}

std::span<const std::byte> KeyWriter::bytes() {
  const uint16_t length = wire::little(uint16_t(used_));
  std::memcpy(&bytes_[offsetof(Head, bytes)], &length, sizeof(length));
  return {bytes_.data(), used_};
}

bool parse_key(std::span<const std::byte> bytes, ExportKey* out) {
  Head head;
  if (bytes.size() < sizeof(head)) return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  swap(&head);
  if (head.version != kKeyVersion || head.reserved != 0 || head.bytes > bytes.size() ||
      head.bytes < sizeof(head) || head.handle == 0 || (head.access & ~kRightsAll))
    return false;
  out->handle = head.handle;
  out->nonce = head.nonce;
  out->bytes = head.size;
  out->access = head.access;
  out->count = head.count;
  out->drivers = bytes.subspan(sizeof(head), head.bytes - sizeof(head));
  std::span<const std::byte> rest = out->drivers, text;
  for (unsigned i = 0; i < 2u * head.count; ++i)
    if (!take_text(&rest, &text)) return false;
  return rest.empty();
}

std::span<const std::byte> ExportKey::of(std::string_view driver) const {
  std::span<const std::byte> rest = drivers, name, key;
  for (unsigned i = 0; i < count; ++i) {
    if (!take_text(&rest, &name) || !take_text(&rest, &key)) break;
    if (name.size() == driver.size() && std::memcmp(name.data(), driver.data(), name.size()) == 0)
      return key;
  }
  return {};
}

uint64_t access_label(uint64_t nonce, uint64_t tag) {
  uint64_t z = nonce + tag * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31) ^ nonce;
}

}  // namespace torii
