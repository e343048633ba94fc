// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A pool of objects named by checked 64-bit handles {generation:32, index:32}: a handle that
// outlived its object is recognised. Memory is taken in chunks, never given back before the
// pool dies, and never moves. Handles are never 0.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace torii {

template <typename T>
class SlotPool {
 public:
  explicit SlotPool(uint32_t limit = 1u << 30) : limit_(limit) {}
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool() {
    for (Slot* chunk : chunks_) std::free(chunk);
  }

  // A default-initialised object, or null when memory or the limit is exhausted.
  T* get() {
    if (__builtin_expect(!free_, 0) && !grow()) return nullptr;
    Slot* slot = free_;
    free_ = slot->next_free;
    slot->handle += kGeneration;
    ++used_;
    return new (slot->storage) T;
  }

  // Will the next get() give one?
  bool ready() { return free_ || grow(); }

  void put(T* object) {
    Slot* slot = slot_of(object);
    object->~T();
    slot->handle += kGeneration;
    slot->next_free = free_;
    free_ = slot;
    --used_;
  }

  static uint64_t handle(const T* object) { return slot_of(const_cast<T*>(object))->handle; }

  // The object a handle names, or null if there is none (any more).
  T* find(uint64_t handle) const {
    const uint32_t index = uint32_t(handle);
    if (index >= chunks_.size() * kChunk) return nullptr;
    Slot* slot = chunks_[index / kChunk] + index % kChunk;
    return slot->handle == handle && in_use(slot) ? object_of(slot) : nullptr;
  }

  uint32_t used() const { return used_; }

  template <typename F>
  void for_each(F f) {
    for (Slot* chunk : chunks_)
      for (uint32_t i = 0; i < kChunk; ++i)
        if (in_use(&chunk[i])) f(object_of(&chunk[i]));
  }

 private:
  static constexpr uint32_t kChunk = 64;
  static constexpr uint64_t kGeneration = uint64_t{1} << 32;

  struct Slot {
    alignas(T) unsigned char storage[sizeof(T)];
    Slot* next_free;
    // The object's handle; an odd generation means that the slot is in use. One word, written and
    // read whole: a processor that reads two halves at once waits until both have left its store
    // buffer.
    uint64_t handle;
  };

  static bool in_use(const Slot* slot) { return slot->handle & kGeneration; }

  static Slot* slot_of(T* object) { return reinterpret_cast<Slot*>(object); }
  static T* object_of(Slot* slot) { return std::launder(reinterpret_cast<T*>(slot->storage)); }

  [[gnu::noinline]] bool grow() {
    const uint32_t base = uint32_t(chunks_.size()) * kChunk;
    if (base + kChunk > limit_ && base >= limit_) return false;
    auto* chunk = static_cast<Slot*>(std::aligned_alloc(alignof(Slot), sizeof(Slot) * kChunk));
    if (!chunk) return false;
    chunks_.push_back(chunk);
    for (uint32_t i = kChunk; i-- > 0;) {
      chunk[i].handle = base + i;
      chunk[i].next_free = free_;
      free_ = &chunk[i];
    }
    return true;
  }

  uint32_t limit_;
  uint32_t used_ = 0;
  Slot* free_ = nullptr;
  std::vector<Slot*> chunks_;
};

}  // namespace torii
