// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A vector with room for so many values inside of itself. Values not in it yet cost nothing:
// an array of values with initial values is written whole before the first is used.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

namespace torii {

template <typename T, size_t kCapacity>
class InplaceVector {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  InplaceVector() {}  // not the bytes
  InplaceVector(const InplaceVector&) = delete;
  InplaceVector& operator=(const InplaceVector&) = delete;

  // There must be room.
  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    return *new (bytes_ + sizeof(T) * size_++) T{arguments...};
  }
  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  T* data() { return std::launder(reinterpret_cast<T*>(bytes_)); }
  T& operator[](size_t i) { return data()[i]; }
  operator std::span<const T>() { return {data(), size_}; }

 private:
  size_t size_ = 0;
  alignas(T) std::byte bytes_[kCapacity * sizeof(T)];
};

}  // namespace torii
