// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A view of user memory that a message is taken from or placed into: contiguous, a list of
// pieces, or reached only through the user's pack and unpack functions. Owns nothing.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/copy.h"

namespace torii {

// Copies `bytes` bytes at byte `offset` of the packed message from or to `buffer`. Calls for one
// message come in increasing, gapless order of offset. Must not call back into Torii.
using PackFunction = void (*)(void* context, uint64_t offset, void* buffer, size_t bytes);
using UnpackFunction = void (*)(void* context, uint64_t offset, const void* buffer, size_t bytes);

class Data {
 public:
  Data() = default;
  Data(const void* base, uint64_t bytes)
      : kind_(Kind::contiguous), bytes_(bytes), base_(const_cast<void*>(base)) {}
  // `pieces` must outlive the view; `bytes` is the sum of their lengths.
  Data(const iovec* pieces, uint32_t count, uint64_t bytes)
      : kind_(Kind::pieces), count_(count), bytes_(bytes), pieces_(pieces) {}
  Data(PackFunction pack, UnpackFunction unpack, void* context, uint64_t bytes)
      : kind_(Kind::functions), bytes_(bytes), base_(context), pack_(pack), unpack_(unpack) {}

  // As assignment of Data(base, bytes), but leaves alone what such a view does not use.
  void set(void* base, uint64_t bytes) {
    kind_ = Kind::contiguous;
    bytes_ = bytes;
    base_ = base;
  }

  uint64_t bytes() const { return bytes_; }
  bool contiguous() const { return kind_ == Kind::contiguous; }
  bool has_address() const { return kind_ != Kind::functions; }
  // The address of byte `offset`; contiguous views only.
  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(base_) + offset; }

  // Copies [offset, offset+n) of the message out of, or into, the user's memory.
  // The caller guarantees offset + n <= bytes().
  void copy_out(uint64_t offset, void* to, size_t n) const {
    if (kind_ == Kind::contiguous) {
      copy_bytes(to, at(offset), n);
    } else {
      copy_out_slow(offset, to, n);
    }
  }
  void copy_in(uint64_t offset, const void* from, size_t n) const {
    if (kind_ == Kind::contiguous) {
      copy_bytes(at(offset), from, n);
    } else {
      copy_in_slow(offset, from, n);
    }
  }

  // The same; into memory in one piece by `more`, if it is more than 64 bytes.
  template <typename More>
  void copy_in(uint64_t offset, const void* from, size_t n, More more) const {
    if (kind_ == Kind::contiguous) {
      copy_bytes(at(offset), from, n, more);
    } else {
      copy_in_slow(offset, from, n);
    }
  }

  // Describes [offset, offset+n) by at most `max` address ranges; views with addresses only.
  // Returns the number used; *covered is how many of the n bytes they reach.
  unsigned slice(uint64_t offset, uint64_t n, iovec* out, unsigned max, uint64_t* covered) const {
    if (kind_ != Kind::contiguous) return slice_pieces(offset, n, out, max, covered);
    out[0] = {at(offset), n};
    *covered = n;
    return n > 0;
  }

 private:
  enum class Kind : uint8_t { contiguous, pieces, functions };

  unsigned slice_pieces(uint64_t offset, uint64_t n, iovec* out, unsigned max,
                        uint64_t* covered) const;
  void copy_out_slow(uint64_t offset, void* to, size_t n) const;
  void copy_in_slow(uint64_t offset, const void* from, size_t n) const;

  Kind kind_ = Kind::contiguous;
  uint32_t count_ = 0;
  uint64_t bytes_ = 0;
  void* base_ = nullptr;  // memory, or the functions' context
  union {
    const iovec* pieces_ = nullptr;
    PackFunction pack_;
  };
  UnpackFunction unpack_ = nullptr;
};

}  // namespace torii
