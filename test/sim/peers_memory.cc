// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The memory that a process keeps of peers that it never talks to: the growth of its resident size
// with the number of processes in the job. Every size is measured in a process of its own, which
// then exchanges a message with the last peer, to show that what it keeps is enough.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/boot/process_map.h"
#include "core/ni/ni.h"
#include "drivers/sim/sim.h"

namespace torii {
namespace {

constexpr uint32_t kPeers[] = {1, 10, 1000, 100000};
constexpr double kBytesPerPeer = 16;
constexpr int64_t kGranularity = 64 << 10;  // the allocator takes pages, not bytes
constexpr uint32_t kPerNode = 64;

int64_t resident_bytes() {
  char text[128] = "";
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  const char* second = n > 0 ? std::strchr(text, ' ') : nullptr;
  return second ? std::atoll(second) * sysconf(_SC_PAGESIZE) : -1;
}

// The launcher's part: who runs where, and addresses when they are asked for.
class Launcher final : public Directory {
 public:
  Launcher(const SimFabric& fabric, uint32_t peers) : fabric_(fabric), map_(nodes(peers)) {}

  void set_own_address(const std::byte* bytes, size_t count) { own_.assign(bytes, bytes + count); }
  uint32_t size() const { return map_.size(); }

  // As this process's address, with another identity and another endpoint.
  bool address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string*) override {
    uint32_t rank = 0;
    if (pid == 0 || !map_.rank_at(nid, pid - 1, &rank)) return false;
    *out = own_;
    // The address begins as a hello does.
    const auto write = [out](size_t at, uint32_t value) {
      for (int i = 0; i < 4; ++i) (*out)[at + i] = std::byte(value >> 8 * i);
    };
    write(offsetof(wire::Hello, rank), rank);
    write(offsetof(wire::Hello, nid), nid);
    write(offsetof(wire::Hello, pid), pid);
    fabric_.address(rank, out->data() + out->size() - kSimAddressBytes);
    return true;
  }
  bool ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override {
    if (rank >= map_.size()) return false;
    *nid = map_.node(rank);
    *pid = map_.local_rank(rank) + 1;
    return true;
  }

 private:
  static std::vector<uint32_t> nodes(uint32_t peers) {
    std::vector<uint32_t> out(peers + 1);
    for (uint32_t rank = 0; rank <= peers; ++rank) out[rank] = rank / kPerNode;
    return out;
  }

  const SimFabric& fabric_;
  ProcessMap map_;
  std::vector<std::byte> own_;
};

std::unique_ptr<Ni> open_ni(SimFabric& fabric, Launcher& launcher, uint32_t rank) {
  NiConfig config;
  config.self = own_identity();
  config.self.job = 77;
  config.self.rank = rank;
  launcher.ids(rank, &config.self.nid, &config.self.pid);
  config.size = launcher.size();
  auto ni = std::make_unique<Ni>(config);
  DriverEnv env;
  env.sink = ni->protocol().next_sink();
  env.counters = &ni->counters();
  ni->protocol().add_driver("sim", open_sim(fabric, env));
  ni->set_directory(&launcher);
  return ni;
}

void received(void* arg, const torii_result_t* result) {
  *static_cast<bool*>(arg) = result->code == TORII_OK;
}
void sent(void*, const torii_result_t*) {}

// The first message to a peer that was silent until now.
bool talk_to(SimFabric& fabric, Launcher& launcher, Ni& ni, uint32_t rank) {
  uint32_t nid = 0, pid = 0;
  std::vector<std::byte> address;
  std::string why;
  if (!launcher.ids(rank, &nid, &pid) || !launcher.address(nid, pid, &address, &why)) return false;
  Peer* peer = nullptr;
  if (ni.connect(address, &peer, &why) != Status::ok) {
    fprintf(stderr, "%s\n", why.c_str());
    return false;
  }
  std::vector<std::unique_ptr<Driver>> silent;  // endpoints are numbered in the order of opening
  Ni ignored{NiConfig{}};
  for (uint32_t i = 1; i < rank; ++i) {
    DriverEnv env;
    env.sink = ignored.protocol().next_sink();
    env.counters = &ignored.counters();
    silent.push_back(open_sim(fabric, env));
  }
  const std::unique_ptr<Ni> other = open_ni(fabric, launcher, rank);
  torii_port_t *out = nullptr, *in = nullptr;
  torii_port_open(reinterpret_cast<torii_ni_t*>(&ni), 0, &out);
  torii_port_open(reinterpret_cast<torii_ni_t*>(other.get()), 0, &in);
  int source = 4711, target = 0;
  torii_data_t data{};
  data.bytes = sizeof(int);
  data.base = &target;
  bool done = false;
  torii_result_t result;
  torii_recv(in, nullptr, 1, 0, &data, received, &done, nullptr, &result);
  data.base = &source;
  torii_send(out, reinterpret_cast<torii_peer_t*>(peer), TORII_STANDARD, 1, 0, &data, sent, nullptr,
             nullptr);
  for (int round = 0; round < 100 && !done; ++round) {
    torii_progress(reinterpret_cast<torii_ni_t*>(&ni));
    torii_progress(reinterpret_cast<torii_ni_t*>(other.get()));
  }
  return done && target == source;
}

struct Growth {
  int64_t map;
  int64_t ni;
};

// Runs in a process of its own.
bool measure(uint32_t peers, Growth* growth) {
  SimOptions options;
  options.endpoints = peers + 1;
  SimFabric fabric(options);
  const int64_t before = resident_bytes();
  Launcher launcher(fabric, peers);
  const int64_t with_map = resident_bytes();
  const std::unique_ptr<Ni> ni = open_ni(fabric, launcher, 0);
  std::byte address[Protocol::kAddressBytes];
  launcher.set_own_address(address, ni->protocol().address(address, sizeof(address)));
  torii_progress(reinterpret_cast<torii_ni_t*>(ni.get()));
  *growth = {with_map - before, resident_bytes() - with_map};
  return before > 0 && talk_to(fabric, launcher, *ni, peers);
}

bool measure_apart(uint32_t peers, Growth* shared) {
  const pid_t child = fork();
  if (child == 0) _exit(measure(peers, shared) ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run() {
  void* memory =
      mmap(nullptr, sizeof(Growth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 99;
  auto* growth = static_cast<Growth*>(memory);
  int failed = 0;
  int64_t fixed = 0;
  printf("%10s %14s %14s %18s %15s\n", "peers", "map, bytes", "NI, bytes", "more than for 1",
         "bytes per peer");
  for (uint32_t peers : kPeers) {
    if (!measure_apart(peers, growth)) {
      printf("%10u cannot be measured, or the last peer cannot be reached\n", peers);
      return 1;
    }
    const int64_t total = growth->map + growth->ni;
    if (peers == 1) fixed = total;
    const int64_t more = total - fixed;
    printf("%10u %14lld %14lld %18lld %15.1f\n", peers, static_cast<long long>(growth->map),
           static_cast<long long>(growth->ni), static_cast<long long>(more), double(more) / peers);
    if (double(more) <= kBytesPerPeer * peers + double(kGranularity)) continue;
    printf("FAIL: at most %.0f bytes per peer (and %lld of granularity) are allowed\n",
           kBytesPerPeer, static_cast<long long>(kGranularity));
    failed = 1;
  }
  return failed;
}

}  // namespace
}  // namespace torii

int main() { return torii::run(); }
