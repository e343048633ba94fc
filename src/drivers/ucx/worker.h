// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// UCX as the driver uses it: one context, one worker, and the settings for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/ucx/library.h"

namespace torii::ucx {

// The transports in a list of names such as "rc,ud".
struct Transports {
  explicit Transports(const std::string& names);

  std::string names;
  // Cards do remote access. Others would do it by messages in which any address can stand.
  bool remote_memory = false;
  bool sockets = false;     // a poll that finds nothing costs a system call
  bool rc = false;          // reliable connections are among them
  bool infiniband = false;  // verbs of any kind
};

class Worker {
 public:
  Worker() = default;
  ~Worker();
  Worker(const Worker&) = delete;

  // False with the reason in *why. A peer that does not answer is reported after about half the
  // deadline, as far as a transport watches that.
  bool open(const Transports& transports, uint64_t deadline_ms, std::string* why);

  const Library* operator->() const { return ucx_; }
  ucp_context_h context() const { return context_; }
  ucp_worker_h handle() const { return worker_; }
  int descriptor() const { return fd_; }
  const std::vector<std::byte>& address() const { return address_; }
  uint16_t version() const { return version_; }  // of UCX, as in Address

 private:
  bool open_context(const Transports& transports, uint64_t deadline_ms, std::string* why);
  bool open_worker(std::string* why);

  const Library* ucx_ = nullptr;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;  // UCX's
  std::vector<std::byte> address_;
  uint16_t version_ = 0;
};

// The transports and devices in what UCX prints of an endpoint: "rc_mlx5/mlx5_0:1".
std::string transports_in(std::string_view printed);

}  // namespace torii::ucx
