// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/worker.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include "core/base/log.h"
#include "drivers/ucx/wire.h"

namespace torii::ucx {
namespace {

constexpr char kLibraryFile[] = "libucp.so.0";  // of all versions 1.x
constexpr unsigned kRetries = 5;

// UCX reads its environment while it is loaded.
bool load(Library* out) {
  const std::pair<const char*, const char*> wanted[] = {
      {"UCX_MEM_EVENTS", "n"},
      {"UCX_HANDLE_ERRORS", "none"},
      {"UCX_LOG_LEVEL", log_level() >= LogLevel::info ? "warn" : "fatal"}};
  std::vector<const char*> set;
  for (const auto& [name, value] : wanted)
    if (!getenv(name) && setenv(name, value, 0) == 0) set.push_back(name);
  void* const library = dlopen(kLibraryFile, RTLD_NOW | RTLD_LOCAL);
  for (const char* const name : set) unsetenv(name);
  if (!library) return false;
  bool all = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    all &= *function != nullptr;
  };
#define TORII_UCX_FUNCTION(name) find("ucp_" #name, &out->name);
  TORII_UCX_FUNCTIONS(TORII_UCX_FUNCTION)
#undef TORII_UCX_FUNCTION
  find("ucs_status_string", &out->status_string);
  return all;
}

const Library* loaded_library() {
  static Library library;
  static const bool loaded = load(&library);
  return loaded ? &library : nullptr;
}

// Of the driver, but for what the user's UCX_NAME says.
void configure(const Library& ucx, ucp_config_t* config, const std::string& transports,
               uint64_t deadline_ms) {
  const auto ms = [](uint64_t time) { return std::to_string(std::max<uint64_t>(time, 1)) + "ms"; };
  const std::pair<const char*, std::string> settings[] = {
      {"KEEPALIVE_INTERVAL", ms(deadline_ms / 4)},
      {"KEEPALIVE_NUM_EPS", "inf"},
      {"RC_TIMEOUT", ms(deadline_ms / 4 / (kRetries + 1))},
      {"RC_RETRY_COUNT", std::to_string(kRetries)},
      {"RC_RX_QUEUE_LEN", "512"},
      {"UD_TIMEOUT", ms(deadline_ms / 2)},
      {"UD_RX_QUEUE_LEN", "1024"},
      // UCX takes the kind of a packet from a field that only mlx5 fills, and drops all that come
      // to other devices with IPv4 addresses, unless it does not look.
      {"UD_ETH_DGID_CHECK", "n"}};
  (void)ucx.config_modify(config, "TLS", transports.c_str());
  const auto known = [&](std::string_view name) {  // UCX warns of settings that nobody reads
    return transports != "tcp" || name.starts_with("KEEPALIVE");
  };
  for (const auto& [name, value] : settings)
    if (known(name) && !getenv((std::string("UCX_") + name).c_str()))
      (void)ucx.config_modify(config, name, value.c_str());
}

ucs_status_t open_worker(const std::string& transports, uint64_t deadline_ms, Worker* out) {
  const Library& ucx = *out->ucx;
  unsigned major = 0, minor = 0, release = 0;
  ucx.get_version(&major, &minor, &release);
  out->version = static_cast<uint16_t>(major << 8 | (minor & 0xff));
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return status;
  configure(ucx, config, transports, deadline_ms);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (has_remote_memory(transports)) params.features |= UCP_FEATURE_RMA;
  params.name = "torii";
  status = ucx.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &out->context);
  ucx.config_release(config);
  if (status != UCS_OK) return status;
  ucp_worker_params_t wanted{};
  wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  wanted.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucx.worker_create(out->context, &wanted, &out->handle);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (status == UCS_OK) status = ucx.worker_get_efd(out->handle, &out->descriptor);
  if (status == UCS_OK) status = ucx.worker_get_address(out->handle, &address, &bytes);
  if (status != UCS_OK) return status;
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  out->address.assign(first, first + bytes);
  ucx.worker_release_address(out->handle, address);
  return UCS_OK;
}

}  // namespace

Worker::~Worker() {
  if (handle) ucx->worker_destroy(handle);
  if (context) ucx->cleanup(context);
}

// Signals are for the program's threads, not for the one that UCX begins.
bool Worker::open(const std::string& transports, uint64_t deadline_ms, std::string* why) {
  ucx = loaded_library();
  if (!ucx) {
    *why = format_text(
        "ucx: %s with the functions of UCX 1.13 or newer cannot be opened; install it (Debian: "
        "libucx0)",
        kLibraryFile);
    return false;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const ucs_status_t status = open_worker(transports, deadline_ms, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status != UCS_OK) {
    *why = format_text(
        "ucx: UCX cannot use the transports '%s' (%s); see what ucx_info -d lists, and raise the "
        "limit of locked memory (ulimit -l)",
        transports.c_str(), ucx->status_string(status));
  } else if (address.size() > kWorkerMax) {
    *why = format_text(
        "ucx: UCX's address has %zu bytes, %zu is the most; name fewer devices (UCX_NET_DEVICES)",
        address.size(), kWorkerMax);
  } else {
    return true;
  }
  return false;
}

bool has_remote_memory(const std::string& transports) {
  bool cards = false;
  std::istringstream in(transports);
  for (std::string name; std::getline(in, name, ',');) {
    const std::string family = name.substr(0, name.find('_'));
    if (family != "ib" && family != "rc" && family != "dc" && family != "ud") return false;
    cards |= family != "ud";
  }
  return cards;
}

// " lane[0]:  1:tcp/lo.0 md[0] ...": the transport stands between the second colon and a dot.
std::string transports_in(std::string_view printed) {
  std::string out;
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const size_t lane = line.find("lane[");
    const size_t number = lane == line.npos ? lane : line.find(':', lane);
    const size_t colon = number == line.npos ? number : line.find(':', number + 1);
    if (colon == line.npos) continue;
    std::string name = line.substr(colon + 1, line.find(' ', colon) - colon - 1);
    name.resize(std::min(name.rfind('.'), name.size()));
    if (out.find(name) == out.npos) out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

}  // namespace torii::ucx
