// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Event queues. An operation that is accepted reserves a place for its END (and UNLINK), so only
// new operations can find the queue full. Owner: one interface, under its lock.
#pragma once

#include <cstdint>
#include <memory>

#include "core/portals3.h"

namespace torii {

class Eq {
 public:
  Eq() = default;
  Eq(const Eq&) = delete;
  Eq& operator=(const Eq&) = delete;
  ~Eq();

  // Room for `count` events; false without memory. Once, before anything else.
  bool reserve(uint64_t count, ptl_eq_handler_t handler);

  // Makes room for `places` events beyond those promised. False: the queue is full; then the
  // caller reports its events with lose().
  bool have_room(uint64_t places);
  void promise(uint64_t places) { promised_ += places; }
  void unpromise(uint64_t places) { promised_ -= places; }
  void lose(uint64_t events);

  // Appends one event; there must be room. Its sequence number is set here.
  void post(const ptl_event_t& event);
  bool empty() const { return head_ == tail_; }
  // Copies the oldest event. PTL_OK, PTL_EQ_EMPTY or (once after a loss) PTL_EQ_DROPPED.
  int take(ptl_event_t* event);
  int peek(ptl_event_t* event) const;

  // Operations between START and END that use this queue.
  uint32_t busy = 0;
  // Portals 3.3, PtlMDUpdate: no event is here, and none is still to come.
  bool quiet() const { return empty() && busy == 0; }

  uint32_t next_link() { return link_++; }
  ptl_eq_handler_t handler() const { return handler_; }
  bool handler_running = false;  // a thread is emptying the queue
  bool handler_listed = false;   // the interface knows that there is work

 private:
  bool grow(uint64_t capacity);
  ptl_event_t& at(uint64_t position) const { return ring_[position & (capacity_ - 1)]; }

  ptl_event_t* ring_ = nullptr;
  uint64_t capacity_ = 0;  // a power of two
  uint64_t head_ = 0;      // position of the oldest event
  uint64_t tail_ = 0;      // position after the newest one
  uint64_t promised_ = 0;
  bool dropped_ = false;  // events were lost and nobody was told yet
  bool loss_logged_ = false;
  uint32_t link_ = 1;
  uint32_t sequence_ = 0;
  ptl_eq_handler_t handler_ = nullptr;
};

}  // namespace torii
