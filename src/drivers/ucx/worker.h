// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// UCX as the driver uses it: its library, one context and one worker. The library is opened at run
// time: a process that has no use for it loads neither it nor libibverbs.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torii::ucx {

// It finds no fixed point for a list like this.
// clang-format off
#define TORII_UCX_FUNCTIONS(F) \
  F(config_read) F(config_modify) F(config_release) F(get_version) F(init_version) F(cleanup) \
  F(worker_create) F(worker_destroy) F(worker_get_address) F(worker_release_address) \
  F(worker_get_efd) F(worker_arm) F(worker_progress) F(worker_set_am_recv_handler) \
  F(worker_flush_nbx) F(ep_create) F(ep_close_nbx) F(ep_flush_nbx) F(ep_print_info) \
  F(am_send_nbx) F(request_check_status) F(request_free) F(mem_map) F(mem_unmap) F(rkey_pack) \
  F(rkey_buffer_release) F(ep_rkey_unpack) F(rkey_destroy) F(put_nbx) F(get_nbx)
// clang-format on

// UCX's functions without their prefix ucp_.
struct Library {
#define TORII_UCX_FUNCTION(name) decltype(&ucp_##name) name = nullptr;
  TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
#undef TORII_UCX_FUNCTION
  decltype(&::ucs_status_string) status_string = nullptr;
};

struct Worker {
  Worker() = default;
  Worker(const Worker&) = delete;
  ~Worker();

  // False with the reason in *why. `transports` is a list as in UCX_TLS. A peer that does not
  // answer is reported after about half the deadline, as far as a transport watches that. UCX
  // replaces functions of the C library and handlers of signals while it is loaded, unless it is
  // told not to: it is told so, but for what the user's UCX_MEM_EVENTS and UCX_HANDLE_ERRORS say.
  // It stays loaded. Its own messages are shown from TORII_LOG=info on.
  bool open(const std::string& transports, uint64_t deadline_ms, std::string* why);

  const Library* operator->() const { return ucx; }

  const Library* ucx = nullptr;
  ucp_context_h context = nullptr;
  ucp_worker_h handle = nullptr;
  int descriptor = -1;  // UCX's
  std::vector<std::byte> address;
  uint16_t version = 0;  // of UCX: major in the high byte, minor
};

// Do cards carry out reads and writes over all transports in this list, such as "rc,ud"? Others do
// it by messages in which any address can stand.
bool has_remote_memory(const std::string& transports);
// The transports and devices in what UCX prints of an endpoint: "rc_mlx5/mlx5_0:1".
std::string transports_in(std::string_view printed);

}  // namespace torii::ucx
