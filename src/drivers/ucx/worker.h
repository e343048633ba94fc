// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// UCX as the driver uses it: its library, one context and one worker. The library is opened at run
// time: a process that has no use for it loads neither it nor libibverbs.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/refuse.h"
#include "core/base/signals_blocked.h"
#include "drivers/ucx/wire.h"

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
  static constexpr char kFile[] = "libucp.so.0";  // of all versions 1.x

  // False: it is not there, or lacks a function. UCX replaces functions of the C library and
  // handlers of signals while it is loaded, unless variables that it reads then tell it not to; the
  // user's word counts. It stays loaded. Its own messages are shown from TORII_LOG=info on.
  bool load() {
    const std::pair<const char*, const char*> wanted[] = {
        {"UCX_MEM_EVENTS", "n"},
        {"UCX_HANDLE_ERRORS", "none"},
        {"UCX_LOG_LEVEL", log_level() >= LogLevel::info ? "warn" : "fatal"}};
    std::vector<const char*> set;
    for (const auto& [name, value] : wanted)
      if (!getenv(name) && setenv(name, value, 0) == 0) set.push_back(name);
    void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    for (const char* const name : set) unsetenv(name);
    bool all = library != nullptr;
    const auto find = [&](const char* name, auto* function) {
      using Function = std::remove_pointer_t<decltype(function)>;
      if (all) *function = reinterpret_cast<Function>(dlsym(library, name));
      all &= *function != nullptr;
    };
#define TORII_UCX_FUNCTION(name) find("ucp_" #name, &name);
    TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
#undef TORII_UCX_FUNCTION
    find("ucs_status_string", &status_string);
    return all;
  }

#define TORII_UCX_FUNCTION(name) decltype(&ucp_##name) name = nullptr;
  TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
#undef TORII_UCX_FUNCTION
  decltype(&::ucs_status_string) status_string = nullptr;
};
inline Library ucp;

// Does each transport in a list, such as "rc_mlx5,ud", belong to one of these kinds?
inline bool all_of(const std::string& transports, std::initializer_list<std::string_view> kinds) {
  std::istringstream in(transports);
  for (std::string name; std::getline(in, name, ',');)
    if (std::ranges::count(kinds, name.substr(0, name.find('_'))) == 0) return false;
  return true;
}

// Do cards carry out reads and writes over all of them? Others do it by messages in which any
// address can stand.
inline bool has_remote_memory(const std::string& transports) {
  return all_of(transports, {"ib", "rc", "dc", "ud"}) && !all_of(transports, {"ud"});
}

// The transports and devices in what UCX prints of an endpoint: "rc_mlx5/mlx5_0:1" of a line
// "lane[0]: 1:rc_mlx5/mlx5_0:1.0 md[0] ...".
inline std::string transports_in(const std::string& printed) {
  std::string out;
  for (size_t lane = 0; (lane = printed.find("lane[", lane)) != printed.npos; lane++) {
    char text[64];
    if (sscanf(&printed[lane], "lane[%*d]: %*d:%63s", text) != 1) continue;
    std::string name = text;
    name.resize(std::min(name.rfind('.'), name.size()));
    if (out.find(name) == out.npos) out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

struct Worker {
  Worker() = default;
  Worker(const Worker&) = delete;
  ~Worker() {
    if (handle) ucp.worker_destroy(handle);
    if (context) ucp.cleanup(context);
  }

  // False with the reason in *why. `tls` is a list as in UCX_TLS. A peer that does not
  // answer is reported after about half the deadline, as far as a transport watches that.
  bool open(const std::string& tls, uint64_t deadline_ms, std::string* why) {
    transports = tls;
    static const bool loaded = ucp.load();
    if (!loaded)
      return refuse(why, false,
                    "ucx: %s of UCX 1.13 or newer does not open; install it (Debian: libucx0)",
                    Library::kFile);
    const SignalsBlocked blocked;
    const ucs_status_t status = start(deadline_ms);
    if (status != UCS_OK)
      return refuse(why, false,
                    "ucx: UCX cannot use the transports '%s' (%s); see what ucx_info -d lists, and "
                    "raise the limit of locked memory (ulimit -l)",
                    transports.c_str(), ucp.status_string(status));
    if (address.size() > kWorkerMax)
      return refuse(why, false,
                    "ucx: UCX's address has %zu bytes, the most is %zu; set UCX_NET_DEVICES",
                    address.size(), kWorkerMax);
    return true;
  }

  // The transports and devices to a peer: "rc_mlx5/mlx5_0:1".
  std::string path(ucp_ep_h ep) const {
    char* printed = nullptr;
    size_t bytes = 0;
    FILE* const out = open_memstream(&printed, &bytes);
    if (!out) return "";
    ucp.ep_print_info(ep, out);
    fclose(out);
    const std::string path = transports_in(printed);
    free(printed);
    return path;
  }

  std::string transports;
  ucp_context_h context = nullptr;
  ucp_worker_h handle = nullptr;
  int descriptor = -1;  // UCX's
  std::vector<std::byte> address;
  uint32_t version = 0;  // of UCX: major << 8 | minor

 private:
  ucs_status_t start(uint64_t deadline_ms) {
    unsigned major = 0, minor = 0, release = 0;
    ucp.get_version(&major, &minor, &release);
    version = major << 8 | minor;
    ucp_config_t* config = nullptr;
    ucs_status_t status = ucp.config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return status;
    configure(config, deadline_ms);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (has_remote_memory(transports)) params.features |= UCP_FEATURE_RMA;
    params.name = "torii";
    status = ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
    ucp.config_release(config);
    if (status != UCS_OK) return status;
    ucp_worker_params_t wanted{};
    wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    wanted.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    status = ucp.worker_create(context, &wanted, &handle);
    ucp_address_t* own = nullptr;
    size_t bytes = 0;
    if (status == UCS_OK) status = ucp.worker_get_efd(handle, &descriptor);
    if (status == UCS_OK) status = ucp.worker_get_address(handle, &own, &bytes);
    if (status != UCS_OK) return status;
    const auto* const first = reinterpret_cast<const std::byte*>(own);
    address.assign(first, first + bytes);
    ucp.worker_release_address(handle, own);
    return UCS_OK;
  }

  // The user's UCX_NAME beats the driver's setting. UCX warns of settings that no transport reads.
  void configure(ucp_config_t* config, uint64_t deadline_ms) {
    const auto ms = [](uint64_t time) {
      return std::to_string(std::max<uint64_t>(time, 1)) + "ms";
    };
    const bool tcp = all_of(transports, {"tcp"}), ud = all_of(transports, {"ud"});
    const std::pair<std::string, std::string> settings[] = {
        // UCX asks by ud beside rc. A stopped process does not answer that, but its card does to
        // rc.
        {"KEEPALIVE_INTERVAL", has_remote_memory(transports) ? "inf" : ms(deadline_ms / 4)},
        {"KEEPALIVE_NUM_EPS", "inf"},
        {"RC_TIMEOUT", ms(deadline_ms / 4 / 6)},
        {"RC_RETRY_COUNT", "5"},
        {"RC_RX_QUEUE_LEN", "512"},
        {"UD_TIMEOUT", ms(deadline_ms / 2)},
        {"UD_RX_QUEUE_LEN", "1024"},
        // UCX takes the kind of a packet from a field that only mlx5 fills, and drops all that come
        // to other devices with IPv4 addresses, unless it does not look.
        {"UD_ETH_DGID_CHECK", "n"}};
    (void)ucp.config_modify(config, "TLS", transports.c_str());
    for (const auto& [name, value] : settings)
      if (!(tcp && !name.starts_with("KEEPALIVE")) && !(ud && name.starts_with("RC_")) &&
          !getenv(("UCX_" + name).c_str()))
        (void)ucp.config_modify(config, name.c_str(), value.c_str());
  }
};

}  // namespace torii::ucx
