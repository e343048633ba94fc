// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For cards whose own processor runs a program: its steps on the clock, the rings of commands and
// events that it shares with the host, and the numbers of the frames between two processes.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include "nic/card.h"
#include "nic/engine.h"

namespace torii::nic {

// Shared is in the card's memory: `command` and `event`, the rings; `commands` and `events`, how
// many were written so far; `magic`, written last when the program begins; `interrupt`, of the
// host: 1: an event beyond `seen` interrupts, which makes it 0.
template <typename Shared>
class Processor {
 public:
  using Command = std::remove_extent_t<decltype(Shared::command)>;
  using Event = std::remove_extent_t<decltype(Shared::event)>;

  // step() does one thing that is to be done, and returns how many ns that takes; 0: there is none.
  Processor(Engine& engine, std::byte* shared, uint64_t wake_ns, std::function<uint64_t()> step,
            std::function<void()> interrupt)
      : engine_(engine),
        at_(shared),
        wake_ns_(wake_ns),
        step_(std::move(step)),
        interrupt_(std::move(interrupt)) {}

  void start(uint32_t magic) {
    new (at_) Shared{};
    runs_ = true;
    publish(&shared().magic, magic);
  }
  void stop() {
    runs_ = waking_ = false;
    life_++;
    taken_ = told_ = 0;
  }
  // Of the program: an event that was asked for in another life is void.
  uint64_t life() const { return life_; }
  // A step follows after wake_ns, or at that time and wake_ns.
  void wake() { run_after(wake_ns_); }
  void wake_at(uint64_t ns) {
    engine_.at(ns, [this, life = life_] {
      if (life == life_) wake();
    });
  }

  bool has_command() const { return runs_ && shared().commands != taken_; }
  bool take_command(Command* out) {
    if (!has_command()) return false;
    *out = shared().command[taken_++ % std::size(shared().command)];
    return true;
  }
  void tell(const Event& event) {
    shared().event[told_++ % std::size(shared().event)] = event;
    publish(&shared().events, told_);
    signal();
  }

 private:
  Shared& shared() const { return *reinterpret_cast<Shared*>(at_); }
  // Behind what it tells of: the host may be looking at it.
  static void publish(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  // Has the host asked to be told of an event that is there?
  void signal() {
    if (!shared().interrupt || shared().seen == told_) return;
    shared().interrupt = 0;
    interrupt_();
  }
  void run_after(uint64_t ns) {
    if (!runs_ || std::exchange(waking_, true)) return;
    engine_.after(ns, [this, life = life_] {
      if (life != life_) return;
      waking_ = false;
      signal();
      if (const uint64_t cost_ns = step_()) run_after(cost_ns);
    });
  }

  Engine& engine_;
  std::byte* const at_;
  const uint64_t wake_ns_;
  const std::function<uint64_t()> step_;
  const std::function<void()> interrupt_;
  uint64_t life_ = 0;
  bool runs_ = false, waking_ = false;
  uint32_t taken_ = 0, told_ = 0;
};

// Of frames in order between this process and those of a node, of which the last one counts.
struct Sequence {
  Name to = kNobody, from = kNobody;
  uint32_t next = 0;      // number of the next frame to `to`
  uint32_t expected = 0;  // and of that from `from`

  uint32_t number(Name name) {
    if (to != name) to = name, next = 0;
    return next++;
  }
  // Has a frame of that process come. False: it is an earlier process.
  bool hears(Name name) {
    if (from == name) return true;
    if (from != kNobody && is_earlier(name, from)) return false;
    from = name;
    expected = 0;
    return true;
  }
};

}  // namespace torii::nic
