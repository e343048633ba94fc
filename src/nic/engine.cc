// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/engine.h"

#include <algorithm>

#include "core/base/log.h"

namespace torii::nic {

void Engine::add(Event event) {
  event.ns = std::max(event.ns, now_ns_);
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end());
}

void Engine::step() {
  TORII_ASSERT(!running_ && !events_.empty());
  std::pop_heap(events_.begin(), events_.end());
  Event event = events_.back();
  events_.pop_back();
  now_ns_ = event.ns;
  running_ = true;
  event.run(event.call);
  running_ = false;
}

void Engine::run_to(uint64_t ns) {
  while (next_ns() <= ns) step();
  now_ns_ = std::max(now_ns_, ns);
}

}  // namespace torii::nic
