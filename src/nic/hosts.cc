// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/hosts.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace torii::nic {

void Host::run() {
  go_.release();
  back_.acquire();
}

void Host::give_way() {
  back_.release();
  go_.acquire();
}

void Host::spend_until(uint64_t ns) {
  engine_.at(ns, [this] { run(); });
  give_way();
}

bool Host::poll_memory(uint64_t interval_ns) {
  if (std::exchange(changed_, false) && !stopped_) {
    spend(interval_ns);
    return true;
  }
  polling_since_ns_ = engine_.now_ns();
  polling_ns_ = std::max<uint64_t>(interval_ns, 1);
  if (!stopped_) give_way();
  polling_ns_ = 0;
  return !stopped_;
}

// It sees the change with its next poll.
void Host::changed() {
  if (polling_ns_ == 0) {
    changed_ = true;
    return;
  }
  const uint64_t interval = std::exchange(polling_ns_, 0);
  const uint64_t polls = (engine_.now_ns() - polling_since_ns_) / interval + 1;
  engine_.at(polling_since_ns_ + polls * interval, [this] { run(); });
}

Hosts::~Hosts() {
  for (const auto& host : hosts_) host->thread_.join();
}

Host& Hosts::add(std::function<void(Host& host)> program) {
  hosts_.push_back(std::unique_ptr<Host>(new Host(engine_)));
  Host* const host = hosts_.back().get();
  host->thread_ = std::thread([host, program = std::move(program)] {
    host->go_.acquire();
    program(*host);
    host->done_ = true;
    host->back_.release();
  });
  engine_.after(0, [host] { host->run(); });
  return *host;
}

bool Hosts::run(std::string* why) {
  const auto is_waiting = [](const auto& host) { return !host->done_; };
  long waited = 0;
  for (;;) {
    const long waiting = std::count_if(hosts_.begin(), hosts_.end(), is_waiting);
    if (waiting == 0) break;
    if (engine_.next_ns() != ~uint64_t{0}) {
      engine_.step();
      continue;
    }
    waited = std::max(waited, waiting);
    for (const auto& host : hosts_) {
      host->stopped_ = true;
      if (is_waiting(host)) host->run();
    }
  }
  if (waited > 0)
    *why = format_text("%ld of %zu hosts waited at %llu ns for what never happens", waited,
                       hosts_.size(), static_cast<unsigned long long>(engine_.now_ns()));
  return waited == 0;
}

}  // namespace torii::nic
