// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// UCX, opened at run time: a process that has no use for it loads neither it nor libibverbs. Only
// its headers are needed to build Torii.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace torii::ucx {

// It finds no fixed point for a list like this.
// clang-format off
#define TORII_UCX_FUNCTIONS(F) \
  F(config_read) F(config_modify) F(config_release) F(get_version) F(init_version) F(cleanup) \
  F(worker_create) F(worker_destroy) F(worker_get_address) F(worker_release_address) \
  F(worker_get_efd) F(worker_arm) F(worker_progress) F(worker_set_am_recv_handler) \
  F(worker_flush_nbx) F(dt_create_generic) F(dt_destroy) F(ep_create) F(ep_close_nbx) \
  F(ep_flush_nbx) F(ep_print_info) F(am_send_nbx) F(am_data_release) F(request_check_status) \
  F(request_free) F(mem_map) F(mem_unmap) F(rkey_pack) F(rkey_buffer_release) F(ep_rkey_unpack) \
  F(rkey_destroy) F(put_nbx) F(get_nbx)
// clang-format on

// Its functions without their prefix ucp_.
struct Library {
#define TORII_UCX_FUNCTION(name) decltype(&ucp_##name) name = nullptr;
  TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
#undef TORII_UCX_FUNCTION
  decltype(&::ucs_status_string) status_string = nullptr;
};

// Opens it, once for the process; it stays. UCX replaces functions of the C library and handlers of
// signals while it is loaded, unless it is told not to at that moment: it is told so here, but for
// what the user's UCX_MEM_EVENTS and UCX_HANDLE_ERRORS say. Its own messages are shown from
// TORII_LOG=info on. Null with the reason in *why.
const Library* open_library(std::string* why);

}  // namespace torii::ucx
