// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/api/launched_ni.h"

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "core/api/process_ids.h"
#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "core/boot/boot.h"
#include "core/ni/ni.h"

namespace torii {
namespace {

// The part in the job outlasts the interface, because launchers take each process once.
struct Launched final : Directory {
  OwnerProcess owner;
  std::unique_ptr<Boot> boot;
  NiPointer ni;  // null: closed
  std::optional<ProcessIds> all;

  bool address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string* why) override {
    uint32_t rank = 0;
    if (!all->rank_of(nid, pid, &rank)) {
      *why = format_text("the job has no process %u on node %u", pid, nid);
      return false;
    }
    return boot->lookup(rank, out, why) == Status::ok;
  }
  // As torii_find_t.
  static size_t find(void* self, uint64_t job, uint32_t rank, void* address, size_t capacity) {
    Boot& boot = *static_cast<Launched*>(self)->boot;
    std::vector<std::byte> found;
    std::string why;
    if (job != boot.info().job || boot.lookup(rank, &found, &why) != Status::ok) return 0;
    if (found.size() <= capacity) std::memcpy(address, found.data(), found.size());
    return found.size();
  }
  bool ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override {
    if (rank >= all->size() || !all->has_ids(rank)) return false;
    *nid = all->nid(rank);
    *pid = all->pid(rank);
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
// PtlNIInit's lock guards both.
std::unique_ptr<Launched, EndLaunched> g_launched;
bool g_left = false;  // the job, by the last PtlFini

constexpr size_t kPidBytes = 4;  // little-endian

// Tells all processes which pid this one asks for, hears theirs, and computes the ids of all.
Status agree_on_ids(Launched* out, ptl_pid_t pid, std::string* why) {
  std::vector<std::byte> bytes(kPidBytes);
  store_little<uint32_t>(bytes.data(), pid);
  const ProcessMap* map = nullptr;
  Status status = out->boot->publish(bytes, why);
  if (status == Status::ok) status = out->boot->process_map(&map, why);
  if (status != Status::ok) return status;
  std::vector<uint32_t> wanted(map->size());
  for (uint32_t rank = 0; rank < map->size(); ++rank) {
    status = out->boot->lookup(rank, &bytes, why);
    if (status != Status::ok) return status;
    if (bytes.size() != kPidBytes) {
      *why = format_text("rank %u asks for a pid of %zu bytes; %zu were expected", rank,
                         bytes.size(), kPidBytes);
      return Status::corrupt;
    }
    wanted[rank] = load_little<uint32_t>(bytes.data());
  }
  out->all.emplace(*map, wanted);
  return Status::ok;
}

// The others need not wait for an address that does not come.
void publish_none(Launched* out) {
  std::string ignored;
  (void)out->boot->publish({}, &ignored);
}

Status refuse_pid(Launched* out, ptl_pid_t pid, std::string* why) {
  const BootInfo& info = out->boot->info();
  uint32_t owner = 0;
  out->all->rank_of(info.node + 1, pid, &owner);
  publish_none(out);
  *why = format_text(
      "rank %u asked for pid %u, which rank %u of the same node (%s) has; ask for another one, or "
      "for PTL_PID_ANY",
      info.rank, pid, owner, info.host.c_str());
  return Status::invalid;
}

Status start(Launched* out, const PidRequest& request, std::string* why) {
  const BootInfo& info = out->boot->info();
  const bool mapped = request.pid == PTL_PID_ANY && !request.map.empty();
  const RankOverride group =
      request.group.set ? request.group : RankOverride{true, info.rank, info.size};
  const bool fits = request.map.size() == group.size;
  const ptl_pid_t pid = mapped && fits ? request.map[group.rank] : request.pid;
  Status status = agree_on_ids(out, pid, why);
  if (status != Status::ok) return status;
  if (mapped && !fits) {
    publish_none(out);
    *why = format_text("PtlSetPIDMap named %zu processes, but %s has %u", request.map.size(),
                       request.group.set ? "the group of PtlSetRank" : "the job", group.size);
    return Status::unsupported;
  }
  if (!out->all->has_ids(info.rank)) return refuse_pid(out, pid, why);
  NiConfig config;
  config.self = own_identity();
  config.self.job = info.job;
  config.self.rank = info.rank;
  config.self.nid = out->all->nid(info.rank);
  config.self.pid = out->all->pid(info.rank);
  config.size = info.size;
  config.local_size = info.local_size;
  config.threads = true;
  out->ni = Ni::open(config, why);
  if (!out->ni) {
    publish_none(out);
    return Status::unreachable;
  }
  std::byte address[Protocol::kAddressBytes];
  const size_t bytes = out->ni->protocol().address(address, sizeof(address));
  status = out->boot->publish({address, bytes}, why);
  if (status != Status::ok) return status;
  const NiGuard guard(*out->ni);
  out->ni->directories().add(Launched::find, out);
  return Status::ok;
}

Status open(const PidRequest& request, Portals** out, std::string* why) {
  if (g_launched && g_launched->owner.forked()) {
    *why =
        "this process is a child of the one that opened the network interface; start another "
        "program in it (exec)";
    return Status::unsupported;
  }
  if (!g_launched) {
    std::unique_ptr<Boot> boot = open_boot(why);
    if (!boot) {
      if (g_left)
        *why += "; PtlFini has ended this process's part in the job, call it once, at the end";
      return Status::unreachable;
    }
    g_launched.reset(new Launched);
    g_launched->boot = std::move(boot);
  }
  const Status status = start(g_launched.get(), request, why);
  if (status != Status::ok) {
    g_launched->ni.reset();
    return status;
  }
  g_launched->ni->set_directory(g_launched.get());
  *out = &g_launched->ni->portals();
  return Status::ok;
}

void close(Portals*) {
  if (g_launched->owner.forked()) return;
  g_launched->ni->close();
  g_launched->ni.reset();
}

void leave() {
  if (g_launched && g_launched->owner.forked()) return;  // its parent's part goes on
  g_left |= g_launched != nullptr;
  g_launched.reset();
}

}  // namespace

const NiOpener kLaunchedNi = {open, close, leave};

}  // namespace torii
