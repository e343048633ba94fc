// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The virtual clock of a fabric, and what is to happen when. The order of events depends on the
// calls alone, never on the machine: a run with the same seed and the same calls is the same run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <queue>
#include <type_traits>
#include <utility>

#include "core/base/log.h"
#include "core/base/random.h"

namespace torii::nic {

class Trace;

class Engine {
 public:
  explicit Engine(uint64_t seed) : random(seed) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  uint64_t now_ns() const { return now_ns_; }
  // Calls at that time, or now if that is past; those of one time in the order in which they were
  // asked for. What a call has captured are a few words, as there are very many of them.
  template <typename Call>
  void at(uint64_t ns, const Call& call) {
    static_assert(sizeof(Call) <= sizeof(Event::call) && std::is_trivially_copyable_v<Call>);
    Event event{ns, serial_++, [](void* c) { (*static_cast<Call*>(c))(); }, {}};
    new (event.call) Call(call);
    event.ns = std::max(ns, now_ns_);
    events_.push(event);
  }
  template <typename Call>
  void after(uint64_t ns, const Call& call) {
    at(now_ns_ + ns, call);
  }
  // Time of the next event; ~0: there is none.
  uint64_t next_ns() const { return events_.empty() ? ~uint64_t{0} : events_.top().ns; }
  // Runs the next event. There must be one; events do not call this.
  void step() {
    TORII_ASSERT(!running_ && !events_.empty());
    Event event = events_.top();
    events_.pop();
    now_ns_ = event.ns;
    running_ = true;
    event.run(event.call);
    running_ = false;
  }
  bool running() const { return running_; }  // an event
  // Runs all events up to that time, and sets the clock to it. A time that is past does nothing.
  void run_to(uint64_t ns) {
    while (next_ns() <= ns) step();
    now_ns_ = std::max(now_ns_, ns);
  }

  Random random;           // of all choices
  Trace* trace = nullptr;  // null: nothing is recorded

 private:
  struct Event {
    uint64_t ns;
    uint64_t serial;
    void (*run)(void* call);
    alignas(8) std::byte call[32];
    bool operator<(const Event& other) const {  // the earliest is the largest
      return other.ns < ns || (other.ns == ns && other.serial < serial);
    }
  };

  uint64_t now_ns_ = 0;
  uint64_t serial_ = 0;
  bool running_ = false;
  std::priority_queue<Event> events_;
};

// A call that is pending at most once: while it is, at() does nothing.
class Alarm {
 public:
  template <typename Call>
  void at(Engine& engine, uint64_t ns, const Call& call) {
    if (std::exchange(pending_, true)) return;
    engine.at(ns, [this, call] {
      pending_ = false;
      call();
    });
  }

 private:
  bool pending_ = false;
};

}  // namespace torii::nic
