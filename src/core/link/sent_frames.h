// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames taken from the core and not yet acknowledged, oldest first: a ring that grows to the
// window, and the memory of frames, which is used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/log.h"

namespace torii::link {

// Memory of one frame. Used by its sender until it is acknowledged, and by the driver below while
// that reads it.
struct FrameMemory {
  uint32_t users = 0;
  uint32_t size = 0;
  alignas(16) std::byte bytes[1];  // as many as the pool was made for
};

class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  ~FramePool() {
    for (FrameMemory* one : free_) std::free(one);
  }

  void set_capacity(size_t bytes) { bytes_ = bytes; }
  FrameMemory* get() {
    FrameMemory* out;
    if (free_.empty()) {
      out = static_cast<FrameMemory*>(std::malloc(offsetof(FrameMemory, bytes) + bytes_));
      TORII_ASSERT(out);
    } else {
      out = free_.back();
      free_.pop_back();
    }
    out->users = 1;
    return out;
  }
  void put(FrameMemory* one) {
    if (--one->users) return;
    if (free_.size() * bytes_ < kKeptBytes)
      free_.push_back(one);
    else
      std::free(one);
  }

 private:
  static constexpr size_t kKeptBytes = 1 << 20;
  size_t bytes_ = 0;
  std::vector<FrameMemory*> free_;
};

struct Sent {
  enum class Stage : uint8_t {
    waiting,  // never sent, or lost
    flying,
    arrived,  // but not all before it
  };

  // Begins with room for the header; null: arrived, or a part that never left by itself.
  FrameMemory* memory = nullptr;
  const void* lent = nullptr;  // the rest of the payload, in the core's memory
  uint32_t lent_bytes = 0;
  uint32_t payload_crc = 0;
  uint16_t transmissions = 0;
  bool open = false;     // never sent, and short: more of the core's may join
  bool several = false;  // of the core's, each behind its length
  // Part of a long frame of the core's. The cookie is the last one's.
  bool part = false;
  bool ends = false;
  uint8_t parts = 0;      // of the frame, if this is its first
  uint8_t together = 0;   // so many left in one frame of the driver's below; 0: see the next one
  bool on_trial = false;  // in such a one, to see whether it arrives
  uint8_t rail = 0;       // by which it went, the last time
  Stage stage = Stage::waiting;
  uint64_t sent_ns = 0;    // the last time
  uint32_t delivered = 0;  // Rail::delivered then
  uint32_t turn = 0;       // Rail::turns then
  uint64_t cookie = 0;     // the core's
};

class SentFrames {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Sent& operator[](size_t i) { return ring_[(first_ + i) & (capacity_ - 1)]; }
  Sent& front() { return (*this)[0]; }
  Sent& back() { return (*this)[size_ - 1]; }
  Sent& emplace_back() {
    if (size_ == capacity_) grow();
    Sent& one = (*this)[size_++];
    one = Sent{};
    return one;
  }
  void pop_front() {
    first_++;
    size_--;
  }
  // Idle peers keep no ring.
  void release() {
    TORII_ASSERT(empty());
    ring_.reset();
    capacity_ = first_ = 0;
  }

 private:
  static constexpr size_t kFirstCapacity = 8;

  void grow() {
    const size_t capacity = capacity_ ? 2 * capacity_ : kFirstCapacity;
    auto ring = std::make_unique<Sent[]>(capacity);
    for (size_t i = 0; i < size_; i++) ring[i] = (*this)[i];
    ring_ = std::move(ring);
    capacity_ = capacity;
    first_ = 0;
  }

  std::unique_ptr<Sent[]> ring_;
  size_t capacity_ = 0;  // a power of 2
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace torii::link
