// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The fuzzer's bytes, taken apart from the front. After the end everything is 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace torii::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  template <typename T>
  T take() {
    T value{};
    const size_t n = std::min(size_, sizeof(T));
    if (n) std::memcpy(&value, data_, n);
    skip(n);
    return value;
  }
  uint8_t byte() { return take<uint8_t>(); }
  // 0 to below-1.
  uint32_t below(uint32_t limit) { return take<uint16_t>() % limit; }
  // At most `limit` bytes, the first two of the input tell how many.
  std::string text(size_t limit) {
    const size_t n = std::min(size_t{take<uint16_t>()} % (limit + 1), size_);
    std::string out(reinterpret_cast<const char*>(data_), n);
    skip(n);
    return out;
  }
  std::string rest() {
    std::string out(reinterpret_cast<const char*>(data_), size_);
    skip(size_);
    return out;
  }

 private:
  void skip(size_t n) {
    data_ += n;
    size_ -= n;
  }

  const uint8_t* data_;
  size_t size_;
};

// Ends the program in a way that the fuzzer reports.
__attribute__((noinline)) inline void require(bool condition, const char* what = "a condition") {
  if (condition) return;
  fprintf(stderr, "does not hold: %s\n", what);
  __builtin_trap();
}

}  // namespace torii::fuzz
