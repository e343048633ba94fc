// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory for payloads that wait in the library. The C library gives freed pages back to the system,
// and to have them mapped and cleared again takes longer than the payload's copy; so some freed
// memory is kept for the next payload. One thread at a time.
#pragma once

#include <array>
#include <cstddef>

namespace torii {

class Buffers {
 public:
  Buffers() = default;
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Memory aligned to 16 bytes, for put() of the same object; null: there is none.
  std::byte* get(size_t bytes);
  // Takes null, too.
  void put(std::byte* buffer);
  // Freed memory that is kept, in bytes.
  size_t kept() const { return kept_; }

  static constexpr size_t kKeptMost = 4 << 20;

 private:
  static constexpr unsigned kShortest = 12;  // log2 of the least size that is kept
  static constexpr unsigned kLongest = 20;   // and of the largest
  static constexpr unsigned kNotKept = ~0u;
  struct alignas(16) Head {
    Head* next;
    unsigned list;
  };

  std::array<Head*, kLongest - kShortest + 1> free_{};  // one list for each power of two
  size_t kept_ = 0;
};

}  // namespace torii
