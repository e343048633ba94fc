// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Atomic operations on exported memory. Whoever carries one out, the initiator where the memory is
// mapped, the target's driver or its core, uses the processor's instruction on the same memory: so
// all of them are atomic towards each other, and towards those of the program that owns the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/base/copy.h"

namespace torii {

// The numbers of torii_atomic_t.
enum class AtomicOp : uint8_t { add, bit_and, bit_or, bit_xor, swap, compare_swap };
inline constexpr uint8_t kAtomicOps = 6;

inline constexpr bool atomic_width(uint64_t width) { return width == 4 || width == 8; }

template <typename T>
T apply_atomic(T* at, AtomicOp op, T operand, T compare) {
  const std::atomic_ref<T> word(*at);
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  switch (op) {
    case AtomicOp::add:
      return word.fetch_add(operand);
    case AtomicOp::bit_and:
      return word.fetch_and(operand);
    case AtomicOp::bit_or:
      return word.fetch_or(operand);
    case AtomicOp::bit_xor:
      return word.fetch_xor(operand);
    case AtomicOp::swap:
      return word.exchange(operand);
    case AtomicOp::compare_swap:
      word.compare_exchange_strong(compare, operand);
      return compare;
  }
  return 0;
}

// Copies from or to memory that others use as well: words at aligned addresses in one access.
inline void load_bytes(void* to, const std::byte* at, size_t n) {
  const bool aligned = reinterpret_cast<uintptr_t>(at) % 8 == 0;
  if (n == 8 && aligned) {
    const uint64_t word = __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_RELAXED);
    std::memcpy(to, &word, sizeof(word));
  } else if (n == 4 && reinterpret_cast<uintptr_t>(at) % 4 == 0) {
    const uint32_t word = __atomic_load_n(reinterpret_cast<const uint32_t*>(at), __ATOMIC_RELAXED);
    std::memcpy(to, &word, sizeof(word));
  } else {
    copy_bytes(to, at, n);
  }
}
inline void store_bytes(std::byte* at, const void* from, size_t n) {
  const bool aligned = reinterpret_cast<uintptr_t>(at) % 8 == 0;
  if (n == 8 && aligned) {
    uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<uint64_t*>(at), word, __ATOMIC_RELAXED);
  } else if (n == 4 && reinterpret_cast<uintptr_t>(at) % 4 == 0) {
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<uint32_t*>(at), word, __ATOMIC_RELAXED);
  } else {
    copy_bytes(at, from, n);
  }
}

// The old value. `at` is aligned to `width`, which atomic_width() accepts.
inline uint64_t apply_atomic(void* at, unsigned width, AtomicOp op, uint64_t operand,
                             uint64_t compare) {
  if (width == 8) return apply_atomic(static_cast<uint64_t*>(at), op, operand, compare);
  return apply_atomic(static_cast<uint32_t*>(at), op, uint32_t(operand), uint32_t(compare));
}

// The same while a lock is held, 8 bytes that are 0 when it is free. False: it was not, and nothing
// was changed; *old is what it was. A value that others add to a held lock stays.
inline bool apply_locked(void* at, unsigned width, AtomicOp op, uint64_t operand, uint64_t compare,
                         void* lock, uint64_t held, uint64_t* old) {
  *old = apply_atomic(lock, 8, AtomicOp::compare_swap, held, 0);
  if (*old != 0) return false;
  *old = apply_atomic(at, width, op, operand, compare);
  apply_atomic(lock, 8, AtomicOp::add, 0 - held, 0);
  return true;
}

}  // namespace torii
