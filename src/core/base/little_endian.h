// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Integers in the byte order that travels, at any address: one instruction on most processors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace torii {

template <typename T>
inline void store_little(std::byte* out, T value) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, &value, sizeof(T));
  } else {
    for (size_t i = 0; i < sizeof(T); i++) out[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <typename T>
inline T load_little(const std::byte* in) {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, in, sizeof(T));
  } else {
    for (size_t i = 0; i < sizeof(T); i++) value |= static_cast<T>(T(in[i]) << (8 * i));
  }
  return value;
}

}  // namespace torii
