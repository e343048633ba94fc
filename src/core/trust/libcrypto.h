// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shared by the files that use libcrypto.
#pragma once

#include <cstddef>

namespace torii {

// For std::unique_ptr.
template <auto release>
struct Release {
  template <typename T>
  void operator()(T* one) const {
    release(one);
  }
};

inline unsigned char* chars(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
inline const unsigned char* chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace torii
