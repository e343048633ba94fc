// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Posting, taking and waiting for events, and the calls of event handlers.
#include <algorithm>
#include <chrono>
#include <climits>

#include "core/base/param.h"
#include "core/portals/portals.h"

namespace torii {

namespace {
constexpr uint64_t kNsPerMs = 1000000;
}

// There must be room in the queue. `event` has what the operation knows; the rest is set here.
void Portals::post(Eq* eq, uint64_t eq_slot, ptl_event_t& event, ptl_event_kind_t kind,
                   const Md& md) {
  event.type = kind;
  event.md_handle = handle_of(&md);
  event.md = md.user;
  eq->post(event);
  if (eq->handler() && !eq->handler_listed) {
    eq->handler_listed = true;
    handler_queues_.push_back(eq_slot);
  }
  wake_waiters();
}

void Portals::wake_waiters() {
  if (sleeping_) host_.wake();
  if (followers_ == 0) return;
  {
    std::lock_guard guard(follow_mutex_);
    ++follow_turn_;
  }
  follow_.notify_all();
}

int Portals::scan(const ptl_handle_eq_t* eqs, int count, ptl_event_t* event, int* which) {
  for (int i = 0; i < count; ++i) {
    if (find_eq(eqs[i])) continue;
    *which = i;
    return PTL_EQ_INVALID;
  }
  const uint32_t first = scan_start_++ % uint32_t(count);
  for (uint32_t i = 0; i < uint32_t(count); ++i) {
    const uint32_t at = first + i < uint32_t(count) ? first + i : first + i - uint32_t(count);
    const int rc = find_eq(eqs[at])->take(event);
    if (rc == PTL_EQ_EMPTY) continue;
    *which = int(at);
    return rc;
  }
  return PTL_EQ_EMPTY;
}

int Portals::eq_poll(const ptl_handle_eq_t* eqs, int count, int64_t milliseconds,
                     ptl_event_t* event, int* which) {
  int rc = scan(eqs, count, event, which);
  if (rc != PTL_EQ_EMPTY) return rc;
  uint64_t start = 0;
  for (bool waited = false;; waited = true) {
    const unsigned done = host_.progress();
    if (handlers_due() && milliseconds != 0) {  // else the caller runs them
      host_.unlock();
      run_handlers();
      host_.lock();
    }
    rc = scan(eqs, count, event, which);
    if (rc != PTL_EQ_EMPTY || milliseconds == 0) return rc;
    const uint64_t now = host_.now_ns();
    if (!waited) start = now;
    const uint64_t passed = now - start;
    if (milliseconds > 0 && passed >= uint64_t(milliseconds) * kNsPerMs) return PTL_EQ_EMPTY;
    if (done > 0 || passed < uint64_t(params().spin_us) * 1000) {
      host_.unlock();  // let other threads in
      host_.lock();
      continue;
    }
    wait(milliseconds < 0 ? -1 : milliseconds - int64_t(passed / kNsPerMs));
  }
}

int Portals::eq_peek(ptl_handle_eq_t handle, ptl_event_t* event) {
  const Eq* eq = find_eq(handle);
  if (!eq) return PTL_EQ_INVALID;
  if (eq->empty()) {
    host_.progress();
    eq = find_eq(handle);
  }
  return eq ? eq->peek(event) : PTL_EQ_INVALID;
}

void Portals::progress(int64_t milliseconds) {
  if (host_.progress() > 0 || milliseconds == 0) return;
  wait(milliseconds);
  host_.progress();
}

// Waits until something may have changed. One thread sleeps in the drivers; the others are woken
// by every event, and by the end of that sleep, so that one of them can take the place.
void Portals::wait(int64_t milliseconds) {
  if (!sleeping_) {
    sleeping_ = true;
    (void)host_.sleep(int(std::min<int64_t>(milliseconds, INT_MAX)));
    sleeping_ = false;
    if (followers_ > 0) wake_waiters();
    return;
  }
  ++followers_;
  uint64_t turn = 0;
  {
    std::lock_guard guard(follow_mutex_);
    turn = follow_turn_;
  }
  host_.unlock();
  {
    std::unique_lock guard(follow_mutex_);
    auto changed = [&] { return follow_turn_ != turn; };
    if (milliseconds < 0) {
      follow_.wait(guard, changed);
    } else {
      follow_.wait_for(guard, std::chrono::milliseconds(milliseconds), changed);
    }
  }
  host_.lock();
  --followers_;
}

// One thread at a time empties a queue, so its handler sees the events in order. An event that
// the handler itself causes is seen by the same loop.
void Portals::run_handlers() {
  host_.lock();
  while (!handler_queues_.empty()) {
    const uint64_t slot = handler_queues_.back();
    handler_queues_.pop_back();
    Eq* eq = eqs_.find(slot);
    if (!eq) continue;
    eq->handler_listed = false;
    if (eq->handler_running) continue;
    eq->handler_running = true;
    ptl_event_t event;
    while (eq && eq->take(&event) != PTL_EQ_EMPTY) {
      const ptl_eq_handler_t handler = eq->handler();
      host_.unlock();
      handler(&event);
      host_.lock();
      eq = eqs_.find(slot);  // the handler may have freed it
    }
    if (eq) eq->handler_running = false;
  }
  host_.unlock();
}

}  // namespace torii
