// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/ucx/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>

#include "core/base/log.h"
#include "drivers/ucx/devices.h"
#include "drivers/ucx/wire.h"

namespace torii::ucx {
namespace {

constexpr uint64_t kRetries = 5;

// Signals are for the program's threads, not for the one that UCX begins.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// What UCX is to be told, but for what the user's UCX_NAME says. It warns of names that none of its
// open transports knows.
std::vector<std::pair<std::string, std::string>> settings(const Transports& transports,
                                                          uint64_t deadline_ms) {
  const uint64_t quarter = deadline_ms / 4;
  const auto ms = [](uint64_t value) {
    return std::to_string(std::max<uint64_t>(value, 1)) + "ms";
  };
  std::vector<std::pair<std::string, std::string>> out = {
      {"KEEPALIVE_INTERVAL", ms(quarter)},
      {"KEEPALIVE_NUM_EPS", "inf"},
  };
  if (transports.rc) {
    out.insert(out.end(), {{"RC_TIMEOUT", ms(quarter / (kRetries + 1))},
                           {"RC_RETRY_COUNT", std::to_string(kRetries)},
                           {"RC_RX_QUEUE_LEN", "512"}});
  }
  if (transports.infiniband) {
    out.insert(out.end(), {{"UD_TIMEOUT", ms(2 * quarter)}, {"UD_RX_QUEUE_LEN", "1024"}});
    // UCX takes the kind of a packet from a field that only mlx5 fills, and drops all that come to
    // other devices with IPv4 addresses, unless it does not look.
    if (!std::ranges::all_of(rdma_devices(), is_mlx5)) out.push_back({"UD_ETH_DGID_CHECK", "n"});
  }
  return out;
}

std::string locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return std::to_string(limit.rlim_cur >> 10) + " KiB";
}

}  // namespace

Transports::Transports(const std::string& list) : names(list) {
  bool others = false, cards = false;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    const auto is = [&](std::string_view family) {
      return name == family || name.starts_with(std::string(family) + "_");
    };
    rc |= name == "ib" || is("rc");
    cards |= name == "ib" || is("rc") || is("dc");
    infiniband |= cards || is("ud");
    sockets |= name == "tcp";
    others |= !(name == "ib" || is("rc") || is("dc") || is("ud"));
  }
  remote_memory = cards && !others;
}

Worker::~Worker() {
  if (worker_) ucx_->worker_destroy(worker_);
  if (context_) ucx_->cleanup(context_);
}

bool Worker::open(const Transports& transports, uint64_t deadline_ms, std::string* why) {
  const NoSignals quiet;
  ucx_ = open_library(why);
  return ucx_ && open_context(transports, deadline_ms, why) && open_worker(why);
}

bool Worker::open_context(const Transports& transports, uint64_t deadline_ms, std::string* why) {
  unsigned major = 0, minor = 0, release = 0;
  ucx_->get_version(&major, &minor, &release);
  version_ = static_cast<uint16_t>(major << 8 | (minor & 0xff));
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx_->config_read(nullptr, nullptr, &config);
  if (status == UCS_OK) {
    (void)ucx_->config_modify(config, "TLS", transports.names.c_str());
    for (const auto& [name, value] : settings(transports, deadline_ms))
      if (!getenv(("UCX_" + name).c_str()))
        (void)ucx_->config_modify(config, name.c_str(), value.c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (transports.remote_memory) params.features |= UCP_FEATURE_RMA;
    params.name = "torii";
    status = ucx_->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    ucx_->config_release(config);
  }
  if (status == UCS_OK) return true;
  context_ = nullptr;
  *why = format_text(
      "ucx: UCX opens none of the transports '%s' (%s; locked memory is limited to %s); see what "
      "ucx_info -d lists, and raise ulimit -l",
      transports.names.c_str(), ucx_->status_string(status), locked_memory().c_str());
  return false;
}

bool Worker::open_worker(std::string* why) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx_->worker_create(context_, &params, &worker_);
  if (status != UCS_OK) worker_ = nullptr;
  if (status == UCS_OK) status = ucx_->worker_get_efd(worker_, &fd_);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (status == UCS_OK) status = ucx_->worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) {
    *why = format_text(
        "ucx: UCX makes no endpoint (%s; locked memory is limited to %s); raise ulimit -l",
        ucx_->status_string(status), locked_memory().c_str());
    return false;
  }
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + bytes);
  ucx_->worker_release_address(worker_, address);
  if (bytes <= kWorkerMax) return true;
  *why = format_text(
      "ucx: UCX's address has %zu bytes, %zu is the most; name fewer devices (UCX_NET_DEVICES)",
      bytes, kWorkerMax);
  return false;
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
