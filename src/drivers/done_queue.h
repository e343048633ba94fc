// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For drivers whose send() copies bodies: cookies for the next poll().
#pragma once

#include <utility>
#include <vector>

#include "drivers/driver.h"

namespace torii {

class DoneQueue {
 public:
  DoneQueue() {
    waiting_.reserve(kMost);
    reporting_.reserve(kMost);
  }
  bool empty() const { return waiting_.empty(); }
  bool has_room() const { return waiting_.size() < kMost; }
  // Takes a cookie also if there is no room, which needs memory then. 0 has nothing to report.
  void add(uint64_t cookie, Status status = Status::ok) {
    if (cookie) waiting_.emplace_back(cookie, status);
  }
  // Calls done() for those that were added before; returns for how many.
  unsigned report(Sink& sink) {
    reporting_.swap(waiting_);
    const auto count = static_cast<unsigned>(reporting_.size());
    for (const auto& [cookie, status] : reporting_) sink.done(cookie, status);
    reporting_.clear();
    return count;
  }

 private:
  static constexpr size_t kMost = 1024;

  std::vector<std::pair<uint64_t, Status>> waiting_, reporting_;
};

}  // namespace torii
