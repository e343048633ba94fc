// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/portals/eq.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/base/log.h"

namespace torii {

namespace {
constexpr uint64_t kEventsMax = uint64_t{1} << 26;
constexpr uint64_t kHandlerEvents = 64;  // first size of a queue that grows
}  // namespace

Eq::~Eq() { std::free(ring_); }

bool Eq::reserve(uint64_t count, ptl_eq_handler_t handler) {
  handler_ = handler;
  if (count > kEventsMax) return false;
  return grow(std::bit_ceil(handler ? std::max(count, kHandlerEvents) : count));
}

bool Eq::grow(uint64_t capacity) {
  if (capacity > kEventsMax) return false;
  auto* ring = static_cast<ptl_event_t*>(std::malloc(capacity * sizeof(ptl_event_t)));
  if (!ring) return false;
  for (uint64_t p = head_; p != tail_; ++p) ring[p - head_] = at(p);
  tail_ -= head_;
  head_ = 0;
  std::free(ring_);
  ring_ = ring;
  capacity_ = capacity;
  return true;
}

bool Eq::have_room(uint64_t places) {
  const uint64_t taken = tail_ - head_ + promised_;
  if (places <= capacity_ - taken) return true;
  return handler_ && grow(std::bit_ceil(taken + places));
}

void Eq::lose(uint64_t events) {
  dropped_ = true;
  if (loss_logged_) return;
  loss_logged_ = true;
  TORII_WARN(
      "event queue of %llu events is full, %llu events lost: allocate a larger one "
      "(further losses are not reported)",
      static_cast<unsigned long long>(capacity_), static_cast<unsigned long long>(events));
}

void Eq::post(const ptl_event_t& event) {
  TORII_ASSERT(tail_ - head_ < capacity_);
  ptl_event_t& slot = at(tail_++);
  slot = event;
  slot.sequence = sequence_++;
}

int Eq::peek(ptl_event_t* event) const {
  if (empty()) return PTL_EQ_EMPTY;
  *event = at(head_);
  return PTL_OK;
}

int Eq::take(ptl_event_t* event) {
  if (empty()) return PTL_EQ_EMPTY;
  *event = at(head_++);
  // Portals 3.3: DROPPED comes with a valid event.
  if (!dropped_) return PTL_OK;
  dropped_ = false;
  return PTL_EQ_DROPPED;
}

}  // namespace torii
