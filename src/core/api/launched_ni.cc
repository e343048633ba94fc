// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/api/launched_ni.h"

#include <memory>
#include <vector>

#include "core/base/log.h"
#include "core/boot/boot.h"
#include "core/ni/ni.h"

namespace torii {
namespace {

// Portals process ids count from 1 on each node.
struct Launched final : Directory {
  OwnerProcess owner;
  std::unique_ptr<Boot> boot;
  NiPointer ni;
  const ProcessMap* map = nullptr;

  bool address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string* why) override {
    uint32_t rank = 0;
    if (pid == 0 || !map->rank_at(nid, pid - 1, &rank)) {
      *why = format_text("the job has no process %u on node %u", pid, nid);
      return false;
    }
    return boot->lookup(rank, out, why) == Status::ok;
  }
  bool ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override {
    if (rank >= map->size()) return false;
    *nid = map->node(rank);
    *pid = map->local_rank(rank) + 1;
    return true;
  }
};

// In a child of a fork it is the parent's, and stays as it is.
struct EndLaunched {
  void operator()(Launched* launched) const {
    [[maybe_unused]] static Launched* volatile parents = nullptr;  // not lost, for leak checkers
    if (launched->owner.forked()) {
      parents = launched;
    } else {
      delete launched;
    }
  }
};
std::unique_ptr<Launched, EndLaunched> g_launched;  // PtlNIInit's lock guards it

Status start(Launched* out, ptl_pid_t pid, std::string* why) {
  out->boot = open_boot(why);
  if (!out->boot) return Status::unreachable;
  const BootInfo& info = out->boot->info();
  NiConfig config;
  config.self = own_identity();
  config.self.job = info.job;
  config.self.rank = info.rank;
  config.self.nid = info.node;
  config.self.pid = info.local_rank + 1;
  config.size = info.size;
  config.local_size = info.local_size;
  config.threads = true;
  if (pid != PTL_PID_ANY && pid != config.self.pid) {
    *why = format_text(
        "pid %u was asked for, but the launcher numbers the processes of a node and this is pid "
        "%u; ask for PTL_PID_ANY",
        pid, config.self.pid);
    return Status::invalid;
  }
  out->ni = Ni::open(config, why);
  if (!out->ni) return Status::unreachable;
  std::byte address[Protocol::kAddressBytes];
  const size_t bytes = out->ni->protocol().address(address, sizeof(address));
  Status status = out->boot->publish({address, bytes}, why);
  if (status == Status::ok) status = out->boot->process_map(&out->map, why);
  return status;
}

Status open(ptl_pid_t pid, Portals** out, std::string* why) {
  if (g_launched) {
    *why =
        "this process is a child of the one that opened the network interface; start another "
        "program in it (exec)";
    return Status::unsupported;
  }
  decltype(g_launched) launched(new Launched);
  const Status status = start(launched.get(), pid, why);
  if (status != Status::ok) return status;
  launched->ni->set_directory(launched.get());
  g_launched = std::move(launched);
  *out = &g_launched->ni->portals();
  return Status::ok;
}

void close(Portals*) {
  if (g_launched->owner.forked()) return;
  g_launched->ni->close();
  g_launched.reset();
}

}  // namespace

const NiOpener kLaunchedNi = {open, close};

}  // namespace torii
