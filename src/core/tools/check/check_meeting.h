// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the processes of a check hear of each other without the network that is checked: through
// the launcher that started them, or through the pipe of the remote shell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tools/check/check_data.h"

namespace torii::check {

// The bytes that a process gave, or why it did not.
struct Given {
  bool there = false;
  Bytes bytes;
  std::string why;
};

class Meeting {
 public:
  virtual ~Meeting() = default;
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  uint32_t local_size() const { return local_size_; }
  uint64_t deadline_ms() const { return deadline_ms_; }
  uint64_t multicast_ms() const { return multicast_ms_; }
  // Whether this process has to judge and to tell the user.
  bool judges() const { return judges_; }
  // Turns readable when the check is to be given up; -1: there is no such thing.
  int stop() const { return stop_; }

  // Collective. By rank what each gave; if the meeting fails all of them lack, with the reason.
  virtual std::vector<Given> exchange(const Bytes& mine) = 0;
  // The same, for who judges; others may get nothing.
  virtual std::vector<Given> deliver(const Bytes& mine) = 0;

 protected:
  uint32_t rank_ = 0, size_ = 1, local_size_ = 1;
  uint64_t deadline_ms_ = 0, multicast_ms_ = 0;  // as of make_plan()
  bool judges_ = false;
  int stop_ = -1;
};

// Through the launcher, if there is one, else alone; null with the reason in *why.
std::unique_ptr<Meeting> meet_by_launcher(uint64_t deadline_ms, uint64_t multicast_ms,
                                          std::string* why);

}  // namespace torii::check
