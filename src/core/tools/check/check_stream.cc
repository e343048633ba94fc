// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_stream.h"

namespace torii::check {
namespace {

constexpr uint32_t kProcessesMax = 1 << 16;

void append_text(Bytes* out, const std::string& text) {
  append_block(out, std::as_bytes(std::span(text)));
}

bool take_text(std::span<const std::byte>* from, std::string* text) {
  std::span<const std::byte> block;
  if (!take_block(from, &block)) return false;
  text->assign(reinterpret_cast<const char*>(block.data()), block.size());
  return text->find('\0') == std::string::npos;
}

}  // namespace

Bytes encode(const Orders& orders) {
  Bytes out;
  for (const uint32_t number : {orders.rank, orders.size, orders.deadline_ms, orders.multicast_ms,
                                static_cast<uint32_t>(orders.variables.size())})
    append_number(&out, number);
  for (const auto& [name, value] : orders.variables) {
    append_text(&out, name);
    append_text(&out, value);
  }
  return out;
}

bool decode(std::span<const std::byte> bytes, Orders* out) {
  uint32_t count = 0;
  for (uint32_t* number : {&out->rank, &out->size, &out->deadline_ms, &out->multicast_ms, &count})
    if (!take_number(&bytes, number)) return false;
  for (; count > 0; count--) {
    std::string name, value;
    if (!take_text(&bytes, &name) || !take_text(&bytes, &value)) return false;
    if (!name.starts_with("TORII_") || name.find('=') != std::string::npos) return false;
    out->variables[name] = value;
  }
  return bytes.empty() && out->size <= kProcessesMax && out->rank < out->size &&
         out->deadline_ms > 0;
}

Bytes encode(const std::vector<Bytes>& given) {
  Bytes out;
  for (const Bytes& one : given) append_block(&out, one);
  return out;
}

bool decode(std::span<const std::byte> bytes, size_t count, std::vector<Bytes>* out) {
  for (; count > 0; count--) {
    std::span<const std::byte> block;
    if (!take_block(&bytes, &block)) return false;
    out->emplace_back(block.begin(), block.end());
  }
  return bytes.empty();
}

}  // namespace torii::check
